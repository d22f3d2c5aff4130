//! What every process shares: logging, the ready line, the signals that stop it, the pipe of its supervisor.
//!
//! Invariants: standard output carries the ready line and nothing else; logs go to standard error; a process stops on
//! SIGTERM, on SIGINT and when its supervisor's pipe ends, and then exits 0.

use std::{
    collections::BTreeMap,
    io::Write,
    net::SocketAddr,
    os::fd::FromRawFd,
    process::ExitCode,
    time::{Duration, Instant},
};

use clap::{Args, ValueEnum};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The variable with the number of the descriptor that ends when the cluster is gone; shims read the same.
pub(crate) use listwatch_components::kubelet::runtime::process::shim::CLUSTER_PIPE_ENV as CLUSTER_PIPE_FD;

/// Flags of every process.
#[derive(Debug, Clone, Args)]
pub(crate) struct ProgramArgs {
    /// Print one JSON line with the addresses on standard output once ready
    #[arg(long, env = "LW_READY_JSON")]
    pub(crate) ready_json: bool,
    /// What to log: a level or filters like `info,listwatch_server::storage=debug`
    #[arg(long = "log", env = "LW_LOG", value_parser = log_filter, default_value = "info", value_name = "FILTER")]
    pub(crate) log_filter: String,
    /// Form of the log on standard error
    #[arg(long, env = "LW_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
}

/// Form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for a person.
    Text,
    /// One JSON object a line.
    Json,
}

/// The line that tells a supervisor or a test where a process listens.
#[derive(Debug, Serialize)]
struct Ready<'a> {
    component: &'a str,
    pid: u32,
    addresses: BTreeMap<&'a str, String>,
    ms: u64,
}

/// Tells that the process is ready.
#[derive(Debug)]
pub(crate) struct ReadyLine {
    component: &'static str,
    started: Instant,
    wanted: bool,
}

impl ProgramArgs {
    /// Sets up logging and starts the clock of the ready line. Call first.
    pub(crate) fn start(&self, component: &'static str) -> anyhow::Result<ReadyLine> {
        let started = Instant::now();
        let filter = tracing_subscriber::EnvFilter::try_new(&self.log_filter)
            .map_err(|e| anyhow::anyhow!("--log {:?} is not a filter: {e}", self.log_filter))?;
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
        // A log that cannot be written is no reason to end: telling so would go to the same place, and panic.
        let log = log.log_internal_errors(false);
        match self.log_format {
            LogFormat::Text => log.init(),
            LogFormat::Json => log.json().init(),
        }
        Ok(ReadyLine { component, started, wanted: self.ready_json })
    }
}

impl ReadyLine {
    /// Prints the ready line if it was asked for, and logs the same.
    pub(crate) fn ready(&self, addresses: &[(&str, SocketAddr)]) {
        let ready = Ready {
            component: self.component,
            pid: std::process::id(),
            addresses: addresses.iter().map(|(name, address)| (*name, address.to_string())).collect(),
            ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        tracing::info!(component = self.component, ms = ready.ms, addresses = ?ready.addresses, "ready");
        if self.wanted {
            let line = serde_json::to_string(&ready).expect("plain data serializes");
            let mut out = std::io::stdout().lock();
            // A supervisor that is gone reads nothing; the pipe's end says so soon enough.
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        }
    }
}

/// Ends when the process shall stop: SIGTERM, SIGINT, or the end of the supervisor's pipe. Signals are heard from the
/// call on, not from the first poll, so that one that comes right behind the ready line stops the process cleanly. Must
/// be called within the runtime.
pub(crate) fn stop_signal() -> impl Future<Output = ()> {
    let mut terminate = signal(SignalKind::terminate()).expect("the runtime has signals on");
    let mut interrupt = signal(SignalKind::interrupt()).expect("the runtime has signals on");
    async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("stopping: SIGTERM"),
            _ = interrupt.recv() => tracing::info!("stopping: SIGINT"),
            () = cluster_gone() => tracing::info!("stopping: the cluster's supervisor is gone"),
        }
    }
}

