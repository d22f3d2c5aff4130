//! The addresses of a service, their families and the policy that joins them (Kubernetes 1.36).

use std::net::IpAddr;

use listwatch_proto::resource::{Cause, Object};
use serde_json::Value;

use super::spec::{NO_ADDRESS, addresses, families, is_headless, kind, policy, set_words, spec};
use crate::registry::kinds::vocabulary::addresses::{family, ip, parse};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, text};

const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// A list as Go prints it; none at all is null.
fn shown(words: &[&str]) -> Shown {
    Shown(if words.is_empty() { "null".to_owned() } else { Value::from(words.to_vec()).to_string() })
}

/// Every fault of addresses, families and policy taken by themselves (`old`: what the service replaces).
pub(super) fn validate(spec: &Value, old: Option<&Value>, faults: &mut Faults) {
    if kind(spec) == "ExternalName" {
        return;
    }
    let path = Path::new("spec");
    let (at, own) = (path.child("clusterIPs"), addresses(spec));
    let single = text(spec, "clusterIP");
    match own.first() {
        None if !single.is_empty() => faults.required(&at, ""),
        Some(first) if !single.is_empty() && *first != single => {
            faults.invalid(&at, shown(&own), "first value must match `clusterIP`");
        }
        Some(_) if single.is_empty() => {
            faults.invalid(&at, shown(&own), "must be empty when `clusterIP` is not specified");
        }
        _ => {}
    }
    let of_families = families(spec);
    for (i, own) in of_families.iter().enumerate() {
        let at = path.child("ipFamilies").index(i);
        if !matches!(*own, "IPv4" | "IPv6") {
            faults.not_supported(&at, *own, &["IPv4", "IPv6"]);
        }
        if of_families[..i].contains(own) {
            faults.duplicate(&at, *own);
        }
    }
    if let Some(own) = policy(spec).filter(|own| !POLICIES.contains(own)) {
        faults.not_supported(&path.child("ipFamilyPolicy"), own, &POLICIES);
    }
    let known = old.map(addresses).unwrap_or_default();
    let before = faults.len();
    for (i, own_address) in own.iter().enumerate() {
        if i == 0 && *own_address == NO_ADDRESS {
            if own.len() > 1 {
                faults.invalid(&at, shown(&own), "'None' must be the first and only value");
            }
        } else if !known.contains(own_address) {
            ip(own_address, &at.index(i), faults);
        }
    }
    let any_invalid = faults.len() > before;
    if own.len() > 2 {
        faults.invalid(&at, shown(&own), "may only hold up to 2 values");
    }
    if any_invalid {
        return;
    }
    if own.len() > 1 && !is_dual(&own) {
        faults.invalid(&at, shown(&own), "may specify no more than one IP for each IP family");
    }
    if !is_headless(spec) {
        for (i, (own, wanted)) in own.iter().zip(&of_families).enumerate() {
            let fits = match *wanted {
                "IPv4" => family(own) != "IPv6",
                "IPv6" => family(own) == "IPv6",
                _ => true,
            };
            if !fits {
                let why = format!("expected an {wanted} value as indicated by `ipFamilies[{i}]`");
                faults.invalid(&at.index(i), *own, &why);
            }
        }
    }
}

/// Whether there is an address of each family.
fn is_dual(addresses: &[&str]) -> bool {
    let has = |wanted: &str| addresses.iter().any(|own| family(own) == wanted);
    has("IPv4") && has("IPv6")
}

/// Addresses and families stay, but for a second one that may come and go.
pub(super) fn validate_change(new: &Value, old: &Value, faults: &mut Faults) {
    if kind(new) == "ExternalName" || kind(old) == "ExternalName" {
        return;
    }
    if !(is_headless(old) && is_headless(new)) {
        address_change(new, old, faults);
    }
    if !is_headless(old) && !is_headless(new) {
        family_change(new, old, faults);
    }
}

