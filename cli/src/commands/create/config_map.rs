//! `lw create configmap`: keys from literals, files, folders and lists of variables.

use std::fs;
use std::path::Path;

use clap::Args;
use serde_json::{Map, Value, json};

use super::command::HowArgs;
use crate::commands::failure::Failure;

/// Create a ConfigMap
///
/// Examples: lw create configmap notes --from-literal=a=1; lw create configmap conf --from-file=conf/
#[derive(Debug, Args)]
pub(super) struct ConfigMapArgs {
    /// Name of the ConfigMap
    name: String,
    /// A key with its value: key=value
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<String>,
    /// A file whose name is the key, or key=file, or a folder whose files are keys
    #[arg(long, value_name = "[KEY=]FILE", value_delimiter = ',')]
    from_file: Vec<String>,
    /// A file of lines key=value
    #[arg(long, value_name = "FILE", value_delimiter = ',', conflicts_with_all = ["from_literal", "from_file"])]
    from_env_file: Vec<String>,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

/// What a ConfigMap holds.
#[derive(Debug, Default)]
struct Content {
    name: String,
    data: Map<String, Value>,
    binary: Map<String, Value>,
}

impl ConfigMapArgs {
    /// The object that the flags describe.
    ///
    /// # Errors
    /// If a file cannot be read, or a key is none or comes twice.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let mut content = Content { name: self.name.clone(), ..Content::default() };
        for source in &self.from_file {
            content.add_source(source)?;
        }
        for literal in &self.from_literal {
            let pair = literal.split_once('=').filter(|(key, _)| !key.is_empty());
            let (key, value) =
                pair.ok_or_else(|| Failure::usage(format!("invalid literal source {literal}, expected key=value")))?;
            content.add(key, value.as_bytes())?;
        }
        for path in &self.from_env_file {
            content.add_variables(path)?;
        }
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": self.name}});
        for (field, map) in [("data", content.data), ("binaryData", content.binary)] {
            if !map.is_empty() {
                object[field] = Value::Object(map);
            }
        }
        Ok(object)
    }
}

impl Content {
    fn add_source(&mut self, source: &str) -> Result<(), Failure> {
        let (key, path) = source.split_once('=').map_or((None, source), |(key, path)| (Some(key), path));
        let unreadable = |error: std::io::Error| Failure::plain(format!("error reading {path}: {}", in_go(&error)));
        let facts = fs::metadata(path).map_err(unreadable)?;
        if !facts.is_dir() {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            return self.add(key.unwrap_or(&name), &fs::read(path).map_err(unreadable)?);
        }
        if key.is_some() {
            return Err(Failure::usage("cannot give a key name for a directory path"));
        }
        let mut files: Vec<_> = fs::read_dir(path)
            .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
            .map_err(unreadable)?;
        files.sort();
        for file in files.iter().filter(|file| file.is_file()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            self.add(&name, &fs::read(file).map_err(unreadable)?)?;
        }
        Ok(())
    }

    /// Lines of a file of variables: empty ones and comments are none, a name alone takes the value it has here.
    fn add_variables(&mut self, path: &str) -> Result<(), Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::plain(format!("error reading {path}: {}", in_go(&error))))?;
        for line in text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once('=') {
                Some((key, value)) => self.add(key, value.as_bytes())?,
                None => self.add(line, std::env::var(line).unwrap_or_default().as_bytes())?,
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &str, value: &[u8]) -> Result<(), Failure> {
        let fits = !key.is_empty() && key.len() <= 253 && key != "." && !key.starts_with("..");
        if !fits || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            return Err(Failure::usage(format!(
                "\"{key}\" is not a valid key name for a ConfigMap: a valid config key must consist of alphanumeric \
                 characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                 validation is '[-._a-zA-Z0-9]+')"
            )));
        }
        if self.data.contains_key(key) || self.binary.contains_key(key) {
            return Err(Failure::usage(format!(
                "cannot add key \"{key}\", another key by that name already exists in Data for ConfigMap \"{}\"",
                self.name
            )));
        }
        match std::str::from_utf8(value) {
            Ok(text) => drop(self.data.insert(key.to_owned(), text.into())),
            Err(_) => drop(self.binary.insert(key.to_owned(), base64(value).into())),
        }
        Ok(())
    }
}

/// The reason alone, in lower case, as Go tells it.
fn in_go(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

/// RFC 4648 with padding: how Kubernetes keeps bytes that are no text.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_files_literals_and_variables() {
        let folder = tempfile::tempdir().expect("folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::create_dir(path("conf")).expect("folder");
        fs::write(path("f1.txt"), "line one\n").expect("written");
        fs::write(path("conf/a.properties"), "x=1\n").expect("written");
        fs::write(path("raw"), [0_u8, 1, 2, 255]).expect("written");
        fs::write(path("env"), "# comment\nA=1\n\nB=two words\n").expect("written");
        let mut content = Content { name: "c".into(), ..Content::default() };
        content.add_source(&path("f1.txt")).expect("added");
        content.add_source(&format!("renamed={}", path("f1.txt"))).expect("added");
        content.add_source(&path("conf")).expect("added");
        content.add_source(&path("raw")).expect("added");
        content.add_variables(&path("env")).expect("added");
        let expected = json!({"A": "1", "B": "two words", "a.properties": "x=1\n", "f1.txt": "line one\n", "renamed": "line one\n"});
        assert_eq!(Value::Object(content.data), expected);
        assert_eq!(Value::Object(content.binary), json!({"raw": "AAEC/w=="}));
    }

    #[test]
    fn faults_are_told_in_kubectls_words() {
        let mut content = Content { name: "c4".into(), ..Content::default() };
        content.add("k", b"1").expect("added");
        let twice = content.add("k", b"2").expect_err("refused").text();
        let expected = "cannot add key \"k\", another key by that name already exists in Data for ConfigMap \"c4\"";
        assert_eq!(twice, format!("error: {expected}"));
        let bad = content.add("bad key", b"1").expect_err("refused").text();
        assert!(bad.starts_with("error: \"bad key\" is not a valid key name for a ConfigMap: "), "{bad}");
        let missing = content.add_source("nofile").expect_err("refused").text();
        assert_eq!(missing, "error: error reading nofile: no such file or directory");
    }

    #[test]
    fn bytes_are_spelled_as_rfc_4648_has_them() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
