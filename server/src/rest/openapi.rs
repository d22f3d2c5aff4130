//! OpenAPI v3: an index, and a document for each group version, made from the schema tables at first use.
//!
//! What clients need of it: kubectl validates and merges by the schemas (`apply`, `edit`, `explain`), finds out whether a
//! kind takes `fieldValidation` and `dryRun`, and keeps documents by the hash in their address.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use listwatch_proto::resource::{KINDS, Kind};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::answer;
use super::discovery::etag;
use super::negotiate::{self, Encoding};
use super::query::Query;
use crate::registry::{Kinds, Registry};

/// A document and its fingerprint, without quotes.
#[derive(Debug)]
pub(super) struct Document {
    text: Bytes,
    hash: String,
}

/// Documents by what follows `/openapi/v3/`.
type ByName = BTreeMap<String, Arc<Document>>;

/// The documents of the kinds that were asked for last: they are made anew only when definitions change.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<Option<(Arc<Kinds>, Arc<ByName>)>>);

impl Documents {
    /// The documents of these kinds.
    pub(super) fn of(&self, kinds: &Arc<Kinds>) -> Arc<ByName> {
        let mut last = self.0.lock();
        if let Some((_, documents)) = last.as_ref().filter(|(known, _)| Arc::ptr_eq(known, kinds)) {
            return documents.clone();
        }
        let mut documents = table_documents().clone();
        let custom: Vec<_> = kinds.custom().collect();
        add_documents(&mut documents, &custom, |group, version| {
            kinds.all().filter(|k| k.group == group && k.version == version).collect()
        });
        let documents = Arc::new(documents);
        *last = Some((kinds.clone(), documents.clone()));
        documents
    }
}

/// The documents of the kinds of the table.
fn table_documents() -> &'static ByName {
    static DOCUMENTS: OnceLock<ByName> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        let mut documents = ByName::new();
        let table: Vec<&'static Kind> = KINDS.iter().collect();
        add_documents(&mut documents, &table, |group, version| {
            KINDS.iter().filter(|k| k.group == group && k.version == version).collect()
        });
        documents.entry("apis".to_owned()).or_insert_with(|| Arc::new(document(json!({}))));
        documents
    })
}

/// Adds the documents of the group versions of these kinds.
fn add_documents(
    documents: &mut ByName,
    kinds: &[&'static Kind],
    of_version: impl Fn(&str, &str) -> Vec<&'static Kind>,
) {
    let mut made: Vec<String> = Vec::new();
    for kind in kinds {
        let root = root(kind);
        if made.contains(&root) {
            continue;
        }
        let whole = document(group_version(&of_version(kind.group, kind.version)));
        documents.insert(root.clone(), Arc::new(whole));
        // The documents above it hold no more than what discovery tells.
        let above = root.rsplit_once('/').map_or("api", |(above, _)| above).to_owned();
        documents.entry(above).or_insert_with(|| Arc::new(document(json!({}))));
        made.push(root);
    }
}

fn document(parts: Value) -> Document {
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v{}", super::KUBERNETES_VERSION)},
        "paths": parts.get("paths").cloned().unwrap_or_else(|| json!({})),
        "components": {"schemas": parts.get("schemas").cloned().unwrap_or_else(|| json!({}))},
    });
    let text = document.to_string();
    // Two fingerprints of the text and its reverse: 128 bits, of which a client only asks whether they are the same.
    let reversed: String = text.chars().rev().collect();
    let hash = [etag(&text), etag(&reversed)].concat().replace('"', "");
    Document { text: Bytes::from(text), hash: hash.repeat(2) }
}

/// `api/v1`, `apis/apps/v1`.
fn root(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

/// Answers a path below `/openapi`.
pub(super) fn answer(documents: &ByName, path: &str, query: &Query, headers: &HeaderMap) -> Response {
    match path.trim_end_matches('/') {
        "/openapi/v3" => index(documents),
        "/openapi" => answer::page_not_found(),
        // The older form is not served; who cannot read either of its encodings is told that first, as upstream does.
        "/openapi/v2" if !negotiate::reads_openapi_v2(headers) => empty(StatusCode::NOT_ACCEPTABLE),
        "/openapi/v2" => answer::page_not_found(),
        other => match other.strip_prefix("/openapi/v3/").and_then(|name| documents.get_key_value(name)) {
            Some((name, document)) => one(name, document, query.text("hash"), headers),
            None => empty(StatusCode::NOT_FOUND),
        },
    }
}

fn empty(code: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

fn index(documents: &ByName) -> Response {
    let paths: Map<String, Value> = documents
        .iter()
        .map(|(name, document)| {
            let address = format!("/openapi/v3/{name}?hash={}", document.hash);
            (name.clone(), json!({"serverRelativeURL": address}))
        })
        .collect();
    let mut response = answer::value(StatusCode::OK, Encoding::Json, &json!({"paths": paths}));
    // So says kube-apiserver, though it is JSON.
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn one(name: &str, document: &Document, asked: &str, headers: &HeaderMap) -> Response {
    if !asked.is_empty() && asked != document.hash {
        let mut response = empty(StatusCode::MOVED_PERMANENTLY);
        let address = format!("/openapi/v3/{name}?hash={}", document.hash);
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&address).expect("an address of ours"));
        return response;
    }
    let tag = format!("\"{}\"", document.hash);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == tag.as_bytes());
    let mut response = if known {
        empty(StatusCode::NOT_MODIFIED)
    } else {
        answer::whole(StatusCode::OK, Encoding::Json, document.text.clone())
    };
    let put = response.headers_mut();
    put.insert(header::ETAG, HeaderValue::from_str(&tag).expect("hexadecimal digits in quotes are a header value"));
    put.insert(header::VARY, HeaderValue::from_static("Accept"));
    // An address with the hash in it names this text for ever.
    let caching = if asked.is_empty() { "no-cache, private" } else { "public, immutable" };
    put.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    if !asked.is_empty() {
        put.insert(header::EXPIRES, HeaderValue::from_static("Fri, 31 Dec 9999 23:59:59 GMT"));
    }
    response
}

