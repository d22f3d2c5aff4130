//! Node ports: which a service asks for and which it is given (Kubernetes 1.36).

use std::collections::HashMap;
use std::ops::RangeInclusive;

use listwatch_proto::resource::{Cause, Object, Status};
use serde_json::Value;

use super::spec::{has_node_ports, kind, needs_health_port, node_ports, number, spec};
use crate::registry::kinds::allocation::Draw;
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{items, items_mut, text};

/// The pool of claims.
pub(super) const POOL: &str = "servicenodeports";

/// Why a port cannot be had.
pub(super) enum Refused {
    /// What the client asked for is at fault.
    Faults(Vec<Cause>),
    /// The server has none, or cannot tell what is meant.
    Internal(Box<Status>),
}

/// The ports that can be handed out, with chance and what is taken of them.
pub(super) struct Ports<'a, 'b> {
    pub(super) range: &'a RangeInclusive<u16>,
    pub(super) draw: &'a mut Draw<'b>,
    /// Given out in this very change.
    pub(super) own: Vec<i64>,
    /// Ports are shown, and not handed out.
    pub(super) dry_run: bool,
}

/// A dry run shows numbers above this one, which no range of the default has: nobody takes them for ports that he has.
const SHOWN_FROM: i64 = 32_768;

impl Ports<'_, '_> {
    fn check(&self, port: i64) -> Result<(), String> {
        let range = self.range;
        if !u16::try_from(port).is_ok_and(|port| range.contains(&port)) {
            let (first, last) = (range.start(), range.end());
            return Err(format!("provided port is not in the valid range. The range of valid ports is {first}-{last}"));
        }
        if self.own.contains(&port) || self.draw.is_taken(POOL, &port.to_string()) {
            return Err("provided port is already allocated".to_owned());
        }
        Ok(())
    }

    /// Takes a port that is asked for.
    fn take(&mut self, port: i64) -> Result<(), String> {
        self.check(port)?;
        self.own.push(port);
        Ok(())
    }

    /// Takes any; the first of the range are kept for who names a port (Kubernetes 1.28 and later).
    fn take_any(&mut self) -> Option<i64> {
        if self.dry_run {
            let port = self.own.iter().copied().max().unwrap_or(SHOWN_FROM) + 1;
            self.own.push(port);
            return Some(port);
        }
        let (first, end) = (u64::from(*self.range.start()), u64::from(*self.range.end()) + 1);
        let size = end.saturating_sub(first);
        let kept = if size <= 16 { 0 } else { (size / 32).clamp(16, 128) };
        for range in [first + kept..end, first..first + kept] {
            let own = &self.own;
            // A port given out a moment ago is as taken as the others.
            let free = |draw: &Draw<'_>, n: u64| {
                !draw.is_taken(POOL, &n.to_string())
                    && !own.iter().any(|port| u64::try_from(*port).is_ok_and(|p| p == n))
            };
            if let Some(n) = self.draw.pick_free(range, own.len(), free) {
                let port = i64::try_from(n).unwrap_or(0);
                self.own.push(port);
                return Some(port);
            }
        }
        None
    }
}

fn at(index: usize, port: i64, why: &str) -> Refused {
    let mut faults = Faults::new();
    faults.invalid(&Path::new("spec.ports").index(index).child("nodePort"), port, why);
    Refused::Faults(faults.into_causes())
}

fn internal(why: &str) -> Refused {
    Refused::Internal(Box::new(Status::internal(format!("Internal error occurred: {why}"))))
}

