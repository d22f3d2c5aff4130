//! What the server hands out to services: addresses of the cluster and ports of every node (Kubernetes 1.36).

use std::net::IpAddr;

use listwatch_proto::resource::{Kind, Object, Status};
use serde_json::{Value, json};

use super::ports::{Ports, Refused};
use super::spec::{
    NO_ADDRESS, addresses, families, kind, needs_address, needs_health_port, node_ports, number, set_words, spec,
};
use super::{families as family_rules, ports};
use crate::registry::kinds::allocation::{AddressRange, Allocation, Claim, Draw, Ground, Sign};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown, quote};
use crate::registry::kinds::vocabulary::names;

/// The pool of claims of addresses.
const POOL: &str = "serviceips";
/// Who writes the IPAddress of a service, as upstream names it.
const MANAGED_BY: &str = "ipallocator.k8s.io";

pub(super) struct ServiceAllocation;

impl Allocation for ServiceAllocation {
    fn complete(
        &self,
        new: &mut Object,
        old: Option<&Object>,
        ground: &Ground<'_>,
        draw: &mut Draw<'_>,
    ) -> Result<(), Status> {
        let old = old.map(spec);
        let name = new.name().to_owned();
        let invalid = |causes| Status::invalid(service_kind(), &name, causes);
        match old {
            None => family_rules::join(new),
            Some(old) => {
                family_rules::take_over_addresses(new, old);
                ports::take_over(new, old);
            }
        }
        let ranges = ranges(ground);
        family_rules::complete(new, old, &configured(&ground.pools.addresses)).map_err(invalid)?;
        complete_addresses(new, old, &ranges, draw)?;
        let mut ports = Ports { range: &ground.pools.node_ports, draw, own: Vec::new(), dry_run: ground.dry_run };
        let given = match old {
            None => ports::complete_new(new, &mut ports),
            Some(old) => ports::complete_change(new, old, &mut ports),
        };
        given.and_then(|()| ports::complete_health(new, old, &mut ports)).map_err(|refused| match refused {
            Refused::Faults(causes) => invalid(causes),
            Refused::Internal(status) => *status,
        })
    }

    fn claims(&self, object: &Object) -> Vec<Claim> {
        let spec = spec(object);
        let mut claims = Vec::new();
        if needs_address(spec) {
            let own = addresses(spec).into_iter().filter_map(family_rules::parsed);
            claims.extend(own.map(|address| address_claim(object, address)));
        }
        let mut ports = node_ports(spec);
        if needs_health_port(spec) {
            ports.extend(Some(number(spec, "healthCheckNodePort")).filter(|port| *port != 0));
        }
        ports.sort_unstable();
        ports.dedup();
        claims.extend(ports.into_iter().map(|port| Claim { pool: ports::POOL, value: port.to_string(), sign: None }));
        claims
    }

    fn looks_at(&self) -> Option<&'static Kind> {
        Kind::by_api_version("networking.k8s.io/v1", "ServiceCIDR")
    }

    fn companions(&self, object: &Object) -> Vec<String> {
        // The next service of this name must not begin with the endpoints of this one.
        let endpoints = Kind::by_api_version("v1", "Endpoints").expect("Endpoints is a served kind");
        vec![endpoints.key(object.namespace(), object.name())]
    }
}

fn service_kind() -> &'static Kind {
    Kind::by_api_version("v1", "Service").expect("Service is a served kind")
}

fn address_claim(service: &Object, address: IpAddr) -> Claim {
    let value = address.to_string();
    let parent = json!({"resource": "services", "namespace": service.namespace(), "name": service.name()});
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let labels = json!({"ipaddress.kubernetes.io/ip-family": family, "ipaddress.kubernetes.io/managed-by": MANAGED_BY});
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {"name": value, "labels": labels}, "spec": {"parentRef": parent},
    });
    let kind = Kind::by_api_version("networking.k8s.io/v1", "IPAddress").expect("IPAddress is a served kind");
    let sign = Some(Sign { kind, object: Object::from_value(object).expect("a literal map") });
    Claim { pool: POOL, value, sign }
}

