//! A cluster under measurement: a fresh data folder, free ports, and `lw` pointed at it. Stopped and removed at the end.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Instant,
};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::ChildStdout;

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Up {
    lw: PathBuf,
    folder: PathBuf,
    child: Child,
    line: tokio::sync::oneshot::Receiver<String>,
}

/// The lines of `lw get pods -w`; the command ends when this is dropped.
pub(crate) struct PodLines {
    lines: Lines<BufReader<ChildStdout>>,
    _command: tokio::process::Child,
}

impl Up {
    /// Starts `lw up` with further flags, and variables for its processes. It may not be ready yet.
    pub(crate) fn start(lw: &Path, flags: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<Up> {
        let lw = std::fs::canonicalize(lw).with_context(|| format!("{}", lw.display()))?;
        let folder = std::env::temp_dir().join(format!("listwatch-bench-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let mut command = Command::new(&lw);
        command.args(["up", "--client-port", "0", "--secure-port", "0", "--ready-json", "--data-dir"]);
        command.arg(folder.join("data")).args(flags).env("XDG_STATE_HOME", folder.join("state"));
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let out = child.stdout.take().context("piped")?;
        let (send, line) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut text);
            let _ = send.send(text);
        });
        Ok(Up { lw, folder, child, line })
    }

    /// Waits for the ready line.
    pub(crate) async fn wait_ready(&mut self) -> anyhow::Result<()> {
        if (&mut self.line).await?.is_empty() {
            bail!("lw up ended before it was ready");
        }
        Ok(())
    }

    /// A folder of the measurement's own beside the data.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A command to the cluster, ready to be run.
    pub(crate) fn command(&self, args: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.lw);
        command.args(args).env("LW_KUBECONFIG", self.folder.join("data/kubeconfig"));
        command
    }

    /// Runs a command, whatever comes of it.
    pub(crate) async fn output(&self, args: &[&str]) -> anyhow::Result<Output> {
        self.command(args).output().await.with_context(|| format!("lw {args:?}"))
    }

    /// Runs a command that must succeed; gives what it printed.
    pub(crate) async fn lw(&self, args: &[&str]) -> anyhow::Result<String> {
        let output = self.output(args).await?;
        ensure!(output.status.success(), "lw {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Pods as they change.
    pub(crate) fn watch_pods(&self) -> anyhow::Result<PodLines> {
        let mut command = self.command(&["get", "pods", "-w", "--no-headers"]);
        let mut command = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let lines = BufReader::new(command.stdout.take().context("piped")?).lines();
        Ok(PodLines { lines, _command: command })
    }

    /// `lw status -o json`.
    pub(crate) async fn status(&self) -> anyhow::Result<Value> {
        let mut command = tokio::process::Command::new(&self.lw);
        command.args(["status", "-o", "json", "--data-dir"]).arg(self.folder.join("data"));
        serde_json::from_slice(&command.output().await?.stdout).context("lw status")
    }

    /// Name and proportional memory in MiB of each process of the cluster; containers are not among them.
    pub(crate) async fn memory(&self) -> anyhow::Result<Vec<(String, f64)>> {
        let status = self.status().await?;
        let supervisor = status["supervisorPid"].as_u64().context("supervisorPid")?;
        let mut memory = vec![("lw up".to_owned(), pss_mib(supervisor)?)];
        for component in status["components"].as_array().into_iter().flatten() {
            let bytes = component["memoryBytes"].as_f64().unwrap_or(0.0);
            memory.push((component["name"].as_str().unwrap_or_default().to_owned(), bytes / 1_048_576.0));
        }
        Ok(memory)
    }

    /// Ctrl-C, and waits for the end.
    pub(crate) fn stop(&mut self) -> anyhow::Result<()> {
        Command::new("kill").arg("-INT").arg(self.child.id().to_string()).status()?;
        self.child.wait()?;
        let _ = std::fs::remove_dir_all(&self.folder);
        Ok(())
    }
}

impl PodLines {
    /// Waits until so many different pods have been Running with all containers ready.
    pub(crate) async fn running(&mut self, pods: usize) -> anyhow::Result<()> {
        let mut running = std::collections::BTreeSet::new();
        while running.len() < pods {
            let line = self.lines.next_line().await?.context("the watch ended")?;
            let words: Vec<_> = line.split_whitespace().collect();
            if let [name, "1/1", "Running", ..] = words.as_slice() {
                running.insert((*name).to_owned());
            }
        }
        Ok(())
    }
}

/// Milliseconds since then.
pub(crate) fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn pss_mib(pid: u64) -> anyhow::Result<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("Pss")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}
