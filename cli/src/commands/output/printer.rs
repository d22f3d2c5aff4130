//! What `-o` can ask for, and printing in that form.

use std::borrow::Cow;
use std::io::Write;

use clap::Args;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object};
use serde_json::Value;

use super::columns::Columns;
use super::forms::{Form, list_of, print, print_list, to_json, without_managers};
use super::go_template::GoTemplate;
use super::jsonpath::Template;
use crate::commands::failure::Failure;
use crate::commands::table::Table;

/// The flag of commands that change objects.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PrintArgs {
    /// Print the objects in this form instead of what was done: json, yaml, name, jsonpath=…, custom-columns=…
    #[arg(short, long, value_name = "FORM")]
    output: Option<String>,
}

impl PrintArgs {
    /// Whether a form is asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.output.is_some()
    }

    /// What stands behind the flag.
    pub(crate) fn form(&self) -> Option<&str> {
        self.output.as_deref()
    }

    /// The printer that the flag asks for; `None`: say what was done.
    pub(crate) fn printer(&self) -> Result<Option<Printer>, Failure> {
        let Some(text) = &self.output else { return Ok(None) };
        if text == "wide" {
            return Err(unknown(text));
        }
        Printer::parse(text, false).map(Some)
    }
}

/// Prints objects in one form.
#[derive(Debug)]
pub(crate) struct Printer {
    form: Output,
    with_header: bool,
    table: Table,
    /// How many documents stand before the next one.
    printed: usize,
    /// JSON and YAML show who manages which fields; templates may always ask for it.
    with_managed_fields: bool,
}

#[derive(Debug, Clone)]
enum Output {
    Wide,
    Form(Form),
    JsonPath { template: Template, text: String, as_json: bool },
    GoTemplate(GoTemplate, String),
    Columns(Columns),
}

const ALLOWED: &str = "custom-columns,custom-columns-file,go-template,go-template-file,json,jsonpath,jsonpath-as-json,\
                       jsonpath-file,kyaml,name,template,templatefile,wide,yaml";

fn unknown(text: &str) -> Failure {
    Failure::usage(format!(
        "unable to match a printer suitable for the output format {text}, allowed formats are: {ALLOWED}",
        text = quote(&text)
    ))
}

impl Printer {
    /// Reads what stands behind `-o`.
    ///
    /// # Errors
    /// kubectl's words for a form that is none, that is not supported, or whose template cannot be read.
    pub(crate) fn parse(text: &str, no_headers: bool) -> Result<Printer, Failure> {
        let (word, rest) = text.split_once('=').map_or((text, None), |(word, rest)| (word, Some(rest)));
        let form = match (word, rest) {
            ("wide", None) => Output::Wide,
            ("json", None) => Output::Form(Form::Json),
            ("yaml", None) => Output::Form(Form::Yaml),
            ("kyaml", None) => Output::Form(Form::Kyaml),
            ("name", None) => Output::Form(Form::Name),
            ("jsonpath" | "jsonpath-as-json" | "jsonpath-file", None | Some("")) => {
                return Err(Failure::usage("template format specified but no template given"));
            }
            ("jsonpath", Some(template)) => json_path(template, false)?,
            ("jsonpath-as-json", Some(template)) => json_path(template, true)?,
            ("jsonpath-file", Some(path)) => json_path(&read(path)?, false)?,
            ("custom-columns", rest) => {
                Output::Columns(Columns::parse(rest.unwrap_or_default()).map_err(Failure::usage)?)
            }
            ("custom-columns-file", Some(path)) => {
                Output::Columns(Columns::parse_file(&read(path)?).map_err(Failure::usage)?)
            }
            ("go-template" | "go-template-file" | "template" | "templatefile", None | Some("")) => {
                return Err(Failure::usage("template format specified but no template given"));
            }
            ("go-template" | "template", Some(template)) => go_template(template)?,
            ("go-template-file" | "templatefile", Some(path)) => go_template(&read(path)?)?,
            _ => return Err(unknown(text)),
        };
        Ok(Printer { form, with_header: !no_headers, table: Table::default(), printed: 0, with_managed_fields: false })
    }

    /// The same, but JSON and YAML show who manages which fields.
    pub(crate) fn with_managed_fields(mut self, with: bool) -> Printer {
        self.with_managed_fields = with;
        self
    }

    /// Whether it is the server's table with every column.
    pub(crate) fn is_wide(&self) -> bool {
        matches!(self.form, Output::Wide)
    }

