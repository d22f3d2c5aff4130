//! Endpoints: where a service's packets go, the old way.

use listwatch_proto::resource::Object;
use serde_json::Value;

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{has, items, items_mut, text as word};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, age, column, text};
use crate::registry::kinds::vocabulary::{addresses, names};
use crate::registry::table::{Cell, Column};

pub(super) struct EndpointsStrategy;

/// What is told on every verb that shows Endpoints (Kubernetes 1.33 and later).
const DEPRECATED: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
/// The label of those that the controller writes, and its name.
const MANAGED_BY: (&str, &str) = ("endpoints.kubernetes.io/managed-by", "endpoint-controller");
/// How many addresses are printed.
const SHOWN_MAX: usize = 3;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Endpoints",
        "string",
        "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according to the IPs they \
         share. A single address with multiple ports, some of which are ready and some of which are not (because they \
         come from different containers) will result in the address being displayed in different subsets for the different \
         ports. No address will appear in both Addresses and NotReadyAddresses in the same subset. Sets of addresses and \
         ports that comprise a service.",
        0,
    ),
    AGE,
];

impl Strategy for EndpointsStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Endpoints"
    }

    fn default(&self, object: &mut Object) {
        for subset in object.at_mut(&["subsets"]).as_array_mut().into_iter().flatten() {
            for port in items_mut(subset, "ports") {
                if word(port, "protocol").is_empty() {
                    port["protocol"] = "TCP".into();
                }
            }
        }
        if object.at(&["subsets"]).is_some_and(Value::is_null) {
            object.remove(&["subsets"]);
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        for (i, subset) in subsets(object).iter().enumerate() {
            let path = Path::new("subsets").index(i);
            let (ready, not_ready) = (items(subset, "addresses"), items(subset, "notReadyAddresses"));
            if ready.is_empty() && not_ready.is_empty() {
                faults.required(&path, "must specify `addresses` or `notReadyAddresses`");
            }
            for (key, list) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
                for (j, entry) in list.iter().enumerate() {
                    address(entry, &path.child(key).index(j), faults);
                }
            }
            let ports = items(subset, "ports");
            for (j, entry) in ports.iter().enumerate() {
                port(entry, ports.len() > 1, &path.child("ports").index(j), faults);
            }
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        // What was taken by an older version may stay.
        if subsets(new) != subsets(old) {
            self.validate_create(new, faults);
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::Whole,
            has_generation: false,
            allows_create_on_update: true,
            ..Habits::USUAL
        }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        if object.text(&["metadata", "labels", MANAGED_BY.0]) == MANAGED_BY.1 {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (i, subset) in subsets(object).iter().enumerate() {
            for key in ["addresses", "notReadyAddresses"] {
                for (j, entry) in items(subset, key).iter().enumerate() {
                    let path = Path::new("subsets").index(i).child(key).index(j).child("ip");
                    warnings.extend(addresses::warning(word(entry, "ip"), &path));
                }
            }
        }
        warnings
    }

    fn deprecation(&self) -> Option<&'static str> {
        Some(DEPRECATED)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), text(shown(object)), age(object, now)]
    }
}

fn subsets(object: &Object) -> &[Value] {
    object.at(&["subsets"]).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn address(entry: &Value, path: &Path, faults: &mut Faults) {
    let ip = word(entry, "ip");
    addresses::ip(ip, &path.child("ip"), faults);
    let hostname = word(entry, "hostname");
    if !hostname.is_empty() {
        faults.invalid_all(&path.child("hostname"), hostname, names::label(hostname, false));
    }
    if has(entry, "nodeName") {
        let node = word(entry, "nodeName");
        faults.invalid_all(&path.child("nodeName"), node, names::subdomain(node, false));
    }
    addresses::endpoint(ip, &path.child("ip"), faults);
}

fn port(entry: &Value, named: bool, path: &Path, faults: &mut Faults) {
    let name = word(entry, "name");
    if name.is_empty() {
        if named {
            faults.required(&path.child("name"), "");
        }
    } else {
        faults.invalid_all(&path.child("name"), name, names::label(name, false));
    }
    let number = entry["port"].as_i64().unwrap_or(0);
    if let Some(why) = names::port_number(number) {
        faults.invalid(&path.child("port"), number, why);
    }
    match word(entry, "protocol") {
        "" => faults.required(&path.child("protocol"), ""),
        "TCP" | "UDP" | "SCTP" => {}
        other => faults.not_supported(&path.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
    }
    if has(entry, "appProtocol") {
        let protocol = word(entry, "appProtocol");
        faults.invalid_all(&path.child("appProtocol"), protocol, names::qualified(protocol));
    }
}

/// The first addresses, each with each port.
fn shown(object: &Object) -> String {
    let mut list = Vec::new();
    for subset in subsets(object) {
        let ips = items(subset, "addresses").iter().map(|address| word(address, "ip"));
        match items(subset, "ports") {
            [] => list.extend(ips.map(str::to_owned)),
            ports => {
                for port in ports {
                    let number = port["port"].as_i64().unwrap_or(0);
                    list.extend(ips.clone().map(|ip| match ip.contains(':') {
                        true => format!("[{ip}]:{number}"),
                        false => format!("{ip}:{number}"),
                    }));
                }
            }
        }
    }
    match list.len() {
        0 => NONE.to_owned(),
        count if count > SHOWN_MAX => format!("{} + {} more...", list[..SHOWN_MAX].join(","), count - SHOWN_MAX),
        _ => list.join(","),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_addresses_are_shown() {
        let of = |subsets: Value| shown(&Object::from_value(json!({"subsets": subsets})).expect("a map"));
        assert_eq!(of(json!([])), "<none>");
        assert_eq!(of(json!([{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}]}])), "1.1.1.1,::1");
        let subset = json!([{"addresses": [{"ip": "1.1.1.1"}, {"ip": "fd::1"}], "ports": [{"port": 1}, {"port": 2}]}]);
        assert_eq!(of(subset), "1.1.1.1:1,[fd::1]:1,1.1.1.1:2 + 1 more...");
    }

    #[test]
    fn addresses_that_lead_nowhere_are_refused() {
        let mut faults = Faults::new();
        let object =
            json!({"subsets": [{}, {"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": 0}, {"port": 1}]}]});
        let mut object = Object::from_value(object).expect("a map");
        EndpointsStrategy.default(&mut object);
        EndpointsStrategy.validate_create(&object, &mut faults);
        let told: Vec<_> = faults.told();
        assert_eq!(
            told,
            [
                "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
                "subsets[1].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range \
                 (127.0.0.0/8, ::1/128)",
                "subsets[1].ports[0].name: Required value",
                "subsets[1].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "subsets[1].ports[1].name: Required value",
            ]
        );
    }
}
