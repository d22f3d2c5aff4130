//! What a role allows: rules on resources, and on paths that are none (Kubernetes 1.36, `rbac/validation`).

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::items;

/// Every fault of `rules`. Within a namespace there are no paths to allow.
pub(super) fn validate(role: &Object, namespaced: bool, faults: &mut Faults) {
    let rules = role.at(&["rules"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for (i, rule) in rules.iter().enumerate() {
        policy_rule(rule, namespaced, &Path::new("rules").index(i), faults);
    }
}

fn policy_rule(rule: &Value, namespaced: bool, path: &Path, faults: &mut Faults) {
    let has_any = |key: &str| !items(rule, key).is_empty();
    if !has_any("verbs") {
        faults.required(&path.child("verbs"), "verbs must contain at least one value");
    }
    if has_any("nonResourceURLs") {
        let (at, shown) = (path.child("nonResourceURLs"), &rule["nonResourceURLs"]);
        if namespaced {
            faults.invalid(&at, shown, "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].into_iter().any(has_any) {
            faults.invalid(&at, shown, "rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if !has_any("apiGroups") {
        faults.required(&path.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if !has_any("resources") {
        faults.required(&path.child("resources"), "resource rules must supply at least one resource");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rule_is_of_resources_or_of_paths() {
        let told = |rule: Value, namespaced: bool| -> Vec<String> {
            let role = Object::from_value(json!({"rules": [rule]})).expect("a map");
            let mut faults = Faults::new();
            validate(&role, namespaced, &mut faults);
            faults.told()
        };
        assert!(told(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), true).is_empty());
        assert!(told(json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}), false).is_empty());
        let mixed = json!({"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]});
        assert_eq!(
            told(mixed, true),
            [
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
                "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and \
                 non-resource URLs",
            ]
        );
        assert_eq!(told(json!({}), true).len(), 3);
    }
}
