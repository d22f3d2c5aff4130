//! Reads objects from files, folders and standard input.
//!
//! A file holds YAML documents or JSON; an object of kind List stands for its items. A fault names the file, the
//! document and the line.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use listwatch_proto::yaml::too_deep;
use serde_json::Value;

use super::failure::{Failure, Report};
use super::session::{Session, learn_kinds};
use super::strict_value::StrictValue;

/// Where objects are read from.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    /// File, folder, or - for standard input; may be given several times
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    filenames: Vec<String>,
    /// Look into folders below too
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Refused by name.
    #[arg(short = 'k', long, value_name = "FOLDER", hide = true)]
    kustomize: Option<String>,
}

/// An object that a file asks for.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub(crate) object: Object,
    pub(crate) kind: &'static Kind,
    /// The file as it was named, `STDIN` for standard input: for messages.
    pub(crate) source: String,
}

impl Manifest {
    /// `error when creating "a.yaml"`.
    pub(crate) fn context(&self, doing: &str) -> String {
        format!("error when {doing} \"{}\"", self.source)
    }

    pub(crate) fn key(&self) -> ObjectKey {
        self.object.key()
    }
}

/// Does the same with each object that the files ask for: goes on after a failure, and tells what it came to.
///
/// # Errors
/// If no file is named, or the cluster cannot be found.
pub(crate) async fn for_each_manifest(
    files: &FileArgs,
    session: &Session,
    deed: &str,
    mut act: impl AsyncFnMut(Manifest) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let mut report = Report::default();
    for manifest in files.read(session, deed) {
        let done = match manifest {
            Ok(manifest) => act(manifest).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = done {
            report.fail(failure);
        }
    }
    Ok(report.exit_code())
}

impl FileArgs {
    /// Whether no file is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.filenames.is_empty() && self.kustomize.is_none()
    }

    /// Refuses a command that cannot do without a file.
    pub(crate) fn require(&self) -> Result<(), Failure> {
        if self.is_empty() { Err(Failure::usage("must specify one of -f and -k")) } else { Ok(()) }
    }

    /// The file, if exactly one is named.
    pub(crate) fn only(&self) -> Option<&str> {
        match self.filenames.as_slice() {
            [one] if self.kustomize.is_none() => Some(one),
            _ => None,
        }
    }

    /// Reads everything, in the order of names and documents; each object gets the namespace it will live in. Files
    /// that hold nothing to `deed` (apply, create, delete) are a failure: whoever named them expects a deed.
    pub(crate) fn read(&self, session: &Session, deed: &str) -> Vec<Result<Manifest, Failure>> {
        let mut manifests = Vec::new();
        if self.kustomize.is_some() {
            let problem = "-k (--kustomize) is not supported: build the folder with kustomize and give it to -f -";
            manifests.push(Err(Failure::usage(problem)));
            return manifests;
        }
        for name in &self.filenames {
            match self.sources(name) {
                Err(failure) => manifests.push(Err(failure)),
                Ok(sources) => {
                    for source in sources {
                        read_source(&source, session, &mut manifests);
                    }
                }
            }
        }
        if manifests.is_empty() && !self.filenames.is_empty() {
            manifests.push(Err(Failure::plain(format!("no objects passed to {deed}"))));
        }
        manifests
    }

    fn sources(&self, name: &str) -> Result<Vec<Source>, Failure> {
        if name == "-" {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            read.map_err(|error| Failure::plain(format!("read STDIN: {error}")))?;
            return Ok(vec![Source { name: "STDIN".to_owned(), text }]);
        }
        if name.starts_with("http://") || name.starts_with("https://") {
            return Err(Failure::plain(format!("{name}: files from the network are not read; fetch it and use -f -")));
        }
        let path = Path::new(name);
        if !path.exists() {
            return Err(Failure::plain(format!("the path \"{name}\" does not exist")));
        }
        if !path.is_dir() {
            return Ok(vec![Source::read(path)?]);
        }
        let mut files = Vec::new();
        list_folder(path, self.recursive, &mut files)?;
        if files.is_empty() {
            let problem = format!("error reading [{name}]: recognized file extensions are [.json .yaml .yml]");
            return Err(Failure::plain(problem));
        }
        files.iter().map(|file| Source::read(file)).collect()
    }
}

