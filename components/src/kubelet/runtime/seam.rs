//! What a kubelet asks of a runtime, whatever it is made of.
//!
//! Invariants: everything is idempotent; what a runtime has said of a container stays true until it says otherwise
//! through [`Runtime::changes`]; a start that is answered with success has happened.

use std::{collections::BTreeMap, io, path::PathBuf, time::Duration};

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

/// One pod, as a runtime must know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodConfig {
    /// Its uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// It has the address of the node.
    pub host_network: bool,
    /// Time from the request to stop to the kill (`terminationGracePeriodSeconds`).
    pub grace: Duration,
}

/// A pod that a runtime has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFound {
    /// What it was told of it.
    pub config: PodConfig,
    /// Its address.
    pub ip: String,
}

/// One container to start.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerConfig {
    /// Its name, unique in the pod.
    pub name: String,
    /// Its image.
    pub image: String,
    /// In place of the image's entrypoint; empty: the image's own.
    pub command: Vec<String>,
    /// Arguments; empty: the image's own.
    pub args: Vec<String>,
    /// The environment that the pod asks for.
    pub env: Vec<(String, String)>,
    /// Where it runs; `None`: as the image says.
    pub working_dir: Option<String>,
    /// The ports it names.
    pub ports: Vec<u16>,
    /// What it sees at places of its own.
    pub mounts: Vec<Mount>,
    /// Where it says why it ended.
    pub termination: Option<Termination>,
    /// The run has at least this number: runs that the API has counted are never counted again.
    pub attempt_min: u32,
    /// Changes when a running container is no longer what the pod asks for.
    pub hash: String,
    /// Where it stands in its pod.
    pub place: Place,
}

/// Where a container stands in its pod, for a runtime that has to decide by itself what becomes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// It runs to its end before the next one starts.
    pub init: bool,
    /// A Job owns the pod.
    pub of_job: bool,
    /// It is started again when it has ended well.
    pub restarts_after_success: bool,
    /// It is started again when it has failed.
    pub restarts_after_failure: bool,
}

/// A file or directory that a container sees at a place of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// Where it really is.
    pub source: PathBuf,
    /// Where the container sees it, an absolute path.
    pub target: PathBuf,
    /// The container may not change it.
    pub read_only: bool,
}

/// Where a container says why it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Termination {
    /// The file, as the container sees it.
    pub path: PathBuf,
    /// The end of its log is taken if it failed and said nothing.
    pub or_log: bool,
}

/// One container, as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// Its image.
    pub image: String,
    /// How often it has run before.
    pub attempt: u32,
    /// The hash it was started with.
    pub hash: String,
    /// `RUNTIME://…`, different for each run.
    pub id: String,
    /// What it does.
    pub state: ContainerState,
    /// How the run before this one ended, if that is known.
    pub previous: Option<Terminated>,
}

/// What a container does.
#[derive(Debug, Clone, PartialEq)]
pub enum ContainerState {
    /// It runs.
    Running {
        /// Since then.
        started_at: Timestamp,
    },
    /// It has ended.
    Exited(Terminated),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Terminated {
    /// The id of that run.
    pub id: String,
    /// Its exit code.
    pub exit_code: i32,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// The API's word when it is not `Completed` or `Error`.
    pub reason: Option<&'static str>,
    /// What a person should know.
    pub message: String,
    /// When it was started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Timestamp,
    /// It ended because the cluster did, not by any will of its own.
    pub interrupted: bool,
    /// It ended because the kubelet asked it to.
    pub asked: bool,
}

/// The ports of a container as they really are, by `containerPort`.
pub type Ports = BTreeMap<u16, u16>;

/// What a command has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its exit code; 128 + signal if it was killed.
    pub code: i32,
    /// The beginning of what it wrote, on both outputs.
    pub text: String,
}

/// A command that somebody follows while it runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interaction {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Somebody has something to say to it.
    pub stdin: bool,
    /// Its standard output is wanted.
    pub stdout: bool,
    /// Its standard error is wanted; never of a command in a terminal.
    pub stderr: bool,
    /// It gets a terminal.
    pub tty: bool,
}

/// Where a command's input goes.
pub type Input = Box<dyn AsyncWrite + Send + Unpin>;

/// Where a command's output comes from.
pub type Output = Box<dyn AsyncRead + Send + Unpin>;

