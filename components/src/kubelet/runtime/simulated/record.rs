//! What is kept of a simulated pod. A file holds all that a later kubelet must find again; whether a container has
//! ended follows from the time it is due to end, so that an end needs no write of its own.

use std::{collections::BTreeMap, net::Ipv4Addr, time::Duration};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::seam::{ContainerState, ContainerStatus, PodConfig, Terminated};

/// The version of the files; another one is refused by name.
pub(super) const FORMAT: u32 = 1;

/// A pod, as its file holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodRecord {
    /// [`FORMAT`].
    pub(super) format: u32,
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) host_network: bool,
    pub(super) grace_millis: u64,
    pub(super) ip: Ipv4Addr,
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
        PodRecord {
            format: FORMAT,
            uid: config.uid.clone(),
            namespace: config.namespace.clone(),
            name: config.name.clone(),
            host_network: config.host_network,
            grace_millis: u64::try_from(config.grace.as_millis()).unwrap_or(u64::MAX),
            ip,
            containers: BTreeMap::new(),
        }
    }

    /// What the runtime was told of it.
    pub(super) fn config(&self) -> PodConfig {
        PodConfig {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            host_network: self.host_network,
            grace: Duration::from_millis(self.grace_millis),
        }
    }

    /// Its containers as the kubelet sees them.
    pub(super) fn statuses(&self) -> Vec<ContainerStatus> {
        self.containers.iter().map(|(name, run)| run.status(&self.uid, name)).collect()
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
