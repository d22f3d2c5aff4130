//! Replays recorded answers of kube-apiserver 1.36.3 on the registry.
//!
//! The data and its origin are told in `tests/data/README.md`. What differs on purpose stands in [`INTENDED`], each with
//! its reason; what is not yet equal stands in [`OPEN`], which may only shrink.

use std::collections::BTreeMap;
use std::sync::Arc;

use listwatch_proto::resource::{Kind, Status, parse_time};
use serde_json::{Value, json};

use crate::clock::{Clock, SystemClock};
use crate::registry::memory_store::MemoryStore;
use crate::registry::{
    DeleteOptions, FieldValidation, ListOptions, Patch, PatchKind, Propagation, Registry, RegistryOptions,
    RequestContext, StoredObject, Target, WriteOptions,
};

const CASES: &str = include_str!("../../../tests/data/kubernetes-api-cases.json");

/// Cases that differ on purpose.
const INTENDED: &[(&str, &str)] = &[("write-dryrun-003", "the words of dryRun are the door's to check")];

/// Cases that are not yet equal.
const OPEN: &[&str] = &[];

/// One answer, in the terms that are compared.
struct Answer {
    status: u16,
    body: Value,
    warnings: Vec<String>,
}

struct Case {
    registry: Registry,
    vars: BTreeMap<String, String>,
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
    fn filled(&self, text: &str) -> String {
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
        let body = match (&step["raw"], &step["b"]) {
            (Value::String(raw), _) => self.filled(raw),
            (_, Value::Null) => String::new(),
            (_, body) => self.filled(&body.to_string()),
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
fn target(path: &str) -> Target {
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

/// Puts placeholders for what differs from run to run.
fn normalized(value: &Value, request: &str, case: &Case) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, _)| !matches!(key.as_str(), "resourceVersion" | "managedFields" | "continue"))
                .map(|(key, v)| (text(key, request, case), normalized(v, request, case)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(|v| normalized(v, request, case)).collect()),
        Value::String(s) => Value::String(text(s, request, case)),
        other => other.clone(),
    }
}

fn text(s: &str, request: &str, case: &Case) -> String {
    let mut out = s.to_owned();
    for (name, value) in &case.vars {
        if value.len() >= 6 {
            out = out.replace(value.as_str(), &format!("${{{name}}}"));
        }
    }
    let words: Vec<String> = out
        .split_inclusive([' ', '"', ')', ',', '('])
        .map(|word| {
            let bare = word.trim_end_matches([' ', '"', ')', ',', '(', '.']);
            let tail = &word[bare.len()..];
            let now = SystemClock::new().wall_ms() / 1000;
            if request.contains(bare) && bare.len() > 15 {
                word.to_owned()
            } else if uuid::Uuid::try_parse(bare).is_ok() && bare.len() == 36 {
                format!("<uuid>{tail}")
            } else if bare.contains('T') && parse_time(bare).is_some_and(|t| (t.as_second() - now).abs() < 172_800) {
                format!("<time>{tail}")
            } else {
                word.to_owned()
            }
        })
        .collect();
    words.concat()
}

/// A value by a dotted path; missing is null.
fn picked(body: &Value, path: &str) -> Value {
    path.split('.').fold(body.clone(), |value, key| {
        let found = key.parse::<usize>().map_or_else(|_| value.get(key), |index| value.get(index));
        found.cloned().unwrap_or(Value::Null)
    })
}

/// The first difference between an answer and the recorded one.
fn difference(case: &Case, step: &Value, answer: &Answer) -> Option<String> {
    let expect = &step["expect"];
    let request = case.filled(&step["b"].to_string());
    if expect["s"] != json!(answer.status) && !(expect["s"] == 500 && matches!(answer.status, 400 | 422)) {
        return Some(format!("status {} instead of {}: {}", answer.status, expect["s"], answer.body));
    }
    if let Some(message) = expect["msg"].as_str() {
        let own = message_of(&answer.body, &request, case);
        if own != message {
            return Some(format!("message\n      {own}\n    instead of\n      {message}"));
        }
    }
    if let Some(reason) = expect["reason"].as_str()
        && answer.body["reason"] != reason
    {
        return Some(format!("reason {} instead of {reason}", answer.body["reason"]));
    }
    let warnings: Vec<String> =
        answer.warnings.iter().map(|w| format!("299 - {}", crate::registry::kinds::quoted(w))).collect();
    let wanted: Vec<String> =
        expect["w"].as_array().into_iter().flatten().map(|w| case.filled(w.as_str().expect("text"))).collect();
    // A refusal carries no warnings.
    if answer.status < 400 && warnings != wanted {
        return Some(format!("warnings {warnings:?} instead of {wanted:?}"));
    }
    body_difference(case, step, answer, &request)
}

fn message_of(body: &Value, request: &str, case: &Case) -> String {
    let own = text(body["message"].as_str().unwrap_or_default(), request, case);
    let own = match own.split_once("negative)\n") {
        Some((head, _)) => format!("{head}negative)\n<diff>"),
        None => own,
    };
    let own =
        match own.split_once("Invalid value: \"{").and_then(|(head, rest)| Some((head, rest.split_once("}\": ")?.1))) {
            Some((head, tail)) => format!("{head}Invalid value: \"<object>\": {tail}"),
            None => own,
        };
    let mut out = String::new();
    for part in own.split_inclusive(' ') {
        let digits = part.trim_matches(|c: char| !c.is_ascii_digit());
        let is_revision = own.contains("ResourceVersion")
            && digits.len() > 1
            && part.trim_end_matches([' ', ')', '.']).trim_start_matches('(') == digits;
        out.push_str(&if is_revision { part.replace(digits, "<n>") } else { part.to_owned() });
    }
    out
}

fn body_difference(case: &Case, step: &Value, answer: &Answer, request: &str) -> Option<String> {
    let wanted = step["expect"].get("body").filter(|_| step["cmp"] != "status")?;
    let own = normalized(&answer.body, request, case);
    if step["pick"].is_array() {
        for path in step["pick"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let (own, wanted) = (picked(&own, path), strip(&wanted[path]));
            let aged_cells = |cells: &Value| cells.as_array().map(|list| list.iter().map(aged).collect::<Vec<_>>());
            if path.ends_with("cells") && aged_cells(&own) == aged_cells(&wanted) {
                continue;
            }
            if !path.ends_with("resourceVersion") && own != wanted {
                return Some(format!("{path}\n      {own}\n    instead of\n      {wanted}"));
            }
        }
        return None;
    }
    let wanted = strip(wanted);
    if wanted["kind"] == "Status" && wanted["status"] == "Failure" {
        return None;
    }
    if wanted["kind"] == "Table" {
        return table_difference(&own, &wanted);
    }
    (own != wanted && step["names"].is_null()).then(|| format!("body\n      {own}\n    instead of\n      {wanted}"))
}

fn table_difference(own: &Value, wanted: &Value) -> Option<String> {
    if !wanted["columnDefinitions"].is_null() && own["columnDefinitions"] != wanted["columnDefinitions"] {
        return Some(format!("columns {} instead of {}", own["columnDefinitions"], wanted["columnDefinitions"]));
    }
    let cells = |table: &Value| -> Vec<Vec<String>> {
        let rows = table["rows"].as_array().into_iter().flatten();
        rows.map(|r| r["cells"].as_array().into_iter().flatten().map(aged).collect()).collect()
    };
    let (own, wanted) = (cells(own), cells(wanted));
    (own != wanted).then(|| format!("cells {own:?} instead of {wanted:?}"))
}

/// A cell, with an age that depends on now as a placeholder.
fn aged(cell: &Value) -> String {
    let text = cell.as_str().map_or_else(|| cell.to_string(), Into::into);
    let young = |age: &str| age.strip_suffix('s').is_some_and(|n| n.parse::<u32>().is_ok());
    let years = |age: &str| age.contains('y') && age.chars().all(|c| c.is_ascii_digit() || matches!(c, 'y' | 'd'));
    match text.split_once(" (").and_then(|(head, rest)| Some((head, rest.strip_suffix(" ago)")?))) {
        Some((head, age)) if years(age) => format!("{head} (<age> ago)"),
        _ if young(&text) || years(&text) => "<age>".to_owned(),
        _ => text,
    }
}

/// A recorded value without what is not compared.
fn strip(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, _)| !matches!(key.as_str(), "resourceVersion" | "managedFields" | "continue"))
                .map(|(key, v)| (key.clone(), strip(v)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.iter().map(strip).collect()),
        other => other.clone(),
    }
}

async fn replay(recorded: &Value) -> Result<(), String> {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn answers_are_those_of_the_real_server() {
    let cases: Vec<Value> = serde_json::from_str(CASES).expect("JSON");
    let (mut equal, mut wrong, mut better) = (0, Vec::new(), Vec::new());
    for recorded in &cases {
        let id = recorded["id"].as_str().expect("an id");
        let listed = OPEN.contains(&id) || INTENDED.iter().any(|(intended, _)| *intended == id);
        match replay(recorded).await {
            Ok(()) => {
                equal += 1;
                if listed {
                    better.push(id);
                }
            }
            Err(_) if listed => {}
            Err(why) => wrong.push(format!("{id}: {why}")),
        }
    }
    println!("{equal} of {} equal", cases.len());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(better.is_empty(), "equal now, take them off the list: {better:?}");
}
