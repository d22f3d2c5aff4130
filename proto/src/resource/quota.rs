//! What an object uses of a quota, and which quotas concern it (Kubernetes 1.36, `pkg/quota/v1`).
//!
//! Invariant: the server that charges a quota and the controller that counts it anew judge an object by these functions
//! alone, so that a recount finds what was charged.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::requests::{CPU, EPHEMERAL_STORAGE, MEMORY};
use super::{Kind, Object, PodResources, QosClass, Quantity, Resources, parse_time};

/// What stands between the name of a class of storage and what is counted of it.
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
/// An older way for a claim to name its class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// What a pod must ask for where a quota counts it.
const ASKED_FOR: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Whether objects of a kind are counted at all: Events are many, go by themselves, and are not.
pub fn is_counted(kind: &Kind) -> bool {
    kind.namespaced && kind.is_kept() && kind.kind != "Event"
}

/// `count/pods`, `count/deployments.apps`.
pub fn count_name(kind: &Kind) -> String {
    let dot = if kind.group.is_empty() { "" } else { "." };
    format!("count/{}{dot}{}", kind.plural, kind.group)
}

/// Whether objects of a kind may use what a quota calls by this name.
pub fn counts(kind: &Kind, name: &str) -> bool {
    if name == count_name(kind) {
        return true;
    }
    match (kind.group, kind.plural) {
        ("", "pods") => pod_counts(name),
        ("", "persistentvolumeclaims") => {
            let of = name.rsplit_once(OF_CLASS).map_or(name, |(_, of)| of);
            matches!(of, "persistentvolumeclaims" | "requests.storage")
        }
        ("", "services") => matches!(name, "services" | "services.nodeports" | "services.loadbalancers"),
        ("", "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets") => name == kind.plural,
        _ => false,
    }
}

fn pod_counts(name: &str) -> bool {
    let of_kind =
        |prefix: &str| name.strip_prefix(prefix).is_some_and(|of| [CPU, MEMORY, EPHEMERAL_STORAGE].contains(&of));
    let extended = name.contains('/') && !name.contains("kubernetes.io/");
    name == "pods"
        || of_kind("")
        || of_kind("requests.")
        || of_kind("limits.")
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || (extended && name.starts_with("requests."))
}

/// What an object uses, by the names of quotas. A pod that has ended, or should have, only counts as an object.
pub fn usage(kind: &Kind, object: &Object, now: Timestamp) -> Resources {
    let mut used = Resources::from([(count_name(kind), Quantity::units(1))]);
    match (kind.group, kind.plural) {
        ("", "pods") => add_pod(object, now, &mut used),
        ("", "persistentvolumeclaims") => add_claim(object, &mut used),
        ("", "services") => add_service(object, &mut used),
        ("", "configmaps" | "resourcequotas" | "replicationcontrollers" | "secrets") => {
            used.insert(kind.plural.to_owned(), Quantity::units(1));
        }
        _ => {}
    }
    used
}

fn add_pod(pod: &Object, now: Timestamp, used: &mut Resources) {
    if has_ended(pod, now) {
        return;
    }
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    let Ok(asks) = PodResources::of_spec(spec) else { return };
    used.extend(compute(&asks.requests(), &asks.limits()));
}

/// Whether a pod holds nothing any more: it has ended, or its grace is over and its node silent.
fn has_ended(pod: &Object, now: Timestamp) -> bool {
    if matches!(pod.text(&["status", "phase"]), "Failed" | "Succeeded") {
        return true;
    }
    let due = pod.deletion_timestamp().and_then(parse_time);
    let grace = pod.int(&["metadata", "deletionGracePeriodSeconds"]);
    let (Some(due), Some(grace)) = (due, grace) else { return false };
    due.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now > end)
}

/// Requests and limits by the names of quotas.
fn compute(requests: &Resources, limits: &Resources) -> Resources {
    let mut used = Resources::from([("pods".to_owned(), Quantity::units(1))]);
    for name in [CPU, MEMORY, EPHEMERAL_STORAGE] {
        if let Some(request) = requests.get(name) {
            used.insert(name.to_owned(), *request);
            used.insert(format!("requests.{name}"), *request);
        }
        if let Some(limit) = limits.get(name) {
            used.insert(format!("limits.{name}"), *limit);
        }
    }
    for (name, request) in requests {
        let pages = name.starts_with("hugepages-");
        if pages {
            used.insert(name.clone(), *request);
        }
        if pages || (name.contains('/') && !name.contains("kubernetes.io/")) {
            used.insert(format!("requests.{name}"), *request);
        }
    }
    used
}

