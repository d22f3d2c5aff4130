//! The pods and containers that the process runtime has, in memory: a picture of the files and the living shims.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::Ipv4Addr,
    os::fd::OwnedFd,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::{
        kept::KeptPod,
        seam::{ContainerState, ContainerStatus, Terminated},
    },
    attempt::Attempt,
    ports::Port,
    record::{Ending, Exit},
};

/// What the file `pod.json` holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodRecord {
    #[serde(flatten)]
    pub(super) pod: KeptPod,
    /// The ports of each container as they really are.
    pub(super) ports: BTreeMap<String, Vec<Port>>,
}

/// Everything the runtime has.
#[derive(Debug, Default)]
pub(super) struct Pods(pub(super) HashMap<String, Pod>);

/// One pod.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) record: PodRecord,
    pub(super) containers: BTreeMap<String, Container>,
    pub(super) changes: watch::Sender<u64>,
}

/// One container in its last run.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) last: Attempt,
    pub(super) previous: Option<Attempt>,
    /// The shim of a running container, and who waits for its end.
    pub(super) shim: Option<Keeper>,
}

/// A living shim.
#[derive(Debug)]
pub(super) struct Keeper {
    pub(super) handle: Arc<OwnedFd>,
    pub(super) _waiter: AbortOnDropHandle<()>,
}

impl Pods {
    /// The addresses in use.
    pub(super) fn addresses(&self) -> HashSet<Ipv4Addr> {
        self.0.values().map(|pod| pod.record.pod.ip).collect()
    }
}

impl Pod {
    pub(super) fn new(record: PodRecord) -> Self {
        Pod { record, containers: BTreeMap::new(), changes: watch::Sender::new(0) }
    }

    /// Tells that something has changed.
    pub(super) fn changed(&self) {
        self.changes.send_modify(|n| *n += 1);
    }
}

impl Container {
    /// The container as the kubelet sees it.
    pub(super) fn status(&self, name: &str) -> ContainerStatus {
        let attempt = &self.last;
        let state = match (&attempt.exit, &attempt.started) {
            (Some(exit), _) => ContainerState::Exited(terminated(attempt, exit)),
            (None, Some(started)) => ContainerState::Running { started_at: started.at },
            // A container is put here only when it has started or failed to.
            (None, None) => unreachable!("a run without start and end"),
        };
        let previous = self.previous.as_ref().and_then(|run| run.exit.as_ref().map(|exit| terminated(run, exit)));
        ContainerStatus {
            name: name.to_owned(),
            image: attempt.spec.image.clone(),
            attempt: attempt.spec.attempt,
            hash: attempt.spec.hash.clone(),
            id: id(attempt),
            state,
            previous,
        }
    }
}

/// `process://PID.TICKS` while it is known which process it was: a person can look it up with `ps`, and a test can see
/// that it stays the same.
fn id(attempt: &Attempt) -> String {
    match &attempt.started {
        Some(started) => format!("process://{}.{}", started.process.pid, started.process.start_ticks),
        None => format!("process://{}.{}.{}", attempt.spec.uid, attempt.spec.container, attempt.spec.attempt),
    }
}

fn terminated(attempt: &Attempt, exit: &Exit) -> Terminated {
    Terminated {
        id: id(attempt),
        exit_code: exit.code,
        signal: exit.signal,
        reason: match exit.ending {
            Ending::StartError => Some("StartError"),
            Ending::Lost => Some("ContainerStatusUnknown"),
            Ending::Own | Ending::Stopped | Ending::ClusterGone => None,
        },
        message: attempt.message.clone(),
        started_at: exit.started_at,
        finished_at: exit.finished_at,
        interrupted: exit.ending == Ending::ClusterGone,
        asked: exit.ending == Ending::Stopped,
    }
}
