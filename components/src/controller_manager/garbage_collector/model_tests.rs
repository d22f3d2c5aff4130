//! Random owners, deletes and orders of events against the rules, without a server.
//!
//! The world here is a server that is right at all times, a cache a kind that lags behind it as it likes, and one queue. What
//! must hold is asked of the server: nothing with an owner is ever deleted by the collector, nothing without one is left,
//! what goes last goes last, what is freed stays.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use async_trait::async_trait;
use futures::FutureExt;
use listwatch_proto::resource::{Kind, ObjectKey, OwnerReference, Status};
use parking_lot::Mutex;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::World;
use super::absent::Absent;
use super::collect::{Place, changed, collect, place, removed};
use crate::client::{Error, Propagation};
use crate::controller_manager::owned::{FOREGROUND, Known, ORPHAN};
use crate::runtime::Stopped;

type Id = (usize, ObjectKey);

/// Kinds of all sorts: with and without a namespace.
const NAMES: [&str; 5] = ["pods", "replicasets", "deployments", "nodes", "namespaces"];
/// Steps after which everything must have come to rest.
const STEPS_MAX: usize = 20_000;

fn kind(at: usize) -> &'static Kind {
    Kind::by_name(NAMES[at]).expect("a served kind")
}

fn index(kind: &Kind) -> usize {
    NAMES.iter().position(|name| *name == kind.plural).expect("a kind of this test")
}

#[derive(Debug, Clone)]
struct Event {
    revision: i64,
    object: Known,
    deleted: bool,
}

#[derive(Debug, Default)]
struct State {
    revision: i64,
    live: BTreeMap<Id, Known>,
    /// When each object was made.
    made: BTreeMap<String, i64>,
    /// At which revision each owner was told to go last, or to free what it owns.
    told: BTreeMap<String, i64>,
    shown: BTreeMap<Id, Known>,
    coming: Vec<VecDeque<Event>>,
    queue: BTreeSet<Id>,
    /// Objects that were freed, by uid, and must stay.
    freed: BTreeSet<String>,
    misplaced: usize,
}

#[derive(Debug, Default)]
struct Sim {
    state: Mutex<State>,
    absent: Absent,
}

impl State {
    fn write(&mut self, id: Id, mut object: Known) {
        self.revision += 1;
        object.revision = self.revision;
        let gone = object.terminating && object.finalizers.is_empty();
        if gone {
            self.live.remove(&id);
        } else {
            self.live.insert(id.clone(), object.clone());
        }
        self.coming[id.0].push_back(Event { revision: self.revision, object, deleted: gone });
    }

    /// As the registry does it.
    fn delete(&mut self, id: &Id, propagation: Propagation) {
        let Some(mut object) = self.live.get(id).cloned() else { return };
        if object.terminating {
            return;
        }
        if propagation != Propagation::Default {
            object.finalizers.retain(|f| f != FOREGROUND && f != ORPHAN);
        }
        match propagation {
            Propagation::Foreground => object.finalizers.push(FOREGROUND.into()),
            Propagation::Orphan => object.finalizers.push(ORPHAN.into()),
            _ => {}
        }
        object.terminating = true;
        if object.frees() {
            for (dependent_id, dependent) in &self.live {
                let means = |o: &OwnerReference| place(&dependent_id.1, o) == Place::At(kind(id.0), id.1.clone());
                if !dependent.terminating
                    && dependent.owners.len() == 1
                    && dependent.owners[0].uid == object.uid
                    && means(&dependent.owners[0])
                {
                    self.freed.insert(dependent.uid.clone());
                }
            }
        }
        let uid = object.uid.clone();
        self.write(id.clone(), object);
        self.told.insert(uid, self.revision);
    }

