//! Everything that can happen at once, in seeded disorder: watches that lag, nodes that change between a look and its
//! refusal, bindings that fail, whose answers are lost or that arrive late, a scheduler that is killed between its decision
//! and the binding. Whatever happens, in the end each pod is bound, exactly once, and soon.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::bench::{and, cpu, key, node, pod, with};
use crate::scheduler::bind::is_settled;
use crate::scheduler::framework::Profile;
use crate::scheduler::{Algorithm, Backoff, Core, Decision, Node, Pod, Queued, Snapshot, Try};

/// No pod may wait longer than this for something that has happened: the longest back-off and a little.
const WAIT_MAX: Duration = Duration::from_secs(12);

/// What a watch tells.
#[derive(Clone)]
enum Event {
    Pod(Arc<Pod>),
    PodGone(String),
    Node(Arc<Node>),
    NodeGone(String),
}

/// The API server: what is true, and everything that ever happened.
#[derive(Default)]
struct Server {
    pods: BTreeMap<String, Arc<Pod>>,
    nodes: BTreeMap<String, Arc<Node>>,
    events: Vec<Event>,
    /// How often each pod was bound, by uid.
    bound: HashMap<String, u32>,
    uids: u32,
}

impl Server {
    fn create(&mut self, name: &str, spec: Value) {
        self.uids += 1;
        let uid = format!("uid-{}", self.uids);
        self.put(with(&pod(name, spec), |pod| pod.uid = uid));
    }

    fn put(&mut self, pod: Arc<Pod>) {
        self.pods.insert(pod.key.name.clone(), pod.clone());
        self.events.push(Event::Pod(pod));
    }

    fn delete(&mut self, name: &str) {
        if self.pods.remove(name).is_some() {
            self.events.push(Event::PodGone(name.to_owned()));
        }
    }

    fn set_node(&mut self, node: Arc<Node>) {
        self.nodes.insert(node.name.to_string(), node.clone());
        self.events.push(Event::Node(node));
    }

    fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.events.push(Event::NodeGone(name.to_owned()));
    }

    /// The binding subresource: once, and only this very pod.
    fn bind(&mut self, queued: &Queued, node: &str) -> bool {
        let Some(held) = self.pods.get(&queued.pod.key.name) else { return false };
        if held.uid != queued.pod.uid || !held.node_name.is_empty() {
            return false;
        }
        *self.bound.entry(held.uid.clone()).or_default() += 1;
        self.put(Arc::new(held.placed_on(node)));
        true
    }

    fn check(&self, no_overload: bool) {
        assert!(self.bound.values().all(|times| *times == 1), "a pod was bound twice");
        for node in self.nodes.values().filter(|_| no_overload) {
            let on = self.pods.values().filter(|pod| pod.node_name == *node.name);
            let sum: i64 = on.map(|pod| pod.requests.milli_cpu).sum();
            assert!(sum <= node.allocatable.milli_cpu, "{} holds {sum}", node.name);
        }
    }
}

/// A scheduler and its bindings under way.
struct Scheduler {
    core: Core,
    snapshot: Snapshot,
    algorithm: Algorithm,
    profile: Arc<Profile>,
    /// The next event that its watch tells.
    cursor: usize,
    bindings: Vec<(Queued, Arc<str>)>,
}

impl Scheduler {
    /// Starts from a list, as after a kill.
    fn start(server: &Server, seed: u64, now: Instant) -> Self {
        let profile = Arc::new(Profile::standard());
        let mut core = Core::new("default-scheduler", profile.clone(), Backoff::default(), now);
        for node in server.nodes.values() {
            core.set_node(node.clone(), now);
        }
        for pod in server.pods.values() {
            core.set_pod(pod.clone(), now);
        }
        let algorithm = Algorithm::new(0, seed);
        let cursor = server.events.len();
        Scheduler { core, snapshot: Snapshot::default(), algorithm, profile, cursor, bindings: Vec::new() }
    }

    /// Hears of some of what has happened.
    fn watch(&mut self, server: &Server, events: usize, now: Instant) {
        for event in server.events.iter().skip(self.cursor).take(events) {
            match event.clone() {
                Event::Pod(pod) => self.core.set_pod(pod, now),
                Event::PodGone(name) => self.core.remove_pod(&key(&name), now),
                Event::Node(node) => self.core.set_node(node, now),
                Event::NodeGone(name) => self.core.remove_node(&name),
            }
            self.cursor += 1;
        }
    }

