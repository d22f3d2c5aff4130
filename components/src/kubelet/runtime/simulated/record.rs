//! What is kept of a simulated pod. A file holds all that a later kubelet must find again; whether a container has
//! ended follows from the time it is due to end, so that an end needs no write of its own.

use std::{collections::BTreeMap, net::Ipv4Addr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::{
    kept::KeptPod,
    seam::{ContainerState, ContainerStatus, PodConfig, Terminated},
};

/// The version of the files; another one is refused by name.
pub(super) const FORMAT: u32 = 1;

/// A pod, as its file holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodRecord {
    /// In the version [`FORMAT`].
    #[serde(flatten)]
    pub(super) pod: KeptPod,
    pub(super) containers: BTreeMap<String, Run>,
}

/// The last run of a container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Run {
    pub(super) image: String,
    pub(super) hash: String,
    /// How often it has run before.
    pub(super) attempt: u32,
    pub(super) started_at: Timestamp,
    /// The end it is due to.
    pub(super) end: Option<End>,
    /// How the run before this one ended.
    pub(super) previous: Option<Previous>,
    /// The end has come.
    #[serde(skip)]
    pub(super) over: bool,
}

/// The end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    pub(super) at: Timestamp,
    pub(super) code: i32,
    /// The kubelet asked for it.
    pub(super) asked: bool,
}

/// A run before the last one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Previous {
    pub(super) attempt: u32,
    pub(super) started_at: Timestamp,
    pub(super) end: End,
}

impl PodRecord {
    /// A pod without containers.
    pub(super) fn new(config: &PodConfig, ip: Ipv4Addr) -> Self {
        PodRecord { pod: KeptPod::new(FORMAT, config, ip), containers: BTreeMap::new() }
    }

    /// Its containers as the kubelet sees them.
    pub(super) fn statuses(&self) -> Vec<ContainerStatus> {
        self.containers.iter().map(|(name, run)| run.status(&self.pod.uid, name)).collect()
    }
}

impl Run {
    /// What a later run must know of this one, if it has ended.
    pub(super) fn as_previous(&self) -> Option<Previous> {
        let end = self.end.filter(|_| self.over)?;
        Some(Previous { attempt: self.attempt, started_at: self.started_at, end })
    }

    /// Asks it to end at this moment, unless it ends before. True: the end has changed.
    pub(super) fn stop(&mut self, at: Timestamp, code: i32) -> bool {
        if self.over || self.end.is_some_and(|end| end.at <= at) {
            return false;
        }
        self.end = Some(End { at, code, asked: true });
        true
    }

    fn status(&self, uid: &str, name: &str) -> ContainerStatus {
        let id = |attempt: u32| format!("simulated://{uid}.{name}.{attempt}");
        let terminated = |attempt, started_at, end: End| Terminated {
            id: id(attempt),
            exit_code: end.code,
            signal: None,
            reason: None,
            message: String::new(),
            started_at: Some(started_at),
            finished_at: end.at,
            interrupted: false,
            asked: end.asked,
        };
        let state = match self.end.filter(|_| self.over) {
            Some(end) => ContainerState::Exited(terminated(self.attempt, self.started_at, end)),
            None => ContainerState::Running { started_at: self.started_at },
        };
        ContainerStatus {
            name: name.to_owned(),
            image: self.image.clone(),
            attempt: self.attempt,
            hash: self.hash.clone(),
            id: id(self.attempt),
            state,
            previous: self.previous.map(|before| terminated(before.attempt, before.started_at, before.end)),
        }
    }
}
