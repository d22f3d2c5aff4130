//! What may change of a pod's status.

use std::net::IpAddr;

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::keep;
use crate::registry::kinds::vocabulary::addresses::ip;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown, quote};
use crate::registry::kinds::vocabulary::fields::{items, items_mut, text};
use crate::registry::kinds::vocabulary::{addresses, names};

/// Takes over from the old pod what a status cannot change. Which generation was seen is not forgotten by a writer that
/// does not know the field.
pub(super) fn prepare(new: &mut Object, old: &Object) {
    keep(new, old, &["spec"]);
    if new.text(&["status", "qosClass"]).is_empty() {
        new.set(&["status", "qosClass"], old.text(&["status", "qosClass"]));
    }
    // Old kubelets send owners that break the collection of garbage.
    match old.at(&["metadata", "ownerReferences"]).cloned() {
        Some(owners) => new.set(&["metadata", "ownerReferences"], owners),
        None => drop(new.remove(&["metadata", "ownerReferences"])),
    }
    let seen = |value: &Value| value["observedGeneration"].as_i64().filter(|seen| *seen != 0);
    let was = old.at(&["status"]).unwrap_or(&Value::Null);
    let status = new.at_mut(&["status"]);
    if seen(status).is_none()
        && let Some(before) = seen(was)
    {
        status["observedGeneration"] = before.into();
    }
    // A type may stand there more than once: the first goes with the first.
    let mut before: Vec<&Value> = items(was, "conditions").iter().collect();
    for condition in items_mut(status, "conditions") {
        let same = before.iter().position(|old| text(old, "type") == text(condition, "type"));
        let earlier = same.and_then(|at| seen(before.remove(at)));
        if seen(condition).is_none()
            && let Some(earlier) = earlier
        {
            condition["observedGeneration"] = earlier.into();
        }
    }
}

/// Every fault of a change of the status.
pub(super) fn validate(new: &Object, old: &Object, faults: &mut Faults) {
    let path = Path::new("status");
    let spec = new.at(&["spec"]).unwrap_or(&Value::Null);
    let (is, was) = (new.at(&["status"]).unwrap_or(&Value::Null), old.at(&["status"]).unwrap_or(&Value::Null));
    conditions(is, &path.child("conditions"), faults);
    let node = text(is, "nominatedNodeName");
    if !node.is_empty() && node != text(was, "nominatedNodeName") {
        let at = path.child("nominatedNodeName");
        faults.invalid_all(&at, node, names::subdomain(node, false));
        if !text(spec, "nodeName").is_empty() {
            faults.forbidden(&at, "may not be set on pods that are already bound to a node");
        }
    }
    if let Some(generation) = is["observedGeneration"].as_i64().filter(|g| *g < 0) {
        faults.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
    }
    if text(is, "qosClass") != text(was, "qosClass") {
        faults.invalid(&path.child("qosClass"), text(is, "qosClass"), "field is immutable");
    }
    restarted(spec, is, was, &path, faults);
    of_families(is, was, "podIPs", &path, faults);
    if let Some(first) = items(is, "hostIPs").first()
        && text(first, "ip") != text(is, "hostIP")
    {
        let at = path.child("hostIPs").index(0).child("ip");
        faults.invalid(&at, text(first, "ip"), "must be equal to `hostIP`");
    }
    of_families(is, was, "hostIPs", &path, faults);
}

