//! Each refusal is cured by the events that can cure it, at once, and by no other: for every refuser a pod is refused,
//! things happen that cannot help (it stays), then one that can (it is placed).

use serde_json::{Value, json};

use super::bench::{Bench, and, bound, cpu, node, pod, refused, with};

type Step<'a> = (&'a str, &'a dyn Fn(&mut Bench));

/// A row of the table of refusers and cures.
struct Row<'a> {
    /// What the refusal says.
    says: &'a str,
    /// The pod that is refused.
    pod: Value,
    /// What stands before.
    setup: &'a dyn Fn(&mut Bench),
    /// What cannot cure, one after another.
    vain: &'a [Step<'a>],
    /// What cures, each by itself.
    cures: &'a [Step<'a>],
}

impl Row<'_> {
    fn check(&self) {
        for (cure, happens) in self.cures {
            let mut bench = Bench::new();
            (self.setup)(&mut bench);
            bench.set_pod(pod("p", self.pod.clone()));
            let message = refused(bench.next());
            assert!(message.contains(self.says), "{message}");
            for (what, happens) in self.vain {
                happens(&mut bench);
                assert!(bench.next().is_none(), "{}: {what} does not help", self.says);
            }
            happens(&mut bench);
            let (queued, _) = bound(bench.next());
            assert_eq!(queued.pod.key.name, "p", "{}: {cure} helps", self.says);
            assert_eq!(queued.attempts, 2, "{}: tried again only when {cure}", self.says);
        }
    }
}

/// A pod with a place, with this much cpu.
fn placed(name: &str, on: &str, amount: &str) -> std::sync::Arc<crate::scheduler::Pod> {
    pod(name, and(cpu(amount), json!({"nodeName": on})))
}

fn labelled(name: &str, value: &str, spec: Value) -> std::sync::Arc<crate::scheduler::Node> {
    node(name, json!({"labels": {"disk": value}, "spec": spec}))
}

/// Events that help nobody who waits for something of node `a`.
fn elsewhere(bench: &mut Bench) {
    bench.set_pod(placed("other", "nowhere", "100m"));
    bench.remove_pod("other");
    let waiting = pod("another", json!({"schedulerName": "another"}));
    bench.set_pod(waiting);
    bench.remove_pod("another");
}

#[test]
fn a_cordon() {
    let cordoned = || json!({"unschedulable": true});
    let both = json!({"unschedulable": true, "taints": [{"key": "k", "effect": "PreferNoSchedule"}]});
    Row {
        says: "node(s) were unschedulable",
        pod: cpu("1"),
        setup: &|bench| {
            bench.set_node(labelled("a", "hdd", cordoned()));
            bench.set_pod(placed("x", "a", "1"));
        },
        vain: &[
            ("a pod elsewhere", &elsewhere),
            ("a label", &|bench| bench.set_node(labelled("a", "ssd", cordoned()))),
            ("a taint", &|bench| bench.set_node(labelled("a", "ssd", both.clone()))),
            ("a pod that leaves", &|bench| bench.remove_pod("x")),
            ("another cordoned node", &|bench| bench.set_node(node("b", json!({"spec": cordoned()})))),
            ("a larger node", &|bench| {
                bench.set_node(node("a", json!({"spec": cordoned(), "allocatable": {"cpu": "64"}})));
            }),
            ("its own label", &|bench| {
                bench.set_pod(with(&pod("p", cpu("1")), |pod| pod.labels = vec![("k".into(), "v".into())]));
            }),
        ],
        cures: &[
            ("a node appears", &|bench| bench.set_node(node("c", Value::Null))),
            ("the node is uncordoned", &|bench| bench.set_node(node("a", Value::Null))),
            ("it tolerates the cordon", &|bench| {
                let toleration =
                    json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]});
                bench.set_pod(pod("p", and(cpu("1"), toleration)));
            }),
        ],
    }
    .check();
}