/// The families that the cluster has, its own first.
fn configured(ranges: &[AddressRange]) -> Vec<&'static str> {
    let mut families: Vec<&'static str> = Vec::new();
    for range in ranges {
        if !families.contains(&range.family()) {
            families.push(range.family());
        }
    }
    families
}

/// The ranges of the flags, and those of ServiceCIDRs that are ready.
fn ranges(ground: &Ground<'_>) -> Vec<AddressRange> {
    let mut ranges = ground.pools.addresses.clone();
    for cidr in ground.objects.iter().filter(|cidr| !cidr.is_terminating() && is_ready(cidr)) {
        let list = cidr.at(&["spec", "cidrs"]).and_then(Value::as_array);
        for range in list.into_iter().flatten().filter_map(|cidr| AddressRange::parse(cidr.as_str()?)) {
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
    }
    ranges
}

fn is_ready(cidr: &Object) -> bool {
    let conditions = cidr.at(&["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Gives the addresses that are asked for, or any.
fn complete_addresses(
    new: &mut Object,
    old: Option<&Value>,
    ranges: &[AddressRange],
    draw: &mut Draw<'_>,
) -> Result<(), Status> {
    let own = spec(new);
    if kind(own) == "ExternalName" || addresses(own).first() == Some(&NO_ADDRESS) {
        return Ok(());
    }
    let mut kept = 0;
    if let Some(old) = old.filter(|old| kind(old) != "ExternalName") {
        if family_rules::stays_as_it_is(own, old) || addresses(old).first() == Some(&NO_ADDRESS) {
            return Ok(());
        }
        // Only a second one may come in; all else is for validation to judge.
        if families(old).len() != 1 || families(own).len() != 2 {
            return Ok(());
        }
        kept = 1;
    }
    let families: Vec<String> = families(own).into_iter().map(str::to_owned).collect();
    let mut list: Vec<String> = addresses(own).into_iter().map(str::to_owned).collect();
    list.resize(list.len().max(families.len()), String::new());
    for (i, family) in families.iter().enumerate().skip(kept) {
        list[i] = address(new, &list, i, family, ranges, draw)?;
    }
    let first = list.first().cloned().unwrap_or_default();
    set_words(new, "clusterIPs", list);
    if kept == 0 && !first.is_empty() {
        new.set(&["spec", "clusterIP"], first);
    }
    Ok(())
}

/// One address: the one that stands in the list, if it is free, or any of the family.
fn address(
    service: &Object,
    list: &[String],
    index: usize,
    family: &str,
    ranges: &[AddressRange],
    draw: &mut Draw<'_>,
) -> Result<String, Status> {
    let refused = |why: String| {
        let mut faults = Faults::new();
        let shown = Shown(Value::from(list.to_vec()).to_string());
        faults.invalid(&Path::new("spec.clusterIPs"), shown, &why);
        Status::invalid(service_kind(), service.name(), faults.into_causes())
    };
    let asked = &list[index];
    if asked.is_empty() {
        let own = ranges.iter().filter(|range| range.family() == family);
        let Some(drawn) = own.clone().find_map(|range| range.draw(POOL, draw)) else {
            let name = quote(service.name());
            let why = format!("failed to allocate a serviceIP for Service {name}: range is full");
            return Err(Status::internal(format!("Internal error occurred: {why}")));
        };
        // The name of the service stands in the IPAddress, which is judged first.
        if let Some(why) = names::path_segment_name(service.name()).first() {
            let name = quote(service.name());
            return Err(refused(format!(
                "failed to allocate IP: IPAddress.networking.k8s.io \"{drawn}\" is invalid: spec.parentRef.name: Invalid \
                 value: {name}: {why}"
            )));
        }
        return Ok(drawn.to_string());
    }
    let failed = |why: &str| refused(format!("failed to allocate IP {asked}: {why}"));
    let Some(address) = family_rules::parsed(asked) else {
        let why = format!("failed to parse service IP {}", quote(asked));
        return Err(Status::internal(format!("Internal error occurred: {why}")));
    };
    let holding: Vec<_> = ranges.iter().filter(|range| range.contains(address)).collect();
    let Some(range) = holding.first() else {
        return Err(failed("the provided network does not match the current range"));
    };
    if !holding.iter().any(|range| range.is_usable(address)) {
        return Err(failed(&format!(
            "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
        )));
    }
    if draw.is_taken(POOL, &address.to_string()) {
        return Err(failed("provided IP is already allocated"));
    }
    Ok(asked.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::registry::kinds::allocation::Pools;

    type Taken = HashSet<(&'static str, String)>;

    fn complete_in(pools: &Pools, service: Value, old: Option<&Object>, taken: &Taken) -> Result<Object, String> {
        let mut object = Object::from_value(json!({"metadata": {"name": "x"}, "spec": service})).expect("a map");
        super::super::defaults::apply(&mut object);
        let ground = Ground { pools, objects: &[], dry_run: false };
        let mut chance = StdRng::seed_from_u64(1);
        let mut draw = Draw { taken, chance: &mut chance };
        ServiceAllocation.complete(&mut object, old, &ground, &mut draw).map_err(|status| status.message)?;
        Ok(object)
    }

    fn pools(range: &str) -> Pools {
        Pools { addresses: vec![AddressRange::parse(range).expect("valid")], node_ports: 30_000..=30_019 }
    }

    fn complete(service: Value, taken: &Taken) -> Result<Object, String> {
        complete_in(&pools("10.0.0.0/24"), service, None, taken)
    }

    fn held(object: &Object) -> Vec<String> {
        ServiceAllocation.claims(object).into_iter().map(|claim| format!("{}/{}", claim.pool, claim.value)).collect()
    }

    #[test]
    fn each_type_is_given_what_it_needs() {
        let none = Taken::new();
        let object = complete(json!({"ports": [{"port": 80}]}), &none).expect("given");
        assert!(spec(&object)["clusterIP"].as_str().is_some_and(|ip| ip.starts_with("10.0.0.")));
        assert_eq!(held(&object).len(), 1);
        let object =
            complete(json!({"type": "NodePort", "ports": [{"port": 53}, {"port": 53, "protocol": "UDP"}]}), &none);
        let object = object.expect("given");
        let ports = node_ports(spec(&object));
        assert_eq!((ports.len(), ports[0]), (2, ports[1]), "one number for both protocols");
        assert_eq!(held(&object).len(), 2);
        for service in [json!({"clusterIP": "None"}), json!({"type": "ExternalName", "externalName": "a.b"})] {
            assert!(held(&complete(service, &none).expect("given")).is_empty());
        }
        let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"port": 80}],
            "allocateLoadBalancerNodePorts": false});
        let object = complete(local, &none).expect("given");
        assert!(node_ports(spec(&object)).is_empty());
        assert!(number(spec(&object), "healthCheckNodePort") >= 30_000);
        assert_eq!(held(&object).len(), 2);
    }

    #[test]
    fn what_is_asked_for_must_be_free_and_in_range() {
        let taken: Taken = [(POOL, "10.0.0.9".to_owned()), (ports::POOL, "30001".to_owned())].into();
        let of = |ip: &str| complete(json!({"clusterIP": ip, "ports": [{"port": 80}]}), &taken);
        assert_eq!(held(&of("10.0.0.8").expect("free")), ["serviceips/10.0.0.8"]);
        let told = |ip: &str, why: &str| {
            let message = format!(
                "Service \"x\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: {why}"
            );
            assert_eq!(of(ip).expect_err("refused"), message);
        };
        told("10.0.0.9", "provided IP is already allocated");
        told("1.2.3.4", "the provided network does not match the current range");
        told("10.0.0.0", "the provided IP (10.0.0.0) is not in the valid range. The range of valid IPs is 10.0.0.0/24");
        let port = |port: i64| complete(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}), &taken);
        let at = "Service \"x\" is invalid: spec.ports[0].nodePort: Invalid value:";
        assert_eq!(
            port(80).expect_err("refused"),
            format!("{at} 80: provided port is not in the valid range. The range of valid ports is 30000-30019")
        );
        assert_eq!(port(30_001).expect_err("refused"), format!("{at} 30001: provided port is already allocated"));
        assert_eq!(node_ports(spec(&port(30_002).expect("free"))), [30_002]);
    }

    #[test]
    fn a_full_range_is_told() {
        let small = pools("10.0.0.0/30");
        let mut taken: Taken = [(POOL, "10.0.0.1".to_owned())].into();
        let service = || json!({"ports": [{"port": 80}]});
        let object = complete_in(&small, service(), None, &taken).expect("one is left");
        assert_eq!(held(&object), ["serviceips/10.0.0.2"]);
        taken.insert((POOL, "10.0.0.2".to_owned()));
        assert_eq!(
            complete_in(&small, service(), None, &taken).expect_err("full"),
            "Internal error occurred: failed to allocate a serviceIP for Service \"x\": range is full"
        );
        let all: Taken = (30_000..30_020).map(|port| (ports::POOL, port.to_string())).collect();
        let told = complete(json!({"type": "NodePort", "ports": [{"port": 80}]}), &all).expect_err("full");
        assert_eq!(told, "Internal error occurred: failed to allocate a nodePort: range is full");
    }

    #[test]
    fn what_was_given_stays_over_an_update_that_leaves_it_out() {
        let none = Taken::new();
        let two = json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]});
        let old = complete(two.clone(), &none).expect("given");
        let new = complete_in(&pools("10.0.0.0/24"), two, Some(&old), &none).expect("given");
        assert_eq!(new, old);
        let plain = json!({"ports": [{"name": "a", "port": 80}]});
        let new = complete_in(&pools("10.0.0.0/24"), plain, Some(&old), &none).expect("given");
        assert_eq!(spec(&new)["clusterIP"], spec(&old)["clusterIP"]);
        let name = json!({"type": "ExternalName", "externalName": "a.b"});
        let external = complete_in(&pools("10.0.0.0/24"), name, Some(&old), &none).expect("given");
        assert!(held(&external).is_empty());
        let back = json!({"ports": [{"port": 80}]});
        assert_eq!(held(&complete_in(&pools("10.0.0.0/24"), back, Some(&external), &none).expect("given")).len(), 1);
    }

    #[test]
    fn a_second_family_brings_a_second_address() {
        let mut both = pools("10.0.0.0/24");
        both.addresses.push(AddressRange::parse("fd00::/112").expect("valid"));
        let none = Taken::new();
        let old = complete_in(&both, json!({"ports": [{"port": 80}]}), None, &none).expect("given");
        assert_eq!(addresses(spec(&old)).len(), 1);
        let mut wanted = spec(&old).clone();
        wanted["ipFamilyPolicy"] = "RequireDualStack".into();
        let new = complete_in(&both, wanted, Some(&old), &none).expect("given");
        assert_eq!(families(spec(&new)), ["IPv4", "IPv6"]);
        assert_eq!(addresses(spec(&new))[0], addresses(spec(&old))[0]);
        assert!(addresses(spec(&new))[1].starts_with("fd00::"));
        let mut wanted = spec(&new).clone();
        wanted["ipFamilyPolicy"] = "SingleStack".into();
        let single = complete_in(&both, wanted, Some(&new), &none).expect("given");
        assert_eq!(addresses(spec(&single)), addresses(spec(&old)));
    }
}
