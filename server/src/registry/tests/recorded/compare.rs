//! Compares an answer with the recorded one.
//!
//! What differs from run to run (uids, times near now, generated names, ages) is written as placeholders first.

use listwatch_proto::resource::parse_time;
use serde_json::{Value, json};

use super::replay::{Answer, Case};
use crate::clock::{Clock, SystemClock};

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
pub(super) fn picked(body: &Value, path: &str) -> Value {
    path.split('.').fold(body.clone(), |value, key| {
        let found = key.parse::<usize>().map_or_else(|_| value.get(key), |index| value.get(index));
        found.cloned().unwrap_or(Value::Null)
    })
}

/// The first difference between an answer and the recorded one.
pub(super) fn difference(case: &Case, step: &Value, answer: &Answer) -> Option<String> {
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
    if let Some(wanted) = expect["causes"].as_array() {
        // The recording has them in order, since the real server tells faults of maps in any.
        let mut own: Vec<Vec<String>> = answer.body["details"]["causes"].as_array().map_or_else(Vec::new, |causes| {
            let part = |cause: &Value, key: &str| text(cause[key].as_str().unwrap_or_default(), &request, case);
            let message = |cause: &Value| message_of(&json!({"message": part(cause, "message")}), &request, case);
            causes.iter().map(|c| vec![part(c, "reason"), part(c, "field"), message(c)]).collect()
        });
        own.sort_unstable();
        let mut wanted: Vec<Vec<String>> = wanted.iter().map(texts).collect();
        wanted.sort_unstable();
        if own != wanted {
            return Some(format!("causes\n      {own:?}\n    instead of\n      {wanted:?}"));
        }
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

/// The texts of a list.
fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().map(|t| t.as_str().unwrap_or_default().to_owned()).collect()
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
    let mut own = normalized(&answer.body, request, case);
    generated_name(&mut own, wanted);
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

/// A generated name is compared as far as it is not made by chance.
fn generated_name(own: &mut Value, wanted: &Value) {
    const MADE: &str = "<gen5>";
    let Some(prefix) = wanted["metadata"]["name"].as_str().and_then(|name| name.strip_suffix(MADE)) else { return };
    let name = own["metadata"]["name"].as_str().unwrap_or_default();
    if name.strip_prefix(prefix).is_some_and(|suffix| suffix.len() == 5) {
        own["metadata"]["name"] = json!(format!("{prefix}{MADE}"));
    }
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