#[test]
fn a_taint() {
    let taints = |taints: Value| json!({"spec": {"taints": taints}});
    let two = || json!([{"key": "k", "effect": "NoSchedule"}, {"key": "z", "value": "1", "effect": "NoExecute"}]);
    Row {
        says: "node(s) had untolerated taint(s)",
        pod: cpu("1"),
        setup: &|bench| {
            bench.set_node(node("a", taints(two())));
            bench.set_pod(placed("x", "a", "1"));
        },
        vain: &[
            ("a pod elsewhere", &elsewhere),
            ("a pod that leaves", &|bench| bench.remove_pod("x")),
            ("a label", &|bench| bench.set_node(labelled("a", "ssd", json!({"taints": two()})))),
            ("one of two taints goes", &|bench| {
                bench.set_node(node("a", taints(json!([{"key": "z", "value": "1", "effect": "NoExecute"}]))));
            }),
            ("the other value", &|bench| {
                bench.set_node(node("a", taints(json!([{"key": "z", "value": "2", "effect": "NoExecute"}]))));
            }),
            ("another tainted node", &|bench| bench.set_node(node("b", taints(two())))),
            ("its own request", &|bench| bench.set_pod(pod("p", cpu("500m")))),
        ],
        cures: &[
            ("a node appears", &|bench| bench.set_node(node("c", Value::Null))),
            ("the taint goes", &|bench| bench.set_node(node("a", Value::Null))),
            ("the taint is only a wish now", &|bench| {
                bench.set_node(node("a", taints(json!([{"key": "z", "effect": "PreferNoSchedule"}]))));
            }),
            ("it tolerates the taint", &|bench| {
                bench.set_pod(pod("p", and(cpu("500m"), json!({"tolerations": [{"key": "z", "operator": "Exists"}]}))));
            }),
        ],
    }
    .check();
}

#[test]
fn node_rules() {
    let wants = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}}}});
    Row {
        says: "node(s) didn't match Pod's node affinity/selector",
        pod: and(cpu("1"), wants),
        setup: &|bench| {
            bench.set_node(labelled("a", "hdd", json!({})));
            bench.set_pod(placed("x", "a", "1"));
        },
        vain: &[
            ("a pod elsewhere", &elsewhere),
            ("a pod that leaves", &|bench| bench.remove_pod("x")),
            ("another value", &|bench| bench.set_node(labelled("a", "nvme", json!({})))),
            ("a taint", &|bench| {
                bench.set_node(labelled("a", "nvme", json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})));
            }),
            ("the taint goes", &|bench| bench.set_node(labelled("a", "nvme", json!({})))),
            ("another such node", &|bench| bench.set_node(labelled("b", "hdd", json!({})))),
        ],
        cures: &[
            ("a matching node appears", &|bench| bench.set_node(labelled("c", "ssd", json!({})))),
            ("the label matches", &|bench| bench.set_node(labelled("a", "ssd", json!({})))),
            ("its own rules change", &|bench| {
                bench.set_pod(pod("p", and(cpu("1"), json!({"nodeSelector": {"disk": "nvme"}}))));
            }),
        ],
    }
    .check();
}

#[test]
fn ports() {
    let with_port =
        |port: i64| json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": port}]}]});
    let holds = |name: &str, port: i64| pod(name, and(with_port(port), json!({"nodeName": "a"})));
    Row {
        says: "node(s) didn't have free ports for the requested pod ports",
        pod: with_port(8080),
        setup: &|bench| {
            bench.set_node(node("a", Value::Null));
            for (name, port) in [("x", 8080), ("twin", 8080), ("y", 9090)] {
                bench.set_pod(holds(name, port));
            }
            bench.set_pod(placed("z", "a", "1"));
        },
        vain: &[
            ("a pod elsewhere", &elsewhere),
            ("a pod without ports leaves", &|bench| bench.remove_pod("z")),
            ("another port is free", &|bench| bench.remove_pod("y")),
            ("one of two holders leaves", &|bench| bench.remove_pod("twin")),
            ("a label", &|bench| bench.set_node(labelled("a", "ssd", json!({})))),
            ("a cordon", &|bench| bench.set_node(labelled("a", "ssd", json!({"unschedulable": true})))),
            ("the cordon goes", &|bench| bench.set_node(labelled("a", "ssd", json!({})))),
        ],
        cures: &[
            ("the holder leaves", &|bench| bench.remove_pod("x")),
            ("the holder has finished", &|bench| bench.set_pod(with(&holds("x", 8080), |pod| pod.finished = true))),
            ("a node appears", &|bench| bench.set_node(node("c", Value::Null))),
        ],
    }
    .check();
}

