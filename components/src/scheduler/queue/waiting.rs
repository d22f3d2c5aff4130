//! The queue proper. Time is handed in, so that it can be tested without waiting.
//!
//! Invariants: a pod is in one place at a time; an event that arrives while a pod is being tried is judged when the pod
//! comes back, so no cure is lost between the try and the refusal (the bug that leaves a pod waiting for minutes).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use listwatch_proto::resource::ObjectKey;

use super::Backoff;
use crate::scheduler::Pod;
use crate::scheduler::framework::{ClusterEvent, EventKinds, Hint, Profile};

/// A refused pod is tried again after this long, whatever was missed (Kubernetes 1.36).
const PARKED_MAX: Duration = Duration::from_secs(5 * 60);

/// Events kept for the pods being tried; beyond it they count as one that cures everything.
const IN_FLIGHT_EVENTS_MAX: usize = 4096;

/// A pod taken from the queue for a try, with its history.
#[derive(Debug, Clone)]
pub struct Queued {
    /// The pod as it is.
    pub pod: Arc<Pod>,
    /// Tries so far, this one included.
    pub attempts: u32,
    /// Refusals so far.
    refusals: u32,
    /// Failures in a row that were no refusals.
    errors: u32,
    /// When it first came.
    since: Instant,
    /// Who refused it last; none: everybody could help.
    refused_by: BTreeSet<&'static str>,
    /// The events that those plugins asked for.
    interests: EventKinds,
    /// When it last failed.
    failed_at: Instant,
}

/// Order among active pods: higher priority, then who came first.
type ActiveOrder = (Reverse<i32>, Instant, ObjectKey);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Active,
    /// Refused, brought back by an event before its time; may be tried early.
    BackoffRefused(Instant),
    /// Failed by an error; waits its time.
    BackoffError(Instant),
    Parked(Instant),
    Gated,
}

/// The pods that wait for a node.
#[derive(Debug)]
pub struct Queue {
    backoff: Backoff,
    waiting: HashMap<ObjectKey, (Queued, Place)>,
    active: BTreeSet<ActiveOrder>,
    refused: BTreeSet<(Instant, ObjectKey)>,
    errors: BTreeSet<(Instant, ObjectKey)>,
    parked: BTreeSet<(Instant, ObjectKey)>,
    /// Pods being tried: the number of the first event that each has to hear of, and a newer copy of it.
    in_flight: BTreeMap<ObjectKey, (u64, Option<Arc<Pod>>)>,
    events: VecDeque<ClusterEvent>,
    /// The number of the first of `events`.
    first_event: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new(backoff: Backoff) -> Self {
        Queue {
            backoff,
            waiting: HashMap::new(),
            active: BTreeSet::new(),
            refused: BTreeSet::new(),
            errors: BTreeSet::new(),
            parked: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            events: VecDeque::new(),
            first_event: 0,
        }
    }

    /// The number of pods in the queue, those being tried not counted.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether no pod waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes in a pod without a node, new or changed.
    pub fn set(&mut self, pod: Arc<Pod>, profile: &Profile, now: Instant) {
        if let Some((_, newer)) = self.in_flight.get_mut(&pod.key) {
            *newer = Some(pod);
            return;
        }
        let Some((mut queued, place)) = self.take(&pod.key) else { return self.enter(pod, now) };
        if queued.pod.uid != pod.uid {
            return self.enter(pod, now);
        }
        let old = std::mem::replace(&mut queued.pod, pod);
        let place = match place {
            Place::Gated if !queued.pod.asks().gated => Place::Active,
            Place::Parked(_) => {
                let event = ClusterEvent::PodChanged { old, new: queued.pod.clone() };
                if cures(&queued, &event, profile) { self.place_after_cure(&queued, now) } else { place }
            }
            other => other,
        };
        self.put(queued, place);
    }

