//! The language of the supervisor's socket: one JSON line asks, one JSON line answers.
//!
//! It does not pass through the server, which may be down when it is needed most.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    time::Duration,
};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::Layout;

/// The longest that an order may take: a graceful stop of a kubelet, then a start.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// What is asked of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", content = "component")]
pub(crate) enum Request {
    /// How it stands.
    Status,
    /// Start a component that was stopped; answered when it is ready.
    Start(String),
    /// Stop a component by SIGTERM and leave it stopped; answered when it has ended.
    Stop(String),
    /// Kill a component by SIGKILL; the supervisor starts it again. Answered when the signal is sent.
    Kill(String),
    /// Stop and start; answered when it is ready.
    Restart(String),
    /// Stop the whole cluster; answered when it begins.
    Down,
}

/// The answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Why it was refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// How the cluster stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<ClusterStatus>,
}

/// How a cluster stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterStatus {
    /// Its name.
    pub(crate) name: String,
    /// Its data folder.
    pub(crate) data_dir: String,
    /// Process id of its supervisor.
    pub(crate) supervisor_pid: u32,
    /// Whether it is going down.
    pub(crate) stopping: bool,
    /// Its processes, in the order of start.
    pub(crate) components: Vec<ComponentStatus>,
}

/// How a process stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ComponentStatus {
    /// `server`, `scheduler`, `kubelet-node01`, …
    pub(crate) name: String,
    /// `Running`, `Starting`, `Stopping`, `Stopped`, `BackOff`.
    pub(crate) state: String,
    /// Its process id; 0 while there is none.
    pub(crate) pid: u32,
    /// How often it was started again, by the supervisor or by order.
    pub(crate) restarts: u32,
    /// Milliseconds since it was started.
    pub(crate) uptime_ms: u64,
    /// Where it listens.
    pub(crate) addresses: BTreeMap<String, String>,
    /// How its last run ended.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) last_exit: String,
}

impl ClusterStatus {
    /// A component by its name; a kubelet also by its node's name.
    pub(crate) fn component(&self, name: &str) -> Option<&ComponentStatus> {
        self.components.iter().find(|c| c.name == name || c.name.strip_prefix("kubelet-") == Some(name))
    }

    /// Whether every process runs and is ready.
    pub(crate) fn is_ready(&self) -> bool {
        !self.components.is_empty() && self.components.iter().all(|c| c.state == "Running")
    }
}

/// Asks the supervisor of a cluster.
///
/// # Errors
/// If none runs (see [`is_running`]), if it refuses, or if it does not answer.
pub(crate) fn ask(layout: &Layout, request: &Request) -> anyhow::Result<ClusterStatus> {
    let stream = UnixStream::connect(layout.control_socket()).map_err(|_| {
        let (name, root, flags) = (&layout.name, layout.root.display(), layout.flags());
        anyhow::anyhow!("cluster {name:?} is not running (data in {root}): start it with `lw up{flags}`")
    })?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    let mut line = serde_json::to_string(request).expect("plain data serializes");
    line.push('\n');
    (&stream).write_all(line.as_bytes()).context("ask the supervisor")?;
    let mut text = String::new();
    BufReader::new(&stream).read_line(&mut text).context("wait for the supervisor's answer")?;
    let Ok(answer) = serde_json::from_str::<Answer>(&text) else {
        bail!("the supervisor went away before it answered")
    };
    match (answer.error, answer.status) {
        (Some(error), _) => bail!(error),
        (None, Some(status)) => Ok(status),
        (None, None) => bail!("the supervisor gave an empty answer"),
    }
}

/// Whether the supervisor of a cluster answers.
pub(crate) fn is_running(layout: &Layout) -> bool {
    UnixStream::connect(layout.control_socket()).is_ok()
}