#[test]
fn room() {
    Row {
        says: "Insufficient cpu",
        pod: cpu("2"),
        setup: &|bench| {
            bench.set_node(node("a", Value::Null));
            bench.set_pod(placed("x", "a", "2500m"));
            bench.set_pod(placed("y", "a", "500m"));
        },
        vain: &[
            ("a pod elsewhere", &elsewhere),
            ("too little leaves", &|bench| bench.remove_pod("y")),
            ("too little is scaled down", &|bench| bench.set_pod(placed("x", "a", "2400m"))),
            ("it is scaled up", &|bench| bench.set_pod(placed("x", "a", "3"))),
            ("more memory", &|bench| bench.set_node(node("a", json!({"allocatable": {"memory": "64Gi"}})))),
            ("a little node", &|bench| bench.set_node(node("b", json!({"allocatable": {"cpu": "1"}})))),
            ("a node without places", &|bench| bench.set_node(node("d", json!({"allocatable": {"pods": "0"}})))),
            ("a label", &|bench| {
                bench.set_node(node("a", json!({"labels": {"k": "v"}, "allocatable": {"memory": "64Gi"}})));
            }),
            ("its own label", &|bench| {
                bench.set_pod(with(&pod("p", cpu("2")), |pod| pod.labels = vec![("k".into(), "v".into())]));
            }),
        ],
        cures: &[
            ("enough leaves", &|bench| bench.remove_pod("x")),
            ("enough has finished", &|bench| bench.set_pod(with(&placed("x", "a", "3"), |pod| pod.finished = true))),
            ("enough is scaled down", &|bench| bench.set_pod(placed("x", "a", "1"))),
            ("a node appears", &|bench| bench.set_node(node("c", Value::Null))),
            ("the node grows", &|bench| bench.set_node(node("a", json!({"allocatable": {"cpu": "8"}})))),
            ("it asks for less", &|bench| bench.set_pod(pod("p", cpu("500m")))),
        ],
    }
    .check();
}

#[test]
fn places_for_pods() {
    let one = || json!({"allocatable": {"pods": "1"}});
    Row {
        says: "Too many pods",
        pod: json!({"containers": [{"name": "c"}]}),
        setup: &|bench| {
            bench.set_node(node("a", one()));
            bench.set_pod(placed("x", "a", "1"));
        },
        vain: &[
            ("a pod elsewhere", &elsewhere),
            ("less cpu", &|bench| bench.set_pod(placed("x", "a", "500m"))),
            ("more cpu", &|bench| bench.set_node(node("a", json!({"allocatable": {"pods": "1", "cpu": "8"}})))),
        ],
        cures: &[
            ("the pod leaves", &|bench| bench.remove_pod("x")),
            ("more places", &|bench| bench.set_node(node("a", json!({"allocatable": {"pods": "2"}})))),
            ("a node appears", &|bench| bench.set_node(node("c", one()))),
        ],
    }
    .check();
}

#[test]
fn room_that_is_given_back() {
    let mut bench = Bench::new();
    bench.set_node(node("a", Value::Null));
    bench.set_pod(pod("first", cpu("3")));
    bench.set_pod(pod("second", cpu("3")));
    let (first, _) = bound(bench.next());
    refused(bench.next());
    // The binding fails: to the others that is a pod that leaves.
    bench.bind_failed(first, None);
    assert_eq!(bound(bench.next()).0.pod.key.name, "second");
}

#[test]
fn no_node_at_all() {
    Row {
        says: "no nodes available to schedule pods",
        pod: cpu("1"),
        setup: &|_| {},
        vain: &[("a pod elsewhere", &elsewhere)],
        cures: &[("a node appears", &|bench| bench.set_node(node("a", Value::Null)))],
    }
    .check();
}

#[test]
fn gates() {
    let gated = |gates: Value| pod("p", and(cpu("1"), json!({"schedulingGates": gates})));
    let mut bench = Bench::new();
    bench.set_pod(gated(json!([{"name": "one"}, {"name": "two"}])));
    bench.set_node(node("a", Value::Null));
    assert!(bench.next().is_none() && bench.core.lock().wake_at().is_none(), "no timer wakes it");
    elsewhere(&mut bench);
    bench.pass(1000);
    bench.set_pod(gated(json!([{"name": "two"}])));
    assert!(bench.next().is_none(), "one gate is left");
    bench.set_pod(gated(json!([])));
    let (queued, _) = bound(bench.next());
    assert_eq!(queued.attempts, 1, "waiting behind a gate is no try");
    assert_eq!(bench.core.lock().examined(), 0, "it was shown no event");
}

#[test]
fn one_of_several_refusers_is_enough() {
    // One node is refused for a taint, the other for its label: either event brings the pod back.
    for cure in [
        |bench: &mut Bench| bench.set_node(labelled("a", "ssd", json!({}))),
        |bench: &mut Bench| bench.set_node(labelled("b", "ssd", json!({}))),
    ] {
        let mut bench = Bench::new();
        bench.set_node(labelled("a", "ssd", json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})));
        bench.set_node(labelled("b", "hdd", json!({})));
        bench.set_pod(pod("p", and(cpu("1"), json!({"nodeSelector": {"disk": "ssd"}}))));
        refused(bench.next());
        cure(&mut bench);
        bound(bench.next());
    }
}