fn address_change(new: &Value, old: &Value, faults: &mut Faults) {
    const WHY: &str = "may not change once set";
    let (path, was, is) = (Path::new("spec.clusterIPs"), addresses(old), addresses(new));
    let first_changed = !was.is_empty() && !is.is_empty() && was[0] != is[0];
    if was.len() == is.len() {
        for i in (0..was.len()).filter(|i| was[*i] != is[*i]) {
            faults.invalid(&path.index(i), shown(&is), WHY);
        }
        return;
    }
    if was.len() > is.len() && is.is_empty() {
        faults.invalid(&path.index(0), shown(&is), "primary clusterIP can not be unset");
    }
    if first_changed {
        faults.invalid(&path.index(0), shown(&is), WHY);
    }
    if was.len() > is.len() && is.len() == 1 && policy(new) != Some("SingleStack") {
        let why = "must be set to 'SingleStack' when releasing the secondary clusterIP";
        faults.invalid(&Path::new("spec.ipFamilyPolicy"), shown_policy(new), why);
    }
}

fn family_change(new: &Value, old: &Value, faults: &mut Faults) {
    const WHY: &str = "may not change once set";
    let (at, was, is) = (Path::new("spec.ipFamilies").index(0), families(old), families(new));
    if was.len() == is.len() {
        for _ in (0..was.len()).filter(|i| was[*i] != is[*i]) {
            faults.invalid(&at, shown(&is), WHY);
        }
        return;
    }
    if was.len() > is.len() && addresses(new).is_empty() {
        faults.invalid(&at, shown(&is), "primary ipFamily can not be unset");
    }
    if !was.is_empty() && !is.is_empty() && was[0] != is[0] {
        // Upstream shows the addresses here.
        faults.invalid(&at, shown(&addresses(new)), WHY);
    }
    if was.len() > is.len() && is.len() == 1 && policy(new) != Some("SingleStack") {
        let why = "must be set to 'SingleStack' when releasing the secondary ipFamily";
        faults.invalid(&Path::new("spec.ipFamilyPolicy"), shown_policy(new), why);
    }
}

fn shown_policy(spec: &Value) -> Shown {
    policy(spec).map_or_else(|| Shown("null".to_owned()), Shown::from)
}

/// Whether a service of two families if there are two stays as it is, so that it is neither given a second address nor
/// loses it when the cluster changes.
pub(super) fn stays_as_it_is(new: &Value, old: &Value) -> bool {
    const PREFER: &str = "PreferDualStack";
    policy(new) == Some(PREFER)
        && policy(old).is_none_or(|own| own == PREFER)
        && kind(new) == kind(old)
        && matches!(kind(new), "ClusterIP" | "NodePort" | "LoadBalancer")
        && addresses(new) == addresses(old)
        && families(new) == families(old)
}

/// Fills in policy and families (`configured`: the families of the cluster, its own first).
///
/// # Errors
/// The faults of what the client asked for.
pub(super) fn complete(new: &mut Object, old: Option<&Value>, configured: &[&str]) -> Result<(), Vec<Cause>> {
    if kind(spec(new)) == "ExternalName" || old.is_some_and(|old| stays_as_it_is(spec(new), old)) {
        return Ok(());
    }
    let nothing_selected = |spec: &Value| spec["selector"].as_object().is_none_or(serde_json::Map::is_empty);
    let open = text(spec(new), "clusterIP") == NO_ADDRESS && nothing_selected(spec(new));
    if policy(spec(new)).is_none() {
        let own = match old.and_then(policy) {
            Some(own) => own.to_owned(),
            None if open => "RequireDualStack".to_owned(),
            None => "SingleStack".to_owned(),
        };
        new.set(&["spec", "ipFamilyPolicy"], own);
    }
    let mut faults = Faults::new();
    validate(spec(new), old, &mut faults);
    if !faults.is_empty() {
        return Err(faults.into_causes());
    }
    if let Some(old) = old {
        shrink(new, old, &mut faults);
    }
    check_policy(spec(new), &mut faults);
    infer_families(new, configured, &mut faults);
    if !faults.is_empty() {
        return Err(faults.into_causes());
    }
    let single = policy(spec(new)) == Some("SingleStack");
    let mut own: Vec<String> = families(spec(new)).into_iter().map(str::to_owned).collect();
    if open {
        if own.is_empty() {
            own.extend(configured.first().map(|first| (*first).to_owned()));
        }
        if own.len() < 2 && !single {
            own.extend(own.first().map(|first| other(first).to_owned()));
        }
        set_words(new, "ipFamilies", own);
        return Ok(());
    }
    demand(spec(new), configured, &mut faults);
    if !faults.is_empty() {
        return Err(faults.into_causes());
    }
    if own.is_empty() {
        own.extend(configured.first().map(|first| (*first).to_owned()));
    }
    if !single && own.len() == 1 && configured.len() == 2 {
        own.extend(own.first().map(|first| other(first).to_owned()));
    }
    set_words(new, "ipFamilies", own);
    Ok(())
}

