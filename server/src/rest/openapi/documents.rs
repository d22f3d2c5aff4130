//! The documents: which there are, when they are made, how they are answered.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use listwatch_proto::resource::{KINDS, Kind};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::super::discovery::etag;
use super::super::form::answer;
use super::super::form::negotiate::{self, Encoding, OpenapiV2};
use super::super::query::Query;
use super::{paths, swagger, wire};
use crate::registry::{Kinds, Registry, Words};

/// A document and its fingerprint, without quotes.
#[derive(Debug)]
pub(in super::super) struct Document {
    text: Bytes,
    hash: String,
}

/// Documents by what follows `/openapi/v3/`.
type ByName = BTreeMap<String, Arc<Document>>;

/// The documents of the kinds that were asked for last: they are made anew only when definitions change.
#[derive(Debug, Default)]
pub(crate) struct Documents(Mutex<Option<OfKinds>>);

/// The documents of some kinds.
#[derive(Clone, Debug)]
pub(in super::super) struct OfKinds {
    kinds: Arc<Kinds>,
    by_name: Arc<ByName>,
    swagger: Arc<Swagger>,
}

/// Version 2, made when somebody asks for it.
#[derive(Debug, Default)]
struct Swagger {
    json: OnceLock<Document>,
    protobuf: OnceLock<Document>,
}

impl Documents {
    /// The documents of these kinds.
    pub(in super::super) fn of(&self, kinds: &Arc<Kinds>) -> OfKinds {
        let mut last = self.0.lock();
        if let Some(made) = last.as_ref().filter(|made| Arc::ptr_eq(&made.kinds, kinds)) {
            return made.clone();
        }
        let mut documents = table_documents().clone();
        let custom: Vec<_> = kinds.custom().collect();
        if !custom.is_empty() {
            add_documents(&mut documents, &custom, |group, version| {
                kinds.all().filter(|k| k.group == group && k.version == version).collect()
            });
        }
        let made = OfKinds { kinds: kinds.clone(), by_name: Arc::new(documents), swagger: Arc::default() };
        *last = Some(made.clone());
        made
    }
}

impl OfKinds {
    fn swagger(&self, encoding: OpenapiV2) -> &Document {
        let made = || {
            let kinds: Vec<_> = self.kinds.all().collect();
            let Parts { paths, schemas } = Parts::of(&kinds, &Words::read());
            swagger::document(&paths, &schemas)
        };
        match encoding {
            OpenapiV2::Json => self.swagger.json.get_or_init(|| Document::new(Bytes::from(made().to_string()))),
            OpenapiV2::Protobuf => {
                self.swagger.protobuf.get_or_init(|| Document::new(Bytes::from(wire::document(&made()))))
            }
        }
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
        documents.entry("apis".to_owned()).or_insert_with(|| Arc::new(document(Parts::default())));
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
    let words = Words::read();
    for kind in kinds {
        let root = root(kind);
        if made.contains(&root) {
            continue;
        }
        let whole = document(Parts::of(&of_version(kind.group, kind.version), &words));
        documents.insert(root.clone(), Arc::new(whole));
        // The documents above it hold no more than what discovery tells.
        let above = root.rsplit_once('/').map_or("api", |(above, _)| above).to_owned();
        documents.entry(above).or_insert_with(|| Arc::new(document(Parts::default())));
        made.push(root);
    }
}

fn document(Parts { paths, schemas }: Parts) -> Document {
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": format!("v{}", super::super::KUBERNETES_VERSION)},
        "paths": paths,
        "components": {"schemas": schemas},
    });
    Document::new(Bytes::from(document.to_string()))
}

impl Document {
    fn new(text: Bytes) -> Document {
        let hash = fingerprint(&text);
        Document { text, hash }
    }
}

/// 128 bits of fingerprint, of which a client only asks whether they are the same.
fn fingerprint(text: &[u8]) -> String {
    let reversed: Vec<u8> = text.iter().rev().copied().collect();
    let hash = [etag(text), etag(&reversed)].concat().replace('"', "");
    hash.repeat(2)
}

