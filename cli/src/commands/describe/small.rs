//! The descriptions of namespaces, ConfigMaps and PriorityClasses, line by line as kubectl 1.36 writes them.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::text::{annotations, field, multiline, pairs, time};

/// Name, namespace, labels and annotations.
pub(super) fn identity(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
}

/// A namespace, without the quotas and limits in it; it has no Events.
pub(super) fn namespace(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
    field(out, "Status", object.text(&["status", "phase"]));
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array).filter(|list| !list.is_empty());
    if let Some(conditions) = conditions {
        out.push_str("Conditions:\n  Type\tStatus\tLastTransitionTime\tReason\tMessage\n");
        out.push_str("  ----\t------\t------------------\t------\t-------\n");
        for condition in conditions {
            let text = |name: &str| condition[name].as_str().unwrap_or_default();
            let at = time(text("lastTransitionTime"));
            let (kind, status) = (text("type"), text("status"));
            out.push_str(&format!("  {kind}\t{status}\t{at}\t{}\t{}\n", text("reason"), text("message")));
        }
    }
}

/// A ConfigMap, without the Events.
pub(super) fn config_map(out: &mut String, object: &Object) {
    identity(out, object);
    let entries = |name: &str| object.at(&[name]).and_then(Value::as_object).cloned().unwrap_or_default();
    out.push_str("\nData\n====\n");
    for (key, value) in entries("data") {
        out.push_str(&format!("{key}:\n----\n{}\n\n", value.as_str().unwrap_or_default()));
    }
    out.push_str("\nBinaryData\n====\n");
    for (key, value) in entries("binaryData") {
        out.push_str(&format!("{key}: {} bytes\n", decoded_length(value.as_str().unwrap_or_default())));
    }
    out.push('\n');
}

/// Bytes that a text of RFC 4648 stands for.
pub(super) fn decoded_length(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// A PriorityClass, without the Events.
pub(super) fn priority_class(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    field(out, "Value", &object.int(&["value"]).unwrap_or(0).to_string());
    field(out, "GlobalDefault", &object.flag(&["globalDefault"]).to_string());
    field(out, "PreemptionPolicy", object.text(&["preemptionPolicy"]));
    field(out, "Description", object.text(&["description"]));
    let pairs: Vec<_> = object.annotations().map(|(key, value)| format!("{key}={value}")).collect();
    field(out, "Annotations", &if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") });
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    /// From the recorded session describe-misc (kubectl 1.36.3).
    #[test]
    fn small_objects_are_described_as_kubectl_describes_them() {
        let map = json!({
            "metadata": {"name": "words", "namespace": "ns", "annotations": {"a": "b"}},
            "data": {"one": "first line\nsecond line\n", "two": "short"}, "binaryData": {"bin": "AAECAwQ="},
        });
        let mut out = String::new();
        config_map(&mut out, &Object::from_value(map).expect("a map"));
        super::super::text::events(&mut out, Vec::new());
        assert_eq!(
            align(&out),
            "Name:         words\nNamespace:    ns\nLabels:       <none>\nAnnotations:  a: b\n\nData\n====\none:\n----\n\
             first line\nsecond line\n\n\ntwo:\n----\nshort\n\n\nBinaryData\n====\nbin: 5 bytes\n\nEvents:  <none>\n"
        );
        let class = json!({
            "metadata": {"name": "system-node-critical"}, "value": 2_000_001_000, "preemptionPolicy": "PreemptLowerPriority",
            "description": "Used for system critical pods that must not be moved from their current node.",
        });
        let mut out = String::new();
        priority_class(&mut out, &Object::from_value(class).expect("a map"));
        super::super::text::events(&mut out, Vec::new());
        assert_eq!(
            align(&out),
            "Name:              system-node-critical\nValue:             2000001000\nGlobalDefault:     false\n\
             PreemptionPolicy:  PreemptLowerPriority\n\
             Description:       Used for system critical pods that must not be moved from their current node.\n\
             Annotations:       <none>\nEvents:            <none>\n"
        );
    }
}