fn other(family: &str) -> &'static str {
    if family == "IPv4" { "IPv6" } else { "IPv4" }
}

/// `SingleStack` gives back the second address and family; with every other policy they must be given back by that one.
fn shrink(new: &mut Object, old: &Value, faults: &mut Faults) {
    let lists = ["clusterIPs", "ipFamilies"];
    if policy(spec(new)) == Some("SingleStack") {
        for key in lists {
            let own = super::spec::words(spec(new), key);
            if own == super::spec::words(old, key) && own.len() > 1 {
                let first = own[..1].iter().map(|word| (*word).to_owned()).collect();
                set_words(new, key, first);
            }
        }
        return;
    }
    let path = Path::new("spec.ipFamilyPolicy");
    for (key, what) in lists.into_iter().zip(["secondary cluster IP", "secondary IP family"]) {
        let count = super::spec::words(spec(new), key).len();
        if count > 0 && count < super::spec::words(old, key).len() {
            let why = format!("must be 'SingleStack' to release the {what}");
            faults.invalid(&path, shown_policy(spec(new)), &why);
        }
    }
}

fn check_policy(spec: &Value, faults: &mut Faults) {
    if policy(spec) != Some("SingleStack") {
        return;
    }
    let path = Path::new("spec.ipFamilyPolicy");
    for (count, what) in [(addresses(spec).len(), "cluster IPs"), (families(spec).len(), "IP families")] {
        if count == 2 {
            let why = format!("must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified");
            faults.invalid(&path, shown_policy(spec), &why);
        }
    }
}

/// An address tells its family, where none is named for it.
fn infer_families(new: &mut Object, configured: &[&str], faults: &mut Faults) {
    let own_addresses: Vec<String> = addresses(spec(new)).into_iter().map(str::to_owned).collect();
    let mut own: Vec<String> = families(spec(new)).into_iter().map(str::to_owned).collect();
    for (i, address) in own_addresses.iter().enumerate() {
        if address == NO_ADDRESS {
            break;
        }
        if i < own.len() {
            continue;
        }
        let family = family(address);
        if configured.contains(&family) {
            own.push(family.to_owned());
        } else {
            let all: Vec<&str> = own_addresses.iter().map(String::as_str).collect();
            let path = Path::new("spec.clusterIPs").index(i);
            faults.invalid(&path, shown(&all), &format!("{family} is not configured on this cluster"));
        }
    }
    if has(spec(new), "ipFamilies") || !own.is_empty() {
        set_words(new, "ipFamilies", own);
    }
}

/// What the cluster cannot give.
fn demand(spec: &Value, configured: &[&str], faults: &mut Faults) {
    if policy(spec) == Some("RequireDualStack") && configured.len() < 2 {
        let why = "this cluster is not configured for dual-stack services";
        faults.invalid(&Path::new("spec.ipFamilyPolicy"), shown_policy(spec), why);
    }
    for (i, own) in families(spec).into_iter().enumerate().filter(|(_, own)| !configured.contains(own)) {
        faults.invalid(&Path::new("spec.ipFamilies").index(i), own, "not configured on this cluster");
    }
}

/// What the client may have left out of a service that is there already.
pub(super) fn take_over_addresses(new: &mut Object, old: &Value) {
    let (was, was_all) = (text(old, "clusterIP").to_owned(), addresses(old).into_iter().map(str::to_owned).collect());
    let was_all: Vec<String> = was_all;
    let both_have = kind(spec(new)) != "ExternalName" && kind(old) != "ExternalName";
    if both_have {
        if text(spec(new), "clusterIP").is_empty() && !was.is_empty() {
            new.set(&["spec", "clusterIP"], was.clone());
        }
        if addresses(spec(new)).is_empty() && !was_all.is_empty() {
            set_words(new, "clusterIPs", was_all.clone());
        }
    }
    let is = text(spec(new), "clusterIP").to_owned();
    if !was_all.is_empty() && addresses(spec(new)).is_empty() && was == is {
        set_words(new, "clusterIPs", was_all.clone());
    }
    if was != is && addresses(spec(new)) == was_all.iter().map(String::as_str).collect::<Vec<_>>() {
        let list = if !was.is_empty() && is.is_empty() { Vec::new() } else { vec![is] };
        set_words(new, "clusterIPs", list);
    }
}