    /// One try, with something happening between the look and its end; false if no pod is worth one.
    fn try_one(&mut self, now: Instant, meanwhile: impl FnOnce(&mut Self)) -> bool {
        let queued = match self.core.begin(&mut self.snapshot, now) {
            None => return false,
            Some(Try::Skip(_)) => return true,
            Some(Try::Schedule(queued)) => queued,
        };
        let found = self.algorithm.schedule(&self.profile, &self.snapshot, &queued.pod);
        meanwhile(self);
        if let Some(Decision::Bind { queued, node }) = self.core.end(queued, found, now) {
            self.bindings.push((queued, node));
        }
        true
    }

    /// A binding ends as the binder ends it: on an error the server is asked what became of the pod.
    fn binding_failed(&mut self, server: &Server, queued: Queued, node: &str, now: Instant) {
        let live = server.pods.get(&queued.pod.key.name).cloned();
        if !is_settled(live.as_deref(), &queued.pod.uid, node) {
            self.core.bind_failed(queued, live, now);
        }
    }
}

struct World {
    rng: StdRng,
    server: Server,
    scheduler: Scheduler,
    now: Instant,
    /// Bindings that the server has yet to hear of although the scheduler has given them up.
    late: Vec<(Queued, Arc<str>)>,
    /// Whether bindings may come late, which may overload a node.
    with_late: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let (mut server, now) = (Server::default(), Instant::now());
        for at in 0..4 {
            server.set_node(zoned(&format!("n{at}"), at % 2, false));
        }
        let scheduler = Scheduler::start(&server, seed, now);
        let rng = StdRng::seed_from_u64(seed);
        World { rng, server, scheduler, now, late: Vec::new(), with_late: seed % 2 == 1 }
    }

    fn pick(&mut self, below: usize) -> usize {
        self.rng.random_range(0..below)
    }

    fn random_node(&mut self) -> String {
        format!("n{}", self.pick(4))
    }

    /// Somebody changes the cluster.
    fn disturb(&mut self) {
        match self.pick(6) {
            0 | 1 => {
                let (name, cores, zone) = (format!("p{}", self.pick(20)), self.pick(3) + 1, self.pick(4));
                if !self.server.pods.contains_key(&name) {
                    let rules = if zone < 2 { json!({"nodeSelector": {"zone": zone.to_string()}}) } else { json!({}) };
                    self.server.create(&name, and(cpu(&cores.to_string()), rules));
                }
            }
            2 => {
                let name = format!("p{}", self.pick(20));
                self.server.delete(&name);
            }
            3 | 4 => {
                let (name, zone, tainted) = (self.random_node(), self.pick(2), self.pick(3) == 0);
                if self.server.nodes.contains_key(&name) {
                    self.server.set_node(zoned(&name, zone, tainted));
                }
            }
            _ => {
                // A node goes with its pods, or comes back.
                let name = self.random_node();
                if self.server.nodes.contains_key(&name) {
                    self.server.remove_node(&name);
                    let on: Vec<_> = self.server.pods.values().filter(|p| p.node_name == name).cloned().collect();
                    on.iter().for_each(|pod| self.server.delete(&pod.key.name));
                } else {
                    self.server.set_node(zoned(&name, 0, false));
                }
            }
        }
    }

    fn end_a_binding(&mut self) {
        if self.scheduler.bindings.is_empty() {
            return;
        }
        let at = self.pick(self.scheduler.bindings.len());
        let (queued, node) = self.scheduler.bindings.swap_remove(at);
        let done = match self.pick(10) {
            // Refused by something on the way.
            0 => false,
            // Done, but the answer is lost.
            1 => {
                self.server.bind(&queued, &node);
                false
            }
            // Given up by the client, done later.
            2 if self.with_late => {
                self.late.push((queued.clone(), node.clone()));
                false
            }
            _ => self.server.bind(&queued, &node),
        };
        if !done {
            self.scheduler.binding_failed(&self.server, queued, &node, self.now);
        }
    }

    fn step(&mut self, seed: u64) {
        match self.pick(12) {
            0..3 => self.disturb(),
            3 | 4 => {
                let events = self.pick(4);
                self.scheduler.watch(&self.server, events, self.now);
            }
            5..8 => {
                // The cluster changes while the nodes are looked at, and the watch tells of it at once, or later.
                let (changes, events) = (self.pick(3), self.pick(6));
                (0..changes).for_each(|_| self.disturb());
                let (server, now) = (&self.server, self.now);
                self.scheduler.try_one(now, |scheduler| scheduler.watch(server, events, now));
            }
            8 | 9 => self.end_a_binding(),
            10 => {
                let pause = self.pick(1500) as u64;
                self.now += Duration::from_millis(pause);
                if let Some((queued, node)) = self.late.pop() {
                    self.server.bind(&queued, &node);
                }
            }
            _ if self.pick(5) == 0 => {
                // Killed between decision and binding; what was sent may have arrived.
                for (queued, node) in std::mem::take(&mut self.scheduler.bindings) {
                    if self.pick(2) == 0 {
                        self.server.bind(&queued, &node);
                    }
                }
                self.scheduler = Scheduler::start(&self.server, seed, self.now);
            }
            _ => {}
        }
        self.server.check(!self.with_late);
    }

    /// Quiet, and room for everybody: from here on each pod has to be bound, and soon.
    fn settle(&mut self) {
        for zone in 0..2 {
            let more = json!({"labels": {"zone": zone.to_string()}, "allocatable": {"cpu": "100"}});
            self.server.set_node(node(&format!("big{zone}"), more));
        }
        let end = self.now + WAIT_MAX;
        loop {
            self.scheduler.watch(&self.server, usize::MAX, self.now);
            while self.scheduler.try_one(self.now, |_| {}) {}
            if self.scheduler.bindings.is_empty() && self.scheduler.cursor == self.server.events.len() {
                let waiting = self.server.pods.values().filter(|pod| pod.node_name.is_empty()).count();
                assert_eq!(waiting, self.scheduler.core.waiting(), "who waits is in the queue");
                if waiting == 0 {
                    break;
                }
                let wake_at = self.scheduler.core.wake_at().expect("somebody waits");
                assert!(wake_at <= end, "{waiting} pods would wait {:?} for what has happened", wake_at - self.now);
                self.now = self.now.max(wake_at);
            }
            for (queued, node) in std::mem::take(&mut self.scheduler.bindings) {
                if !self.server.bind(&queued, &node) {
                    self.scheduler.binding_failed(&self.server, queued, &node, self.now);
                }
            }
        }
        self.server.check(false);
    }
}

