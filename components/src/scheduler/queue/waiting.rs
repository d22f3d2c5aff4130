//! The queue proper. Time is handed in, so that it can be tested without waiting.
//!
//! Invariants: a pod is in one place at a time; a pod that may not be tried yet (gated) is in none of the places that time
//! or events move; what happened while a pod was tried is judged when it comes back.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use listwatch_proto::resource::ObjectKey;

use super::Backoff;
use super::flights::{Flights, Landed};
use super::parked::Parked;
use super::queued::{Queued, TryOrder};
use crate::scheduler::Pod;
use crate::scheduler::framework::{ClusterEvent, Profile};

/// A refused pod is tried again after this long, whatever was missed (Kubernetes 1.36).
pub(super) const PARKED_MAX: Duration = Duration::from_secs(5 * 60);

/// Pods whose back-off ends within the same stretch are tried early by priority, not by who is due first (upstream's
/// number).
const WINDOW: Duration = Duration::from_secs(1);

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
pub struct Queue {
    profile: Arc<Profile>,
    backoff: Backoff,
    /// Windows of back-off are counted from here.
    born: Instant,
    waiting: HashMap<ObjectKey, (Queued, Place)>,
    active: BTreeSet<TryOrder>,
    refused: BTreeSet<(Instant, ObjectKey)>,
    /// The same pods as in `refused`, in the order in which they are tried early.
    early: BTreeSet<(u64, TryOrder)>,
    errors: BTreeSet<(Instant, ObjectKey)>,
    parked: Parked,
    flights: Flights,
    /// Pods for which others are being told to go: not tried before that is done.
    held: HashSet<ObjectKey>,
    /// How often a pod was shown an event.
    examined: u64,
}

