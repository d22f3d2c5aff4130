//! Runs the steps of a recorded case on a registry over a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use listwatch_proto::resource::{Kind, Status};
use serde_json::{Value, json};

use super::compare::{difference, picked};
use crate::clock::{Clock, SystemClock};
use crate::registry::store::MemoryStore;
use crate::registry::{
    DeleteOptions, FieldValidation, ListOptions, Patch, PatchKind, Propagation, Registry, RegistryOptions,
    RequestContext, StoredObject, Target, WriteOptions,
};

/// One answer, in the terms that are compared.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) warnings: Vec<String>,
}

/// A registry of its own, with the namespaces that cases use, and what their steps have saved.
pub(super) struct Case {
    registry: Registry,
    pub(super) vars: BTreeMap<String, String>,
}

fn context() -> RequestContext {
    RequestContext::user("system:admin")
}

impl Case {
    async fn new() -> Self {
        let options = RegistryOptions { event_ttl: std::time::Duration::ZERO, ..RegistryOptions::default() };
        let store = MemoryStore::new();
        // Revisions of two digits are told from other numbers in messages.
        (0..10).for_each(|_| {
            store.put("/other", "");
        });
        let registry = Registry::new(Arc::new(store), SystemClock::shared(), options);
        let vars = [("ns", "ns-of-case"), ("ns2", "ns2-of-case"), ("u", "u-of-case")];
        let vars = vars.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        let case = Self { registry, vars };
        for name in ["ns-of-case", "ns2-of-case"] {
            let namespaces = Kind::by_name("namespace").expect("known");
            let body = json!({"metadata": {"name": name}}).to_string();
            let target = Target::collection(namespaces, "");
            let written = case.registry.create(&context(), &target, body.as_bytes(), &WriteOptions::default()).await;
            written.expect("a namespace");
        }
        case
    }

    /// Puts the values of variables in their places.
    pub(super) fn filled(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.vars {
            out = out.replace(&format!("${{{name}}}"), value);
        }
        while let Some(at) = out.find("${ago_") {
            let end = at + out[at..].find('}').expect("closed");
            let seconds: i64 = out[at + 6..end].parse().expect("a number");
            let then = SystemClock::new().wall_ms() / 1000 - seconds;
            let then = listwatch_proto::resource::time(jiff::Timestamp::from_second(then).expect("a time"));
            out.replace_range(at..=end, &then);
        }
        out
    }

    async fn run(&self, step: &Value) -> Answer {
        let path = self.filled(step["p"].as_str().expect("a path"));
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let query: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
        let target = target(path);
        let body = match (&step["raw"], &step["fill"], &step["b"]) {
            (Value::String(raw), _, _) => self.filled(raw),
            (_, Value::Object(recipe), _) => {
                let part = |key: &str| recipe[key].as_str().expect("text");
                let times = usize::try_from(recipe["n"].as_u64().expect("a number")).expect("a size");
                self.filled(&format!("{}{}{}", part("pre"), part("unit").repeat(times), part("post")))
            }
            (_, _, Value::Null) => String::new(),
            (_, _, body) => self.filled(&body.to_string()),
        };
        let options = WriteOptions {
            dry_run: query.contains_key("dryRun"),
            field_validation: match query.get("fieldValidation") {
                Some(&"Strict") => FieldValidation::Strict,
                Some(&"Ignore") => FieldValidation::Ignore,
                _ => FieldValidation::Warn,
            },
            field_manager: String::new(),
        };
        let table = step["h"]["Accept"].as_str().is_some_and(|accept| accept.contains("as=Table"));
        match step["m"].as_str().expect("a method") {
            "GET" if target.name.is_empty() => self.list(&target, &query, table).await,
            "GET" => {
                answer(self.registry.get(&context(), &target, 0).await.map(|object| (200, object, Vec::new())), |o| {
                    if table { self.table(target.kind, std::slice::from_ref(o)) } else { value(o) }
                })
            }
            "POST" => {
                let written = self.registry.create(&context(), &target, body.as_bytes(), &options).await;
                answer(written.map(|w| (201, w.object, w.warnings)), value)
            }
            "PUT" => {
                let written = self.registry.update(&context(), &target, body.as_bytes(), &options).await;
                answer(written.map(|w| (if w.created { 201 } else { 200 }, w.object, w.warnings)), value)
            }
            "PATCH" => {
                let kind = if step["ct"] == "application/json-patch+json" { PatchKind::Json } else { PatchKind::Merge };
                let patch = Patch { kind, body: body.into(), force: false };
                let written = self.registry.patch(&context(), &target, &patch, &options).await;
                answer(written.map(|w| (200, w.object, w.warnings)), value)
            }
            "DELETE" => self.delete(&target, &body, options.dry_run).await,
            other => panic!("{other}"),
        }
    }