/// Paths and schemas of the kinds of a group version.
fn group_version(kinds: &[&'static Kind]) -> Value {
    let mut schemas = Registry::openapi_schemas(kinds.iter().copied());
    let mut paths = Map::new();
    for kind in kinds.iter().copied() {
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let name = Registry::openapi_name(kind);
        if let Some(schema) = schemas.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        }
        let root = root(kind);
        let collection = if kind.namespaced {
            format!("/{root}/namespaces/{{namespace}}/{}", kind.plural)
        } else {
            format!("/{root}/{}", kind.plural)
        };
        paths.insert(format!("{collection}/{{name}}"), object_paths(kind, &gvk, &name));
        paths.insert(collection, collection_paths(kind, &gvk, &name));
    }
    json!({"paths": paths, "schemas": schemas})
}

fn parameter(name: &str, place: &str, of: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": {"type": of, "uniqueItems": true}})
}

fn write_parameters() -> Vec<Value> {
    ["dryRun", "fieldManager", "fieldValidation"].map(|name| parameter(name, "query", "string")).to_vec()
}

fn path_parameters(kind: &Kind, names: &[&str]) -> Vec<Value> {
    let of = names.iter().filter(|name| kind.namespaced || **name != "namespace");
    of.map(|name| parameter(name, "path", "string")).collect()
}

fn operation(kind: &Kind, gvk: &Value, schema: &str, action: &str) -> Value {
    let writes = matches!(action, "post" | "put" | "patch" | "delete");
    let content = json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}});
    let mut operation = json!({
        "operationId": format!("{action}{}{}", if kind.namespaced { "Namespaced" } else { "" }, kind.kind),
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk,
    });
    if writes {
        operation["parameters"] = write_parameters().into();
    }
    operation
}

fn object_paths(kind: &Kind, gvk: &Value, schema: &str) -> Value {
    let of = |action: &str| operation(kind, gvk, schema, action);
    json!({
        "parameters": path_parameters(kind, &["name", "namespace"]),
        "get": of("get"), "put": of("put"), "patch": of("patch"), "delete": of("delete"),
    })
}

fn collection_paths(kind: &Kind, gvk: &Value, schema: &str) -> Value {
    let mut list = operation(kind, gvk, schema, "list");
    let names = ["continue", "fieldSelector", "labelSelector", "resourceVersion", "resourceVersionMatch"];
    let mut parameters: Vec<Value> = names.iter().map(|name| parameter(name, "query", "string")).collect();
    parameters.extend(["limit", "timeoutSeconds"].map(|name| parameter(name, "query", "integer")));
    parameters.extend(["allowWatchBookmarks", "sendInitialEvents", "watch"].map(|n| parameter(n, "query", "boolean")));
    list["parameters"] = parameters.into();
    json!({
        "parameters": path_parameters(kind, &["namespace"]),
        "get": list, "post": operation(kind, gvk, schema, "post"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kubectl_finds_what_it_looks_for() {
        let document: Value = serde_json::from_slice(&table_documents()["apis/apps/v1"].text).expect("JSON");
        let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
        assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
        let names: Vec<_> = patch["parameters"].as_array().expect("a list").iter().map(|p| &p["name"]).collect();
        assert!(names.contains(&&json!("fieldValidation")) && names.contains(&&json!("dryRun")));
        let schema = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Deployment");
        assert!(table_documents().contains_key("apis/apps") && table_documents().contains_key("api"));
    }

    #[test]
    fn a_document_is_known_by_its_hash() {
        let (name, document) = table_documents().get_key_value("api/v1").expect("there");
        let code = |hash: &str, tag: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(tag) = tag {
                headers.insert(header::IF_NONE_MATCH, tag.parse().expect("a header"));
            }
            one(name, document, hash, &headers).status()
        };
        assert_eq!(code("", None), StatusCode::OK);
        assert_eq!(code(&document.hash, None), StatusCode::OK);
        assert_eq!(code("OLD", None), StatusCode::MOVED_PERMANENTLY);
        assert_eq!(code("", Some(&format!("\"{}\"", document.hash))), StatusCode::NOT_MODIFIED);
    }
}