impl Queue {
    /// An empty queue.
    pub fn new(profile: Arc<Profile>, backoff: Backoff, now: Instant) -> Self {
        Queue {
            profile,
            backoff,
            born: now,
            waiting: HashMap::new(),
            active: BTreeSet::new(),
            refused: BTreeSet::new(),
            early: BTreeSet::new(),
            errors: BTreeSet::new(),
            parked: Parked::default(),
            flights: Flights::default(),
            held: HashSet::new(),
            examined: 0,
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

    /// How often a refused pod was shown an event, since the start: what events have cost.
    pub fn examined(&self) -> u64 {
        self.examined
    }

    /// Takes in a pod without a node, new or changed.
    pub fn set(&mut self, pod: Arc<Pod>, now: Instant) {
        if self.flights.update(&pod) {
            return;
        }
        self.flights.abandon(&pod.key);
        let Some((mut queued, place)) = self.take(&pod.key).filter(|(held, _)| held.pod.uid == pod.uid) else {
            return self.put(Queued::new(pod, now), Place::Active);
        };
        let old = std::mem::replace(&mut queued.pod, pod);
        let place = match place {
            Place::Gated => Place::Active,
            Place::Parked(_) => {
                let event = ClusterEvent::PodChanged { old, new: queued.pod.clone() };
                if queued.is_cured_by(&event, &self.profile) { self.place_after_cure(&queued, now) } else { place }
            }
            other => other,
        };
        self.put(queued, place);
    }

    /// Forgets a pod that is gone, has a node, or is not ours.
    pub fn remove(&mut self, key: &ObjectKey) {
        self.take(key);
        self.held.remove(key);
        self.flights.abandon(key);
    }

    /// Whether the pod would be tried now.
    pub fn is_active(&self, key: &ObjectKey) -> bool {
        self.waiting.get(key).is_some_and(|(_, place)| *place == Place::Active)
    }

    /// The next pod worth a try. The caller answers with [`Queue::refused`], [`Queue::failed`] or [`Queue::done`].
    pub fn pop(&mut self, now: Instant) -> Option<Queued> {
        self.flush(now);
        let key = match self.active.first() {
            Some((_, _, key)) => key.clone(),
            // Nothing better to do: who waits only for its back-off need not wait.
            None => self.early.first()?.1.2.clone(),
        };
        let (mut queued, _) = self.take(&key)?;
        queued.attempts += 1;
        self.flights.begin(queued.pod.clone());
        Some(queued)
    }

    /// The pod has been found a node. It comes back as it now is; `None` if it has gone or got a node meanwhile.
    pub fn done(&mut self, queued: &Queued) -> Option<Arc<Pod>> {
        self.flights.end(&queued.pod.key, &queued.pod.uid).map(|landed| landed.pod)
    }

    /// Every node was refused, by these plugins. The pod comes back as it now is; `None` if it has gone or got a node
    /// meanwhile.
    pub fn refused(&mut self, mut queued: Queued, by: BTreeSet<&'static str>, now: Instant) -> Option<Arc<Pod>> {
        let Landed { pod, mut events } = self.flights.end(&queued.pod.key, &queued.pod.uid)?;
        queued.refusals += 1;
        queued.errors = 0;
        queued.failed_at = now;
        queued.refused_by = by;
        if !Arc::ptr_eq(&pod, &queued.pod) {
            events.push(ClusterEvent::PodChanged { old: queued.pod, new: pod.clone() });
        }
        queued.pod = pod.clone();
        let cured = events.iter().any(|event| queued.is_cured_by(event, &self.profile));
        let place = if cured { self.place_after_cure(&queued, now) } else { Place::Parked(now + PARKED_MAX) };
        self.put(queued, place);
        Some(pod)
    }

    /// The try failed for a reason that is not the pod's, or its binding did: it waits its time and is tried again.
    pub fn failed(&mut self, mut queued: Queued, now: Instant) {
        if let Some(landed) = self.flights.end(&queued.pod.key, &queued.pod.uid) {
            queued.pod = landed.pod;
        }
        self.take(&queued.pod.key);
        queued.errors += 1;
        queued.failed_at = now;
        queued.refused_by.clear();
        let until = now + self.backoff.after(queued.errors);
        self.put(queued, Place::BackoffError(until));
    }

    /// Something happened: parked pods whose refusal it could cure come back.
    pub fn happened(&mut self, event: ClusterEvent, now: Instant) {
        let kinds = event.kinds();
        if kinds.is_empty() {
            return;
        }
        let concerned = self.parked.concerned(kinds, &self.profile);
        self.examined += concerned.len() as u64;
        let is_cured = |key: &ObjectKey| self.waiting[key].0.is_cured_by(&event, &self.profile);
        let cured: Vec<ObjectKey> = concerned.into_iter().filter(|key| is_cured(key)).cloned().collect();
        for key in cured {
            if let Some((queued, _)) = self.take(&key) {
                let place = self.place_after_cure(&queued, now);
                self.put(queued, place);
            }
        }
        self.flights.note(event);
    }

    /// The pod as the queue knows it, waiting or being tried.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Pod>> {
        self.waiting.get(key).map(|(queued, _)| &queued.pod).or_else(|| self.flights.get(key))
    }

    /// Does not try the pod before [`Queue::release`], whatever happens.
    pub fn hold(&mut self, key: &ObjectKey) {
        self.held.insert(key.clone());
    }

    /// Tries the pod again when something brings it back, or has done so meanwhile; at once if `retry`.
    pub fn release(&mut self, key: &ObjectKey, retry: bool, now: Instant) {
        self.held.remove(key);
        let Some((queued, place)) = self.take(key) else { return };
        let place = match place {
            Place::Gated => self.place_after_cure(&queued, now),
            Place::Parked(_) if retry => self.place_after_cure(&queued, now),
            other => other,
        };
        self.put(queued, place);
    }

    /// When [`Queue::pop`] should be called even if nothing happens.
    pub fn wake_at(&self) -> Option<Instant> {
        [self.errors.first(), self.refused.first(), self.parked.first()].into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Where a pod goes whose refusal may be cured: to the active ones if its back-off is over.
    fn place_after_cure(&self, queued: &Queued, now: Instant) -> Place {
        let until = queued.failed_at + self.backoff.after(queued.refusals);
        if until <= now { Place::Active } else { Place::BackoffRefused(until) }
    }

    /// Moves those whose time has come.
    fn flush(&mut self, now: Instant) {
        let due = |first: Option<&(Instant, ObjectKey)>| first.filter(|(at, _)| *at <= now).map(|(_, key)| key.clone());
        while let Some(key) = due(self.errors.first()).or_else(|| due(self.refused.first())) {
            if let Some((queued, _)) = self.take(&key) {
                self.put(queued, Place::Active);
            }
        }
        while let Some(key) = due(self.parked.first()) {
            if let Some((queued, _)) = self.take(&key) {
                let place = self.place_after_cure(&queued, now);
                self.put(queued, place);
            }
        }
    }

    fn early_order(&self, queued: &Queued, until: Instant) -> (u64, TryOrder) {
        let windows = until.saturating_duration_since(self.born).as_millis() / WINDOW.as_millis();
        (u64::try_from(windows).unwrap_or(u64::MAX), queued.try_order())
    }

    /// Puts a pod in a place; one that may not be tried goes with the gated ones, whatever place was meant.
    fn put(&mut self, queued: Queued, place: Place) {
        let key = queued.pod.key.clone();
        let enters = matches!(place, Place::Active | Place::BackoffRefused(_) | Place::BackoffError(_));
        let may_enter = || self.profile.may_be_tried(&queued.pod) && !self.held.contains(&key);
        let place = if enters && !may_enter() { Place::Gated } else { place };
        match place {
            Place::Active => drop(self.active.insert(queued.try_order())),
            Place::BackoffRefused(at) => {
                self.refused.insert((at, key.clone()));
                self.early.insert(self.early_order(&queued, at));
            }
            Place::BackoffError(at) => drop(self.errors.insert((at, key.clone()))),
            Place::Parked(at) => self.parked.insert(&queued, at),
            Place::Gated => {}
        }
        self.waiting.insert(key, (queued, place));
    }

    fn take(&mut self, key: &ObjectKey) -> Option<(Queued, Place)> {
        let (queued, place) = self.waiting.remove(key)?;
        match place {
            Place::Active => drop(self.active.remove(&queued.try_order())),
            Place::BackoffRefused(at) => {
                self.refused.remove(&(at, key.clone()));
                self.early.remove(&self.early_order(&queued, at));
            }
            Place::BackoffError(at) => drop(self.errors.remove(&(at, key.clone()))),
            Place::Parked(at) => self.parked.remove(&queued, at),
            Place::Gated => {}
        }
        Some((queued, place))
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