fn add_claim(claim: &Object, used: &mut Resources) {
    let class = claim.annotation(CLASS_ANNOTATION).unwrap_or_else(|| claim.text(&["spec", "storageClassName"]));
    let mut put = |name: &str, amount: Quantity| {
        used.insert(name.to_owned(), amount);
        if !class.is_empty() {
            used.insert(format!("{class}{OF_CLASS}{name}"), amount);
        }
    };
    put("persistentvolumeclaims", Quantity::units(1));
    let amount = |path: &[&str]| claim.at(path).and_then(|amount| Quantity::from_json(amount).ok()).map(whole);
    let Some(asked) = amount(&["spec", "resources", "requests", "storage"]) else { return };
    // What was set aside for a growth that failed is still held.
    let held = amount(&["status", "allocatedResources", "storage"]).filter(|held| *held > asked);
    put("requests.storage", held.unwrap_or(asked));
}

/// Rounded up to whole units.
fn whole(amount: Quantity) -> Quantity {
    if amount.nanos() % 1_000_000_000 == 0 { amount } else { Quantity::units(amount.value()) }
}

fn add_service(service: &Object, used: &mut Resources) {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let count = |count: usize| Quantity::units(i64::try_from(count).unwrap_or(i64::MAX));
    let (balancers, node_ports) = match service.text(&["spec", "type"]) {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" => {
            let allocates = service.at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(&Value::Bool(false));
            let own = ports.iter().filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0).count();
            (1, if allocates { ports.len() } else { own })
        }
        _ => (0, 0),
    };
    used.insert("services".to_owned(), Quantity::units(1));
    used.insert("services.loadbalancers".to_owned(), count(balancers));
    used.insert("services.nodeports".to_owned(), count(node_ports));
}