fn list_folder(folder: &Path, recursive: bool, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if recursive {
                list_folder(&path, true, files)?;
            }
        } else if path.extension().is_some_and(|e| e == "json" || e == "yaml" || e == "yml") {
            files.push(path);
        }
    }
    Ok(())
}

struct Source {
    name: String,
    text: String,
}

impl Source {
    fn read(path: &Path) -> Result<Source, Failure> {
        let name = path.strip_prefix("./").unwrap_or(path).display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Ok(Source { name, text }),
            Err(error) => Err(Failure::plain(format!("read {name}: {error}"))),
        }
    }
}

fn read_source(source: &Source, session: &Session, manifests: &mut Vec<Result<Manifest, Failure>>) {
    for document in documents(&source.text) {
        let parsed = parse(&source.name, &document);
        match parsed {
            Err(failure) => {
                // What follows a broken document in the same file cannot be trusted.
                manifests.push(Err(failure));
                return;
            }
            Ok(None) => {}
            Ok(Some(value)) => {
                let mut objects = Vec::new();
                collect(value, &source.name, &document, &mut objects);
                let placed = objects.into_iter().map(|object| place(object?, &source.name, session));
                manifests.extend(placed);
            }
        }
    }
}

/// The objects of a text that a person has edited.
pub(crate) fn parse_edited(text: &str) -> Result<Vec<Object>, Failure> {
    const NAME: &str = "the edited file";
    let mut objects = Vec::new();
    for document in documents(text) {
        if let Some(value) = parse(NAME, &document)? {
            collect(value, NAME, &document, &mut objects);
        }
    }
    objects.into_iter().collect()
}

struct Document<'a> {
    /// Counted from one.
    number: usize,
    /// The file's line that the document begins at, counted from one.
    line: usize,
    text: &'a str,
}

/// The documents of a file, split at lines of three dashes. A byte order mark at its beginning says nothing.
fn documents(text: &str) -> Vec<Document<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut found = Vec::new();
    let (mut start, mut start_line) = (0, 1);
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let is_mark =
            line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_mark {
            found.push((start_line, &text[start..offset]));
            // What stands behind the dashes belongs to the next document.
            (start, start_line) = (offset + 3, index + 1);
        }
        offset += line.len();
    }
    found.push((start_line, &text[start..]));
    let with_content = found
        .into_iter()
        .filter(|(_, text)| text.lines().any(|l| !l.trim_start().starts_with('#') && !l.trim().is_empty()));
    with_content.zip(1..).map(|((line, text), number)| Document { number, line, text }).collect()
}

/// A document's value; `None` for `null`.
fn parse(source: &str, document: &Document<'_>) -> Result<Option<Value>, Failure> {
    let refuse = |below: usize, why: &str| {
        let line = document.line + below;
        Failure::plain(format!("error parsing {source}: document {}, line {line}: {why}", document.number))
    };
    if let Some((below, most)) = too_deep(document.text) {
        return Err(refuse(below, &format!("nested too deep: more than {most} brackets are open")));
    }
    if document.text.trim_start().starts_with('{')
        && let Ok(StrictValue(value)) = serde_json::from_str(document.text)
    {
        return Ok(Some(value));
    }
    let StrictValue(value) = serde_norway::from_str(document.text).map_err(|error| {
        let line = error.location().map_or(0, |at| at.line());
        let text = error.to_string();
        let why = text.split(" at line ").next().unwrap_or(&text);
        match go_yaml(line, why) {
            Some(words) if document.number == 1 => {
                Failure::plain(format!("error parsing {source}: error converting YAML to JSON: {words}"))
            }
            _ => refuse(line.saturating_sub(1), why),
        }
    })?;
    Ok(Some(value).filter(|v| !v.is_null()))
}

