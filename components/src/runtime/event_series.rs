//! Events in the newer form (events.k8s.io/v1): what is told again of the same is one Event with a series.
//!
//! Upstream's rules (client-go `tools/events`): an Event with the same type, action, reason, reporter and objects as one
//! before belongs to its series, whatever its note says. The second one is written at once; further ones are only
//! counted, and written every half hour and when none has come for six minutes, which ends the series.
//! Pure: time comes in as an argument.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::bounded::Bounded;

/// How often [`Series::sweep`] is to be called; a series ends after so long a silence (upstream's number).
pub(super) const SWEEP: Duration = Duration::from_secs(6 * 60);
/// Each so many sweeps a series that goes on is written (upstream: every half hour).
const SWEEPS_PER_REFRESH: u32 = 5;

/// What was done, to what, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Deed {
    pub(super) regarding: ObjectReference,
    pub(super) related: Option<ObjectReference>,
    pub(super) kind: &'static str,
    pub(super) reason: String,
    pub(super) action: &'static str,
    pub(super) note: String,
}

/// What is to be written of a deed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Record {
    /// A new Event.
    Create(Box<Event>),
    /// The series of an Event that was written before. Should it be gone, the whole is to be created.
    Series(Box<Event>),
    /// Nothing now: it is counted.
    Counted,
}

/// What makes Events the same, as text.
type Identity = String;

/// The Events of one reporter.
pub(super) struct Series {
    controller: String,
    instance: String,
    told: Bounded<Identity, Event>,
    sweeps: u32,
}

impl Series {
    /// Of a reporter on a host.
    pub(super) fn new(controller: &str, host: &str) -> Self {
        let instance = if host.is_empty() { controller.to_owned() } else { format!("{controller}-{host}") };
        Series { controller: controller.to_owned(), instance, told: Bounded::default(), sweeps: 0 }
    }

    /// What becomes of a deed.
    pub(super) fn record(&mut self, deed: Deed, now: Timestamp) -> Record {
        let identity = identity(&deed);
        let Some(event) = self.told.get_mut(&identity) else {
            let event = self.event(deed, now);
            self.told.insert(identity, event.clone());
            return Record::Create(Box::new(event));
        };
        let last_observed_time = MicroTime(now);
        match &mut event.series {
            Some(series) => {
                series.count = series.count.saturating_add(1);
                series.last_observed_time = last_observed_time;
                Record::Counted
            }
            None => {
                event.series = Some(EventSeries { count: 2, last_observed_time });
                Record::Series(Box::new(event.clone()))
            }
        }
    }

    /// Ends what nothing more has come of; gives the series that are to be written.
    pub(super) fn sweep(&mut self, now: Timestamp) -> Vec<Event> {
        self.sweeps += 1;
        let refresh = self.sweeps.is_multiple_of(SWEEPS_PER_REFRESH);
        let silent_secs = i64::try_from(SWEEP.as_secs()).unwrap_or(i64::MAX);
        let mut written = Vec::new();
        self.told.retain(|_, event| {
            let last = event.series.as_ref().map(|series| &series.last_observed_time).or(event.event_time.as_ref());
            let over = last.is_none_or(|last| now.as_second() - last.0.as_second() > silent_secs);
            if event.series.is_some() && (over || refresh) {
                written.push(event.clone());
            }
            !over
        });
        written
    }

    fn event(&self, deed: Deed, now: Timestamp) -> Event {
        let Deed { regarding, related, kind, reason, action, note } = deed;
        // Upstream's name: the object's and the nanoseconds, so that two reporters do not meet.
        let name = format!("{}.{:x}", regarding.name.as_deref().unwrap_or_default(), now.as_nanosecond());
        let namespace = regarding.namespace.clone().filter(|n| !n.is_empty()).unwrap_or_else(|| "default".to_owned());
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.controller.clone()),
            reporting_instance: Some(self.instance.clone()),
            action: Some(action.to_owned()),
            reason: Some(reason),
            regarding: Some(regarding),
            related,
            note: Some(note),
            type_: Some(kind.to_owned()),
            ..Event::default()
        }
    }
}

