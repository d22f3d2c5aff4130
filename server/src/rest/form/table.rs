//! Objects as rows of columns (`meta.k8s.io` Table).

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Status};
use serde_json::{Value, json};

use crate::registry::{Cell, Registry, StoredObject};

/// What a row carries of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Carried {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

impl Carried {
    /// Reads `includeObject`.
    ///
    /// # Errors
    /// `BadRequest` for another word.
    pub(in crate::rest) fn read(word: &str) -> Result<Carried, Status> {
        match word {
            "" | "Metadata" => Ok(Carried::Metadata),
            "Object" => Ok(Carried::Object),
            "None" => Ok(Carried::None),
            other => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', \
                 'Object', 'None', or empty",
                quote(&other)
            ))),
        }
    }
}

/// `columnDefinitions`.
pub(in crate::rest) fn columns(registry: &Registry, kind: &'static Kind) -> Value {
    shown(registry.columns(kind))
}

/// Columns as `columnDefinitions`.
pub(in crate::rest) fn shown(columns: &[crate::registry::Column]) -> Value {
    let column = |c: &crate::registry::Column| {
        json!({
            "name": c.name, "type": c.data_type, "format": c.format, "description": c.description, "priority": c.priority,
        })
    };
    columns.iter().map(column).collect()
}

/// One of `rows`, as text.
pub(in crate::rest) fn row(registry: &Registry, object: &StoredObject, carried: Carried, version: &str) -> String {
    let cells: Vec<Value> = registry
        .row(object)
        .into_iter()
        .map(|cell| match cell {
            Cell::Text(text) => Value::String(text),
            Cell::Int(number) => number.into(),
            Cell::Flag(flag) => flag.into(),
            Cell::Value(value) => value,
        })
        .collect();
    let carried = match carried {
        Carried::None => "null".to_owned(),
        Carried::Metadata => text(&metadata(object, version)),
        Carried::Object => text(&object.json()),
    };
    format!("{{\"cells\":{},\"object\":{carried}}}", Value::Array(cells))
}

/// `PartialObjectMetadata` in the version that was asked for.
pub(in crate::rest) fn metadata(object: &StoredObject, version: &str) -> bytes::Bytes {
    let json = object.metadata_json();
    if version == "v1" {
        return json;
    }
    let text = text(&json).replacen("\"meta.k8s.io/v1\"", &format!("\"meta.k8s.io/{version}\""), 1);
    text.into()
}

/// A table without rows, of one event of a watch. Columns stand in the first only.
pub(in crate::rest) fn empty(columns: Option<&Value>, version: &str, revision: i64) -> Value {
    json!({
        "kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": {"resourceVersion": revision.to_string()}, "columnDefinitions": columns, "rows": [],
    })
}

fn text(json: &[u8]) -> String {
    String::from_utf8_lossy(json).into_owned()
}