/// A fault of the syntax as Go's reader of YAML tells it, which counts lines from zero where the parser finds it, and from
/// one where the scanner does. `None`: it is no fault of the syntax.
fn go_yaml(line: usize, why: &str) -> Option<String> {
    const PARSER: [&str; 5] = ["key", "node content", "'-' indicator", "',' or", "<"];
    let is_parsers =
        |what: &&str| why.strip_prefix("did not find expected ").is_some_and(|rest| rest.starts_with(*what));
    let is_scanners =
        ["found ", "did not find ", "could not find ", "mapping values ", "block ", "control characters "];
    let line = if PARSER.iter().any(is_parsers) {
        line.checked_sub(1)?
    } else if is_scanners.iter().any(|start| why.starts_with(start)) {
        // A fault in the first line is told without one.
        if line == 1 { 0 } else { line }
    } else {
        return None;
    };
    Some(if line == 0 { format!("yaml: {why}") } else { format!("yaml: line {line}: {why}") })
}

/// The objects of a value: a List stands for its items.
fn collect(value: Value, source: &str, document: &Document<'_>, objects: &mut Vec<Result<Object, Failure>>) {
    let refuse = |why: &str| {
        let (number, line) = (document.number, document.line);
        Failure::plain(format!("error validating \"{source}\": document {number}, line {line}: {why}"))
    };
    let Ok(mut object) = Object::from_value(value) else {
        let what = "error validating data: invalid object to validate";
        objects.push(Err(Failure::plain(format!(
            "error validating \"{source}\": {what}; if you choose to ignore these errors, turn validation off with \
             --validate=false"
        ))));
        return;
    };
    if object.kind_name().ends_with("List") && object.at(&["items"]).is_some_and(Value::is_array) {
        // `List`, and `PodList` as servers of Kubernetes answer.
        if let Some(Value::Array(items)) = object.0.remove("items") {
            items.into_iter().for_each(|item| collect(item, source, document, objects));
        }
        return;
    }
    let missing: Vec<_> = [("apiVersion", object.api_version()), ("kind", object.kind_name())]
        .into_iter()
        .filter(|(_, text)| text.is_empty())
        .map(|(field, _)| format!("{field} not set"))
        .collect();
    objects.push(if !missing.is_empty() {
        Err(refuse(&format!("[{}]", missing.join(", "))))
    } else if let Some(problem) = undecodable(&object) {
        Err(Failure::plain(format!("unable to decode \"{source}\": {problem}")))
    } else {
        Ok(object)
    });
}

/// Why an object cannot be read as any: its labels and annotations must be texts. In the words of Go's decoder, which
/// kubectl reads metadata with before it asks the server.
fn undecodable(object: &Object) -> Option<String> {
    for field in ["labels", "annotations"] {
        let values = object.at(&["metadata", field]).and_then(Value::as_object);
        let wrong =
            values.into_iter().flat_map(|map| map.values()).find(|value| !value.is_string() && !value.is_null());
        let Some(wrong) = wrong else { continue };
        let what = match wrong {
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::Array(_) => "array",
            _ => "object",
        };
        return Some(format!(
            "json: cannot unmarshal {what} into Go struct field ObjectMeta.metadata.{field} of type string"
        ));
    }
    None
}

