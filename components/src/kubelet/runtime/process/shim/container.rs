//! The program a shim runs: start, signals to its group, how it ended.

use std::{
    fs::File,
    io::{self, PipeWriter, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Command, Stdio},
};

use jiff::Timestamp;
use rustix::process::{Pid, Signal, WaitStatus, kill_process_group};

use super::{
    super::{
        identity::ProcessIdentity,
        layout::AttemptDir,
        lock::Lock,
        record::{Ending, Exit, Mount, Spec},
    },
    namespace, sys,
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

/// Why a program does not run.
#[derive(Debug)]
pub(super) struct StartError {
    /// The step before the program itself that failed.
    step: Option<String>,
    source: io::Error,
}

/// Starts the program of the spec.
pub(super) fn start(dir: &AttemptDir, spec: &Spec, lock: &Lock) -> Result<Container, StartError> {
    let mut mounts = spec.mounts.clone();
    if let Some(termination) = &spec.termination {
        let target = termination.path.clone();
        mounts.push(Mount { source: dir.termination_log(), target, read_only: false });
    }
    match start_with(dir, spec, lock, mounts) {
        // A place for last words alone is not worth a container.
        Err(StartError { step: Some(step), .. }) if spec.mounts.is_empty() && spec.termination.is_some() => {
            eprintln!("{}: no terminationMessagePath: {step}", SystemClock.now());
            start_with(dir, spec, lock, Vec::new())
        }
        outcome => outcome,
    }
}

fn start_with(dir: &AttemptDir, spec: &Spec, lock: &Lock, mounts: Vec<Mount>) -> Result<Container, StartError> {
    let plain = |source| StartError { step: None, source };
    let (mut told, tell) = io::pipe().map_err(plain)?;
    let mut command = Command::new(&spec.program);
    command
        .arg0(&spec.name)
        .args(&spec.args)
        .env_clear()
        .envs(spec.env.iter().map(|(key, value)| (key, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let place = Place { root: dir.root(), mounts, cwd: spec.cwd.clone() };
    let (lock, shim) = (lock.file().as_raw_fd(), rustix::process::getpid().as_raw_nonzero().get());
    // SAFETY: the closure runs in the copy of a program that has one thread, so nothing it needs can be locked.
    unsafe {
        command.pre_exec(move || {
            place.enter(&tell)?;
            sys::before_exec(lock, shim)
        });
    }
    let started_at = SystemClock.now();
    let spawned = command.spawn();
    // With the closure the last writing end goes, so that reading ends.
    drop(command);
    let mut child = spawned.map_err(|source| {
        let mut step = String::new();
        let _ = told.read_to_string(&mut step);
        StartError { step: Some(step).filter(|step| !step.is_empty()), source }
    })?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other).map_err(plain)?;
    let output = |pipe: Option<OwnedFd>| pipe.map(File::from).ok_or_else(|| io::Error::other("no pipe for the output"));
    let stdout = output(child.stdout.take().map(OwnedFd::from)).map_err(plain)?;
    let stderr = output(child.stderr.take().map(OwnedFd::from)).map_err(plain)?;
    // The child is reaped by number, with all other descendants; until then its number stays its own.
    drop(child);
    Ok(Container { identity: ProcessIdentity::of(pid).map_err(plain)?, started_at, stdout, stderr })
}

/// Where the program finds itself.
struct Place {
    root: PathBuf,
    mounts: Vec<Mount>,
    cwd: PathBuf,
}

impl Place {
    /// Goes there; what fails is written to the pipe, for of an error only its number gets out of a child.
    fn enter(&self, mut tell: &PipeWriter) -> io::Result<()> {
        let failed = |tell: &mut &PipeWriter, text: String| {
            let _ = tell.write_all(text.as_bytes());
            Err(io::Error::from_raw_os_error(libc::ECANCELED))
        };
        if !self.mounts.is_empty()
            && let Err(error) = namespace::enter(&self.root, &self.mounts)
        {
            return failed(&mut tell, error.to_string());
        }
        match std::env::set_current_dir(&self.cwd) {
            Ok(()) => Ok(()),
            Err(error) => failed(&mut tell, format!("chdir to cwd (\"{}\"): {error}", self.cwd.display())),
        }
    }
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
pub(super) fn start_failure(spec: &Spec, error: &StartError) -> Exit {
    let program = spec.program.display();
    let message = match &error.step {
        Some(step) => step.clone(),
        None if error.source.kind() == io::ErrorKind::NotFound && spec.program.components().count() == 1 => {
            format!("exec: \"{program}\": executable file not found in $PATH")
        }
        None => format!("exec: \"{program}\": {}", error.source),
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
