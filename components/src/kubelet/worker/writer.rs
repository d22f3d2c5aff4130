//! Tells the API the status of one pod: only what differs, until it has it, never anything older.
//!
//! Invariants: one write is in flight at a time; a write names the uid and the version it was made for, so it can
//! neither hit a later pod of the same name nor undo what somebody else has written meanwhile; what was asked last is
//! what is written in the end.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use listwatch_proto::resource::ObjectKey;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::super::pod::status;
use crate::{
    client::{Api, Cached, Error, Patch},
    runtime::{Backoff, BackoffPolicy, Store},
};

/// Pauses while the server does not take a write.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(20), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };

/// The annotation with the ports that differ from those the pod names.
pub(super) const PORTS_ANNOTATION: &str = "listwatch.dev/ports";

/// The fields of a pod's status that a kubelet owns.
const OWNED: &[&str] = &[
    "phase",
    "conditions",
    "reason",
    "message",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "startTime",
    "initContainerStatuses",
    "containerStatuses",
    "qosClass",
    "observedGeneration",
];

/// What the API should have.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Desired {
    pub(super) status: PodStatus,
    /// Text of [`PORTS_ANNOTATION`]; empty: none.
    pub(super) ports: String,
}

/// The asking half.
#[derive(Debug)]
pub(super) struct StatusWriter {
    desired: watch::Sender<(u64, Desired)>,
    written: watch::Receiver<u64>,
    _task: AbortOnDropHandle<()>,
}

impl StatusWriter {
    /// A writer for this pod, with a task of its own.
    pub(super) fn spawn(api: Api<Pod>, store: Store<Pod>, pod: Arc<Cached<Pod>>) -> Self {
        let (desired, wanted) = watch::channel((0, Desired::default()));
        let (done, written) = watch::channel(0);
        let task = Task { api, store, key: pod.key.clone(), base: pod, wanted, done };
        StatusWriter { desired, written, _task: AbortOnDropHandle::new(tokio::spawn(task.run())) }
    }

    /// Asks for this status.
    pub(super) fn set(&self, status: PodStatus, ports: &BTreeMap<String, String>) {
        let ports = ports.values().map(String::as_str).collect::<Vec<_>>().join(",");
        self.desired.send_if_modified(|(version, desired)| {
            let new = Desired { status, ports };
            if *version > 0 && *desired == new {
                return false;
            }
            *version += 1;
            *desired = new;
            true
        });
    }

    /// Waits until the API has what was asked last, or the pod is gone. Cancel safe.
    pub(super) async fn flush(&mut self) {
        let version = self.desired.borrow().0;
        // The writer ends only when the pod is gone, and then nothing is left to wait for.
        let _ = self.written.wait_for(|written| *written >= version).await;
    }
}

struct Task {
    api: Api<Pod>,
    store: Store<Pod>,
    key: ObjectKey,
    /// The newest version known.
    base: Arc<Cached<Pod>>,
    wanted: watch::Receiver<(u64, Desired)>,
    done: watch::Sender<u64>,
}

/// The pod is no more.
struct Gone;

impl Task {
    async fn run(mut self) {
        let mut backoff = Backoff::new(RETRY);
        while self.wanted.changed().await.is_ok() {
            loop {
                let (version, desired) = self.wanted.borrow_and_update().clone();
                match self.write(&desired).await {
                    Ok(Ok(())) => {
                        backoff.reset();
                        self.done.send_replace(version);
                        break;
                    }
                    Ok(Err(Gone)) => return,
                    Err(error) => {
                        tracing::debug!(pod = %self.key, %error, "the status is not written yet");
                        let pause = backoff.next_delay();
                        // A newer status does not hurry a server that is away.
                        tokio::time::sleep(pause).await;
                    }
                }
            }
        }
    }

    async fn write(&mut self, desired: &Desired) -> Result<Result<(), Gone>, Error> {
        if let Some(seen) = self.store.get(&self.key)
            && seen.uid == self.base.uid
            && seen.revision > self.base.revision
        {
            self.base = seen;
        }
        loop {
            match self.write_once(desired).await {
                Ok(()) => return Ok(Ok(())),
                Err(error) if error.is_not_found() => return Ok(Err(Gone)),
                Err(error) if error.is_conflict() => match self.api.get_opt(&self.key).await? {
                    Some(live) if live.uid == self.base.uid => self.base = Arc::new(live),
                    _ => return Ok(Err(Gone)),
                },
                // Asking again does not help, and the next change of the pod brings another status.
                Err(error) if error.is_invalid() => {
                    tracing::error!(pod = %self.key, %error, "the API refuses a status");
                    return Ok(Ok(()));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn write_once(&mut self, desired: &Desired) -> Result<(), Error> {
        let status = difference(self.base.status.as_ref(), &desired.status);
        let annotations = self.base.metadata.annotations.as_ref();
        let told = annotations.and_then(|list| list.get(PORTS_ANNOTATION)).map(String::as_str).unwrap_or_default();
        if status.is_none() && told == desired.ports {
            return Ok(());
        }
        let mut metadata = self.precondition();
        if told != desired.ports {
            let ports = if desired.ports.is_empty() { Value::Null } else { json!(desired.ports) };
            metadata["annotations"] = json!({ PORTS_ANNOTATION: ports });
        }
        let mut patch = json!({ "metadata": metadata });
        if let Some(status) = status {
            patch["status"] = status;
        }
        // A node may write the status of its pods and nothing else of them; annotations go with it.
        self.base = Arc::new(self.api.patch_status(&self.key, &Patch::Merge(patch)).await?);
        Ok(())
    }

    fn precondition(&self) -> Value {
        json!({"uid": self.base.uid, "resourceVersion": self.base.revision.to_string()})
    }
}

/// The merge patch from one status to the other laid over it; `None` if there is nothing to change.
fn difference(base: Option<&PodStatus>, observed: &PodStatus) -> Option<Value> {
    let wanted = serde_json::to_value(status::merge(base, observed)).unwrap_or_default();
    let present = serde_json::to_value(base).unwrap_or_default();
    let mut patch = Map::new();
    for field in OWNED {
        let (old, new) = (&present[*field], &wanted[*field]);
        if old != new {
            patch.insert((*field).to_owned(), new.clone());
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_written() {
        let base: PodStatus = serde_json::from_value(json!({
            "phase": "Pending", "reason": "Old", "hostIP": "127.0.0.1", "nominatedNodeName": "node09",
        }))
        .expect("a status");
        let wanted: PodStatus =
            serde_json::from_value(json!({"phase": "Running", "hostIP": "127.0.0.1", "podIP": "127.1.1.1"}))
                .expect("a status");
        let patch = difference(Some(&base), &wanted).expect("a difference");
        assert_eq!(
            patch,
            json!({"phase": "Running", "reason": null, "podIP": "127.1.1.1", "conditions": []}),
            "what is not a kubelet's is left alone"
        );
        let merged = status::merge(Some(&base), &wanted);
        assert_eq!(difference(Some(&merged), &wanted), None);
    }
}