fn identity(deed: &Deed) -> Identity {
    format!("{}\n{}\n{}\n{:?}\n{:?}", deed.kind, deed.action, deed.reason, deed.regarding, deed.related)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deed(pod: &str, version: &str, note: &str) -> Deed {
        let regarding = ObjectReference {
            kind: Some("Pod".into()),
            namespace: Some("shop".into()),
            name: Some(pod.into()),
            resource_version: Some(version.into()),
            ..ObjectReference::default()
        };
        let (kind, action) = ("Warning", "Scheduling");
        Deed { regarding, related: None, kind, reason: "FailedScheduling".into(), action, note: note.into() }
    }

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + secs).expect("in range")
    }

    #[test]
    fn a_first_event_says_what_was_done_and_by_whom() {
        let mut series = Series::new("default-scheduler", "host");
        let Record::Create(event) = series.record(deed("a", "1", "no room"), at(0)) else { panic!("it is new") };
        assert_eq!(event.reporting_controller.as_deref(), Some("default-scheduler"));
        assert_eq!(event.reporting_instance.as_deref(), Some("default-scheduler-host"));
        assert_eq!((event.action.as_deref(), event.note.as_deref()), (Some("Scheduling"), Some("no room")));
        assert_eq!((event.event_time, event.metadata.namespace.as_deref()), (Some(MicroTime(at(0))), Some("shop")));
        assert_eq!((event.series, event.deprecated_count, event.deprecated_source), (None, None, None));
    }

    #[test]
    fn the_second_is_written_and_further_ones_are_counted() {
        let mut series = Series::new("default-scheduler", "");
        let Record::Create(first) = series.record(deed("a", "1", "x"), at(0)) else { panic!("it is new") };
        // The note is not part of what makes them the same, and stays that of the first.
        let Record::Series(second) = series.record(deed("a", "1", "y"), at(5)) else { panic!("the same again") };
        assert_eq!((&second.metadata.name, second.note.as_deref()), (&first.metadata.name, Some("x")));
        assert_eq!(second.series.as_ref().map(|series| series.count), Some(2));
        assert_eq!(series.record(deed("a", "1", "x"), at(6)), Record::Counted);
        assert!(matches!(series.record(deed("b", "1", "x"), at(7)), Record::Create(_)));
        assert!(matches!(series.record(deed("a", "2", "x"), at(8)), Record::Create(_)), "another version of the pod");
    }

    #[test]
    fn a_series_ends_with_a_last_count_after_a_silence() {
        let mut series = Series::new("default-scheduler", "");
        for second in 0..3 {
            series.record(deed("a", "1", "x"), at(second));
        }
        series.record(deed("b", "1", "x"), at(0));
        assert_eq!(series.sweep(at(300)), []);
        let ended = series.sweep(at(400));
        assert_eq!(ended.len(), 1);
        assert_eq!(ended[0].series.as_ref().map(|series| series.count), Some(3));
        assert!(matches!(series.record(deed("a", "1", "x"), at(401)), Record::Create(_)));
        assert!(matches!(series.record(deed("b", "1", "x"), at(401)), Record::Create(_)));
    }

    #[test]
    fn a_series_that_goes_on_is_written_now_and_then() {
        let mut series = Series::new("default-scheduler", "");
        let mut written = Vec::new();
        for sweep in 0..10 {
            for second in [1, 200] {
                series.record(deed("a", "1", "x"), at(sweep * 360 + second));
            }
            written.extend(series.sweep(at((sweep + 1) * 360)));
        }
        let counts: Vec<i32> = written.iter().filter_map(|event| Some(event.series.as_ref()?.count)).collect();
        assert_eq!(counts, [10, 20]);
    }
}
