//! Starting one process: its log, its lifeline, its ready line, and the news of its end.

use std::{
    collections::BTreeMap,
    fs::File,
    os::{fd::RawFd, unix::process::ExitStatusExt},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
};

use anyhow::Context;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::mpsc,
};

use crate::programs::CLUSTER_PIPE_FD;

/// A log that has grown beyond this is put aside (once, as `.1`) before the next start.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// What a process tells its supervisor.
#[derive(Debug)]
pub(crate) enum News {
    /// It is ready and listens here.
    Ready {
        /// Which component.
        index: usize,
        /// Which of its runs.
        run: u64,
        /// Where it listens.
        addresses: BTreeMap<String, String>,
    },
    /// It has ended.
    Ended {
        /// Which component.
        index: usize,
        /// Which of its runs.
        run: u64,
        /// `exit code 1`, `signal 9`.
        how: String,
    },
}

/// A process about to be started.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// Arguments of `lw`.
    pub(crate) args: &'a [String],
    /// Where its standard error goes.
    pub(crate) log: PathBuf,
    /// The far end of the lifeline.
    pub(crate) lifeline: RawFd,
    /// Which component, for the news.
    pub(crate) index: usize,
    /// Which of its runs, for the news.
    pub(crate) run: u64,
}

#[derive(Debug, Deserialize)]
struct ReadyLine {
    addresses: BTreeMap<String, String>,
}

/// Starts the process; its news come through the channel. Returns its process id.
///
/// # Errors
/// If its log cannot be opened or the process cannot be started.
pub(crate) fn spawn(start: &Start<'_>, news: mpsc::Sender<News>) -> anyhow::Result<u32> {
    put_aside(&start.log);
    let log = File::options().create(true).append(true).open(&start.log);
    let log = log.with_context(|| format!("open {}", start.log.display()))?;
    let binary = std::env::current_exe().context("find the lw binary")?;
    let lifeline = start.lifeline;
    let mut command = tokio::process::Command::new(binary);
    command.args(start.args).arg("--ready-json").env(CLUSTER_PIPE_FD, lifeline.to_string());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).process_group(0);
    // Safety: only fcntl runs between fork and exec, which is async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if libc::fcntl(lifeline, libc::F_SETFD, 0) == -1 {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        });
    }
    let mut child = command.spawn().context("start lw")?;
    let pid = child.id().expect("a child that was not waited for has a process id");
    let out = child.stdout.take().expect("standard output is piped");
    let (index, run) = (start.index, start.run);
    // Ends with the child: the supervisor waits for the news of its end before it goes.
    tokio::spawn(async move {
        let mut lines = BufReader::new(out).lines();
        let mut told = false;
        while let Ok(Some(line)) = lines.next_line().await {
            if let (false, Ok(ReadyLine { addresses })) = (told, serde_json::from_str(&line)) {
                told = true;
                let _ = news.send(News::Ready { index, run, addresses }).await;
            }
        }
        let how = child.wait().await.map_or_else(|e| e.to_string(), describe);
        let _ = news.send(News::Ended { index, run, how }).await;
    });
    Ok(pid)
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown end".to_owned(),
    }
}

/// Where the log of a run that is about to start will begin.
pub(crate) fn log_end(log: &Path) -> u64 {
    // One that is put aside begins anew.
    std::fs::metadata(log).map(|m| m.len()).ok().filter(|len| *len <= LOG_BYTES_MAX).unwrap_or(0)
}

fn put_aside(log: &Path) {
    if std::fs::metadata(log).is_ok_and(|m| m.len() > LOG_BYTES_MAX) {
        let _ = std::fs::rename(log, log.with_extension("log.1"));
    }
}
