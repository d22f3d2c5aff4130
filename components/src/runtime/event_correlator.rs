//! Keeps Events few: counts what is the same, combines what is alike, and drops what floods.
//!
//! Upstream's three rules (client-go, core/v1 Events): an Event with the same object, type, reason and message raises
//! `count` and `lastTimestamp` of the one before; more than ten of the same object, type and reason within ten minutes
//! become one, `(combined from similar events): …`; each source and object has a bucket of 25, one more each 300 s.
//! Pure: time comes in as an argument.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use listwatch_proto::resource::ObjectKey;

use super::bounded::Bounded;

/// So many different messages are told one by one.
const SIMILAR_MAX: usize = 10;
/// Messages further apart are not counted together.
const SIMILAR_INTERVAL_SECS: i64 = 600;
/// So many Events of one object at once.
const BURST: f64 = 25.0;
/// One more after each.
const REFILL_SECS: f64 = 300.0;

/// What somebody wants told.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Occurrence {
    pub(super) regarding: ObjectReference,
    pub(super) kind: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Telling {
    /// A new Event.
    Create(Box<Event>),
    /// One more of an Event written before. Should it be gone, `whole` is to be created.
    Again { key: ObjectKey, whole: Box<Event> },
    /// Nothing: too many of this object.
    Dropped,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ObjectId {
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    field_path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SimilarId {
    object: ObjectId,
    kind: &'static str,
    reason: String,
}

struct Similar {
    messages: Vec<String>,
    last_secs: i64,
}

struct Bucket {
    tokens: f64,
    at_secs: f64,
}

pub(super) struct Correlator {
    component: String,
    host: String,
    buckets: Bounded<ObjectId, Bucket>,
    similar: Bounded<SimilarId, Similar>,
    /// By similar events and message (empty for combined ones): the Event as last written.
    told: Bounded<(SimilarId, String), Event>,
}

impl Correlator {
    pub(super) fn new(component: &str, host: &str) -> Self {
        Correlator {
            component: component.to_owned(),
            host: host.to_owned(),
            buckets: Bounded::default(),
            similar: Bounded::default(),
            told: Bounded::default(),
        }
    }

    /// What becomes of an occurrence.
    pub(super) fn correlate(&mut self, occurrence: Occurrence, now: Timestamp) -> Telling {
        let object = object_id(&occurrence.regarding);
        let similar = SimilarId { object, kind: occurrence.kind, reason: occurrence.reason.clone() };
        let combined = self.is_one_too_many(&similar, &occurrence.message, now);
        if !self.take_token(&similar.object, now) {
            return Telling::Dropped;
        }
        let (told_key, message) = if combined {
            ((similar, String::new()), format!("(combined from similar events): {}", occurrence.message))
        } else {
            ((similar, occurrence.message.clone()), occurrence.message.clone())
        };
        if let Some(event) = self.told.get_mut(&told_key) {
            event.count = Some(event.count.unwrap_or(1).saturating_add(1));
            event.last_timestamp = Some(Time(now));
            event.message = Some(message);
            let key = ObjectKey::new(
                event.metadata.namespace.clone().unwrap_or_default(),
                event.metadata.name.clone().unwrap_or_default(),
            );
            return Telling::Again { key, whole: Box::new(event.clone()) };
        }
        let event = self.event(occurrence, message, now);
        self.told.insert(told_key, event.clone());
        Telling::Create(Box::new(event))
    }

    fn is_one_too_many(&mut self, id: &SimilarId, message: &str, now: Timestamp) -> bool {
        let now_secs = now.as_second();
        if self.similar.get_mut(id).is_none_or(|s| now_secs - s.last_secs > SIMILAR_INTERVAL_SECS) {
            self.similar.insert(id.clone(), Similar { messages: Vec::new(), last_secs: now_secs });
        }
        let Some(similar) = self.similar.get_mut(id) else { return false };
        similar.last_secs = now_secs;
        if similar.messages.iter().any(|m| m == message) {
            return false;
        }
        if similar.messages.len() < SIMILAR_MAX {
            similar.messages.push(message.to_owned());
            return false;
        }
        true
    }

    fn take_token(&mut self, object: &ObjectId, now: Timestamp) -> bool {
        let at_secs = now.as_duration().as_secs_f64();
        if self.buckets.get_mut(object).is_none() {
            self.buckets.insert(object.clone(), Bucket { tokens: BURST, at_secs });
        }
        let Some(bucket) = self.buckets.get_mut(object) else { return true };
        bucket.tokens = (bucket.tokens + (at_secs - bucket.at_secs).max(0.0) / REFILL_SECS).min(BURST);
        bucket.at_secs = at_secs;
        if bucket.tokens < 1.0 {
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }

    fn event(&self, occurrence: Occurrence, message: String, now: Timestamp) -> Event {
        let Occurrence { regarding, kind, reason, .. } = occurrence;
        // Upstream's name: the object's and the nanoseconds, so that two recorders do not meet.
        let name = format!("{}.{:x}", regarding.name.as_deref().unwrap_or_default(), now.as_nanosecond());
        let namespace = regarding.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            involved_object: regarding,
            type_: Some(kind.to_owned()),
            reason: Some(reason),
            message: Some(message),
            source: Some(k8s_openapi::api::core::v1::EventSource {
                component: Some(self.component.clone()),
                host: Some(self.host.clone()).filter(|h| !h.is_empty()),
            }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            reporting_component: Some(self.component.clone()),
            reporting_instance: Some(self.host.clone()),
            event_time: None::<MicroTime>,
            ..Event::default()
        }
    }
}

fn object_id(regarding: &ObjectReference) -> ObjectId {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    ObjectId {
        kind: text(&regarding.kind),
        namespace: text(&regarding.namespace),
        name: text(&regarding.name),
        uid: text(&regarding.uid),
        field_path: text(&regarding.field_path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn occurrence(pod: &str, reason: &str, message: &str) -> Occurrence {
        let regarding = ObjectReference {
            kind: Some("Pod".into()),
            namespace: Some("default".into()),
            name: Some(pod.into()),
            uid: Some(format!("uid-{pod}")),
            ..ObjectReference::default()
        };
        Occurrence { regarding, kind: "Normal", reason: reason.into(), message: message.into() }
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + secs).expect("in range")
    }

    #[test]
    fn the_same_again_raises_the_count_of_the_one_before() {
        let mut correlator = Correlator::new("kubelet", "node01");
        let Telling::Create(first) = correlator.correlate(occurrence("a", "Pulled", "x"), at(0)) else {
            panic!("the first is new")
        };
        assert_eq!((first.count, first.type_.as_deref()), (Some(1), Some("Normal")));
        let Telling::Again { key, whole } = correlator.correlate(occurrence("a", "Pulled", "x"), at(5)) else {
            panic!("the second is the same")
        };
        assert_eq!(Some(key.name), first.metadata.name);
        assert_eq!((whole.count, whole.last_timestamp), (Some(2), Some(Time(at(5)))));
        assert_eq!(whole.first_timestamp, Some(Time(at(0))));
        assert!(matches!(correlator.correlate(occurrence("a", "Pulled", "y"), at(6)), Telling::Create(_)));
        assert!(matches!(correlator.correlate(occurrence("b", "Pulled", "x"), at(7)), Telling::Create(_)));
    }

    #[test]
    fn more_than_ten_alike_are_combined() {
        let mut correlator = Correlator::new("kubelet", "node01");
        for i in 0..10 {
            let telling = correlator.correlate(occurrence("a", "Back", &format!("m{i}")), at(i));
            assert!(matches!(telling, Telling::Create(_)), "{i}: {telling:?}");
        }
        let Telling::Create(combined) = correlator.correlate(occurrence("a", "Back", "m10"), at(10)) else {
            panic!("the first combined one is new")
        };
        assert_eq!(combined.message.as_deref(), Some("(combined from similar events): m10"));
        let Telling::Again { whole, .. } = correlator.correlate(occurrence("a", "Back", "m11"), at(11)) else {
            panic!("the next is counted")
        };
        assert_eq!((whole.count, whole.message.as_deref()), (Some(2), Some("(combined from similar events): m11")));
        // Ten quiet minutes later they are told one by one again.
        assert!(matches!(correlator.correlate(occurrence("a", "Back", "m12"), at(700)), Telling::Create(_)));
    }

    #[test]
    fn a_flood_of_one_object_is_dropped_and_others_are_not() {
        let mut correlator = Correlator::new("kubelet", "node01");
        for _ in 0..25 {
            assert_ne!(correlator.correlate(occurrence("a", "Flood", "x"), at(0)), Telling::Dropped);
        }
        assert_eq!(correlator.correlate(occurrence("a", "Flood", "x"), at(1)), Telling::Dropped);
        assert_ne!(correlator.correlate(occurrence("b", "Flood", "x"), at(1)), Telling::Dropped);
        assert_ne!(correlator.correlate(occurrence("a", "Flood", "x"), at(302)), Telling::Dropped);
    }
}