/// Whether an object is in all scopes of a quota; what knows no scopes is in none.
pub fn in_scopes(quota: &Object, kind: &Kind, object: &Object) -> bool {
    let list = |path: &[&str]| quota.at(path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let exists = |scope: &Value| in_scope(scope.as_str().unwrap_or_default(), "Exists", &[], kind, object);
    let selected = |requirement: &Value| {
        let text = |key: &str| requirement[key].as_str().unwrap_or_default();
        let values = requirement["values"].as_array().map_or(&[][..], Vec::as_slice);
        in_scope(text("scopeName"), text("operator"), values, kind, object)
    };
    list(&["spec", "scopes"]).iter().all(exists)
        && list(&["spec", "scopeSelector", "matchExpressions"]).iter().all(selected)
}

fn in_scope(scope: &str, operator: &str, values: &[Value], kind: &Kind, object: &Object) -> bool {
    match (kind.group, kind.plural) {
        ("", "pods") => pod_in_scope(scope, operator, values, object),
        ("", "persistentvolumeclaims") if scope == "VolumeAttributesClass" => {
            let names = [
                object.text(&["spec", "volumeAttributesClassName"]),
                object.text(&["status", "currentVolumeAttributesClassName"]),
                object.text(&["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"]),
            ];
            let mut names = names.into_iter().filter(|name| !name.is_empty()).peekable();
            if names.peek().is_none() {
                return selects(operator, values, None);
            }
            names.any(|name| selects(operator, values, Some(name)))
        }
        _ => false,
    }
}

fn pod_in_scope(scope: &str, operator: &str, values: &[Value], pod: &Object) -> bool {
    let best_effort = || {
        let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
        PodResources::of_spec(spec).is_ok_and(|asks| asks.qos_class() == QosClass::BestEffort)
    };
    match scope {
        "Terminating" => is_limited_in_time(pod),
        "NotTerminating" => !is_limited_in_time(pod),
        "BestEffort" => best_effort(),
        "NotBestEffort" => !best_effort(),
        "PriorityClass" => {
            let class = pod.text(&["spec", "priorityClassName"]);
            selects(operator, values, Some(class).filter(|class| !class.is_empty()))
        }
        "CrossNamespacePodAffinity" => reaches_other_namespaces(pod),
        _ => false,
    }
}

/// Whether a pod has a deadline: what the scopes call terminating.
pub fn is_limited_in_time(pod: &Object) -> bool {
    pod.int(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

fn selects(operator: &str, values: &[Value], own: Option<&str>) -> bool {
    let named = own.is_some_and(|own| values.iter().any(|value| value == own));
    match operator {
        "Exists" => own.is_some(),
        "DoesNotExist" => own.is_none(),
        "In" => named,
        "NotIn" => !named,
        _ => false,
    }
}

fn reaches_other_namespaces(pod: &Object) -> bool {
    let reaches = |term: &Value| {
        term["namespaces"].as_array().is_some_and(|list| !list.is_empty()) || !term["namespaceSelector"].is_null()
    };
    let list = |path: &[&str]| pod.at(path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        list(&["spec", "affinity", kind, "requiredDuringSchedulingIgnoredDuringExecution"]).iter().any(reaches)
            || list(&["spec", "affinity", kind, "preferredDuringSchedulingIgnoredDuringExecution"])
                .iter()
                .any(|preferred| reaches(&preferred["podAffinityTerm"]))
    })
}

/// What containers of a pod do not ask for, of what a quota counts: `must specify limits.cpu for: a,b`. A pod that asks as
/// a whole has said enough.
pub fn missing<'a>(pod: &Object, counted: impl Iterator<Item = &'a str>) -> Option<String> {
    let spec = pod.at(&["spec"]).unwrap_or(&Value::Null);
    let asks = PodResources::of_spec(spec).ok()?;
    if asks.resources.as_ref().is_some_and(|own| !own.requests.is_empty() || !own.limits.is_empty()) {
        return None;
    }
    let mut required: Vec<&str> = counted.filter(|name| ASKED_FOR.contains(name)).collect();
    required.sort_unstable();
    let list = |key: &str| spec[key].as_array().map_or(&[][..], Vec::as_slice);
    let names = list("containers").iter().chain(list("initContainers"));
    let containers: Vec<(&str, Resources)> = names
        .zip(asks.containers.iter().chain(&asks.init_containers))
        .map(|(own, asks)| {
            let used = compute(&asks.resources.requests, &asks.resources.limits);
            (own["name"].as_str().unwrap_or_default(), used)
        })
        .collect();
    let mut told = Vec::new();
    for name in required {
        let mut without: Vec<&str> =
            containers.iter().filter(|(_, used)| !used.contains_key(name)).map(|(own, _)| *own).collect();
        without.sort_unstable();
        without.dedup();
        if !without.is_empty() {
            told.push(format!("{name} for: {}", without.join(",")));
        }
    }
    (!told.is_empty()).then(|| format!("must specify {}", told.join("; ")))
}

/// The amounts of a list such as `status.used`; what is no amount counts as nothing.
pub fn amounts(list: Option<&Value>) -> Resources {
    let list = list.and_then(Value::as_object).into_iter().flatten();
    list.map(|(name, amount)| (name.clone(), Quantity::from_json(amount).unwrap_or(Quantity::ZERO))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).expect("a map")
    }

    fn kind(name: &str) -> &'static Kind {
        Kind::by_name(name).expect(name)
    }

    fn shown(used: &Resources) -> Vec<String> {
        used.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    fn now() -> Timestamp {
        parse_time("2030-01-01T00:00:00Z").expect("a time")
    }

    #[test]
    fn a_pod_uses_what_it_asks_for_until_it_ends() {
        let mut pod = object(json!({"spec": {"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "500m", "example.com/gpu": "1", "hugepages-2Mi": "4Mi"}, "limits": {"memory": "1Gi"}}}]}}));
        assert_eq!(
            shown(&usage(kind("pod"), &pod, now())),
            [
                "count/pods=1",
                "cpu=500m",
                "hugepages-2Mi=4Mi",
                "limits.memory=1Gi",
                "memory=1Gi",
                "pods=1",
                "requests.cpu=500m",
                "requests.example.com/gpu=1",
                "requests.hugepages-2Mi=4Mi",
                "requests.memory=1Gi",
            ]
        );
        pod.set(&["metadata", "deletionTimestamp"], "2029-12-31T23:00:00Z");
        pod.set(&["metadata", "deletionGracePeriodSeconds"], 30);
        assert_eq!(shown(&usage(kind("pod"), &pod, now())), ["count/pods=1"]);
        let ended = object(json!({"status": {"phase": "Succeeded"}, "spec": {"containers": []}}));
        assert_eq!(shown(&usage(kind("pod"), &ended, now())), ["count/pods=1"]);
    }

    #[test]
    fn claims_and_services_use_what_they_hold() {
        let claim = object(json!({
            "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"allocatedResources": {"storage": "2Gi"}},
        }));
        assert_eq!(
            shown(&usage(kind("persistentvolumeclaim"), &claim, now())),
            [
                "count/persistentvolumeclaims=1",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1",
                "gold.storageclass.storage.k8s.io/requests.storage=2Gi",
                "persistentvolumeclaims=1",
                "requests.storage=2Gi",
            ]
        );
        let ports = json!([{"port": 1, "nodePort": 30000}, {"port": 2}]);
        let service = |spec: Value| shown(&usage(kind("service"), &object(json!({"spec": spec})), now()));
        let balancer = service(json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false}));
        assert_eq!(balancer[2..], ["services.loadbalancers=1", "services.nodeports=1"]);
        assert_eq!(service(json!({"type": "NodePort", "ports": ports}))[3], "services.nodeports=2");
        assert_eq!(service(json!({"ports": ports}))[3], "services.nodeports=0");
    }

    #[test]
    fn names_belong_to_the_kinds_that_use_them() {
        for (of, name, counted) in [
            ("pod", "requests.example.com/gpu", true),
            ("pod", "requests.storage", false),
            ("pod", "hugepages-2Mi", true),
            ("persistentvolumeclaim", "gold.storageclass.storage.k8s.io/requests.storage", true),
            ("configmap", "configmaps", true),
            ("configmap", "count/configmaps", true),
            ("deployment", "count/deployments.apps", true),
            ("deployment", "count/deployments", false),
            ("service", "services.nodeports", true),
        ] {
            assert_eq!(counts(kind(of), name), counted, "{of} {name}");
        }
        assert!(!is_counted(kind("event")) && !is_counted(kind("node")) && is_counted(kind("lease")));
    }

    #[test]
    fn scopes_tell_pods_apart() {
        let quota = |spec: Value| object(json!({"spec": spec}));
        let plain = object(json!({"spec": {"containers": [{"name": "c"}], "priorityClassName": "high"}}));
        let mut timed = plain.clone();
        timed.set(&["spec", "activeDeadlineSeconds"], 5);
        let is_in = |spec: Value, pod: &Object| in_scopes(&quota(spec), kind("pod"), pod);
        assert!(is_in(json!({}), &plain));
        assert!(is_in(json!({"scopes": ["BestEffort", "NotTerminating"]}), &plain));
        assert!(!is_in(json!({"scopes": ["BestEffort", "NotTerminating"]}), &timed));
        let class = |operator: &str, values: Value| {
            json!({"scopeSelector": {"matchExpressions": [
                {"scopeName": "PriorityClass", "operator": operator, "values": values}]}})
        };
        assert!(is_in(class("In", json!(["high"])), &plain));
        assert!(!is_in(class("NotIn", json!(["high"])), &plain));
        assert!(is_in(class("Exists", json!([])), &plain));
        assert!(!in_scopes(&quota(json!({"scopes": ["BestEffort"]})), kind("configmap"), &object(json!({}))));
    }

    #[test]
    fn what_is_counted_must_be_asked_for() {
        let pod = object(json!({"spec": {
            "containers": [{"name": "b"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}],
            "initContainers": [{"name": "i"}]}}));
        let told = missing(&pod, ["pods", "requests.cpu", "limits.memory", "requests.storage"].into_iter());
        assert_eq!(told.as_deref(), Some("must specify limits.memory for: a,b,i; requests.cpu for: b,i"));
        assert_eq!(missing(&pod, ["pods"].into_iter()), None);
        let mut whole = pod.clone();
        whole.set(&["spec", "resources", "requests", "cpu"], "2");
        assert_eq!(missing(&whole, ["requests.cpu"].into_iter()), None);
    }
}