/// `api/v1`, `apis/apps/v1`.
pub(super) fn root(kind: &Kind) -> String {
    if kind.group.is_empty() {
        format!("api/{}", kind.version)
    } else {
        format!("apis/{}/{}", kind.group, kind.version)
    }
}

/// Answers a path below `/openapi`.
pub(in super::super) fn answer(documents: &OfKinds, path: &str, query: &Query, headers: &HeaderMap) -> Response {
    let by_name = &documents.by_name;
    match path {
        "/openapi/v3" => index(by_name),
        "/openapi" | "/openapi/" | "/openapi/v2/" => answer::page_not_found(),
        "/openapi/v2" => match negotiate::openapi_v2(headers) {
            Some(encoding) => older(documents.swagger(encoding), encoding, headers),
            None => empty(StatusCode::NOT_ACCEPTABLE),
        },
        other => match other.strip_prefix("/openapi/v3/").and_then(|name| by_name.get_key_value(name)) {
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

/// The document, or that the client has it already.
fn unless_known(document: &Document, headers: &HeaderMap) -> Response {
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
    response
}

/// Version 2.
fn older(document: &Document, encoding: OpenapiV2, headers: &HeaderMap) -> Response {
    let mut response = unless_known(document, headers);
    if encoding == OpenapiV2::Protobuf && response.status() == StatusCode::OK {
        let form = HeaderValue::from_static("application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
        response.headers_mut().insert(header::CONTENT_TYPE, form);
    }
    response
}

fn one(name: &str, document: &Document, asked: &str, headers: &HeaderMap) -> Response {
    if !asked.is_empty() && asked != document.hash {
        let mut response = empty(StatusCode::MOVED_PERMANENTLY);
        let address = format!("/openapi/v3/{name}?hash={}", document.hash);
        response.headers_mut().insert(header::LOCATION, HeaderValue::from_str(&address).expect("an address of ours"));
        return response;
    }
    let mut response = unless_known(document, headers);
    let put = response.headers_mut();
    // An address with the hash in it names this text for ever.
    let caching = if asked.is_empty() { "no-cache, private" } else { "public, immutable" };
    put.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    if !asked.is_empty() {
        put.insert(header::EXPIRES, HeaderValue::from_static("Fri, 31 Dec 9999 23:59:59 GMT"));
    }
    response
}

/// Paths and schemas of kinds.
#[derive(Default)]
struct Parts {
    paths: Map<String, Value>,
    schemas: Map<String, Value>,
}

impl Parts {
    fn of(kinds: &[&'static Kind], words: &Words) -> Parts {
        let mut schemas = Registry::openapi_schemas(kinds.iter().copied(), words);
        let mut paths = Map::new();
        for kind in kinds.iter().copied() {
            let name = Registry::openapi_name(kind);
            for (schema, suffix) in [(name.clone(), ""), (name + "List", "List")] {
                if let Some(schema) = schemas.get_mut(&schema) {
                    let gvk = json!({
                        "group": kind.group, "version": kind.version, "kind": format!("{}{suffix}", kind.kind),
                    });
                    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
                }
            }
            paths::add(kind, &mut paths);
        }
        Parts { paths, schemas }
    }
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
        let list = &document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentList"];
        assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], "DeploymentList");
        assert!(schema["description"].as_str().is_some_and(|text| text.starts_with("Deployment enables declarative")));
    }

    #[test]
    fn the_older_form_says_the_same() {
        let documents = Documents::default().of(&Arc::new(Kinds::default()));
        let json: Value = serde_json::from_slice(&documents.swagger(OpenapiV2::Json).text).expect("JSON");
        assert_eq!(json["swagger"], "2.0");
        let deployment = &json["definitions"]["io.k8s.api.apps.v1.Deployment"];
        assert_eq!(deployment["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.apps.v1.DeploymentSpec");
        let text = json.to_string();
        assert!(!text.contains("#/components/"), "a reference of version 3 is left");
        for reference in text.split("#/definitions/").skip(1) {
            let name = reference.split('"').next().expect("quoted");
            assert!(json["definitions"].get(name).is_some(), "{name} is referred to and not there");
        }
        let protobuf = &documents.swagger(OpenapiV2::Protobuf).text;
        assert_eq!(protobuf[..5], *b"\x0a\x032.0");
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
