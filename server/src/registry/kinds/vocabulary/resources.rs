//! The rules of requests and limits: names of resources, amounts, and what they are to each other.

use std::collections::HashSet;

use listwatch_proto::resource::Quantity;
use serde_json::Value;

use super::faults::{Faults, Path};
use super::fields::{entries, has, items, text};
use super::names;

/// What a container may ask for without a domain in its name.
const OF_CONTAINERS: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// What has a name without a domain at all.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
/// What is counted in whole things, beside extended resources.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Whether a quota can count it by a name without a domain, huge pages apart: all of those but volumes' own size.
pub(in crate::registry::kinds) fn is_counted(name: &str) -> bool {
    name != "storage" && STANDARD.contains(&name)
}

/// Whose resources are judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::registry::kinds) enum Of {
    Container,
    Pod,
}

/// Every fault of requests and limits.
pub(in crate::registry::kinds) fn validate(spec: &Value, resources: &Value, of: Of, path: &Path, faults: &mut Faults) {
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    let mut huge = false;
    for (key, value) in entries(&resources["limits"]) {
        resource(key, value, of, &limits.key(key), faults);
        huge |= is_huge(key);
    }
    for (key, value) in entries(&resources["requests"]) {
        resource(key, value, of, &requests.key(key), faults);
        huge |= is_huge(key);
        let (Some(request), limit) = (amount(value), amount(&resources["limits"][key])) else { continue };
        match limit {
            Some(limit) if request != limit && !may_exceed(key) => {
                faults.invalid(&requests, request, &format!("must be equal to {key} limit of {limit}"));
            }
            Some(limit) if request > limit => {
                faults.invalid(&requests, request, &format!("must be less than or equal to {key} limit of {limit}"));
            }
            None if !may_exceed(key) => faults.required(&limits, "Limit must be set for non overcommitable resources"),
            _ => {}
        }
    }
    let plain = |key: &str| has(&resources["limits"], key) || has(&resources["requests"], key);
    if huge && !plain("cpu") && !plain("memory") {
        faults.forbidden(path, "HugePages require cpu or memory");
    }
    claims(spec, resources, &path.child("claims"), faults);
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// A name without a domain, or in that of Kubernetes.
pub(in crate::registry::kinds) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified(&format!("requests.{name}")).is_empty()
}

/// Whether more may be promised than there is.
pub(in crate::registry::kinds) fn may_exceed(name: &str) -> bool {
    is_native(name) && !is_huge(name)
}

/// One resource: its name, and an amount that is not below zero and in units that there are.
fn resource(name: &str, value: &Value, of: Of, path: &Path, faults: &mut Faults) {
    match of {
        Of::Pod => {
            let before = faults.len();
            standard_name(name, path, faults);
            if faults.len() == before && !matches!(name, "cpu" | "memory") && !is_huge(name) {
                faults.not_supported(path, name, &["cpu", "hugepages-", "memory"]);
            }
        }
        Of::Container => container_resource_name(name, path, faults),
    }
    let Some(Ok(amount)) = value.as_str().map(str::parse::<Quantity>) else { return };
    quantity(name, amount, path, faults);
    let page = name.strip_prefix("hugepages-").map(str::parse::<Quantity>);
    if is_huge(name) {
        let pages = match page {
            Some(Ok(page)) if page.value() > 0 => amount.value() % page.value() == 0,
            _ => false,
        };
        if !pages {
            faults.invalid(path, amount, &format!("{amount} is not positive integer multiple of {name}"));
        }
    }
}

/// What a container may ask for.
pub(in crate::registry::kinds) fn container_resource_name(name: &str, path: &Path, faults: &mut Faults) {
    standard_name(name, path, faults);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !is_huge(name) {
            faults.invalid(path, name, "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        faults.invalid(path, name, "doesn't follow extended resource name standard");
    }
}

/// A name that is standard or has a domain.
pub(in crate::registry::kinds) fn standard_name(name: &str, path: &Path, faults: &mut Faults) {
    let wrong = names::qualified(name);
    if !wrong.is_empty() {
        faults.invalid_all(path, name, wrong);
    } else if !name.contains('/')
        && !STANDARD.contains(&name)
        && !is_huge(name)
        && !name.starts_with("requests.hugepages-")
    {
        faults.invalid(path, name, "must be a standard resource type or fully qualified");
    }
}

/// An amount that is not below zero, and whole where there are no halves.
pub(in crate::registry::kinds) fn quantity(name: &str, amount: Quantity, path: &Path, faults: &mut Faults) {
    if amount.is_negative() {
        faults.invalid(path, amount, "must be greater than or equal to 0");
    }
    if (WHOLE.contains(&name) || is_extended(name)) && amount.milli_value() % 1000 != 0 {
        faults.invalid(path, amount, "must be an integer");
    }
}

fn claims(spec: &Value, resources: &Value, path: &Path, faults: &mut Faults) {
    let mut known: Vec<&str> =
        items(spec, "resourceClaims").iter().map(|claim| text(claim, "name")).filter(|n| !n.is_empty()).collect();
    known.sort_unstable();
    let mut seen: HashSet<(&str, &str)> = HashSet::new();
    for (i, claim) in items(resources, "claims").iter().enumerate() {
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        let path = path.index(i);
        if name.is_empty() {
            faults.required(&path, "");
            continue;
        }
        if seen.contains(&(name, "")) {
            faults.duplicate(&path, name);
        } else {
            if !request.is_empty() {
                faults.invalid_all(&path.child("request"), request, names::label(request, false));
            }
            if seen.contains(&(name, request)) {
                faults.duplicate(&path, format!("{name}/{request}").as_str());
            } else if request.is_empty() && seen.iter().any(|(own, _)| *own == name) {
                faults.duplicate(&path, name);
            }
            seen.insert((name, request));
        }
        if !known.contains(&name) {
            let why = if known.is_empty() {
                "must be one of the names in pod.spec.resourceClaims which is empty".to_owned()
            } else {
                format!("must be one of the names in pod.spec.resourceClaims: {}", known.join(", "))
            };
            faults.not_found_because(&path, name, &why);
        }
    }
}
