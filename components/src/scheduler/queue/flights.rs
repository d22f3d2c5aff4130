//! Pods that are being tried, and what has happened since each try began.
//!
//! Invariant: an event that arrives while a pod is being tried is judged when the pod comes back, so no cure is lost between
//! the look at the nodes and the refusal (the bug that leaves a pod waiting for minutes). Events are kept only while
//! somebody has yet to hear of them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use listwatch_proto::resource::ObjectKey;

use crate::scheduler::Pod;
use crate::scheduler::framework::ClusterEvent;

/// Events kept for the pods being tried; beyond it they count as one that cures everything.
pub(super) const EVENTS_MAX: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Flights {
    pods: BTreeMap<ObjectKey, Flight>,
    events: VecDeque<ClusterEvent>,
    /// The number of the first of `events`.
    first_event: u64,
}

#[derive(Debug)]
struct Flight {
    /// The pod as it is now known.
    pod: Arc<Pod>,
    /// The number of the first event that it has to hear of.
    first: u64,
}

/// What became of a pod while it was tried.
#[derive(Debug)]
pub(super) struct Landed {
    /// The pod as it is now known.
    pub(super) pod: Arc<Pod>,
    /// What happened in the cluster meanwhile.
    pub(super) events: Vec<ClusterEvent>,
}

impl Flights {
    /// A try begins.
    pub(super) fn begin(&mut self, pod: Arc<Pod>) {
        let first = self.first_event + self.events.len() as u64;
        self.pods.insert(pod.key.clone(), Flight { pod, first });
    }

    /// A pod that is being tried.
    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<Pod>> {
        self.pods.get(key).map(|flight| &flight.pod)
    }

    /// A newer copy of a pod; false if that very pod is not being tried.
    pub(super) fn update(&mut self, pod: &Arc<Pod>) -> bool {
        match self.pods.get_mut(&pod.key) {
            Some(flight) if flight.pod.uid == pod.uid => {
                flight.pod = pod.clone();
                true
            }
            _ => false,
        }
    }

    /// A try ends; `None` if the pod has gone or got a node meanwhile.
    pub(super) fn end(&mut self, key: &ObjectKey, uid: &str) -> Option<Landed> {
        if self.pods.get(key).is_none_or(|flight| flight.pod.uid != uid) {
            return None;
        }
        let flight = self.pods.remove(key)?;
        let events = self.events.iter().skip((flight.first - self.first_event) as usize).cloned().collect();
        self.forget();
        Some(Landed { pod: flight.pod, events })
    }

    /// The pod is gone; its try comes to nothing.
    pub(super) fn abandon(&mut self, key: &ObjectKey) {
        if self.pods.remove(key).is_some() {
            self.forget();
        }
    }

    /// Notes an event for those being tried.
    pub(super) fn note(&mut self, event: ClusterEvent) {
        if self.pods.is_empty() {
            return;
        }
        if self.events.len() < EVENTS_MAX {
            self.events.push_back(event);
        } else if let Some(last) = self.events.back_mut() {
            *last = ClusterEvent::Retry;
        }
    }

    /// Drops the events that nobody has to hear of any more.
    fn forget(&mut self) {
        match self.pods.values().map(|flight| flight.first).min() {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str) -> Arc<Pod> {
        Arc::new(Pod { key: ObjectKey::new("default", name), uid: name.to_owned(), ..Pod::default() })
    }

    fn placed(name: &str) -> ClusterEvent {
        ClusterEvent::PodPlaced(pod(name))
    }

    fn heard(landed: Option<Landed>) -> Vec<String> {
        let events = landed.expect("it was being tried").events;
        let name = |event| match event {
            ClusterEvent::PodPlaced(pod) => pod.key.name.clone(),
            other => format!("{other:?}"),
        };
        events.into_iter().map(name).collect()
    }

    #[test]
    fn each_hears_of_what_happened_since_its_own_start() {
        let mut flights = Flights::default();
        flights.note(placed("before"));
        flights.begin(pod("p"));
        flights.note(placed("one"));
        flights.begin(pod("q"));
        flights.note(placed("two"));
        assert!(flights.end(&pod("p").key, "another").is_none(), "another pod of that name");
        assert_eq!(heard(flights.end(&pod("p").key, "p")), ["one", "two"]);
        flights.note(placed("three"));
        assert_eq!(flights.events.len(), 2, "nobody has to hear of the first any more");
        assert_eq!(heard(flights.end(&pod("q").key, "q")), ["two", "three"]);
        assert!(flights.events.is_empty(), "nobody is being tried, so nothing is kept");
        flights.begin(pod("p"));
        flights.abandon(&pod("p").key);
        assert!(flights.end(&pod("p").key, "p").is_none());
    }

    #[test]
    fn more_events_than_are_kept_count_as_a_cure() {
        let mut flights = Flights::default();
        flights.begin(pod("p"));
        for _ in 0..EVENTS_MAX + 10 {
            flights.note(placed("x"));
        }
        let landed = flights.end(&pod("p").key, "p").expect("it was being tried");
        assert_eq!(landed.events.len(), EVENTS_MAX);
        assert!(matches!(landed.events.last(), Some(ClusterEvent::Retry)));
    }
}
