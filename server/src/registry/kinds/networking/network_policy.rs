//! NetworkPolicy: who may talk to which pods.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::registry::kinds::strategy::{Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{default, has, items, items_mut, text as field};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, selector, text};
use crate::registry::kinds::vocabulary::{addresses, names, selectors};
use crate::registry::table::{Cell, Column};

pub(super) struct NetworkPolicyStrategy;

const TYPES: [&str; 2] = ["Ingress", "Egress"];
/// The directions, with the field that names the other side.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Pod-Selector",
        "string",
        "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is applied to any pods selected by this field. An empty selector matches all pods in the policy's namespace. Multiple network policies can select the same set of pods. In this case, the ingress rules for each are combined additively. This field is optional. If it is not specified, it defaults to an empty selector.",
        0,
    ),
    AGE,
];

impl Strategy for NetworkPolicyStrategy {
    fn schema(&self) -> &'static str {
        "networking/v1.NetworkPolicy"
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        if !spec.is_object() {
            *spec = json!({});
        }
        for (direction, _) in DIRECTIONS {
            for rule in items_mut(spec, direction) {
                items_mut(rule, "ports").iter_mut().for_each(|port| default(port, "protocol", "TCP"));
            }
        }
        if items(spec, "policyTypes").is_empty() {
            let outward = !items(spec, "egress").is_empty();
            spec["policyTypes"] = if outward { json!(TYPES) } else { json!(["Ingress"]) };
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        validate_spec(object, &[], faults);
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        let mut known = Vec::new();
        for_each_block(old, |_, block| {
            known.push(field(block, "cidr"));
            known.extend(items(block, "except").iter().filter_map(Value::as_str));
        });
        validate_spec(new, &known, faults);
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let mut told = Vec::new();
        for_each_block(object, |path, block| {
            told.extend(addresses::range_warnings(field(block, "cidr"), &path.child("cidr")));
            for (i, range) in items(block, "except").iter().filter_map(Value::as_str).enumerate() {
                told.extend(addresses::range_warnings(range, &path.child("except").index(i)));
            }
        });
        told
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), selector(object, &["spec", "podSelector"]), age(object, now)]
    }
}

/// Each range of addresses that a policy names, with where it stands.
fn for_each_block<'a>(object: &'a Object, mut each: impl FnMut(Path, &'a Value)) {
    let Some(spec) = object.at(&["spec"]) else { return };
    for (direction, side) in DIRECTIONS {
        for (i, rule) in items(spec, direction).iter().enumerate() {
            for (j, peer) in items(rule, side).iter().enumerate().filter(|(_, peer)| has(peer, "ipBlock")) {
                let path = Path::new("spec").child(direction).index(i).child(side).index(j).child("ipBlock");
                each(path, &peer["ipBlock"]);
            }
        }
    }
}

/// Ranges that were there before are not judged again.
fn validate_spec(object: &Object, known: &[&str], faults: &mut Faults) {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let path = Path::new("spec");
    selectors::label_selector(&spec["podSelector"], &path.child("podSelector"), faults);
    for (direction, side) in DIRECTIONS {
        for (i, rule) in items(spec, direction).iter().enumerate() {
            let path = path.child(direction).index(i);
            for (j, port) in items(rule, "ports").iter().enumerate() {
                validate_port(port, &path.child("ports").index(j), faults);
            }
            for (j, peer) in items(rule, side).iter().enumerate() {
                validate_peer(peer, known, &path.child(side).index(j), faults);
            }
        }
    }
    let (types, at) = (items(spec, "policyTypes"), path.child("policyTypes"));
    if types.len() > TYPES.len() {
        faults.invalid(&at, &spec["policyTypes"], "may not specify more than two policyTypes");
        return;
    }
    for (i, kind) in types.iter().filter_map(Value::as_str).enumerate().filter(|(_, kind)| !TYPES.contains(kind)) {
        faults.not_supported(&at.index(i), kind, &TYPES);
    }
}

