//! What a stored definition says, in memory.
//!
//! A version that is served becomes a row with rules hung on it. Rows are kept for good, so the same content is the same
//! row again, whichever registry asks, and how many there may be is bounded.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use listwatch_proto::resource::learned::{text, texts};
use listwatch_proto::resource::{Extension, Kind, LearnedKind, Object};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::warn;

use super::super::structural::{Rules, Schema};
use super::JsonPath;
use super::columns::Columns;
use super::kinds::version_order;
use super::resource::CustomResource;
use super::scaling::ScalePaths;

/// Rows that may be made in the life of a process.
const ROWS_MAX: usize = 20_000;
/// Bytes of the schemas that rows may be made of: with what is made of them about ten times as much memory.
const ROWS_BYTES_MAX: usize = 128 << 20;

/// A definition, as far as serving its objects needs it.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    /// `crontabs.stable.example.com`.
    pub(super) name: String,
    pub(super) uid: String,
    /// Of the definition's last write.
    pub(super) revision: i64,
    /// Where the history of its objects begins.
    pub(super) created: i64,
    pub(super) is_terminating: bool,
    /// Metadata, names and status: what other definitions need to know of it.
    pub(super) head: Arc<Object>,
    /// The served versions, the preferred one first; none until the names are accepted.
    pub(super) kinds: Vec<&'static Kind>,
}

/// Rows by what they were made of, and the bytes of all of that.
#[derive(Default)]
struct Rows {
    by_content: HashMap<String, &'static Kind>,
    bytes: usize,
}

impl Definition {
    /// Reads a stored definition.
    pub(super) fn read(object: &Object, revision: i64, created: i64) -> Definition {
        let established = super::naming::is_true(object, "Established");
        Definition {
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            revision,
            created,
            is_terminating: object.is_terminating(),
            head: Arc::new(head(object)),
            kinds: if established { kinds_of(object) } else { Vec::new() },
        }
    }
}

fn head(object: &Object) -> Object {
    let mut head = Object::default();
    for path in [&["metadata", "name"][..], &["spec", "group"], &["spec", "names"], &["status"]] {
        if let Some(value) = object.at(path) {
            head.set(path, value.clone());
        }
    }
    head
}

/// A row that finds the objects of a definition, whether it is served or not.
pub(super) fn row_for_cleanup(object: &Object) -> Option<&'static Kind> {
    if let Some(row) = kinds_of(object).first() {
        return Some(row);
    }
    let learned = LearnedKind {
        group: object.text(&["spec", "group"]).to_owned(),
        version: "v1".to_owned(),
        kind: object.text(&["spec", "names", "kind"]).to_owned(),
        plural: object.text(&["spec", "names", "plural"]).to_owned(),
        namespaced: object.text(&["spec", "scope"]) == "Namespaced",
        ..LearnedKind::default()
    };
    learned.row()
}

/// The rows of the served versions.
fn kinds_of(object: &Object) -> Vec<&'static Kind> {
    let versions = object.at(&["spec", "versions"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut served: Vec<&Value> = versions.iter().filter(|version| version["served"] == true).collect();
    let name = |version: &Value| version["name"].as_str().unwrap_or_default().to_owned();
    served.sort_by(|a, b| version_order(&name(a), &name(b)));
    served.into_iter().enumerate().filter_map(|(at, version)| row(object, version, at > 0)).collect()
}

fn row(object: &Object, version: &Value, is_view: bool) -> Option<&'static Kind> {
    let mut versions = object.at(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten();
    let storage = versions.find(|version| version["storage"] == true).map_or(Value::Null, |v| v["name"].clone());
    let content = json!([
        object.at(&["spec", "group"]),
        object.at(&["spec", "scope"]),
        object.at(&["status", "acceptedNames"]),
        object.name(),
        storage,
        version,
        is_view,
    ])
    .to_string();
    static ROWS: OnceLock<Mutex<Rows>> = OnceLock::new();
    let mut rows = ROWS.get_or_init(Mutex::default).lock();
    if let Some(row) = rows.by_content.get(&content) {
        return Some(row);
    }
    if rows.by_content.len() >= ROWS_MAX || rows.bytes + content.len() > ROWS_BYTES_MAX {
        warn!(
            definition = object.name(),
            "too many different definitions have been served since the server was started; this one is not served until \
             it is started again"
        );
        return None;
    }
    let row = make_row(object, version, storage.as_str().unwrap_or_default(), is_view);
    rows.bytes += content.len();
    rows.by_content.insert(content, row);
    Some(row)
}

fn make_row(object: &Object, version: &Value, storage: &str, is_view: bool) -> &'static Kind {
    let name = |key: &str| object.text(&["status", "acceptedNames", key]).to_owned();
    let list = |key: &str| -> Vec<String> {
        let list = object.at(&["status", "acceptedNames", key]).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let group = object.text(&["spec", "group"]).to_owned();
    let own = version["name"].as_str().unwrap_or_default();
    let subresources = &version["subresources"];
    let scale = ScalePaths::read(&subresources["scale"]);
    let has_status = subresources["status"].is_object();
    let schema_json = version["schema"]["openAPIV3Schema"].clone();
    let selectable = version["selectableFields"].as_array().map_or(&[][..], Vec::as_slice);
    let paths: Vec<&str> = selectable.iter().filter_map(|field| field["jsonPath"].as_str()).collect();
    let kind = name("kind");
    let rules = CustomResource {
        api_version: text(format!("{group}/{own}")),
        kind: text(kind.clone()),
        storage_api_version: text(format!("{group}/{storage}")),
        definition: text(object.name().to_owned()),
        schema: Schema::read(&schema_json),
        rules: Rules::read(&schema_json),
        has_status,
        columns: Columns::read(&version["additionalPrinterColumns"]),
        fields: texts(paths.iter().map(|path| path.trim_start_matches('.').to_owned()).collect()),
        field_paths: paths.iter().filter_map(|path| JsonPath::read(path)).collect(),
        deprecation: deprecation(version, &group, own, &kind),
        schema_json,
        scale,
    };
    let mut parts = Vec::new();
    if has_status {
        parts.push("status".to_owned());
    }
    if rules.scale.is_some() {
        parts.push("scale".to_owned());
    }
    let learned = LearnedKind {
        group,
        version: own.to_owned(),
        kind,
        list_kind: name("listKind"),
        plural: name("plural"),
        singular: name("singular"),
        short_names: list("shortNames"),
        namespaced: object.text(&["spec", "scope"]) == "Namespaced",
        subresources: parts,
        categories: list("categories"),
        is_view,
    };
    learned.leak(Some(Extension(Box::leak(Box::new(rules)))))
}

fn deprecation(version: &Value, group: &str, own: &str, kind: &str) -> Option<String> {
    (version["deprecated"] == true).then(|| {
        let said = version["deprecationWarning"].as_str();
        said.map_or_else(|| format!("{group}/{own} {kind} is deprecated"), str::to_owned)
    })
}
