//! The parts that every description has.

use jiff::Timestamp;
use listwatch_proto::resource::{LabelSelector, Object, parse_time};
use serde_json::Value;

use super::super::events::{interval, sort};
use crate::terminal::on_one_line;

/// `Mon, 02 Jan 2006 15:04:05 -0700`, in local time, as kubectl shows times.
pub(super) fn time(text: &str) -> String {
    match parse_time(text) {
        Some(at) => at.to_zoned(jiff::tz::TimeZone::system()).strftime("%a, %d %b %Y %H:%M:%S %z").to_string(),
        None => text.to_owned(),
    }
}

/// `label:\tvalue`.
pub(super) fn field(out: &mut String, label: &str, value: &str) {
    out.push_str(&format!("{label}:\t{value}\n"));
}

/// `label:\tfirst`, then the others below it; `<none>` if there is none.
pub(super) fn multiline(out: &mut String, label: &str, lines: &[String]) {
    if lines.is_empty() {
        out.push_str(&format!("{label}:\t<none>\n"));
    }
    for (index, line) in lines.iter().enumerate() {
        let head = if index == 0 { format!("{label}:") } else { String::new() };
        out.push_str(&format!("{head}\t{line}\n"));
    }
}

/// Labels or a node selector.
pub(super) fn pairs<'a>(items: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    items.map(|(key, value)| format!("{key}={value}")).collect()
}

/// A map of texts, one a line.
pub(super) fn labels_of(map: &Value) -> Vec<String> {
    let entries = map.as_object().into_iter().flatten();
    pairs(entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))))
}

/// A map of texts in one line; `<none>` if there is none.
pub(super) fn one_line(map: &Value) -> String {
    let entries = labels_of(map);
    if entries.is_empty() { "<none>".to_owned() } else { entries.join(",") }
}

/// How the pods of a template are spread over the nodes; nothing if it does not say.
pub(super) fn spreading(out: &mut String, template: &Object, indent: &str) {
    let list = template.at(&["spec", "topologySpreadConstraints"]).and_then(Value::as_array);
    let mut list: Vec<&Value> = list.into_iter().flatten().collect();
    list.sort_by_key(|constraint| constraint["topologyKey"].as_str());
    let lines: Vec<String> = list
        .into_iter()
        .map(|constraint| {
            let text = |field: &str| constraint[field].as_str().unwrap_or_default();
            let selector = match &constraint["labelSelector"] {
                Value::Null => String::new(),
                selector => format!(" for selector {}", selector_or_none(selector)),
            };
            let (key, otherwise, skew) = (text("topologyKey"), text("whenUnsatisfiable"), &constraint["maxSkew"]);
            format!("{key}:{otherwise} when max skew {skew} is exceeded{selector}")
        })
        .collect();
    if !lines.is_empty() {
        multiline(out, &format!("{indent}Topology Spread Constraints"), &lines);
    }
}

/// A label selector in a line; `<none>` if it takes everything.
pub(super) fn selector_or_none(selector: &Value) -> String {
    match LabelSelector::from_json(selector) {
        Ok(selector) if selector.is_empty() => "<none>".to_owned(),
        Ok(selector) => selector.to_string(),
        Err(_) => "<error>".to_owned(),
    }
}

/// Annotations; what this program keeps for itself is not shown, long ones stand below their name.
pub(super) fn annotations(object: &Object) -> Vec<String> {
    const WIDTH_MAX: usize = 140;
    let mut lines = Vec::new();
    for (key, value) in object.annotations().filter(|(key, _)| *key != super::super::apply::LAST_APPLIED) {
        let value = value.trim_end_matches('\n');
        if value.contains('\n') || key.len() + value.len() + 2 > WIDTH_MAX {
            lines.push(format!("{key}:"));
            for line in value.split('\n') {
                let short: String = line.chars().take(WIDTH_MAX - 2).collect();
                let cut = if short.len() < line.len() { "..." } else { "" };
                lines.push(format!("  {short}{cut}"));
            }
        } else {
            lines.push(format!("{key}: {value}"));
        }
    }
    lines
}

/// `key=value:Effect op=Exists for 300s`, in order.
pub(super) fn tolerations(list: Option<&Value>) -> Vec<String> {
    let mut lines: Vec<String> = list
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|toleration| {
            let text = |field: &str| toleration[field].as_str().unwrap_or_default();
            let mut line = text("key").to_owned();
            if !text("value").is_empty() {
                line.push_str(&format!("={}", text("value")));
            }
            if !text("effect").is_empty() {
                line.push_str(&format!(":{}", text("effect")));
            }
            match text("operator") {
                "Exists" if text("key").is_empty() && text("effect").is_empty() => line.push_str("op=Exists"),
                "Exists" => line.push_str(" op=Exists"),
                operator @ ("Lt" | "Gt") => line.push_str(&format!(" op={operator}")),
                _ => {}
            }
            if let Some(seconds) = toleration["tolerationSeconds"].as_i64() {
                line.push_str(&format!(" for {seconds}s"));
            }
            line
        })
        .collect();
    lines.sort();
    lines
}

/// The Events about an object.
pub(super) fn events(out: &mut String, mut events: Vec<Object>) {
    if events.is_empty() {
        out.push_str("Events:\t<none>\n");
        return;
    }
    sort(&mut events);
    out.push_str("Events:\n  Type\tReason\tAge\tFrom\tMessage\n  ----\t------\t----\t----\t-------\n");
    let now = Timestamp::now();
    for event in &events {
        let mut source = event.text(&["source", "component"]);
        if source.is_empty() {
            source = event.text(&["reportingComponent"]);
        }
        let message = event.text(&["message"]).trim();
        let message = match event.text(&["involvedObject", "fieldPath"]) {
            "" => message.to_owned(),
            part => format!("{part}: {message}"),
        };
        out.push_str(&format!(
            "  {}\t{}\t{}\t{source}\t{}\n",
            on_one_line(event.text(&["type"])),
            on_one_line(event.text(&["reason"])),
            interval(event, now),
            on_one_line(&message),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tolerations_read_as_kubectl_writes_them() {
        let list = json!([
            {"key": "q", "operator": "Exists"},
            {"key": "k", "value": "v", "effect": "NoSchedule", "operator": "Equal"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"operator": "Exists"},
        ]);
        assert_eq!(
            tolerations(Some(&list)),
            ["k=v:NoSchedule", "node.kubernetes.io/not-ready:NoExecute op=Exists for 300s", "op=Exists", "q op=Exists"]
        );
        assert!(tolerations(None).is_empty());
    }
}