fn validate_port(port: &Value, path: &Path, faults: &mut Faults) {
    const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
    if let Some(protocol) = port["protocol"].as_str().filter(|protocol| !PROTOCOLS.contains(protocol)) {
        faults.not_supported(&path.child("protocol"), protocol, &PROTOCOLS);
    }
    let (end, at, end_at) = (port["endPort"].as_i64(), path.child("port"), path.child("endPort"));
    match &port["port"] {
        Value::Number(number) => {
            let first = number.as_i64().unwrap_or(0);
            if let Some(why) = names::port_number(first) {
                faults.invalid(&at, first, why);
            }
            let Some(end) = end else { return };
            if end < first {
                // Upstream shows the first port here.
                faults.invalid(&end_at, first, "must be greater than or equal to `port`");
            }
            if let Some(why) = names::port_number(end) {
                faults.invalid(&end_at, end, why);
            }
        }
        Value::String(name) => {
            if let Some(end) = end {
                faults.invalid(&end_at, end, "may not be specified when `port` is non-numeric");
            }
            faults.invalid_all(&at, name, names::port(name));
        }
        _ => {
            if let Some(end) = end {
                faults.invalid(&end_at, end, "may not be specified when `port` is not specified");
            }
        }
    }
}

fn validate_peer(peer: &Value, known: &[&str], path: &Path, faults: &mut Faults) {
    for key in ["podSelector", "namespaceSelector"] {
        selectors::label_selector(&peer[key], &path.child(key), faults);
    }
    let block = has(peer, "ipBlock");
    if block {
        validate_block(&peer["ipBlock"], known, &path.child("ipBlock"), faults);
    }
    let by_label = has(peer, "podSelector") || has(peer, "namespaceSelector");
    if !block && !by_label {
        faults.required(path, "must specify a peer");
    } else if block && by_label {
        faults.forbidden(path, "may not specify both ipBlock and another peer");
    }
}

fn validate_block(block: &Value, known: &[&str], path: &Path, faults: &mut Faults) {
    let whole = field(block, "cidr");
    if whole.is_empty() {
        faults.required(&path.child("cidr"), "");
        return;
    }
    if !known.contains(&whole) {
        addresses::range(whole, &path.child("cidr"), faults);
    }
    if !addresses::is_range(whole) {
        return;
    }
    for (i, except) in items(block, "except").iter().filter_map(Value::as_str).enumerate() {
        let path = path.child("except").index(i);
        if !known.contains(&except) {
            addresses::range(except, &path, faults);
        }
        if addresses::is_range(except) && !addresses::lies_within(except, whole) {
            faults.invalid(&path, except, "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(spec: Value) -> Object {
        let mut object = Object::from_value(json!({"spec": spec})).expect("a map");
        NetworkPolicyStrategy.default(&mut object);
        object
    }

    fn told(spec: Value) -> Vec<String> {
        let mut faults = Faults::new();
        NetworkPolicyStrategy.validate_create(&policy(spec), &mut faults);
        faults.told()
    }

    #[test]
    fn types_follow_the_rules_that_are_there() {
        assert_eq!(policy(json!({})).at(&["spec", "policyTypes"]), Some(&json!(["Ingress"])));
        let both = policy(json!({"egress": [{"ports": [{"port": 53}]}]}));
        assert_eq!(both.at(&["spec", "policyTypes"]), Some(&json!(["Ingress", "Egress"])));
        assert_eq!(both.at(&["spec", "egress"]).expect("rules")[0]["ports"][0]["protocol"], "TCP");
    }

    #[test]
    fn ports_and_peers_are_judged() {
        let good = json!({"ingress": [{"ports": [{"port": 80, "endPort": 90}, {"port": "http"}],
            "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}, {"podSelector": {}}]}]});
        assert!(told(good).is_empty());
        let bad = json!({"ingress": [{"ports": [{"port": 80, "endPort": 70}],
            "from": [{}, {"ipBlock": {"cidr": "10.1.0.0/16", "except": ["10.0.0.0/8"]}, "podSelector": {}}]}]});
        assert_eq!(
            told(bad),
            [
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
                "spec.ingress[0].from[0]: Required value: must specify a peer",
                "spec.ingress[0].from[1].ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of \
                 `cidr`",
                "spec.ingress[0].from[1]: Forbidden: may not specify both ipBlock and another peer",
            ]
        );
    }
}
