//! The server as a list of states, and the views of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use listwatch_proto::resource::{Object, ObjectKey};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::client::Cached;
use crate::controller_manager::pod::{Phase, Pod, PodRef};

/// Everything at one revision.
#[derive(Clone)]
pub(super) struct World {
    pub(super) deployment: Arc<Cached<Object>>,
    pub(super) sets: BTreeMap<String, Arc<Cached<Object>>>,
    pub(super) pods: BTreeMap<String, PodRef>,
}

/// How far a controller has seen, by kind, and up to where it must have seen for the sake of its own writes.
#[derive(Default)]
pub(super) struct View {
    pub(super) deployments: usize,
    pub(super) sets: usize,
    pub(super) pods: usize,
    pub(super) written: HashMap<String, usize>,
}

/// What must hold at every revision.
#[derive(Default, Clone)]
pub(super) struct Bounds {
    /// The most active pods.
    pub(super) most: Option<usize>,
    /// The fewest available ones.
    pub(super) fewest_available: Option<usize>,
    /// Whether pods of two templates must not live at the same time.
    pub(super) one_template: bool,
}

/// What may go wrong.
#[derive(Default, Clone, Copy)]
pub(super) struct Chance {
    /// That the controller manager dies at a write.
    pub(super) death: f64,
    /// That a pod fails, or is deleted by a person, when its kubelet looks.
    pub(super) mishap: f64,
}

pub(super) struct Model {
    pub(super) random: StdRng,
    pub(super) chance: Chance,
    pub(super) bounds: Bounds,
    pub(super) history: Vec<Arc<World>>,
    pub(super) now: Timestamp,
    pub(super) deployment_view: View,
    pub(super) set_view: View,
    /// Whether views may lag.
    pub(super) lag: bool,
    /// Creates that were on their way when the controller manager died.
    pub(super) late: Vec<Pod>,
    pub(super) deaths: usize,
    count: usize,
}

/// Whether it counts: neither going nor ended.
pub(super) fn active(world: &World) -> usize {
    world.pods.values().filter(|pod| pod.is_active()).count()
}