/// A command that runs. Dropping it kills the command.
pub struct Session {
    /// Its input, if asked for.
    pub stdin: Option<Input>,
    /// Its output, if asked for.
    pub stdout: Option<Output>,
    /// Its other output, if asked for.
    pub stderr: Option<Output>,
    /// The command itself.
    pub process: Box<dyn Process>,
}

/// A running command.
#[async_trait]
pub trait Process: Send + Sync {
    /// Tells its terminal how many columns and rows it has. Nothing without one.
    fn resize(&self, columns: u16, rows: u16) -> io::Result<()>;

    /// Waits for its end: the exit code, 128 + signal if it was killed. Cancel safe.
    async fn wait(&mut self) -> io::Result<i32>;
}

/// Why an image is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PullError {
    /// The name is not one.
    #[error("{0}")]
    InvalidName(String),
    /// It cannot be had.
    #[error("{0}")]
    Failed(String),
}

/// Why a runtime cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The pod asks for what this runtime has not.
    #[error("{0}")]
    Unsupported(String),
    /// The container could not be started; nothing runs.
    #[error("{0}")]
    Start(String),
    /// The machine failed.
    #[error("{what}: {source}")]
    Io {
        /// The step.
        what: &'static str,
        /// The failure.
        source: std::io::Error,
    },
    /// There is no such container.
    #[error("no container {container} of pod {uid}")]
    NotFound {
        /// The pod.
        uid: String,
        /// The container.
        container: String,
    },
}

/// Runs containers.
#[async_trait]
pub trait Runtime: Send + Sync + std::fmt::Debug + 'static {
    /// `process://0.1.0`, for the node's information.
    fn version(&self) -> String;

    /// What is said of isolation on the Node.
    fn isolation(&self) -> &'static str;

    /// Nothing really runs: there are no files to lay before a container, no environment, no port that answers.
    fn is_simulation(&self) -> bool {
        false
    }

    /// What a probe of a running container comes to; `None`: it must be asked. `command` is empty if it runs none.
    fn answer(&self, _readiness: bool, _command: &[String]) -> Option<bool> {
        None
    }

    /// The pods it has, from an earlier life of the kubelet.
    async fn pods(&self) -> Result<Vec<PodFound>, RuntimeError>;

    /// Makes a pod ready for containers and gives its address.
    async fn prepare(&self, pod: &PodConfig) -> Result<String, RuntimeError>;

    /// Whether the image is there without being fetched.
    async fn has_image(&self, image: &str) -> Result<bool, PullError>;

    /// Fetches an image.
    async fn pull(&self, image: &str) -> Result<(), PullError>;

    /// Starts a container that does not run. The answer tells its ports. A program that could not be started is a
    /// container that has exited, not an error.
    async fn start(&self, uid: &str, container: &ContainerConfig) -> Result<Ports, RuntimeError>;

    /// Asks a container to stop; its end is a change. A later call may shorten the time.
    async fn stop(&self, uid: &str, container: &str, grace: Duration) -> Result<(), RuntimeError>;

    /// The containers of a pod, each in its last run.
    fn containers(&self, uid: &str) -> Vec<ContainerStatus>;

    /// Moves with every change of a pod's containers.
    fn changes(&self, uid: &str) -> watch::Receiver<u64>;

    /// The ports of a container as they really are.
    fn ports(&self, uid: &str, container: &str) -> Ports;

    /// Runs a command beside a running container, in its place. Dropping the future kills the command.
    async fn exec(&self, uid: &str, container: &str, command: &[String]) -> Result<ExecOutput, RuntimeError>;

    /// Runs a command beside a running container, in its place, for somebody who follows it. An error of the command
    /// itself, such as a program that is not there, is the inner one.
    async fn interact(
        &self,
        uid: &str,
        container: &str,
        asked: &Interaction,
    ) -> Result<io::Result<Session>, RuntimeError>;

    /// A directory that lives as long as the pod, for its volumes.
    fn volumes(&self, uid: &str) -> PathBuf;

    /// The newest file of a container's log; older parts stand beside it.
    fn log(&self, uid: &str, container: &str, previous: bool) -> Result<PathBuf, RuntimeError>;

    /// Forgets a pod whose containers have ended, with all it left.
    async fn remove(&self, uid: &str) -> Result<(), RuntimeError>;
}