fn conditions(status: &Value, path: &Path, faults: &mut Faults) {
    for (i, condition) in items(status, "conditions").iter().enumerate() {
        let path = path.index(i);
        if let Some(generation) = condition["observedGeneration"].as_i64().filter(|g| *g < 0) {
            faults.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = text(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            faults.invalid_all(&path.child("Type"), kind, names::qualified(kind));
        }
    }
}

/// At most one address of each family; what was there before may stay as it is.
fn of_families(is: &Value, was: &Value, key: &str, path: &Path, faults: &mut Faults) {
    let path = path.child(key);
    let before: Vec<&str> = items(was, key).iter().map(|entry| text(entry, "ip")).collect();
    let now: Vec<&str> = items(is, key).iter().map(|entry| text(entry, "ip")).collect();
    for (i, address) in now.iter().enumerate().filter(|(_, address)| !before.contains(*address)) {
        ip(address, &path.index(i), faults);
    }
    if now.len() < 2 {
        return;
    }
    let parsed: Vec<Option<IpAddr>> = now.iter().map(|address| addresses::parse(address)).collect();
    if let Some(wrong) = parsed.iter().position(Option::is_none) {
        let why = format!("failed to check for dual stack with error:invalid IP[{wrong}]: {}", now[wrong]);
        faults.internal(&path, &why);
    }
    let families = [parsed.iter().flatten().any(IpAddr::is_ipv4), parsed.iter().flatten().any(IpAddr::is_ipv6)];
    if now.len() > 2 || families != [true, true] {
        let shown: Vec<_> = now.iter().map(|ip| format!("{{\"IP\":{}}}", quote(ip))).collect();
        let why = "may specify no more than one IP for each IP family";
        faults.invalid(&path, Shown(format!("[{}]", shown.join(","))), why);
    }
}

/// A container that has ended for good does not come back.
fn restarted(spec: &Value, is: &Value, was: &Value, path: &Path, faults: &mut Faults) {
    let every = ["containers", "initContainers"].into_iter().flat_map(|key| items(spec, key));
    let restarts_all =
        |c: &Value| items(c, "restartPolicyRules").iter().any(|r| text(r, "action") == "RestartAllContainers");
    if every.into_iter().any(restarts_all) {
        return;
    }
    for (i, before) in items(was, "containerStatuses").iter().enumerate() {
        let ended = &before["state"]["terminated"];
        let now = items(is, "containerStatuses").iter().find(|s| text(s, "name") == text(before, "name"));
        if ended.is_null() || now.is_none_or(|now| !now["state"]["terminated"].is_null()) {
            continue;
        }
        let own = items(spec, "containers").iter().find(|c| text(c, "name") == text(before, "name"));
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        if !own.is_some_and(|container| may_restart(container, spec, code)) {
            let path = path.child("containerStatuses").index(i).child("state");
            faults.forbidden(&path, "may not be transitioned to non-terminated state");
        }
    }
}

/// Whether a container that ended with this code is started again.
fn may_restart(container: &Value, spec: &Value, code: i64) -> bool {
    for rule in items(container, "restartPolicyRules") {
        let named = items(&rule["exitCodes"], "values").iter().any(|value| value.as_i64() == Some(code));
        let applies = match text(&rule["exitCodes"], "operator") {
            "In" => named,
            "NotIn" => !named,
            _ => false,
        };
        if applies {
            return true;
        }
    }
    let own = text(container, "restartPolicy");
    match if own.is_empty() { text(spec, "restartPolicy") } else { own } {
        "Never" => false,
        "OnFailure" => code != 0,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_forgets_no_generation_and_brings_no_owner() {
        let pod = |status: Value, owner: &str| {
            let metadata = json!({"name": "p", "ownerReferences": [{"name": owner}]});
            Object::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).expect("a map")
        };
        let old = pod(
            json!({"qosClass": "Burstable", "observedGeneration": 4, "conditions": [
                {"type": "Ready", "observedGeneration": 3}, {"type": "Other", "observedGeneration": 2}]}),
            "own",
        );
        let mut new = pod(
            json!({"conditions": [{"type": "Other", "observedGeneration": 9}, {"type": "Ready"}, {"type": "Ready"}]}),
            "foreign",
        );
        prepare(&mut new, &old);
        assert_eq!(
            new.at(&["status"]),
            Some(&json!({"qosClass": "Burstable", "observedGeneration": 4, "conditions": [
                {"type": "Other", "observedGeneration": 9}, {"type": "Ready", "observedGeneration": 3}, {"type": "Ready"}]}))
        );
        assert_eq!(new.at(&["metadata", "ownerReferences"]), old.at(&["metadata", "ownerReferences"]));
    }
}