    async fn list(&self, target: &Target, query: &BTreeMap<&str, &str>, table: bool) -> Answer {
        let decoded = |key: &str| query.get(key).map(|v| percent_decoded(v)).unwrap_or_default();
        let options = ListOptions {
            label_selector: decoded("labelSelector"),
            field_selector: decoded("fieldSelector"),
            limit: decoded("limit").parse().unwrap_or(0),
            ..ListOptions::default()
        };
        match self.registry.list(&context(), target, &options).await {
            Err(status) => refused(&status),
            Ok(page) if table => {
                Answer { status: 200, body: self.table(target.kind, &page.items), warnings: Vec::new() }
            }
            Ok(page) => {
                let items: Vec<Value> = page
                    .items
                    .iter()
                    .map(|item| {
                        let mut item = value(item);
                        let map = item.as_object_mut().expect("an object");
                        map.remove("kind");
                        map.remove("apiVersion");
                        item
                    })
                    .collect();
                let body = json!({
                    "kind": format!("{}List", target.kind.kind), "apiVersion": target.kind.api_version(),
                    "metadata": {"resourceVersion": page.revision.to_string()}, "items": items,
                });
                Answer { status: 200, body, warnings: Vec::new() }
            }
        }
    }

    fn table(&self, kind: &'static Kind, items: &[StoredObject]) -> Value {
        let columns: Vec<Value> = self
            .registry
            .columns(kind)
            .iter()
            .map(|c| {
                json!({"name": c.name, "type": c.data_type, "format": c.format, "description": c.description,
                       "priority": c.priority})
            })
            .collect();
        let cell = |cell: &crate::registry::Cell| match cell {
            crate::registry::Cell::Text(text) => json!(text),
            crate::registry::Cell::Int(number) => json!(number),
            crate::registry::Cell::Value(value) => value.clone(),
            crate::registry::Cell::Flag(flag) => json!(flag),
        };
        let rows: Vec<Value> =
            items.iter().map(|o| json!({"cells": self.registry.row(o).iter().map(cell).collect::<Vec<_>>()})).collect();
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": columns, "rows": rows})
    }

    async fn delete(&self, target: &Target, body: &str, dry_run: bool) -> Answer {
        let body: Value = if body.is_empty() { json!({}) } else { serde_json::from_str(body).expect("JSON") };
        let options = DeleteOptions {
            uid: body["preconditions"]["uid"].as_str().map(Into::into),
            resource_version: body["preconditions"]["resourceVersion"].as_str().map(Into::into),
            grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
            propagation: body["propagationPolicy"].as_str().map(|p| match p {
                "Orphan" => Propagation::Orphan,
                "Foreground" => Propagation::Foreground,
                _ => Propagation::Background,
            }),
            dry_run: dry_run || body["dryRun"].is_array(),
        };
        match self.registry.delete(&context(), target, &options).await {
            Err(status) => refused(&status),
            // A pod is answered whole, as upstream does.
            Ok(deleted) if !deleted.removed || target.kind.kind == "Pod" => {
                Answer { status: 200, body: value(&deleted.object), warnings: Vec::new() }
            }
            Ok(deleted) => {
                let mut details = json!({"name": target.name, "kind": target.kind.plural, "uid": deleted.object.uid()});
                if !target.kind.group.is_empty() {
                    details["group"] = json!(target.kind.group);
                }
                let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}, "details": details});
                Answer { status: 200, body, warnings: Vec::new() }
            }
        }
    }
}

fn percent_decoded(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let hex: String = [bytes.next(), bytes.next()].into_iter().flatten().map(char::from).collect();
                out.push(u8::from_str_radix(&hex, 16).expect("hex"));
            }
            b'+' => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8(out).expect("UTF-8")
}

/// The target of a path of the REST API.
pub(super) fn target(path: &str) -> Target {
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    let (group, rest) = match parts[..] {
        ["api", _, ref rest @ ..] => ("", rest),
        ["apis", group, _, ref rest @ ..] => (group, rest),
        _ => panic!("{path}"),
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, plural, rest @ ..] if !matches!(*plural, "status" | "finalize") => {
            (*namespace, [&[*plural], rest].concat())
        }
        rest => ("", rest.to_vec()),
    };
    let kind = Kind::by_plural(group, "", rest[0]).expect(path);
    let part = |i: usize| rest.get(i).map(|p| percent_decoded(p)).unwrap_or_default();
    Target { kind, namespace: namespace.to_owned(), name: part(1), subresource: part(2) }
}

fn value(object: &StoredObject) -> Value {
    serde_json::from_slice(&object.json()).expect("JSON")
}

fn refused(status: &Status) -> Answer {
    Answer { status: status.code, body: status.to_json(), warnings: Vec::new() }
}

fn answer(result: Result<(u16, StoredObject, Vec<String>), Status>, show: impl Fn(&StoredObject) -> Value) -> Answer {
    match result {
        Ok((status, object, warnings)) => Answer { status, body: show(&object), warnings },
        Err(status) => refused(&status),
    }
}

/// Replays a case; the error is its first difference.
pub(super) async fn replay(recorded: &Value) -> Result<(), String> {
    let mut case = Case::new().await;
    for (i, step) in recorded["steps"].as_array().expect("steps").iter().enumerate() {
        let answer = case.run(step).await;
        for (name, path) in step["save"].as_object().into_iter().flatten() {
            let saved = picked(&answer.body, path.as_str().expect("a path"));
            case.vars.insert(name.clone(), saved.as_str().map_or_else(|| saved.to_string(), Into::into));
        }
        if let Some(difference) = difference(&case, step, &answer) {
            return Err(format!("step {i} {} {}: {difference}", step["m"], step["p"]));
        }
    }
    Ok(())
}
