//! The program a shim runs: start, signals to its group, how it ended.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, WaitStatus, kill_process_group};

use super::{
    super::{
        identity::ProcessIdentity,
        lock::Lock,
        record::{Ending, Exit, Spec},
    },
    sys,
};
use crate::clock::{Clock, SystemClock};

/// A started program and its outputs.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) identity: ProcessIdentity,
    pub(super) started_at: Timestamp,
    pub(super) stdout: File,
    pub(super) stderr: File,
}

/// Starts the program of the spec. The error is that of the failed step: no such program, no such directory, ….
pub(super) fn start(spec: &Spec, lock: &Lock) -> io::Result<Container> {
    let lock = lock.file().as_raw_fd();
    let shim = rustix::process::getpid().as_raw_nonzero().get();
    let mut command = Command::new(&spec.program);
    command
        .arg0(&spec.name)
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(key, value)| (key, value)))
        .current_dir(&spec.cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: the closure makes only calls that are allowed between fork and exec.
    unsafe {
        command.pre_exec(move || sys::before_exec(lock, shim));
    }
    let started_at = SystemClock.now();
    let mut child = command.spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    let output = |pipe: Option<OwnedFd>| pipe.map(File::from).ok_or_else(|| io::Error::other("no pipe for the output"));
    let stdout = output(child.stdout.take().map(OwnedFd::from))?;
    let stderr = output(child.stderr.take().map(OwnedFd::from))?;
    // The child is reaped by number, with all other descendants; until then its number stays its own.
    drop(child);
    Ok(Container { identity: ProcessIdentity::of(pid)?, started_at, stdout, stderr })
}

impl Container {
    /// Sends a signal to the whole group. That the group is gone is not an error.
    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        let Some(group) = Pid::from_raw(self.identity.pid) else { return Ok(()) };
        match kill_process_group(group, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The record of its end.
    pub(super) fn exit(&self, status: WaitStatus, ending: Ending) -> Exit {
        let signal = status.terminating_signal();
        Exit {
            code: signal.map_or_else(|| status.exit_status().unwrap_or(255), |signal| 128 + signal),
            signal,
            ending,
            message: String::new(),
            started_at: Some(self.started_at),
            finished_at: SystemClock.now(),
        }
    }
}

/// The record of a program that could not be started; 128 is what container runtimes give.
pub(super) fn start_failure(spec: &Spec, error: &io::Error) -> Exit {
    let program = spec.program.display();
    let message = if !spec.cwd.is_dir() {
        format!("chdir to cwd (\"{}\"): {error}", spec.cwd.display())
    } else if error.kind() == io::ErrorKind::NotFound && spec.program.components().count() == 1 {
        format!("exec: \"{program}\": executable file not found in $PATH")
    } else {
        format!("exec: \"{program}\": {error}")
    };
    Exit {
        code: 128,
        signal: None,
        ending: Ending::StartError,
        message,
        started_at: None,
        finished_at: SystemClock.now(),
    }
}
