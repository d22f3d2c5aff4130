//! The kubelet's side of a start: lock, intent, shim, report. All of it blocks for a few milliseconds.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

use super::{
    attempt,
    layout::{AttemptDir, ContainerDir},
    lock::{self, Lock},
    record::{self, Durability, Exit, Report, Spec, Started, Stop},
};
use crate::clock::monotonic;

/// How long a shim may take to report; it needs about a millisecond, so this says that something is broken.
const REPORT_MAX: Duration = Duration::from_secs(10);

/// A longer report is not one.
const REPORT_BYTES_MAX: u64 = 64 * 1024;

/// How many ended runs keep their directory beside the newest, for `logs --previous`.
const ENDED_KEPT: usize = 1;

/// How a shim and a built-in are called.
#[derive(Debug, Clone)]
pub struct Shim {
    /// The program that holds both; `/proc/self/exe` stays right when the file on disk is replaced.
    pub program: PathBuf,
    /// Words before the directory of the attempt.
    pub shim_args: Vec<OsString>,
    /// Words before those of a built-in.
    pub builtin_args: Vec<String>,
    /// Words before the number of an escort's connection.
    pub escort_args: Vec<OsString>,
}

/// A shim that has reported.
#[derive(Debug)]
pub enum Launched {
    /// The container runs; the handle is on its shim.
    Running {
        /// What it reported.
        started: Started,
        /// The shim.
        shim: OwnedFd,
    },
    /// The program could not be started.
    Failed(Exit),
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// Somebody runs this container of this pod already.
    #[error("container {container} already runs: its lock is held by process {}", list(.holders))]
    Held {
        /// The container.
        container: String,
        /// Who holds the lock.
        holders: Vec<i32>,
    },
    /// The shim would not.
    #[error("the shim refused: {0}")]
    Refused(String),
    /// The shim said nothing in time, or nothing that can be understood.
    #[error("the shim did not report: {0}")]
    Silent(String),
    /// The disk or the system failed.
    #[error("{what}: {source}")]
    Io {
        /// The step.
        what: &'static str,
        /// The failure.
        source: io::Error,
    },
}

impl Default for Shim {
    fn default() -> Self {
        Shim {
            program: PathBuf::from("/proc/self/exe"),
            shim_args: vec!["shim".into()],
            builtin_args: vec!["builtin".into()],
            escort_args: vec!["escort".into()],
        }
    }
}

/// Starts a container under a new shim. `spec` is told the number of the run, which is at least `attempt_min`.
pub fn launch(
    shim: &Shim,
    dir: &ContainerDir,
    attempt_min: u32,
    spec: impl FnOnce(u32) -> Spec,
) -> Result<(Spec, Launched), LaunchError> {
    let io = |what| move |source| LaunchError::Io { what, source };
    fs::create_dir_all(dir.work()).map_err(io("create the container's directory"))?;
    let Some(lock) = Lock::try_take(&dir.lock()).map_err(io("lock the container"))? else {
        let container = dir.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let holders = lock::holders(&dir.lock()).unwrap_or_default();
        return Err(LaunchError::Held { container, holders });
    };
    let last = attempt::settle(dir, &lock).map_err(io("look at earlier runs"))?;
    let number = last.map_or(0, |last| last + 1).max(attempt_min);
    forget_old_runs(dir).map_err(io("remove old runs"))?;
    let attempt = dir.attempt(number);
    // Exclusive: the same number is never used twice, whatever happens.
    fs::create_dir(attempt.path()).map_err(io("create the intent"))?;
    let spec = spec(number);
    record::write(&attempt.spec(), &spec, Durability::Written).map_err(io("write the intent"))?;
    let (mut report, handle) = spawn(shim, &attempt, &lock).map_err(io("start the shim"))?;
    // The shim has inherited the lock; from here on it is free when shim and container are gone.
    drop(lock);
    let launched = match read_report(&mut report)? {
        Report::Started(started) => Launched::Running { started, shim: handle },
        Report::Failed(exit) => {
            reap(&handle).map_err(io("wait for the shim"))?;
            Launched::Failed(exit)
        }
        Report::Refused(why) => return Err(LaunchError::Refused(why)),
    };
    Ok((spec, launched))
}

/// Asks a shim to stop its container. A later request may shorten the time, never lengthen it.
pub fn stop(dir: &AttemptDir, shim: &OwnedFd, grace: Duration) -> io::Result<()> {
    let grace_millis = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    record::write(&dir.stop(), &Stop { grace_millis }, Durability::Written)?;
    match pidfd_send_signal(shim, Signal::TERM) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes the remains of an ended shim from the process table, if it was our child. Blocks until it has ended.
pub fn reap(shim: &OwnedFd) -> io::Result<()> {
    use rustix::{
        io::Errno,
        process::{WaitId, WaitIdOptions, waitid},
    };
    use std::os::fd::AsFd;
    match waitid(WaitId::PidFd(shim.as_fd()), WaitIdOptions::EXITED) {
        Ok(_) | Err(Errno::CHILD) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn spawn(shim: &Shim, attempt: &AttemptDir, lock: &Lock) -> io::Result<(File, OwnedFd)> {
    let own_log = OpenOptions::new().append(true).create(true).open(attempt.shim_log())?;
    let mut child = Command::new(&shim.program)
        .arg0("lw")
        .args(&shim.shim_args)
        .arg(attempt.path())
        .current_dir("/")
        .stdin(Stdio::from(lock.share()?))
        .stdout(Stdio::piped())
        .stderr(Stdio::from(own_log))
        .spawn()?;
    let report = child.stdout.take().map(OwnedFd::from).ok_or_else(|| io::Error::other("no pipe for the report"))?;
    let pid =
        i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| io::Error::other("no process id"))?;
    // The child is not reaped before this handle has said that it ended, so the number is still its own.
    let handle = pidfd_open(pid, PidfdFlags::empty())?;
    Ok((File::from(report), handle))
}

fn read_report(pipe: &mut File) -> Result<Report, LaunchError> {
    let silent = |error: &dyn std::fmt::Display| LaunchError::Silent(error.to_string());
    let until = monotonic() + REPORT_MAX;
    let mut json = Vec::new();
    loop {
        let left = until.saturating_duration_since(monotonic());
        let timeout = Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&*pipe, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Err(silent(&format_args!("nothing within {} s", REPORT_MAX.as_secs()))),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(silent(&error)),
        }
        let mut buffer = [0u8; 4096];
        match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => json.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(silent(&error)),
        }
        if json.ends_with(b"\n") || json.len() as u64 > REPORT_BYTES_MAX {
            break;
        }
    }
    serde_json::from_slice(&json).map_err(|error| silent(&error))
}

fn forget_old_runs(dir: &ContainerDir) -> io::Result<()> {
    let numbers = dir.attempts()?;
    let old = numbers.len().saturating_sub(ENDED_KEPT);
    for number in &numbers[..old] {
        fs::remove_dir_all(dir.attempt(*number).path())?;
    }
    Ok(())
}

fn list(pids: &[i32]) -> String {
    if pids.is_empty() {
        return "unknown".into();
    }
    pids.iter().map(i32::to_string).collect::<Vec<_>>().join(", ")
}
