//! Tells users why a pod waits: the condition `PodScheduled` and an Event with the same words.
//!
//! Invariants: reports of one pod are written one after another and only the newest counts; a condition that already says
//! the same is not written; a pod that has got a node meanwhile is left alone.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use listwatch_proto::resource::{Kind, ObjectKey, time};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Pod;
use crate::client::{Api, Client, Patch};
use crate::clock::SharedClock;
use crate::runtime::{Action, RateLimitedQueue, ReconcileError, Reconciler, reference_to};

/// The pod was refused by every node.
pub(super) const UNSCHEDULABLE: &str = "Unschedulable";
/// The scheduler could not do its work.
pub(super) const SCHEDULER_ERROR: &str = "SchedulerError";

/// How often a condition is computed anew because the pod has changed under it; then the queue's back-off takes over.
const CONFLICTS_MAX: usize = 3;

/// What is to be written of a pod.
#[derive(Debug, Clone)]
struct Report {
    pod: Arc<Pod>,
    /// Why it waits: reason and message; `None`: that stays as it is.
    says: Option<(&'static str, String)>,
    /// The node that it was promised, empty for none; `None`: that stays as it is.
    nominated: Option<String>,
}

impl Report {
    /// Takes over what a later report leaves as it is.
    fn after(mut self, earlier: Option<Report>) -> Report {
        if let Some(earlier) = earlier.filter(|earlier| earlier.pod.uid == self.pod.uid) {
            self.says = self.says.or(earlier.says);
            self.nominated = self.nominated.or(earlier.nominated);
        }
        self
    }
}

/// Writes conditions; put keys into its queue by [`Reports::say`].
#[derive(Clone)]
pub(super) struct Reporter {
    pods: Api<Arc<Pod>>,
    clock: SharedClock,
    latest: Arc<Mutex<HashMap<ObjectKey, Report>>>,
}

/// Where reports are handed in.
#[derive(Clone)]
pub(super) struct Reports {
    latest: Arc<Mutex<HashMap<ObjectKey, Report>>>,
    queue: RateLimitedQueue<ObjectKey>,
}

impl Reporter {
    pub(super) fn new(client: &Client, pods: &'static Kind, clock: SharedClock) -> Self {
        Reporter { pods: Api::of_kind(client, pods), clock, latest: Arc::default() }
    }

    /// The door to this reporter, through the queue of the controller that runs it.
    pub(super) fn reports(&self, queue: RateLimitedQueue<ObjectKey>) -> Reports {
        Reports { latest: self.latest.clone(), queue }
    }

    async fn write(&self, report: &Report) -> Result<(), crate::client::Error> {
        let mut pod = report.pod.clone();
        for _ in 0..CONFLICTS_MAX {
            if pod.uid != report.pod.uid || !pod.node_name.is_empty() {
                return Ok(());
            }
            let Some(status) = status(&pod, report, &time(self.clock.now())) else { return Ok(()) };
            let patch = json!({
                "metadata": {"uid": pod.uid, "resourceVersion": pod.revision.to_string()},
                "status": status,
            });
            match self.pods.patch_status(&pod.key, &Patch::Merge(patch)).await {
                Err(error) if error.is_conflict() => match self.pods.get_opt(&pod.key).await? {
                    Some(live) => pod = live.object.clone(),
                    None => return Ok(()),
                },
                Err(error) if error.is_not_found() => return Ok(()),
                outcome => return outcome.map(drop),
            }
        }
        Err(crate::client::Error::Incomplete("a pod that stands still for its condition to be written"))
    }
}

impl Reports {
    /// Says why the pod waits, and which node it was promised, in one write; of an earlier report that was not yet
    /// written only that remains of which this one does not speak.
    pub(super) fn say(&self, pod: Arc<Pod>, reason: &'static str, message: String, nominated: Option<String>) {
        self.hand_in(Report { pod, says: Some((reason, message)), nominated });
    }

    /// Says that the pod is no longer promised a node.
    pub(super) fn withdraw_nomination(&self, pod: Arc<Pod>) {
        self.hand_in(Report { pod, says: None, nominated: Some(String::new()) });
    }

    fn hand_in(&self, report: Report) {
        let key = report.pod.key.clone();
        let mut latest = self.latest.lock();
        let report = report.after(latest.remove(&key));
        latest.insert(key.clone(), report);
        drop(latest);
        self.queue.add(key);
    }
}

#[async_trait]
impl Reconciler for Reporter {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(report) = self.latest.lock().remove(key) else { return Ok(Action::Done) };
        if let Err(error) = self.write(&report).await {
            // A newer report is the better one where both speak.
            let mut latest = self.latest.lock();
            let report = match latest.remove(key) {
                Some(newer) => newer.after(Some(report)),
                None => report,
            };
            latest.insert(key.clone(), report);
            return Err(error.into());
        }
        Ok(Action::Done)
    }
}

