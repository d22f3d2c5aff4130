//! Large clusters: how many nodes are looked at, in which order, and that a cycle does not cost what the cluster is large.

use serde_json::{Value, json};

use super::bench::{Bench, bound, cpu, node, pod};
use crate::scheduler::framework::Profile;
use crate::scheduler::{Algorithm, Cache, Snapshot};

fn snapshot(nodes: usize, zones: usize) -> Snapshot {
    let (mut cache, mut snapshot) = (Cache::default(), Snapshot::default());
    for at in 0..nodes {
        // One zone after another, as a cluster is often built.
        let zone = format!("z{}", at * zones / nodes);
        cache.set_node(node(&format!("n{at}"), json!({"labels": {"topology.kubernetes.io/zone": zone}})));
    }
    cache.refresh(&mut snapshot);
    snapshot
}

#[test]
fn a_search_ends_when_enough_nodes_fit_and_has_seen_every_zone() {
    let (nodes, profile) = (snapshot(1000, 4), Profile::standard());
    let mut algorithm = Algorithm::new(0, 1);
    let mut seen = vec![0; 1000];
    for _ in 0..5 {
        let placement = algorithm.schedule(&profile, &nodes, &pod("p", cpu("1"))).expect("room");
        assert_eq!(placement.scores.places.len(), 420);
        let mut zones = std::collections::BTreeMap::new();
        for place in &placement.scores.places {
            seen[*place] += 1;
            *zones.entry(nodes.node(*place).object().zone().1.to_owned()).or_insert(0) += 1;
        }
        assert_eq!(zones.into_values().collect::<Vec<_>>(), [105; 4], "zones take turns");
    }
    // The next search begins where the last one ended: 2,100 looks at 1,000 nodes.
    assert!(seen.iter().all(|count| (2..=3).contains(count)), "{seen:?}");
}

#[test]
fn nodes_that_do_not_fit_do_not_count_as_looked_at() {
    let (mut cache, mut nodes) = (Cache::default(), Snapshot::default());
    for at in 0..1000 {
        let spec = if at < 950 { json!({"spec": {"unschedulable": true}}) } else { Value::Null };
        cache.set_node(node(&format!("n{at}"), spec));
    }
    cache.refresh(&mut nodes);
    for _ in 0..3 {
        let placement = Algorithm::new(0, 1).schedule(&Profile::standard(), &nodes, &pod("p", cpu("1"))).expect("room");
        assert_eq!(placement.scores.places.len(), 50);
    }
}

#[test]
fn equal_nodes_get_equal_shares() {
    let (nodes, profile) = (snapshot(8, 2), Profile::standard());
    let mut algorithm = Algorithm::new(0, 3);
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..4000 {
        let placement = algorithm.schedule(&profile, &nodes, &pod("p", cpu("1"))).expect("room");
        *counts.entry(placement.node).or_insert(0) += 1;
    }
    assert!(counts.len() == 8 && counts.values().all(|count| (400..600).contains(count)), "{counts:?}");
}

#[test]
fn a_crowd_of_placed_and_gated_pods_costs_nothing() {
    let mut bench = Bench::new();
    for at in 0..100 {
        bench.set_node(node(&format!("n{at}"), json!({"allocatable": {"pods": "1000"}})));
    }
    for at in 0..10_000 {
        bench.set_pod(pod(&format!("placed{at}"), json!({"nodeName": format!("n{}", at % 100), "containers": []})));
        bench.set_pod(pod(&format!("gated{at}"), json!({"schedulingGates": [{"name": "g"}]})));
    }
    for at in 0..200 {
        bench.set_pod(pod(&format!("p{at}"), cpu("1m")));
        bound(bench.next());
    }
    // No gated pod was shown any of the events of the others.
    assert_eq!(bench.core.lock().examined(), 0);
    assert!(bench.next().is_none());
    assert_eq!(bench.waiting(), 10_000);
}
