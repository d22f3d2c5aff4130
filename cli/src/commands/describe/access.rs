//! The descriptions of who may do what: Secrets, service accounts, roles and their bindings.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::small::{decoded_length, identity};
use super::text::{annotations, field, multiline, pairs};
use crate::commands::rules;

/// A Secret; it has no Events, and what it holds is not shown.
pub(super) fn secret(out: &mut String, object: &Object) {
    identity(out, object);
    out.push_str(&format!("\nType:\t{}\n\nData\n====\n", object.text(&["type"])));
    let data = object.at(&["data"]).and_then(Value::as_object);
    for (key, value) in data.into_iter().flatten() {
        out.push_str(&format!("{key}:\t{} bytes\n", decoded_length(value.as_str().unwrap_or_default())));
    }
}

/// A service account, without the Events.
pub(super) fn service_account(out: &mut String, object: &Object) {
    identity(out, object);
    let list = object.at(&["imagePullSecrets"]).and_then(Value::as_array);
    let names = list.into_iter().flatten().filter_map(|secret| secret["name"].as_str().map(str::to_owned));
    multiline(out, "Image pull secrets", &names.collect::<Vec<_>>());
}

/// Name, labels and annotations: descriptions of roles do not tell of the namespace.
fn name_and_labels(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    multiline(out, "Labels", &pairs(object.labels()));
    multiline(out, "Annotations", &annotations(object));
}

/// A Role or a ClusterRole; it has no Events.
pub(super) fn role(out: &mut String, object: &Object) {
    name_and_labels(out, object);
    out.push_str("PolicyRule:\n  Resources\tNon-Resource URLs\tResource Names\tVerbs\n");
    out.push_str("  ---------\t-----------------\t--------------\t-----\n");
    let list = object.at(&["rules"]).and_then(Value::as_array);
    for line in rules::lines(list.into_iter().flatten()) {
        out.push_str(&format!("  {}\n", line.join("\t")));
    }
}

/// A RoleBinding or a ClusterRoleBinding; it has no Events.
pub(super) fn binding(out: &mut String, object: &Object) {
    name_and_labels(out, object);
    let (kind, name) = (object.text(&["roleRef", "kind"]), object.text(&["roleRef", "name"]));
    out.push_str(&format!("Role:\n  Kind:\t{kind}\n  Name:\t{name}\n"));
    out.push_str("Subjects:\n  Kind\tName\tNamespace\n  ----\t----\t---------\n");
    let subjects = object.at(&["subjects"]).and_then(Value::as_array);
    for subject in subjects.into_iter().flatten() {
        let text = |field: &str| subject[field].as_str().unwrap_or_default();
        out.push_str(&format!("  {}\t{}\t{}\n", text("kind"), text("name"), text("namespace")));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    fn described(describe: fn(&mut String, &Object), value: Value) -> String {
        let mut out = String::new();
        describe(&mut out, &Object::from_value(value).expect("a map"));
        align(&out)
    }

    /// From the recorded session describe-misc (kubectl 1.36.3).
    #[test]
    fn access_is_described_as_kubectl_describes_it() {
        let hush = json!({
            "metadata": {"name": "hush", "namespace": "ns"}, "type": "Opaque", "data": {"empty": "", "token": "c2VjcmV0"},
        });
        assert_eq!(
            described(secret, hush),
            "Name:         hush\nNamespace:    ns\nLabels:       <none>\nAnnotations:  <none>\n\nType:  Opaque\n\n\
             Data\n====\nempty:  0 bytes\ntoken:  6 bytes\n"
        );
        let bot = json!({"metadata": {"name": "bot", "namespace": "ns"}, "imagePullSecrets": [{"name": "hush"}]});
        assert!(described(service_account, bot).ends_with("Image pull secrets:  hush\n"));
        let binding_of = json!({
            "metadata": {"name": "rb"}, "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [{"kind": "User", "name": "ann"}, {"kind": "ServiceAccount", "name": "bot", "namespace": "ns"}],
        });
        assert_eq!(
            described(binding, binding_of),
            "Name:         rb\nLabels:       <none>\nAnnotations:  <none>\nRole:\n  Kind:  Role\n  Name:  r\nSubjects:\n  \
             Kind            Name  Namespace\n  ----            ----  ---------\n  User            ann   \n  \
             ServiceAccount  bot   ns\n"
        );
        let reader = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": ["apps"], "resources": ["d"], "verbs": ["get"]}]});
        assert!(described(role, reader).contains("  d.apps     []                 []              [get]\n"));
    }
}
