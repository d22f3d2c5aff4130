//! What pods and claims of a namespace may ask for, and what containers get that ask for nothing (upstream's LimitRanger
//! plugin, Kubernetes 1.36).

use std::collections::BTreeMap;

use listwatch_proto::resource::{Kind, Object, PodResources, Quantity, Resources, Status, quota};
use serde_json::{Map, Value};

use super::super::Registry;

/// Where it is noted what a pod was given.
const NOTE: &str = "kubernetes.io/limit-ranger";
/// Above this, amounts are compared in whole units (`resource.MaxMilliValue`).
const MILLI_MAX: i64 = i64::MAX / 1000;

impl Registry {
    /// Gives the containers of a new pod what the limits of its namespace say by default.
    pub(super) async fn admit_default_limits(&self, pod: &mut Object) -> Result<(), Status> {
        for range in self.all_of("LimitRange", pod.namespace()).await? {
            fill_in(pod, &range);
        }
        Ok(())
    }

    /// Refuses a pod or a claim that asks for more or less than the limits of its namespace allow. A change of what is on
    /// its way out is not judged.
    pub(super) async fn admit_limits(
        &self,
        kind: &'static Kind,
        object: &Object,
        old: Option<&Object>,
    ) -> Result<(), Status> {
        if old.is_some_and(Object::is_terminating) {
            return Ok(());
        }
        for range in self.all_of("LimitRange", object.namespace()).await? {
            let faults = if kind.kind == "Pod" { pod_faults(object, &range) } else { claim_faults(object, &range) };
            if let Some(why) = aggregate(faults) {
                return Err(Status::forbidden(kind, object.name(), &why));
            }
        }
        Ok(())
    }
}

/// Several faults as one, each told once.
fn aggregate(faults: Vec<String>) -> Option<String> {
    let mut told: Vec<String> = Vec::new();
    for fault in faults {
        if !told.contains(&fault) {
            told.push(fault);
        }
    }
    match told.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        more => Some(format!("[{}]", more.join(", "))),
    }
}

