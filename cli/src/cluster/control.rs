//! The language of the supervisor's socket: one JSON line asks, one JSON line answers.
//!
//! It does not pass through the server, which may be down when it is needed most.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, ErrorKind, Write},
    os::unix::{fs::MetadataExt, net::UnixStream},
    time::Duration,
};

use anyhow::bail;
use serde::{Deserialize, Serialize};

use super::Layout;

/// The longest that an order may take: a graceful stop of a kubelet, then a start.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);
/// The longest that an answer may take that waits for nothing: a supervisor that needs longer stands still.
const PROMPT_LIMIT: Duration = Duration::from_secs(5);

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
/// If none runs (see [`is_running`]), if it refuses, or if it does not answer: the text names its process then, and what
/// to do about it.
pub(crate) fn ask(layout: &Layout, request: &Request) -> anyhow::Result<ClusterStatus> {
    match request {
        Request::Status | Request::Kill(_) | Request::Down => exchange(layout, request, PROMPT_LIMIT),
        Request::Start(_) | Request::Stop(_) | Request::Restart(_) => {
            // What takes long is only waited for when there is somebody who does it.
            exchange(layout, &Request::Status, PROMPT_LIMIT)?;
            exchange(layout, request, ANSWER_LIMIT)
        }
    }
}

fn exchange(layout: &Layout, request: &Request, limit: Duration) -> anyhow::Result<ClusterStatus> {
    let stream = UnixStream::connect(layout.control_socket()).map_err(|_| unreachable(layout))?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    let mut line = serde_json::to_string(request).expect("plain data serializes");
    line.push('\n');
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => silent(layout, limit),
        _ => anyhow::Error::new(error).context("ask the supervisor"),
    };
    (&stream).write_all(line.as_bytes()).map_err(failed)?;
    let mut text = String::new();
    BufReader::new(&stream).read_line(&mut text).map_err(failed)?;
    let Ok(answer) = serde_json::from_str::<Answer>(&text) else {
        bail!("the supervisor went away before it answered")
    };
    match (answer.error, answer.status) {
        (Some(error), _) => bail!(error),
        (None, Some(status)) => Ok(status),
        (None, None) => bail!("the supervisor gave an empty answer"),
    }
}

/// Why nobody listens: there is no supervisor, or it has lost its socket.
fn unreachable(layout: &Layout) -> anyhow::Error {
    let (name, flags) = (&layout.name, layout.flags());
    match supervisor(layout) {
        Some(pid) => anyhow::anyhow!(
            "cluster {name:?} has a supervisor (pid {pid}), but it does not listen on {}: either it is just starting, or \
             the socket was removed; then stop the cluster with `kill {pid}` and start it again with `lw up{flags}`",
            layout.control_socket().display()
        ),
        None => anyhow::anyhow!(
            "cluster {name:?} is not running (data in {}): start it with `lw up{flags}`",
            layout.root.display()
        ),
    }
}

/// What to do about a supervisor that listens and does not answer.
fn silent(layout: &Layout, limit: Duration) -> anyhow::Error {
    let name = &layout.name;
    match supervisor(layout) {
        Some(pid) => anyhow::anyhow!(
            "the supervisor of cluster {name:?} (pid {pid}) does not answer within {limit:?}: `kill -CONT {pid}` lets it \
             go on if it stands still; `kill -KILL {pid}` ends it and all processes of the cluster"
        ),
        None => anyhow::anyhow!("the supervisor of cluster {name:?} does not answer within {limit:?}"),
    }
}

/// The process that holds the supervisor's lock. The lock itself is left alone: to try it would be in the way of a start.
fn supervisor(layout: &Layout) -> Option<u32> {
    let pid: u32 = fs::read_to_string(layout.lock()).ok()?.trim().parse().ok()?;
    let lock = fs::metadata(layout.lock()).ok()?;
    let is_lock = |file: fs::DirEntry| {
        fs::metadata(file.path()).is_ok_and(|open| (open.dev(), open.ino()) == (lock.dev(), lock.ino()))
    };
    fs::read_dir(format!("/proc/{pid}/fd")).ok()?.filter_map(Result::ok).any(is_lock).then_some(pid)
}

/// Whether the supervisor of a cluster answers.
pub(crate) fn is_running(layout: &Layout) -> bool {
    UnixStream::connect(layout.control_socket()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::net::UnixListener};

    use super::*;

    fn said(layout: &Layout) -> String {
        exchange(layout, &Request::Down, Duration::from_millis(50)).expect_err("nobody answers").to_string()
    }

    #[test]
    fn a_supervisor_that_cannot_be_reached_is_named_with_its_process() {
        let folder = tempfile::tempdir().expect("folder");
        let layout = Layout::new("x", Some(folder.path())).expect("valid");
        assert!(said(&layout).contains("is not running"), "{}", said(&layout));
        let pid = std::process::id();
        fs::write(layout.lock(), format!("{pid}\n")).expect("written");
        assert!(said(&layout).contains("is not running"), "a left-over: {}", said(&layout));

        let _held = File::open(layout.lock()).expect("the lock, as a supervisor has it open");
        assert!(said(&layout).contains(&format!("stop the cluster with `kill {pid}`")), "{}", said(&layout));

        let _listener = UnixListener::bind(layout.control_socket()).expect("a socket that nobody serves");
        let said = said(&layout);
        assert!(said.contains("does not answer within 50ms") && said.contains(&format!("kill -KILL {pid}")), "{said}");
    }
}