fn zoned(name: &str, zone: usize, tainted: bool) -> Arc<Node> {
    let taints = if tainted { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!([]) };
    node(name, json!({"labels": {"zone": zone.to_string()}, "spec": {"taints": taints}}))
}

#[test]
fn whatever_happens_each_pod_is_bound_once_and_soon() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.step(seed);
        }
        world.settle();
    }
}

/// A node that is given and loses a label while a pod is tried that wants it: as long as the label is there in the end, the
/// pod does not wait for a timer, whenever the change was heard of.
#[test]
fn a_cure_that_comes_between_look_and_refusal_is_not_lost() {
    let mut rng = StdRng::seed_from_u64(72_122);
    for round in 0..10_000 {
        let now = Instant::now();
        let mut server = Server::default();
        server.set_node(zoned("n0", 0, false));
        server.create("p", and(cpu("1"), json!({"nodeSelector": {"zone": "1"}})));
        let mut scheduler = Scheduler::start(&server, round, now);
        let changes = rng.random_range(1..6);
        for change in 1..=changes {
            let zone = if change == changes { 1 } else { rng.random_range(0..2) };
            let mut change = Some(zoned("n0", zone, rng.random_bool(0.3) && change < changes));
            if rng.random_bool(0.5) {
                change.take().into_iter().for_each(|node| server.set_node(node));
            }
            let told = rng.random_range(0..3);
            scheduler.try_one(now, |scheduler| {
                change.take().into_iter().for_each(|node| server.set_node(node));
                scheduler.watch(&server, told, now);
            });
            // No pod was worth a try, so it has not happened yet.
            change.take().into_iter().for_each(|node| server.set_node(node));
            if rng.random_bool(0.5) {
                scheduler.watch(&server, 1, now);
            }
        }
        scheduler.watch(&server, usize::MAX, now);
        while scheduler.try_one(now, |_| {}) {}
        assert_eq!(scheduler.bindings.len(), 1, "round {round}: the pod waits although its node is there");
    }
}