fn limits(range: &Object) -> &[Value] {
    range.at(&["spec", "limits"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Writes the defaults of a range into the containers that have none, and notes it on the pod.
fn fill_in(pod: &mut Object, range: &Object) {
    let (mut requests, mut maxima) = (BTreeMap::new(), BTreeMap::new());
    for limit in limits(range).iter().filter(|limit| limit["type"] == "Container") {
        for (key, into) in [("defaultRequest", &mut requests), ("default", &mut maxima)] {
            for (name, amount) in limit[key].as_object().into_iter().flatten() {
                into.insert(name.clone(), amount.clone());
            }
        }
    }
    let mut notes = Vec::new();
    for (list, what) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.0.get_mut("spec").and_then(|spec| spec.get_mut(list)).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            for (key, word, defaults) in [("requests", "request", &requests), ("limits", "limit", &maxima)] {
                let set = fill_in_list(container, key, defaults);
                if !set.is_empty() {
                    notes.push(format!("{} {word} for {what} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod.set(&["metadata", "annotations", NOTE], note);
    }
}

/// The names that were missing, and are set now.
fn fill_in_list(container: &mut Value, key: &str, defaults: &BTreeMap<String, Value>) -> Vec<String> {
    let missing: Vec<(&String, &Value)> =
        defaults.iter().filter(|(name, _)| container["resources"][key][name.as_str()].is_null()).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    let resources = &mut container["resources"];
    if !resources.is_object() {
        *resources = Value::Object(Map::new());
    }
    if !resources[key].is_object() {
        resources[key] = Value::Object(Map::new());
    }
    for (name, amount) in &missing {
        container["resources"][key][name.as_str()] = (*amount).clone();
    }
    missing.into_iter().map(|(name, _)| name.clone()).collect()
}

fn claim_faults(claim: &Object, range: &Object) -> Vec<String> {
    let asks =
        Asks { requests: quota::amounts(claim.at(&["spec", "resources", "requests"])), limits: Resources::new() };
    let mut faults = Vec::new();
    for limit in limits(range).iter().filter(|limit| limit["type"] == "PersistentVolumeClaim") {
        let of = "PersistentVolumeClaim";
        for (name, least) in quota::amounts(limit.get("min")) {
            faults.extend(asks.below(of, &name, least));
        }
        for (name, most) in quota::amounts(limit.get("max")) {
            faults.extend(asks.request_above(of, &name, most));
        }
    }
    faults
}

fn pod_faults(pod: &Object, range: &Object) -> Vec<String> {
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    let Ok(mut whole) = PodResources::of_spec(spec) else { return Vec::new() };
    whole.overhead.clear();
    let pod = Asks { requests: whole.requests(), limits: whole.limits() };
    let containers: Vec<Asks> = whole
        .containers
        .iter()
        .chain(&whole.init_containers)
        .map(|container| Asks {
            requests: container.resources.requests.clone(),
            limits: container.resources.limits.clone(),
        })
        .collect();
    let mut faults = Vec::new();
    for limit in limits(range) {
        match limit["type"].as_str().unwrap_or_default() {
            "Container" => containers.iter().for_each(|asks| faults.extend(asks.faults("Container", limit))),
            "Pod" => faults.extend(pod.faults("Pod", limit)),
            _ => {}
        }
    }
    faults
}

/// What something asks for.
struct Asks {
    requests: Resources,
    limits: Resources,
}

impl Asks {
    fn faults(&self, of: &str, limit: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, least) in quota::amounts(limit.get("min")) {
            faults.extend(self.below(of, &name, least));
        }
        for (name, most) in quota::amounts(limit.get("max")) {
            faults.extend(self.above(of, &name, most));
        }
        for (name, most) in quota::amounts(limit.get("maxLimitRequestRatio")) {
            faults.extend(self.ratio_above(of, &name, most));
        }
        faults
    }

    fn below(&self, of: &str, name: &str, least: Quantity) -> Option<String> {
        let told =
            |what: &str, amount: Quantity| format!("minimum {name} usage per {of} is {least}, but {what} is {amount}");
        let Some(request) = self.requests.get(name) else {
            return Some(format!("minimum {name} usage per {of} is {least}.  No request is specified"));
        };
        if less(*request, least) {
            return Some(told("request", *request));
        }
        self.limits.get(name).filter(|limit| less(**limit, least)).map(|limit| told("limit", *limit))
    }

    fn above(&self, of: &str, name: &str, most: Quantity) -> Option<String> {
        let told =
            |what: &str, amount: Quantity| format!("maximum {name} usage per {of} is {most}, but {what} is {amount}");
        let Some(limit) = self.limits.get(name) else {
            return Some(format!("maximum {name} usage per {of} is {most}.  No limit is specified"));
        };
        if less(most, *limit) {
            return Some(told("limit", *limit));
        }
        self.requests.get(name).filter(|request| less(most, **request)).map(|request| told("request", *request))
    }

    fn request_above(&self, of: &str, name: &str, most: Quantity) -> Option<String> {
        match self.requests.get(name) {
            None => Some(format!("maximum {name} usage per {of} is {most}.  No request is specified")),
            Some(request) if less(most, *request) => {
                Some(format!("maximum {name} usage per {of} is {most}, but request is {request}"))
            }
            Some(_) => None,
        }
    }

    fn ratio_above(&self, of: &str, name: &str, most: Quantity) -> Option<String> {
        let none = |what: &str| {
            Some(format!(
                "{name} max limit to request ratio per {of} is {most}, but no {what} is specified or {what} is 0"
            ))
        };
        let amount = |list: &Resources| list.get(name).copied().filter(|amount| !amount.is_zero());
        let Some(request) = amount(&self.requests) else { return none("request") };
        let Some(limit) = amount(&self.limits) else { return none("limit") };
        let (request, limit) = comparable(request, limit);
        let ratio = limit as f64 / request as f64;
        let allowed = if most.value() <= MILLI_MAX { most.milli_value() as f64 / 1000.0 } else { most.value() as f64 };
        (ratio > allowed)
            .then(|| format!("{name} max limit to request ratio per {of} is {most}, but provided ratio is {ratio:.6}"))
    }
}

/// Two amounts in the finest unit in which both can be told.
fn comparable(one: Quantity, other: Quantity) -> (i64, i64) {
    if one.value() <= MILLI_MAX && other.value() <= MILLI_MAX {
        (one.milli_value(), other.milli_value())
    } else {
        (one.value(), other.value())
    }
}

fn less(one: Quantity, other: Quantity) -> bool {
    let (one, other) = comparable(one, other);
    one < other
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    fn range(limit: Value) -> Object {
        object(json!({"spec": {"limits": [limit]}}))
    }

    fn pod(resources: Value) -> Object {
        object(json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}))
    }

    #[test]
    fn what_is_left_out_is_filled_in_and_noted() {
        let mut pod = pod(json!({"limits": {"cpu": "2"}}));
        let range = range(json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "100m"}}));
        fill_in(&mut pod, &range);
        let resources = &pod.at(&["spec", "containers"]).expect("containers")[0]["resources"];
        assert_eq!(*resources, json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "100m"}}));
        assert_eq!(
            pod.annotation(NOTE),
            Some("LimitRanger plugin set: cpu request for container c; memory limit for container c")
        );
    }

    #[test]
    fn what_is_too_little_or_too_much_is_told() {
        let told = |resources: Value, limit: Value| pod_faults(&pod(resources), &range(limit));
        let of_containers = |more: Value| {
            let mut limit = json!({"type": "Container"});
            more.as_object().expect("a map").iter().for_each(|(key, value)| limit[key] = value.clone());
            limit
        };
        assert_eq!(
            told(json!({}), of_containers(json!({"min": {"cpu": "1"}, "max": {"cpu": "2"}}))),
            [
                "minimum cpu usage per Container is 1.  No request is specified",
                "maximum cpu usage per Container is 2.  No limit is specified",
            ]
        );
        assert_eq!(
            told(
                json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "3"}}),
                of_containers(json!({"min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "4"}}))
            ),
            [
                "minimum cpu usage per Container is 1, but request is 500m",
                "maximum cpu usage per Container is 2, but limit is 3",
                "cpu max limit to request ratio per Container is 4, but provided ratio is 6.000000",
            ]
        );
        assert_eq!(
            told(json!({"limits": {"memory": "2Gi"}}), json!({"type": "Pod", "max": {"memory": "1Gi"}})),
            ["maximum memory usage per Pod is 1Gi, but limit is 2Gi"]
        );
        let claim = object(json!({"spec": {"resources": {"requests": {"storage": "1Gi"}}}}));
        let limit = json!({"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "512Mi"}});
        assert_eq!(
            aggregate(claim_faults(&claim, &range(limit))).as_deref(),
            Some(
                "[minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi, maximum storage usage per \
                 PersistentVolumeClaim is 512Mi, but request is 1Gi]"
            )
        );
    }
}
