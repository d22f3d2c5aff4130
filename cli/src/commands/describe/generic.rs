//! The description of a kind that has none of its own: every field, by its name in words.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::small::identity;

/// Fields that the head has told already, or that are of no use to a person.
const TOLD: &[&str] =
    &[".metadata.managedFields", ".metadata.name", ".metadata.namespace", ".metadata.labels", ".metadata.annotations"];

/// Describes an object, without the Events.
pub(super) fn describe(out: &mut String, object: &Object) {
    identity(out, object);
    fields(out, &Value::Object(object.0.clone()), 0, "");
}

fn fields(out: &mut String, value: &Value, level: usize, path: &str) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        if TOLD.contains(&path.as_str()) {
            continue;
        }
        let (indent, label) = ("  ".repeat(level), words(name));
        match value {
            Value::Object(_) => {
                out.push_str(&format!("{indent}{label}:\n"));
                fields(out, value, level + 1, &path);
            }
            Value::Array(items) => {
                out.push_str(&format!("{indent}{label}:\n"));
                for item in items {
                    match item {
                        Value::Object(_) => fields(out, item, level + 1, &path),
                        item => out.push_str(&format!("{indent}  {}\n", plain(item))),
                    }
                }
            }
            value => out.push_str(&format!("{indent}{label}:\t{}\n", plain(value))),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// `leaseDurationSeconds` as `Lease Duration Seconds`, `apiVersion` as `API Version`; a name that is no word of letters
/// stays.
fn words(name: &str) -> String {
    const ACRONYMS: &[&str] = &["API", "URL", "UID", "GUID"];
    if !name.chars().all(|c| c.is_alphabetic() || c == '-') {
        return name.to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    let chars: Vec<char> = name.chars().collect();
    for (index, c) in chars.iter().enumerate() {
        let before = index.checked_sub(1).map(|i| chars[i]);
        let after = chars.get(index + 1);
        let begins = match before {
            None => true,
            Some(b) => {
                (c.is_uppercase() && !b.is_uppercase())
                    || (c.is_uppercase() && b.is_uppercase() && after.is_some_and(|a| a.is_lowercase()))
                    || (*c == '-') != (b == '-')
            }
        };
        if begins {
            parts.push(String::new());
        }
        parts.last_mut().into_iter().for_each(|part| part.push(*c));
    }
    let shown = parts.into_iter().map(|part| {
        let upper = part.to_uppercase();
        if ACRONYMS.contains(&upper.as_str()) {
            return upper;
        }
        let mut chars = part.chars();
        match chars.next() {
            Some(first) if part.chars().all(|c| !c.is_uppercase()) => first.to_uppercase().chain(chars).collect(),
            _ => part,
        }
    });
    shown.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    #[test]
    fn names_are_told_in_words() {
        for (name, told) in [
            ("leaseDurationSeconds", "Lease Duration Seconds"),
            ("apiVersion", "API Version"),
            ("uid", "UID"),
            ("podIP", "Pod IP"),
            ("kubernetes.io/os", "kubernetes.io/os"),
            ("kind", "Kind"),
        ] {
            assert_eq!(words(name), told);
        }
    }

    /// From the recorded session describe-misc (kubectl 1.36.3).
    #[test]
    fn a_lease_is_described_as_kubectl_describes_it() {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "l", "namespace": "ns", "creationTimestamp": "2026-01-02T03:04:05Z", "resourceVersion": "7", "uid": "u"},
            "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 2},
        });
        let mut out = String::new();
        describe(&mut out, &Object::from_value(lease).expect("a map"));
        super::super::text::events(&mut out, Vec::new());
        assert_eq!(
            align(&out),
            "Name:         l\nNamespace:    ns\nLabels:       <none>\nAnnotations:  <none>\n\
             API Version:  coordination.k8s.io/v1\nKind:         Lease\nMetadata:\n  \
             Creation Timestamp:  2026-01-02T03:04:05Z\n  Resource Version:    7\n  UID:                 u\nSpec:\n  \
             Holder Identity:         me\n  Lease Duration Seconds:  15\n  Lease Transitions:       2\n\
             Events:                    <none>\n"
        );
    }
}
