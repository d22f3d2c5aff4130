//! The kubelet's side of a command beside a container: an escort is started, told what to run, and followed.
//!
//! Invariant: the connection to the escort is the command's life line: when it is dropped before the command has ended,
//! the escort kills the command and all that it started.

use std::{
    io,
    os::{
        fd::AsRawFd,
        unix::{net::UnixStream as Pair, process::CommandExt},
    },
    process::Command,
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{attempt::Attempt, identity::ProcessIdentity, launch::Shim};

/// How long an escort may take to say that the command runs; it needs milliseconds.
const START_MAX: Duration = Duration::from_secs(10);

/// A longer line is not from an escort.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// What an escort is to run; one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Order {
    /// Program and arguments.
    pub(super) words: Vec<String>,
    /// The command's whole environment.
    pub(super) env: Vec<(String, String)>,
    /// Where it runs, as the container sees it.
    pub(super) cwd: std::path::PathBuf,
    /// Its standard input is its terminal.
    pub(super) terminal: bool,
    /// The container's first process: the command sees what it sees, and ends when it ends.
    pub(super) container: ProcessIdentity,
    /// Who wants the command. It ends when this process ends.
    pub(super) kubelet: ProcessIdentity,
}

/// What an escort says, each time in one line of JSON: first whether the command runs, then how it ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Told {
    /// The command runs.
    Started,
    /// It could not be started.
    Failed {
        /// The number of the system's error, if it was one.
        errno: Option<i32>,
        /// The error in words.
        text: String,
    },
    /// It has ended with this code; 128 + signal if it was killed.
    Ended {
        /// The code.
        code: i32,
    },
}

/// A command that runs under an escort.
#[derive(Debug)]
pub(super) struct Escort {
    line: Line,
    code: Option<i32>,
}

impl Escort {
    /// Starts a command beside the container of this run. `outfit` has the command's inputs and outputs set on what it is
    /// given.
    pub(super) async fn start(
        shim: &Shim,
        attempt: &Attempt,
        words: &[String],
        terminal: Option<(&str, &str)>,
        outfit: impl FnOnce(&mut Command) -> io::Result<()>,
    ) -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the container does not run");
        let started = attempt.started.as_ref().ok_or_else(gone)?;
        if words.is_empty() {
            return Err(io::Error::other("there is no command"));
        }
        if !started.process.is_alive()? {
            return Err(gone());
        }
        let mut env = attempt.spec.env.clone();
        if let Some((name, value)) = terminal
            && env.iter().all(|(own, _)| own != name)
        {
            env.push((name.to_owned(), value.to_owned()));
        }
        let order = Order {
            words: words.to_vec(),
            env,
            cwd: attempt.spec.cwd.clone(),
            terminal: terminal.is_some(),
            container: started.process.clone(),
            kubelet: ProcessIdentity::current()?,
        };
        let stream = spawn(shim, outfit)?;
        let mut line = Line { stream, read: Vec::new() };
        match tokio::time::timeout(START_MAX, line.order(&order)).await {
            Ok(Ok(Told::Started)) => Ok(Escort { line, code: None }),
            Ok(Ok(Told::Failed { errno: Some(errno), .. })) => Err(io::Error::from_raw_os_error(errno)),
            Ok(Ok(Told::Failed { text, .. })) => Err(io::Error::other(text)),
            Ok(Ok(Told::Ended { .. })) => Err(io::Error::other("the escort told an end before the start")),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::other("the escort said nothing in time")),
        }
    }

    /// Waits for the command's end. Cancel safe.
    pub(super) async fn wait(&mut self) -> io::Result<i32> {
        if let Some(code) = self.code {
            return Ok(code);
        }
        match self.line.told().await? {
            Told::Ended { code } => Ok(*self.code.insert(code)),
            _ => Err(io::Error::other("the escort does not tell how the command ended")),
        }
    }
}

/// A process of its own, since only a process can adopt the orphans among its descendants.
fn spawn(shim: &Shim, outfit: impl FnOnce(&mut Command) -> io::Result<()>) -> io::Result<UnixStream> {
    let (ours, theirs) = Pair::pair()?;
    ours.set_nonblocking(true)?;
    let fd = theirs.as_raw_fd();
    let mut command = Command::new(&shim.program);
    command.arg0("lw").args(&shim.escort_args).arg(fd.to_string()).current_dir("/");
    outfit(&mut command)?;
    // SAFETY: the closure makes one system call, on a descriptor that is open until after the start.
    unsafe {
        command.pre_exec(move || match libc::fcntl(fd, libc::F_SETFD, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    // Dropped, it is reaped by the runtime when it ends.
    drop(tokio::process::Command::from(command).spawn()?);
    UnixStream::from_std(ours)
}

/// Lines of JSON from an escort.
#[derive(Debug)]
struct Line {
    stream: UnixStream,
    read: Vec<u8>,
}

impl Line {
    async fn order(&mut self, order: &Order) -> io::Result<Told> {
        let mut json = serde_json::to_vec(order).map_err(io::Error::other)?;
        json.push(b'\n');
        self.stream.write_all(&json).await?;
        self.told().await
    }

    /// The next line. Cancel safe: what was read of it is kept.
    async fn told(&mut self) -> io::Result<Told> {
        loop {
            if let Some(told) = take_line(&mut self.read) {
                return told;
            }
            if self.read.len() > LINE_BYTES_MAX {
                return Err(io::Error::other("the escort talks without an end"));
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::Error::other("the escort of the command is gone"));
            }
        }
    }
}

/// Takes the first whole line from what was read.
pub(super) fn take_line<T: DeserializeOwned>(read: &mut Vec<u8>) -> Option<io::Result<T>> {
    let end = read.iter().position(|byte| *byte == b'\n')?;
    let line: Vec<u8> = read.drain(..=end).collect();
    Some(serde_json::from_slice(&line).map_err(io::Error::from))
}