/// One who names a single address means a list of it.
pub(super) fn join(new: &mut Object) {
    let single = text(spec(new), "clusterIP").to_owned();
    if !single.is_empty() && addresses(spec(new)).is_empty() {
        set_words(new, "clusterIPs", vec![single]);
    }
}

/// An address, if it is one.
pub(super) fn parsed(address: &str) -> Option<IpAddr> {
    parse(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn completed(value: Value, old: Option<Value>, configured: &[&str]) -> Result<(Value, Value), Vec<String>> {
        let mut object = Object::from_value(json!({"spec": value})).expect("a map");
        join(&mut object);
        complete(&mut object, old.as_ref(), configured)
            .map(|()| (spec(&object)["ipFamilyPolicy"].clone(), spec(&object)["ipFamilies"].clone()))
            .map_err(|causes| causes.into_iter().map(|c| format!("{}: {}", c.field, c.message)).collect())
    }

    #[test]
    fn families_follow_the_cluster_and_the_addresses() {
        let four: &[&str] = &["IPv4"];
        let both: &[&str] = &["IPv4", "IPv6"];
        let ok = |value: Value, configured: &[&str]| completed(value, None, configured).expect("valid");
        let selected = json!({"type": "ClusterIP", "selector": {"a": "b"}});
        assert_eq!(ok(selected.clone(), four), (json!("SingleStack"), json!(["IPv4"])));
        let headless = json!({"type": "ClusterIP", "clusterIP": "None"});
        assert_eq!(ok(headless, four), (json!("RequireDualStack"), json!(["IPv4", "IPv6"])));
        let prefer = json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"});
        assert_eq!(ok(prefer.clone(), four), (json!("PreferDualStack"), json!(["IPv4"])));
        assert_eq!(ok(prefer, both), (json!("PreferDualStack"), json!(["IPv4", "IPv6"])));
        let six = json!({"type": "ClusterIP", "clusterIP": "fd00::5"});
        assert_eq!(ok(six.clone(), both), (json!("SingleStack"), json!(["IPv6"])));
        assert_eq!(
            completed(six, None, four).expect_err("not configured"),
            ["spec.clusterIPs[0]: Invalid value: [\"fd00::5\"]: IPv6 is not configured on this cluster"]
        );
        let dual = json!({"type": "ClusterIP", "ipFamilyPolicy": "RequireDualStack"});
        assert_eq!(
            completed(dual, None, four).expect_err("not configured"),
            [
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack \
              services"
            ]
        );
    }

    #[test]
    fn a_second_address_is_given_back_by_policy_alone() {
        let both: &[&str] = &["IPv4", "IPv6"];
        let old = json!({"type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"],
            "ipFamilies": both, "ipFamilyPolicy": "RequireDualStack"});
        let mut new = old.clone();
        new["ipFamilyPolicy"] = "SingleStack".into();
        assert_eq!(completed(new, Some(old.clone()), both).expect("valid"), (json!("SingleStack"), json!(["IPv4"])));
        let mut new = old.clone();
        new["clusterIPs"] = json!(["10.0.0.1"]);
        assert_eq!(
            completed(new, Some(old), both).expect_err("not so"),
            [
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary \
              cluster IP"
            ]
        );
    }

    #[test]
    fn addresses_stay() {
        let told = |new: Value, old: Value| {
            let mut faults = Faults::new();
            validate_change(&new, &old, &mut faults);
            faults.told()
        };
        let of = |address: &str| json!({"type": "ClusterIP", "clusterIPs": [address], "ipFamilies": ["IPv4"]});
        assert_eq!(
            told(of("10.0.0.2"), of("10.0.0.1")),
            ["spec.clusterIPs[0]: Invalid value: [\"10.0.0.2\"]: may not change once set"]
        );
        assert_eq!(told(of("None"), of("10.0.0.1")).len(), 1);
        assert!(told(json!({"type": "ExternalName"}), of("10.0.0.1")).is_empty());
    }
}