    /// Whether names are enough to print.
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.form, Output::Form(Form::Name))
    }

    /// Prints one object.
    pub(crate) fn print(&mut self, out: &mut dyn Write, kind: &Kind, object: &Object) -> Result<(), Failure> {
        match &self.form {
            Output::Form(form) => {
                if *form == Form::Yaml && self.printed > 0 {
                    writeln!(out, "---")?;
                }
                print(out, *form, kind, &self.seen(object))?;
            }
            Output::JsonPath { .. } | Output::GoTemplate(..) => self.template(out, &object.clone().into_value())?,
            Output::Columns(_) => self.rows(out, &[object.clone().into_value()])?,
            Output::Wide => return Err(unknown("wide")),
        }
        self.printed += 1;
        Ok(())
    }

    /// Prints several objects as one list.
    pub(crate) fn print_list(
        &mut self,
        out: &mut dyn Write,
        objects: &[(&'static Kind, Object)],
    ) -> Result<(), Failure> {
        match &self.form {
            Output::Form(form) => {
                let seen: Vec<_> =
                    objects.iter().map(|(kind, object)| (*kind, self.seen(object).into_owned())).collect();
                print_list(out, *form, &seen)?;
            }
            Output::JsonPath { .. } | Output::GoTemplate(..) => self.template(out, &list_of(objects))?,
            Output::Columns(_) => {
                let values: Vec<Value> = objects.iter().map(|(_, object)| object.clone().into_value()).collect();
                self.rows(out, &values)?;
            }
            Output::Wide => return Err(unknown("wide")),
        }
        self.printed += 1;
        Ok(())
    }

    /// What JSON and YAML show of an object.
    fn seen<'o>(&self, object: &'o Object) -> Cow<'o, Object> {
        if self.with_managed_fields || object.at(&["metadata", "managedFields"]).is_none() {
            return Cow::Borrowed(object);
        }
        Cow::Owned(without_managers(object))
    }

    fn template(&self, out: &mut dyn Write, value: &Value) -> Result<(), Failure> {
        if let Output::GoTemplate(template, text) = &self.form {
            let failed = |why| {
                Failure::plain(format!(
                    "error executing template {text_quoted}: Error executing template: {why}. Printing more information for \
                     debugging the template:\n\ttemplate was:\n\t\t{text}",
                    text_quoted = quote(&text)
                ))
            };
            return Ok(out.write_all(template.print(value).map_err(failed)?.as_bytes())?);
        }
        let Output::JsonPath { template, text, as_json } = &self.form else { return Ok(()) };
        let printed = if *as_json { template.values(value).map(|v| to_json(&v)) } else { template.print(value) };
        let printed = printed.map_err(|why| {
            Failure::plain(format!(
                "error executing jsonpath {text_quoted}: Error executing template: {why}. Printing more information for \
                 debugging the template:\n\ttemplate was:\n\t\t{text}", text_quoted = quote(&text)))
        })?;
        Ok(out.write_all(printed.as_bytes())?)
    }

    fn rows(&mut self, out: &mut dyn Write, values: &[Value]) -> Result<(), Failure> {
        let Output::Columns(columns) = &self.form else { return Ok(()) };
        let mut lines = Vec::new();
        if self.with_header && self.printed == 0 {
            lines.push(columns.header());
        }
        for value in values {
            lines.push(columns.row(value).map_err(Failure::plain)?);
        }
        Ok(self.table.print(out, &lines)?)
    }
}

fn json_path(text: &str, as_json: bool) -> Result<Output, Failure> {
    let problem = |why| Failure::usage(format!("error parsing jsonpath {text}, {why}"));
    let template = Template::parse(text).map_err(problem)?;
    Ok(Output::JsonPath { template, text: text.to_owned(), as_json })
}

fn go_template(text: &str) -> Result<Output, Failure> {
    let problem = |why| Failure::usage(format!("error parsing template {text}, {why}"));
    Ok(Output::GoTemplate(GoTemplate::parse(text).map_err(problem)?, text.to_owned()))
}

fn read(path: &str) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| Failure::plain(format!("error reading {path}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn objects() -> Vec<(&'static Kind, Object)> {
        let kind = Kind::by_name("pod").expect("known");
        let object = |name: &str| {
            let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "managedFields": []}});
            (kind, Object::from_value(value).expect("a map"))
        };
        vec![object("a"), object("b")]
    }

    fn one_by_one(form: &str) -> String {
        let (mut printer, mut out) = (Printer::parse(form, false).expect("a form"), Vec::new());
        for (kind, object) in objects() {
            printer.print(&mut out, kind, &object).expect("memory");
        }
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn objects_one_by_one_and_as_a_list() {
        assert_eq!(one_by_one("name"), "pod/a\npod/b\n");
        let yaml = one_by_one("yaml");
        assert_eq!(
            yaml,
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: b\n"
        );
        assert_eq!(one_by_one("jsonpath={.metadata.name}"), "ab");
        assert_eq!(one_by_one("custom-columns=N:.metadata.name"), "N\na\nb\n");
        let mut out = Vec::new();
        let mut printer = Printer::parse("jsonpath={.kind} {.items[*].metadata.name}", false).expect("a form");
        printer.print_list(&mut out, &objects()).expect("memory");
        assert_eq!(out, b"List a b");
    }

    #[test]
    fn wrong_forms_are_told() {
        for (form, problem) in [
            ("jsonpath", "error: template format specified but no template given"),
            ("jsonpath={.data", "error: error parsing jsonpath {.data, unclosed action"),
            ("custom-columns=", "error: custom-columns format specified but no custom columns given"),
        ] {
            assert_eq!(Printer::parse(form, false).expect_err("refused").text(), problem);
        }
        let text = Printer::parse("table", false).expect_err("refused").text();
        assert!(
            text.starts_with("error: unable to match a printer suitable for the output format \"table\""),
            "{text}"
        );
        let text = Printer::parse("go-template={{.metadata.name", false).expect_err("refused").text();
        assert_eq!(text, "error: error parsing template {{.metadata.name, template: output:1: unclosed action");
    }
}