    /// Forgets a pod that is gone, has a node, or is not ours.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.take(key);
        self.end_flight(key);
    }

    /// The next pod worth a try. The caller answers with [`Queue::refused`], [`Queue::failed`] or [`Queue::done`].
    pub fn pop(&mut self, now: Instant) -> Option<Queued> {
        self.flush(now);
        let key = match self.active.first() {
            Some((_, _, key)) => key.clone(),
            // Nothing better to do: who waits only for its back-off need not wait.
            None => self.refused.first()?.1.clone(),
        };
        let (mut queued, _) = self.take(&key)?;
        queued.attempts += 1;
        self.in_flight.insert(key, (self.first_event + self.events.len() as u64, None));
        Some(queued)
    }

    /// The pod has been given a node.
    pub fn done(&mut self, key: &ObjectKey) {
        self.end_flight(key);
    }

    /// Every node was refused, by these plugins; none of them named: anything could help.
    pub fn refused(&mut self, mut queued: Queued, by: BTreeSet<&'static str>, profile: &Profile, now: Instant) {
        let Some((first, newer)) = self.in_flight.get(&queued.pod.key).cloned() else { return };
        let missed: Vec<ClusterEvent> = self.events.iter().skip((first - self.first_event) as usize).cloned().collect();
        self.end_flight(&queued.pod.key);
        queued.refusals += 1;
        queued.errors = 0;
        queued.failed_at = now;
        queued.interests = by
            .iter()
            .map(|name| profile.refuser(name).map_or(EventKinds::ALL, |p| p.events()))
            .fold(EventKinds::NONE, |a, b| a | b);
        queued.refused_by = by;
        let mut cured = missed.iter().any(|event| cures(&queued, event, profile));
        if let Some(newer) = newer {
            let old = std::mem::replace(&mut queued.pod, newer);
            let event = ClusterEvent::PodChanged { old, new: queued.pod.clone() };
            cured = cured || cures(&queued, &event, profile);
        }
        let place = if cured { self.place_after_cure(&queued, now) } else { Place::Parked(now + PARKED_MAX) };
        self.put(queued, place);
    }

    /// The try failed for a reason that is not the pod's: it waits its time and is tried again.
    pub fn failed(&mut self, mut queued: Queued, now: Instant) {
        if let Some((_, Some(newer))) = self.in_flight.get(&queued.pod.key) {
            queued.pod = newer.clone();
        }
        self.end_flight(&queued.pod.key);
        self.take(&queued.pod.key);
        queued.errors += 1;
        queued.failed_at = now;
        queued.refused_by.clear();
        let until = now + self.backoff.after(queued.errors);
        self.put(queued, Place::BackoffError(until));
    }

    /// Something happened: parked pods whose refusal it could cure come back.
    pub fn happened(&mut self, event: ClusterEvent, profile: &Profile, now: Instant) {
        let kind = event.kind();
        let cured: Vec<ObjectKey> = self
            .parked
            .iter()
            .map(|(_, key)| key)
            .filter(|key| {
                let queued = &self.waiting[*key].0;
                let asked = queued.refused_by.is_empty() || queued.interests.contains(kind);
                asked && cures(queued, &event, profile)
            })
            .cloned()
            .collect();
        for key in cured {
            if let Some((queued, _)) = self.take(&key) {
                let place = self.place_after_cure(&queued, now);
                self.put(queued, place);
            }
        }
        if !self.in_flight.is_empty() {
            if self.events.len() < IN_FLIGHT_EVENTS_MAX {
                self.events.push_back(event);
            } else if let Some(last) = self.events.back_mut() {
                *last = ClusterEvent::Retry;
            }
        }
    }

    /// When [`Queue::pop`] should be called even if nothing happens.
    pub fn wake_at(&self) -> Option<Instant> {
        [self.errors.first(), self.parked.first()].into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// A new pod.
    fn enter(&mut self, pod: Arc<Pod>, now: Instant) {
        let place = if pod.asks().gated { Place::Gated } else { Place::Active };
        let queued = Queued {
            pod,
            attempts: 0,
            refusals: 0,
            errors: 0,
            since: now,
            refused_by: BTreeSet::new(),
            interests: EventKinds::NONE,
            failed_at: now,
        };
        self.put(queued, place);
    }

    /// Where a pod goes whose refusal may be cured: to the active ones if its back-off is over.
    fn place_after_cure(&self, queued: &Queued, now: Instant) -> Place {
        let until = queued.failed_at + self.backoff.after(queued.refusals);
        if until <= now { Place::Active } else { Place::BackoffRefused(until) }
    }

    /// Moves those whose time has come to the active ones.
    fn flush(&mut self, now: Instant) {
        loop {
            let first = |set: &BTreeSet<(Instant, ObjectKey)>| set.first().filter(|(at, _)| *at <= now).cloned();
            let due = first(&self.errors).or_else(|| first(&self.refused)).or_else(|| first(&self.parked));
            let Some((_, key)) = due else { return };
            if let Some((queued, _)) = self.take(&key) {
                self.put(queued, Place::Active);
            }
        }
    }

    fn put(&mut self, queued: Queued, place: Place) {
        let key = queued.pod.key.clone();
        match place {
            Place::Active => drop(self.active.insert(active_order(&queued))),
            Place::BackoffRefused(at) => drop(self.refused.insert((at, key.clone()))),
            Place::BackoffError(at) => drop(self.errors.insert((at, key.clone()))),
            Place::Parked(at) => drop(self.parked.insert((at, key.clone()))),
            Place::Gated => {}
        }
        self.waiting.insert(key, (queued, place));
    }

    fn take(&mut self, key: &ObjectKey) -> Option<(Queued, Place)> {
        let (queued, place) = self.waiting.remove(key)?;
        match place {
            Place::Active => drop(self.active.remove(&active_order(&queued))),
            Place::BackoffRefused(at) => drop(self.refused.remove(&(at, key.clone()))),
            Place::BackoffError(at) => drop(self.errors.remove(&(at, key.clone()))),
            Place::Parked(at) => drop(self.parked.remove(&(at, key.clone()))),
            Place::Gated => {}
        }
        Some((queued, place))
    }

    /// The pod is no longer being tried: events that only it had to hear of go.
    fn end_flight(&mut self, key: &ObjectKey) {
        self.in_flight.remove(key);
        match self.in_flight.values().map(|(first, _)| *first).min() {
            None => {
                self.first_event += self.events.len() as u64;
                self.events.clear();
            }
            Some(needed) => {
                while self.first_event < needed && self.events.pop_front().is_some() {
                    self.first_event += 1;
                }
            }
        }
    }
}

fn active_order(queued: &Queued) -> ActiveOrder {
    (Reverse(queued.pod.priority), queued.since, queued.pod.key.clone())
}

/// Whether an event could cure the refusal of a pod.
fn cures(queued: &Queued, event: &ClusterEvent, profile: &Profile) -> bool {
    if queued.refused_by.is_empty() || matches!(event, ClusterEvent::Retry) {
        return true;
    }
    queued.refused_by.iter().any(|name| match profile.refuser(name) {
        Some(plugin) => plugin.events().contains(event.kind()) && plugin.hint(&queued.pod, event) == Hint::Queue,
        None => true,
    })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