/// Finds the kind and settles the namespace.
fn place(mut object: Object, source: &str, session: &Session) -> Result<Manifest, Failure> {
    if object.kind().is_none() {
        learn_kinds();
    }
    let Some(kind) = object.kind() else {
        return Err(Failure::plain(format!(
            "resource mapping not found for name: \"{}\" namespace: \"{}\" from \"{source}\": no matches for kind \
             \"{}\" in version \"{}\"\nensure CRDs are installed first",
            object.name(),
            object.namespace(),
            object.kind_name(),
            object.api_version(),
        )));
    };
    if kind.namespaced {
        if object.namespace().is_empty() {
            object.set(&["metadata", "namespace"], session.namespace.as_str());
        } else if session.is_namespace_given && object.namespace() != session.namespace {
            return Err(Failure::plain(format!(
                "the namespace from the provided object \"{}\" does not match the namespace \"{}\". You must pass \
                 '--namespace={}' to perform this operation.",
                object.namespace(),
                session.namespace,
                object.namespace(),
            )));
        }
    }
    Ok(Manifest { object, kind, source: source.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_know_their_lines() {
        let text = "# nothing\n---\na: 1\n---\n\n--- # c\nb: 2\nc: 3\n---\n# only words\n";
        let found: Vec<_> = documents(text).iter().map(|d| (d.number, d.line, d.text.trim().to_owned())).collect();
        assert_eq!(found, [(1, 2, "a: 1".to_owned()), (2, 6, "# c\nb: 2\nc: 3".to_owned())]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped() {
        for text in ["\u{feff}a: 1\n", "\u{feff}---\na: 1\n", "\u{feff}{\"a\": 1}", "\u{feff}# c\r\na: 1\r\n"] {
            let all = documents(text);
            assert_eq!(all.len(), 1, "{text:?}");
            assert_eq!(parse("x", &all[0]).expect("YAML"), Some(serde_json::json!({"a": 1})), "{text:?}");
        }
    }

    #[test]
    fn a_fault_names_file_document_and_line() {
        let text = "a: 1\n---\nb:\n  c: 1\n d: {}\n";
        let all = documents(text);
        assert!(parse("x.yaml", &all[0]).is_ok());
        let error = parse("x.yaml", &all[1]).expect_err("broken").text();
        assert!(error.starts_with("error: error parsing x.yaml: document 2, line 5: "), "{error}");
    }

    #[test]
    fn a_fault_of_the_syntax_in_the_first_document_is_told_as_go_does() {
        // The words and numbers of kubectl 1.36.
        let table = [
            (
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n data: {}\n",
                "yaml: line 4: did not find expected key",
            ),
            ("a: [1, 2\nb: 3\n", "yaml: line 1: did not find expected ',' or ']'"),
            ("a:\n\tb: 1\n", "yaml: line 2: found character that cannot start any token"),
            ("a: \"b\n", "yaml: line 2: found unexpected end of stream"),
            ("a: %x\n", "yaml: found character that cannot start any token"),
            ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
        ];
        for (text, words) in table {
            let error = parse("x", &documents(text)[0]).expect_err("broken").text();
            assert_eq!(error, format!("error: error parsing x: error converting YAML to JSON: {words}"));
        }
    }

    #[test]
    fn a_key_named_twice_is_refused_with_its_place() {
        let refusal = |text: &str| parse("x", documents(text).last().expect("one")).expect_err("refused").text();
        let yaml = refusal("a: 1\n---\nmetadata:\n  name: a\n  name: b\n");
        assert!(yaml.starts_with("error: error parsing x: document 2, line "), "{yaml}");
        assert!(yaml.ends_with("metadata: duplicate key \"name\""), "{yaml}");
        let json = refusal("{\"metadata\": {\"name\": \"a\", \"name\": \"b\"}}");
        assert_eq!(json, "error: error parsing x: document 1, line 1: metadata: duplicate key \"name\"");
    }

    #[test]
    fn labels_that_are_no_texts_are_told_before_the_server_is_asked() {
        let problem = |metadata: Value| {
            undecodable(&Object::from_value(serde_json::json!({"metadata": metadata})).expect("a map"))
        };
        assert_eq!(problem(serde_json::json!({"labels": {"a": "1"}, "annotations": null})), None);
        let told = "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string";
        assert_eq!(problem(serde_json::json!({"labels": {"n": 5}})).as_deref(), Some(told));
        assert!(problem(serde_json::json!({"annotations": {"n": true}})).is_some_and(|text| text.contains("bool")));
    }

    #[test]
    fn a_document_nested_without_end_is_refused_at_once() {
        for (begin, open, most) in [("", "{\"a\":", 128), ("", "{a: ", 128), ("", "[", 128), ("a: ", "[", 512)] {
            let text = begin.to_owned() + &open.repeat(100_000);
            let error = parse("x", &documents(&text)[0]).expect_err("refused").text();
            let why = format!("nested too deep: more than {most} brackets are open");
            assert_eq!(error, format!("error: error parsing x: document 1, line 1: {why}"));
        }
    }
}