    /// Whether an object has an owner, as the server stands: one that is there and does not wait for it, or of which nothing
    /// can be said. In a ring (`ring`) owners that go last do not count even if they do not wait.
    fn keeps(&self, object: &Known, ring: bool) -> bool {
        object.owners.iter().any(|owner| match place(&object.key, owner) {
            Place::Impossible | Place::Unknown => true,
            Place::At(kind, key) => self.live.get(&(index(kind), key)).is_some_and(|live| {
                live.uid == owner.uid && !(live.goes_last() && (ring || owner.block_owner_deletion == Some(true)))
            }),
        })
    }

    /// Whether something that was there when the owner was told still blocks it.
    fn blocked(&self, id: &Id, owner: &Known) -> bool {
        let told = self.told.get(&owner.uid).copied().unwrap_or(0);
        self.live.values().filter(|other| self.made[&other.uid] < told).any(|other| {
            other.owners.iter().any(|o| {
                o.uid == owner.uid
                    && o.block_owner_deletion == Some(true)
                    && place(&other.key, o) == Place::At(kind(id.0), id.1.clone())
            })
        })
    }

    fn checked(&self, id: &Id, of: &Known) -> Result<Option<Known>, Error> {
        match self.live.get(id) {
            None => Ok(None),
            Some(live) if live.uid == of.uid && live.revision == of.revision => Ok(Some(live.clone())),
            Some(_) => Err(Error::Status(Box::new(Status::conflict(kind(id.0), &of.key.name, "changed")))),
        }
    }
}

impl Sim {
    /// The cache of a kind takes in one event.
    fn deliver(&self, at: usize) {
        let event = self.state.lock().coming[at].pop_front();
        let Some(Event { object, deleted, .. }) = event else { return };
        let id = (at, object.key.clone());
        let old = self.state.lock().shown.remove(&id);
        if deleted {
            removed(self, &object);
            return;
        }
        self.state.lock().shown.insert(id, object.clone());
        let same = old.clone().filter(|old| old.uid == object.uid);
        match old.filter(|old| old.uid != object.uid) {
            Some(other) => {
                removed(self, &other);
                changed(self, kind(at), None, &object);
            }
            None => changed(self, kind(at), same.as_ref(), &object),
        }
    }

    fn run(&self, id: &Id) {
        self.state.lock().queue.remove(id);
        if let Err(error) = collect(self, kind(id.0), &id.1).now_or_never().expect("this world never waits") {
            assert!(error.downcast_ref::<Error>().is_some_and(Error::is_conflict), "{error}");
            self.state.lock().queue.insert(id.clone());
        }
    }
}

#[async_trait]
impl World for Sim {
    fn get(&self, kind: &Kind, key: &ObjectKey) -> Option<Known> {
        self.state.lock().shown.get(&(index(kind), key.clone())).cloned()
    }

    fn dependents(&self, uid: &str) -> Vec<(&'static Kind, Known)> {
        let state = self.state.lock();
        let of = |(id, object): (&Id, &Known)| {
            object.owners.iter().any(|o| o.uid == uid).then(|| (kind(id.0), object.clone()))
        };
        state.shown.iter().filter_map(of).collect()
    }

    fn exists_somewhere(&self, of: &Kind, uid: &str) -> bool {
        self.state.lock().shown.iter().any(|(id, object)| id.0 == index(of) && object.uid == uid)
    }

    fn enqueue(&self, kind: &Kind, key: &ObjectKey) {
        self.state.lock().queue.insert((index(kind), key.clone()));
    }

    fn absent(&self) -> &Absent {
        &self.absent
    }

    async fn catch_up(&self, revision: i64) -> Result<(), Stopped> {
        for at in 0..NAMES.len() {
            while self.state.lock().coming[at].front().is_some_and(|event| event.revision <= revision) {
                self.deliver(at);
            }
        }
        Ok(())
    }

    async fn live(&self, kind: &'static Kind, key: &ObjectKey) -> Result<Option<Known>, Error> {
        Ok(self.state.lock().live.get(&(index(kind), key.clone())).cloned())
    }