impl Model {
    pub(super) fn new(seed: u64, replicas: i64, surge: i64, unavailable: i64) -> Self {
        let deployment = Object::from_value(json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "default", "name": "web", "uid": "d", "generation": 1},
            "spec": {"replicas": replicas, "revisionHistoryLimit": 2, "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": 0}}}}))
        .expect("a map");
        let world = World { deployment: cached(deployment, 0), sets: BTreeMap::new(), pods: BTreeMap::new() };
        Model {
            random: StdRng::seed_from_u64(seed),
            chance: Chance::default(),
            bounds: Bounds::default(),
            history: vec![Arc::new(world)],
            now: Timestamp::from_second(1_800_000_000).expect("a time"),
            deployment_view: View::default(),
            set_view: View::default(),
            lag: true,
            late: Vec::new(),
            deaths: 0,
            count: 0,
        }
    }

    pub(super) fn head(&self) -> Arc<World> {
        self.history.last().expect("never empty").clone()
    }

    pub(super) fn revision(&self) -> usize {
        self.history.len() - 1
    }

    pub(super) fn pass(&mut self, time: SignedDuration) {
        self.now += time;
    }

    /// One write: the next revision.
    pub(super) fn write(&mut self, change: impl FnOnce(&mut World, i64)) {
        let mut world = World::clone(&self.head());
        let revision = i64::try_from(self.history.len()).expect("few");
        change(&mut world, revision);
        self.history.push(Arc::new(world));
        self.check();
    }

    fn check(&self) {
        let (world, bounds) = (self.head(), &self.bounds);
        if let Some(most) = bounds.most {
            assert!(active(&world) <= most, "{} active pods, where {most} may be: {}", active(&world), self.story());
        }
        let available = world.pods.values().filter(|pod| pod.is_active() && pod.ready_since.is_some()).count();
        if let Some(fewest) = bounds.fewest_available {
            assert!(available >= fewest, "{available} available, where {fewest} must be: {}", self.story());
        }
        if bounds.one_template {
            let mut living = world.pods.values().filter(|pod| !pod.is_finished()).map(|pod| &pod.owners[0].uid);
            let first = living.next();
            assert!(living.all(|owner| Some(owner) == first), "pods of two sets at once: {}", self.story());
        }
    }

    /// The last states, for a failure's message.
    pub(super) fn story(&self) -> String {
        let line = |world: &World| {
            let sets = world.sets.values().map(|set| {
                let owned = world.pods.values().filter(|pod| pod.owners[0].uid == set.uid && pod.is_active()).count();
                let (spec, status) = (&set.object.at(&["spec", "replicas"]), set.object.at(&["status"]));
                format!("{} wants {:?} has {owned} says {:?}", set.key.name, spec, status.map(Value::to_string))
            });
            let spec = world.deployment.object.at(&["spec"]).map(Value::to_string);
            format!("{spec:?}: {}", sets.collect::<Vec<_>>().join("; "))
        };
        let last = self.history.len().saturating_sub(12);
        self.history[last..].iter().map(|world| line(world)).collect::<Vec<_>>().join("\n")
    }

    /// Edits the deployment as a person does.
    pub(super) fn edit(&mut self, change: impl FnOnce(&mut Object)) {
        let mut object = self.head().deployment.object.clone();
        let before = object.at(&["spec"]).cloned();
        change(&mut object);
        if object.at(&["spec"]).cloned() != before {
            object.set(&["metadata", "generation"], object.generation() + 1);
        }
        self.write(|world, revision| world.deployment = cached(object, revision));
    }

    /// Replaces a set's content, unless it is not as it was read.
    pub(super) fn put_set(&mut self, read: (&ObjectKey, i64), change: impl FnOnce(&mut Object)) -> bool {
        let head = self.head();
        let Some(held) = head.sets.get(&read.0.name).filter(|held| held.revision == read.1) else { return false };
        let mut object = held.object.clone();
        change(&mut object);
        if object.at(&["spec"]) != held.object.at(&["spec"]) {
            object.set(&["metadata", "generation"], object.generation() + 1);
        }
        self.write(|world, revision| drop(world.sets.insert(object.name().to_owned(), cached(object, revision))));
        true
    }

    pub(super) fn create_set(&mut self, mut object: Object) {
        let uid = format!("set-{}", self.fresh());
        object.set(&["metadata", "uid"], uid);
        object.set(&["metadata", "generation"], 1);
        object.set(&["metadata", "creationTimestamp"], self.now.to_string());
        self.write(|world, revision| drop(world.sets.insert(object.name().to_owned(), cached(object, revision))));
    }

    pub(super) fn create_pod(&mut self, pod: Pod) {
        let name = format!("pod-{:04}", self.fresh());
        self.put_pod(&name, pod);
    }

    pub(super) fn put_pod(&mut self, name: &str, object: Pod) {
        let key = ObjectKey::new("default", name);
        self.write(|world, revision| {
            world.pods.insert(name.to_owned(), Arc::new(Cached { key, uid: name.to_owned(), revision, object }));
        });
    }

    fn fresh(&mut self) -> usize {
        self.count += 1;
        self.count
    }

    /// A kubelet looks at one of its pods.
    pub(super) fn run_kubelet(&mut self) {
        let pods: Vec<PodRef> = self.head().pods.values().cloned().collect();
        if pods.is_empty() {
            return;
        }
        let at = self.random.random_range(0..pods.len());
        self.look_after(&pods[at]);
    }

    pub(super) fn look_after(&mut self, pod: &PodRef) {
        let mut object = pod.object.clone();
        if pod.terminating {
            return self.write(|world, _| drop(world.pods.remove(&pod.key.name)));
        }
        if pod.is_active() && self.random.random_bool(self.chance.mishap) {
            if self.random.random_bool(0.5) {
                object.phase = Phase::Failed;
            } else {
                object.terminating = true;
            }
            self.put_pod(&pod.key.name, object);
        } else if pod.phase == Phase::Pending {
            (object.phase, object.ready_since) = (Phase::Running, Some(self.now));
            self.put_pod(&pod.key.name, object);
        }
    }
}

/// An object at a revision.
pub(super) fn cached(object: Object, revision: i64) -> Arc<Cached<Object>> {
    Arc::new(Cached { key: object.key(), uid: object.uid().to_owned(), revision, object })
}