/// What is to be changed in the pod's status; `None` if it already says so.
fn status(pod: &Pod, report: &Report, now: &str) -> Option<Value> {
    let mut status = json!({});
    if let Some((reason, message)) = &report.says
        && let Some(conditions) = condition(pod, reason, message, now)
    {
        status["conditions"] = conditions.into();
    }
    match &report.nominated {
        Some(node) if *node != pod.asks().nominated_node => {
            status["nominatedNodeName"] = if node.is_empty() { Value::Null } else { node.as_str().into() };
        }
        _ => {}
    }
    status.as_object().is_some_and(|fields| !fields.is_empty()).then_some(status)
}

/// The pod's conditions with `PodScheduled` False for this reason; `None` if they already say so.
fn condition(pod: &Pod, reason: &str, message: &str, now: &str) -> Option<Vec<Value>> {
    let asks = pod.asks();
    let mut conditions = asks.conditions.clone();
    let mut condition = json!({
        "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
        "lastProbeTime": null, "lastTransitionTime": now,
    });
    if asks.generation > 0 {
        condition["observedGeneration"] = asks.generation.into();
    }
    let Some(held) = conditions.iter_mut().find(|c| c["type"] == "PodScheduled") else {
        conditions.push(condition);
        return Some(conditions);
    };
    if held["status"] == "False" {
        condition["lastTransitionTime"] = held["lastTransitionTime"].clone();
    }
    let same =
        ["status", "reason", "message", "observedGeneration"].iter().all(|field| held[*field] == condition[*field]);
    if same {
        return None;
    }
    *held = condition;
    Some(conditions)
}

/// A reference to the pod, for Events.
pub(super) fn reference(pod: &Pod) -> ObjectReference {
    let kind = Kind::by_plural("", "", "pods").expect("pods are served");
    ObjectReference { resource_version: Some(pod.revision.to_string()), ..reference_to(kind, &pod.key, &pod.uid) }
}

/// An Event's message: at most 1,024 bytes, cut with ` ...` (Kubernetes 1.36).
pub(super) fn shorten(message: &str) -> String {
    const MAX: usize = 1024;
    if message.len() < MAX {
        return message.to_owned();
    }
    const TAIL: &str = " ...";
    let end = (0..=MAX - TAIL.len()).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0);
    format!("{}{TAIL}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::Waiting;

    fn pod(conditions: Value) -> Pod {
        let conditions = conditions.as_array().expect("a list").clone();
        Pod { waiting: Some(Box::new(Waiting { conditions, generation: 1, ..Waiting::default() })), ..Pod::default() }
    }

    #[test]
    fn a_condition_is_written_only_if_it_says_something_new() {
        let other = json!({"type": "Other", "status": "True"});
        let first = condition(&pod(json!([other])), UNSCHEDULABLE, "no room", "t1").expect("new");
        assert_eq!((first.len(), &first[0]), (2, &other));
        assert_eq!((&first[1]["lastTransitionTime"], &first[1]["observedGeneration"]), (&json!("t1"), &json!(1)));
        assert_eq!(condition(&pod(json!(first)), UNSCHEDULABLE, "no room", "t2"), None);
        let second = condition(&pod(json!(first)), UNSCHEDULABLE, "still no room", "t2").expect("other words");
        assert_eq!((&second[1]["message"], &second[1]["lastTransitionTime"]), (&json!("still no room"), &json!("t1")));
    }

    #[test]
    fn a_promised_node_is_written_with_the_condition_and_alone() {
        let report = |says: bool, nominated: Option<&str>| Report {
            pod: Arc::new(pod(json!([]))),
            says: says.then(|| (UNSCHEDULABLE, "no room".to_owned())),
            nominated: nominated.map(str::to_owned),
        };
        let written = status(&pod(json!([])), &report(true, Some("a")), "t1").expect("news");
        assert_eq!(
            (&written["nominatedNodeName"], written["conditions"].as_array().map(Vec::len)),
            (&json!("a"), Some(1))
        );
        let mut told = pod(written["conditions"].clone());
        told.waiting.as_mut().expect("it waits").nominated_node = "a".to_owned();
        assert_eq!(status(&told, &report(true, Some("a")), "t2"), None);
        assert_eq!(status(&told, &report(true, None), "t2"), None);
        assert_eq!(status(&told, &report(false, Some("")), "t2"), Some(json!({"nominatedNodeName": null})));
        // A report that was not yet written is not lost on a later one that speaks of something else.
        let both = report(false, Some("")).after(Some(report(true, Some("a"))));
        assert_eq!((both.says.is_some(), both.nominated.as_deref()), (true, Some("")));
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        let cut = shorten(&"é".repeat(600));
        assert!(cut.len() <= 1024 && cut.ends_with(" ..."));
        assert_eq!(shorten("short"), "short");
    }
}