    async fn set_owners(&self, kind: &'static Kind, of: &Known, owners: &[OwnerReference]) -> Result<(), Error> {
        let (mut state, id) = (self.state.lock(), (index(kind), of.key.clone()));
        let Some(live) = state.checked(&id, of)? else { return Ok(()) };
        state.write(id, Known { owners: owners.to_vec(), ..live });
        Ok(())
    }

    async fn set_finalizers(&self, kind: &'static Kind, of: &Known, finalizers: &[String]) -> Result<(), Error> {
        let (mut state, id) = (self.state.lock(), (index(kind), of.key.clone()));
        let Some(live) = state.checked(&id, of)? else { return Ok(()) };
        if live.goes_last() && !finalizers.iter().any(|f| f == FOREGROUND) {
            assert!(!state.blocked(&id, &live), "{} went before what it owns", live.key);
        }
        state.write(id, Known { finalizers: finalizers.to_vec(), ..live });
        Ok(())
    }

    async fn delete(&self, kind: &'static Kind, of: &Known, propagation: Propagation) -> Result<(), Error> {
        let (mut state, id) = (self.state.lock(), (index(kind), of.key.clone()));
        let Some(live) = state.checked(&id, of)? else { return Ok(()) };
        let ring = propagation == Propagation::Foreground;
        assert!(
            !live.owners.is_empty() && !state.keeps(&live, ring),
            "{} has an owner, or never had: {live:?}",
            live.key
        );
        assert!(!state.freed.contains(&live.uid), "{} was to stay", live.key);
        state.delete(&id, propagation);
        Ok(())
    }

    fn tell_misplaced(&self, _: &'static Kind, _: &Known, _: &OwnerReference) {
        self.state.lock().misplaced += 1;
    }
}

/// An object with random owners among those that were made before it.
fn make(sim: &Sim, rng: &mut StdRng, number: usize, made: &[(Id, String)]) -> (Id, String) {
    let at = rng.random_range(0..NAMES.len());
    let namespace = if kind(at).namespaced { ["a", "b"][rng.random_range(0..2)] } else { "" };
    let id = (at, ObjectKey::new(namespace, format!("o{number}")));
    let uid = format!("u{number}");
    let mut owners = Vec::new();
    for _ in 0..rng.random_range(0..3) {
        let Some(((owner_at, owner_key), owner_uid)) = made.get(rng.random_range(0..made.len().max(1))) else { break };
        let kind = kind(*owner_at);
        let mut owner = OwnerReference {
            api_version: kind.api_version(),
            kind: kind.kind.into(),
            name: owner_key.name.clone(),
            uid: owner_uid.clone(),
            controller: None,
            block_owner_deletion: rng.random_bool(0.6).then_some(true),
        };
        match rng.random_range(0..12) {
            0 => owner.name = "other".into(),
            1 => owner.uid = format!("never-{number}"),
            2 => owner.kind = "Gizmo".into(),
            _ => {}
        }
        if !owners.iter().any(|held: &OwnerReference| held.uid == owner.uid) {
            owners.push(owner);
        }
    }
    let finalizers = if rng.random_bool(0.1) { vec![ORPHAN.to_owned()] } else { Vec::new() };
    let object = Known { key: id.1.clone(), uid: uid.clone(), revision: 0, owners, finalizers, terminating: false };
    let mut state = sim.state.lock();
    state.write(id.clone(), object);
    let revision = state.revision;
    state.made.insert(uid.clone(), revision);
    (id, uid)
}

fn step(sim: &Sim, rng: &mut StdRng, made: &mut Vec<(Id, String)>, objects: usize) {
    match rng.random_range(0..10) {
        0 | 1 if made.len() < objects => {
            let new = make(sim, rng, made.len(), made);
            made.push(new);
        }
        2 if !made.is_empty() && rng.random_bool(0.5) => {
            let (id, uid) = &made[rng.random_range(0..made.len())];
            let policies = [Propagation::Background, Propagation::Foreground, Propagation::Orphan];
            let mut state = sim.state.lock();
            // A person may delete what was freed.
            state.freed.remove(uid);
            state.delete(id, policies[rng.random_range(0..3)]);
        }
        3..=6 => sim.deliver(rng.random_range(0..NAMES.len())),
        _ => run_one(sim, rng),
    }
}