/// Whether ports are given to who asks for none.
fn gives_ports(spec: &Value) -> bool {
    kind(spec) == "NodePort"
        || (kind(spec) == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"].as_bool().unwrap_or(true))
}

/// Gives a new service its node ports; two of its ports with one number share one, whatever their protocols.
pub(super) fn complete_new(service: &mut Object, ports: &mut Ports<'_, '_>) -> Result<(), Refused> {
    if !has_node_ports(spec(service)) {
        return Ok(());
    }
    let gives = gives_ports(spec(service));
    let mut given: HashMap<i64, i64> = HashMap::new();
    let all = items(spec(service), "ports").to_vec();
    for (i, port) in items_mut(service.at_mut(&["spec"]), "ports").iter_mut().enumerate() {
        let (own, wanted) = (number(port, "port"), number(port, "nodePort"));
        if wanted == 0 && !gives {
            continue;
        }
        match given.get(&own).copied() {
            None => {
                let asked = all.iter().find(|other| number(other, "port") == own && number(other, "nodePort") != 0);
                let node_port = match asked.map(|other| number(other, "nodePort")) {
                    Some(asked) => {
                        ports.take(asked).map_err(|why| at(i, asked, &why))?;
                        asked
                    }
                    None => any(ports)?,
                };
                port["nodePort"] = node_port.into();
                given.insert(own, node_port);
            }
            Some(shared) if wanted == 0 => port["nodePort"] = shared.into(),
            Some(shared) if wanted != shared => ports.take(wanted).map_err(|why| at(i, wanted, &why))?,
            Some(_) => {}
        }
    }
    Ok(())
}

fn any(ports: &mut Ports<'_, '_>) -> Result<i64, Refused> {
    ports.take_any().ok_or_else(|| internal("failed to allocate a nodePort: range is full"))
}

/// Gives a changed service the node ports that it lacks.
pub(super) fn complete_change(service: &mut Object, old: &Value, ports: &mut Ports<'_, '_>) -> Result<(), Refused> {
    if !has_node_ports(spec(service)) {
        return Ok(());
    }
    let (gives, before) = (gives_ports(spec(service)), node_ports(old));
    let mut known: Vec<(String, i64)> = Vec::new();
    for (i, port) in items_mut(service.at_mut(&["spec"]), "ports").iter_mut().enumerate() {
        let wanted = number(port, "nodePort");
        if wanted == 0 && !gives {
            continue;
        }
        if wanted == 0 {
            port["nodePort"] = any(ports)?.into();
        } else if !before.contains(&wanted) && !ports.own.contains(&wanted) {
            ports.take(wanted).map_err(|why| at(i, wanted, &why))?;
        }
        let pair = (text(port, "protocol").to_owned(), number(port, "nodePort"));
        if known.contains(&pair) {
            let message = format!("duplicate nodePort: {{{} {}}}", pair.0, pair.1);
            return Err(Refused::Internal(Box::new(Status::internal(message))));
        }
        known.push(pair);
    }
    Ok(())
}

/// Gives the port at which load balancers ask for a node's health, if it is needed and was not before.
pub(super) fn complete_health(
    service: &mut Object,
    old: Option<&Value>,
    ports: &mut Ports<'_, '_>,
) -> Result<(), Refused> {
    if !needs_health_port(spec(service)) || old.is_some_and(needs_health_port) {
        return Ok(());
    }
    let wanted = number(spec(service), "healthCheckNodePort");
    if wanted != 0 {
        return ports
            .take(wanted)
            .map_err(|why| internal(&format!("failed to allocate requested HealthCheck NodePort {wanted}: {why}")));
    }
    let port =
        ports.take_any().ok_or_else(|| internal("failed to allocate a HealthCheck NodePort 0: range is full"))?;
    service.set(&["spec", "healthCheckNodePort"], port);
    Ok(())
}

/// What the client may have left out of a service that is there already: ports keep theirs by name.
pub(super) fn take_over(new: &mut Object, old: &Value) {
    let patched = |spec: &Value| has_node_ports(spec) && gives_ports(spec);
    if patched(old) && patched(spec(new)) {
        let after = node_ports(spec(new));
        let used: Vec<i64> = node_ports(old).into_iter().filter(|port| after.contains(port)).collect();
        for port in items_mut(new.at_mut(&["spec"]), "ports").iter_mut().filter(|port| number(port, "nodePort") == 0) {
            let named = items(old, "ports").iter().rev().find(|own| text(own, "name") == text(port, "name"));
            let own = named.map_or(0, |own| number(own, "nodePort"));
            if own != 0 && !used.contains(&own) {
                port["nodePort"] = own.into();
            }
        }
    }
    if needs_health_port(old) && needs_health_port(spec(new)) && number(spec(new), "healthCheckNodePort") == 0 {
        let own = number(old, "healthCheckNodePort");
        if own != 0 {
            new.set(&["spec", "healthCheckNodePort"], own);
        }
    }
}
