//! The forms that are no tables: JSON, YAML, names.

use std::io::{self, Write};

use listwatch_proto::resource::{Kind, Object};
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::kyaml::to_kyaml;
use crate::commands::session::full_name;
use crate::commands::yaml::to_yaml;

/// A form for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// The object as JSON.
    Json,
    /// The object as YAML.
    Yaml,
    /// The object as KYAML.
    Kyaml,
    /// `deployment.apps/web`.
    Name,
}

/// Prints one object.
pub(crate) fn print(out: &mut dyn Write, form: Form, kind: &Kind, object: &Object) -> io::Result<()> {
    match form {
        Form::Name => writeln!(out, "{}", full_name(kind, object.name())),
        Form::Json => out.write_all(to_json(&object.clone().into_value()).as_bytes()),
        Form::Yaml => out.write_all(to_yaml(&object.clone().into_value()).as_bytes()),
        Form::Kyaml => out.write_all(to_kyaml(&object.clone().into_value()).as_bytes()),
    }
}

/// Prints several objects as a v1 List (or a name each).
pub(crate) fn print_list(out: &mut dyn Write, form: Form, objects: &[(&'static Kind, Object)]) -> io::Result<()> {
    if form == Form::Name {
        return objects.iter().try_for_each(|(kind, object)| print(out, form, kind, object));
    }
    let list = list_of(objects);
    let text = match form {
        Form::Json => to_json(&list),
        Form::Kyaml => to_kyaml(&list),
        _ => to_yaml(&list),
    };
    out.write_all(text.as_bytes())
}

/// Several objects as one v1 List.
pub(super) fn list_of(objects: &[(&'static Kind, Object)]) -> Value {
    let items: Vec<_> = objects.iter().map(|(_, object)| object.clone().into_value()).collect();
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items})
}

/// What a person wants to see: without the book-keeping of field managers.
pub(crate) fn without_managers(object: &Object) -> Object {
    let mut object = object.clone();
    object.remove(&["metadata", "managedFields"]);
    object
}

/// Four spaces an indent, as kubectl prints.
pub(crate) fn to_json(value: &Value) -> String {
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    value.serialize(&mut serializer).expect("a JSON value always serializes");
    let text = String::from_utf8(out).expect("JSON is text");
    with_go_escapes(&text) + "\n"
}

/// Two spaces an indent, in the order of the type's fields and without a last line's end: what is no object.
pub(crate) fn go_indented(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string_pretty(value).map(|text| with_go_escapes(&text))
}

/// JSON with `<`, `>` and `&` as escapes, as Go's encoder writes them. (Outside of texts JSON has none of them.)
pub(crate) fn with_go_escapes(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}
