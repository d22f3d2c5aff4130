//! Objects in the form that was asked for.

use listwatch_proto::resource::Kind;
use listwatch_proto::v1::{self, View};

use crate::registry::{Registry, StoredObject, Target};

/// Writes the objects of one answer.
#[derive(Clone, Debug)]
pub(super) struct Viewer {
    registry: Registry,
    kind: &'static Kind,
    view: View,
    /// A part of an object (`scale`, the answer to `binding`) has a kind of its own.
    is_part: bool,
}

impl Viewer {
    pub(super) fn new(registry: &Registry, target: &Target, view: View) -> Self {
        let is_part = !matches!(target.subresource.as_str(), "" | "status" | "finalize");
        Viewer { registry: registry.clone(), kind: target.kind, view, is_part }
    }

    /// The object, and its row under [`View::Table`].
    pub(super) fn object(&self, object: &StoredObject) -> (v1::Object, Option<v1::Row>) {
        let (api_version, kind) = if self.is_part {
            (object.object().api_version().to_owned(), object.object().kind_name().to_owned())
        } else {
            (self.kind.api_version(), self.kind.kind.to_owned())
        };
        let row = (self.view == View::Table)
            .then(|| v1::Row { cells: self.registry.row(object).iter().map(ToString::to_string).collect() });
        let json = match self.view {
            View::Object => object.json(),
            View::Table | View::Metadata => object.metadata_json(),
        };
        let object = v1::Object {
            api_version,
            kind,
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            revision: object.revision(),
            json,
        };
        (object, row)
    }

    /// The columns under [`View::Table`]; empty otherwise.
    pub(super) fn columns(&self) -> Vec<v1::Column> {
        if self.view != View::Table {
            return Vec::new();
        }
        let column = |c: &crate::registry::Column| v1::Column {
            name: c.name.to_owned(),
            r#type: c.data_type.to_owned(),
            format: c.format.to_owned(),
            description: c.description.to_owned(),
            priority: c.priority,
        };
        self.registry.columns(self.kind).iter().map(column).collect()
    }
}

/// About how many bytes an object takes in a message: its JSON and some names.
pub(super) fn wire_bytes(object: &v1::Object, row: Option<&v1::Row>) -> usize {
    const NAMES: usize = 128;
    let cells = row.map_or(0, |r| r.cells.iter().map(|c| c.len() + 2).sum());
    object.json.len() + NAMES + cells
}
