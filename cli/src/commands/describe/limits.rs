//! The descriptions of what bounds a namespace: quotas and limit ranges, alone and as part of the namespace's.

use std::collections::BTreeSet;

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::text::field;

const LIMITS_HEAD: &str = "Type\tResource\tMin\tMax\tDefault Request\tDefault Limit\tMax Limit/Request Ratio";
const LIMITS_RULE: &str = "----\t--------\t---\t---\t---------------\t-------------\t-----------------------";

/// A quota; it has no Events.
pub(super) fn quota(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    scopes(out, object, "", " * ");
    out.push_str("Resource\tUsed\tHard\n--------\t----\t----\n");
    amounts(out, object, "");
}

/// A limit range; it has no Events.
pub(super) fn limit_range(out: &mut String, object: &Object) {
    field(out, "Name", object.name());
    field(out, "Namespace", object.namespace());
    out.push_str(&format!("{LIMITS_HEAD}\n{LIMITS_RULE}\n"));
    limits(out, object, "");
}

/// All quotas and limit ranges of a namespace.
pub(super) fn of_namespace(out: &mut String, quotas: &[Object], ranges: &[Object]) {
    out.push('\n');
    if quotas.is_empty() {
        out.push_str("No resource quota.\n");
    } else {
        out.push_str("Resource Quotas\n");
    }
    for quota in quotas {
        out.push_str(&format!("  Name:\t{}\n", quota.name()));
        scopes(out, quota, "  ", "  * ");
        out.push_str("  Resource\tUsed\tHard\n  --------\t---\t---\n");
        amounts(out, quota, "  ");
    }
    out.push('\n');
    if ranges.is_empty() {
        out.push_str("No LimitRange resource.\n");
        return;
    }
    out.push_str(&format!("Resource Limits\n {LIMITS_HEAD}\n {LIMITS_RULE}\n"));
    for range in ranges {
        limits(out, range, " ");
    }
}

fn scopes(out: &mut String, quota: &Object, indent: &str, mark: &str) {
    let list = quota.at(&["spec", "scopes"]).and_then(Value::as_array);
    let mut scopes: Vec<&str> = list.into_iter().flatten().filter_map(Value::as_str).collect();
    if scopes.is_empty() {
        return;
    }
    scopes.sort_unstable();
    out.push_str(&format!("{indent}Scopes:\t{}\n", scopes.join(", ")));
    for scope in scopes {
        let help = match scope {
            "Terminating" => {
                "Matches all pods that have an active deadline. These pods have a limited lifespan on a node before being \
                 actively terminated by the system."
            }
            "NotTerminating" => {
                "Matches all pods that do not have an active deadline. These pods usually include long running pods whose \
                 container command is not expected to terminate."
            }
            "BestEffort" => {
                "Matches all pods that do not have resource requirements set. These pods have a best effort quality of \
                 service."
            }
            "NotBestEffort" => {
                "Matches all pods that have at least one resource requirement set. These pods have a burstable or \
                 guaranteed quality of service."
            }
            _ => continue,
        };
        out.push_str(&format!("{mark}{help}\n"));
    }
}

fn amounts(out: &mut String, quota: &Object, indent: &str) {
    let hard = quota.at(&["status", "hard"]).and_then(Value::as_object);
    for (name, limit) in hard.into_iter().flatten() {
        let used = quota.at(&["status", "used", name]).map_or("0", |used| used.as_str().unwrap_or("0"));
        out.push_str(&format!("{indent}{name}\t{used}\t{}\n", limit.as_str().unwrap_or_default()));
    }
}

fn limits(out: &mut String, range: &Object, indent: &str) {
    const COLUMNS: [&str; 5] = ["min", "max", "defaultRequest", "default", "maxLimitRequestRatio"];
    let items = range.at(&["spec", "limits"]).and_then(Value::as_array);
    for item in items.into_iter().flatten() {
        let names = COLUMNS.iter().filter_map(|column| item[column].as_object()).flat_map(|map| map.keys());
        for name in names.collect::<BTreeSet<_>>() {
            let cells = COLUMNS.map(|column| item[column][name].as_str().unwrap_or("-"));
            let kind = item["type"].as_str().unwrap_or_default();
            out.push_str(&format!("{indent}{kind}\t{name}\t{}\n", cells.join("\t")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tabs::align;
    use super::*;
    use serde_json::json;

    /// From the recorded session describe-misc (kubectl 1.36.3).
    #[test]
    fn bounds_are_described_as_kubectl_describes_them() {
        let object = |value: Value| Object::from_value(value).expect("a map");
        let cap = object(json!({
            "metadata": {"name": "cap", "namespace": "ns"},
            "status": {"hard": {"pods": "4", "limits.memory": "1Gi"}, "used": {"pods": "0", "limits.memory": "0"}},
        }));
        let edge = object(json!({
            "metadata": {"name": "edge", "namespace": "ns"},
            "spec": {"limits": [
                {"type": "Container", "default": {"cpu": "300m"}, "min": {"cpu": "10m"}, "max": {"memory": "1Gi"}},
            ]},
        }));
        let mut out = String::new();
        quota(&mut out, &cap);
        assert_eq!(
            align(&out),
            "Name:          cap\nNamespace:     ns\nResource       Used  Hard\n--------       ----  ----\n\
             limits.memory  0     1Gi\npods           0     4\n"
        );
        let mut out = String::new();
        of_namespace(&mut out, &[cap], &[edge]);
        assert_eq!(
            align(&out),
            "\nResource Quotas\n  Name:          cap\n  Resource       Used  Hard\n  --------       ---   ---\n  \
             limits.memory  0     1Gi\n  pods           0     4\n\nResource Limits\n Type       Resource  Min  Max  \
             Default Request  Default Limit  Max Limit/Request Ratio\n ----       --------  ---  ---  ---------------  \
             -------------  -----------------------\n Container  cpu       10m  -    -                300m           -\n \
             Container  memory    -    1Gi  -                -              -\n"
        );
        let mut out = String::new();
        of_namespace(&mut out, &[], &[]);
        assert_eq!(out, "\nNo resource quota.\n\nNo LimitRange resource.\n");
    }
}
