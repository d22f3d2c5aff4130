//! One process under test: its ready line, its log, its end.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

/// Within this time a process must be ready, also on a busy machine.
const READY_LIMIT: Duration = Duration::from_secs(30);
/// Within this time a process must end after SIGTERM.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// The line that a process prints with `--ready-json`.
#[derive(Debug, Clone, Deserialize)]
pub struct Ready {
    /// `server`, `scheduler`, …
    pub component: String,
    /// Its process id.
    pub pid: u32,
    /// Where it listens.
    pub addresses: BTreeMap<String, SocketAddr>,
    /// From its start to being ready.
    pub ms: u64,
}

/// A running process; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Its ready line.
    pub ready: Ready,
    /// Where its standard error goes, one file for all starts of a name in a folder.
    pub log: PathBuf,
}

impl Process {
    /// Starts `lw ARGS… --ready-json` and waits for its ready line. The log goes to `NAME.log` in `folder`.
    ///
    /// # Errors
    /// If the process ends before it is ready, or is not ready in time: the message holds the end of its log.
    pub fn start(name: &str, folder: &Path, args: &[&str]) -> anyhow::Result<Process> {
        let mut command = Command::new(crate::binary::lw());
        command.args(args).arg("--ready-json");
        Self::spawn(name, folder, command)
    }

    /// As [`Process::start`], with a command of the caller's.
    ///
    /// # Errors
    /// As [`Process::start`].
    pub fn spawn(name: &str, folder: &Path, mut command: Command) -> anyhow::Result<Process> {
        let log = folder.join(format!("{name}.log"));
        let errors = File::options().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn()?;
        let out = child.stdout.take().expect("standard output is piped");
        let (line, lines) = mpsc::channel();
        // The thread reads on to the end, so that the process never meets a closed pipe.
        std::thread::spawn(move || {
            for text in BufReader::new(out).lines().map_while(Result::ok) {
                let _ = line.send(text);
            }
        });
        let ready = lines.recv_timeout(READY_LIMIT);
        let parsed = ready.as_ref().ok().and_then(|text| serde_json::from_str(text).ok());
        if let Some(ready) = parsed {
            return Ok(Process { child, ready, log });
        }
        let _ = child.kill();
        let status = child.wait()?;
        anyhow::bail!("{name} was not ready ({status}), said {ready:?}; its log ends:\n{}", tail(&log))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The address of that name in the ready line.
    ///
    /// # Panics
    /// If the ready line has none.
    pub fn address(&self, name: &str) -> SocketAddr {
        *self.ready.addresses.get(name).unwrap_or_else(|| panic!("no address {name} in {:?}", self.ready))
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// SIGSTOP: the process stands still until [`Process::resume`].
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM, and waits for a clean end.
    ///
    /// # Errors
    /// If the process does not end in time or not with exit code 0: the message holds the end of its log.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM);
        let status = self.wait(STOP_LIMIT)?;
        anyhow::ensure!(status.success(), "ended with {status}; its log ends:\n{}", tail(&self.log));
        Ok(())
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// If the limit passes first.
    pub fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            anyhow::ensure!(Instant::now() < deadline, "did not end in {limit:?}; its log ends:\n{}", tail(&self.log));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a child has a process id");
        let _ = kill_process(pid, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of a log, for a failure's message.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