fn run_one(sim: &Sim, rng: &mut StdRng) {
    let next = {
        let state = sim.state.lock();
        let count = state.queue.len();
        (count > 0).then(|| state.queue.iter().nth(rng.random_range(0..count)).cloned()).flatten()
    };
    next.iter().for_each(|id| sim.run(id));
}

/// Delivers and runs until nothing is left to do.
fn come_to_rest(sim: &Sim, rng: &mut StdRng) {
    for _ in 0..STEPS_MAX {
        let (coming, waiting) = {
            let state = sim.state.lock();
            (state.coming.iter().any(|events| !events.is_empty()), !state.queue.is_empty())
        };
        match (coming, waiting) {
            (false, false) => return,
            (true, _) if rng.random_bool(0.5) => sim.deliver(rng.random_range(0..NAMES.len())),
            _ => run_one(sim, rng),
        }
    }
    panic!("it never comes to rest");
}

fn check_rest(sim: &Sim) {
    let state = sim.state.lock();
    for object in state.live.values() {
        assert!(!object.terminating, "{object:?} never goes");
        if object.owners.is_empty() {
            continue;
        }
        assert!(state.keeps(object, false), "{object:?} is garbage");
        let unknown = |o: &OwnerReference| !matches!(place(&object.key, o), Place::At(..));
        let there = |o: &OwnerReference| match place(&object.key, o) {
            Place::At(kind, key) => state.live.get(&(index(kind), key)).is_some_and(|live| live.uid == o.uid),
            _ => true,
        };
        assert!(object.owners.iter().any(unknown) || object.owners.iter().all(there), "{object:?} has stale owners");
    }
    for uid in &state.freed {
        assert!(state.live.values().any(|object| object.uid == *uid), "{uid} was to stay");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]
    #[test]
    fn whatever_the_order_only_garbage_goes_and_all_of_it(seed in any::<u64>()) {
        let mut rng = StdRng::seed_from_u64(seed);
        let sim = Sim::default();
        sim.state.lock().coming = vec![VecDeque::new(); NAMES.len()];
        let (mut made, objects) = (Vec::new(), rng.random_range(2..14));
        for _ in 0..rng.random_range(20..200) {
            step(&sim, &mut rng, &mut made, objects);
        }
        come_to_rest(&sim, &mut rng);
        check_rest(&sim);
    }
}

/// Deliberately: two that own each other, both told to go last, do not wait for each other for ever.
#[test]
fn a_ring_is_broken() {
    let sim = Sim::default();
    sim.state.lock().coming = vec![VecDeque::new(); NAMES.len()];
    let owner = |number: usize| OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: format!("o{number}"),
        uid: format!("u{number}"),
        controller: None,
        block_owner_deletion: Some(true),
    };
    for number in 0..3_usize {
        let key = ObjectKey::new("a", format!("o{number}"));
        let object = Known {
            key: key.clone(),
            uid: format!("u{number}"),
            revision: 0,
            owners: vec![owner((number + 1) % 3)],
            finalizers: Vec::new(),
            terminating: false,
        };
        let mut state = sim.state.lock();
        state.write((0, key), object);
        let revision = state.revision;
        state.made.insert(format!("u{number}"), revision);
    }
    let mut rng = StdRng::seed_from_u64(1);
    come_to_rest(&sim, &mut rng);
    assert_eq!(sim.state.lock().live.len(), 3, "each has an owner");
    sim.state.lock().delete(&(0, ObjectKey::new("a", "o0")), Propagation::Foreground);
    come_to_rest(&sim, &mut rng);
    assert!(sim.state.lock().live.is_empty());
}