/// Ends when the supervisor is gone; never, if there is none.
async fn cluster_gone() {
    let Some(fd) = std::env::var(CLUSTER_PIPE_FD).ok().and_then(|text| text.parse::<i32>().ok()).filter(|fd| *fd > 2)
    else {
        return std::future::pending().await;
    };
    // A thread, because the pipe may be shared with children that expect it to block.
    let (gone, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // Safety: the descriptor was inherited for this purpose and nothing else in the process closes it.
        let mut pipe = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(fd) });
        let mut byte = [0u8; 1];
        while matches!(std::io::Read::read(&mut *pipe, &mut byte), Ok(1..)) {}
        let _ = gone.send(());
    });
    let _ = wait.await;
}

/// Buffers of at least so many bytes go back to the system when they are freed. Without a fixed bound the allocator
/// learns from the first one to keep the next: a start after a stop reads its state through a buffer of 8 MiB, which
/// would count to the process for its whole life. What is needed again and again (messages of 2 MiB) stays below.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const BIG_BUFFER_BYTES: libc::c_int = 4 << 20;

/// Makes the allocator give big buffers back. Call before the first of them is made.
pub(crate) fn give_big_buffers_back() {
    // Safety: the call takes no pointer and locks what it touches.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, BIG_BUFFER_BYTES);
    }
}

/// The runtime of a process.
pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    use anyhow::Context;
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the async runtime")
}

/// Waits for an instant; for ever, if there is none.
pub(crate) async fn sleep_until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

/// Checks a filter of the log.
pub(crate) fn log_filter(text: &str) -> Result<String, String> {
    let filter = tracing_subscriber::EnvFilter::try_new(text);
    filter.map(|_| text.to_owned()).map_err(|e| format!("{e} (a filter is a level, or info,listwatch_server=debug)"))
}

/// The longest duration that a flag takes, 100 years: what is longer is a slip, and no clock can add it to an instant.
const SECONDS_MAX: u64 = 100 * 365 * 24 * 3600;
/// The same as a duration.
pub(crate) const DURATION_MAX: Duration = Duration::from_secs(SECONDS_MAX);

/// The values of a flag in whole seconds, 0 to 100 years.
pub(crate) const SECONDS: std::ops::RangeInclusive<u64> = 0..=SECONDS_MAX;

/// Reads a [`duration`] that is longer than nothing: a pause or a period of 0 would be a loop without rest.
pub(crate) fn period(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be longer than nothing".to_owned()),
        period => Ok(period),
    }
}

/// Reads `5m`, `1h30m`, `100ms`, `0`; at most 100 years.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let span: jiff::SignedDuration =
        text.parse().map_err(|e| format!("{e} (a duration is written 5m, 1h30m, 100ms)"))?;
    let duration = Duration::try_from(span).map_err(|_| "must not be negative".to_owned())?;
    if duration > DURATION_MAX {
        return Err("must be at most 100 years (876000h)".to_owned());
    }
    Ok(duration)
}

/// Runs a component until it is told to stop: the work gets a token, and ends soon after it is cancelled.
pub(crate) fn component(work: impl AsyncFnOnce(CancellationToken) -> anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(async {
        let shutdown = CancellationToken::new();
        let mut work = std::pin::pin!(work(shutdown.clone()));
        tokio::select! {
            outcome = &mut work => outcome?,
            () = stop_signal() => {
                shutdown.cancel();
                work.await?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_etcds() {
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        assert!(duration("-1s").is_err());
        assert!(duration("5").is_err());
    }

    #[test]
    fn durations_that_no_clock_can_add_are_refused() {
        assert_eq!(duration("876000h"), Ok(Duration::from_secs(SECONDS_MAX)));
        for text in ["876000h1ns", "2562047788015215h", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(period("1ns"), Ok(Duration::from_nanos(1)));
        for text in ["0", "0s", "2562047788015215h"] {
            assert!(period(text).is_err(), "{text}");
        }
    }

    #[test]
    fn filters_of_the_log_are_checked() {
        assert_eq!(log_filter("info,listwatch_server=debug").as_deref(), Ok("info,listwatch_server=debug"));
        assert!(log_filter("foo=bar=baz").is_err());
    }
}
