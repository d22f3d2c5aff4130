//! Whole clusters: from a cold start to Running pods, and what each process weighs.
//!
//! Each round is a fresh data folder. The watcher that tells when the pods run is `lw get pods -w`, a client like any
//! other, started before the Deployment is applied.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::stats::median;

/// A round that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// A cold cluster and a Deployment, again and again.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// The lw binary
    #[arg(long, default_value = "target/release/lw")]
    lw: PathBuf,
    /// How many cold starts
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// The manifest that is applied
    #[arg(long, default_value = "examples/myapp.yaml")]
    manifest: PathBuf,
    /// How many pods it makes
    #[arg(long, default_value_t = 3)]
    pods: usize,
}

#[derive(Debug, Default, Clone)]
struct Round {
    ready_ms: f64,
    running_ms: f64,
    apply_ms: f64,
    /// Name and proportional memory of each process, in MiB, when all pods run.
    memory: Vec<(String, f64)>,
}

impl ClusterArgs {
    /// Runs the rounds and prints the medians.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let lw = std::fs::canonicalize(&self.lw).with_context(|| format!("{}", self.lw.display()))?;
        let mut rounds = Vec::new();
        for number in 1..=self.rounds {
            let round = self.round(&lw).await.with_context(|| format!("round {number}"))?;
            eprintln!("round {number}: {round:?}");
            rounds.push(round);
        }
        report(&rounds);
        Ok(())
    }

    async fn round(&self, lw: &Path) -> anyhow::Result<Round> {
        let folder = std::env::temp_dir().join(format!("listwatch-bench-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let begun = Instant::now();
        let mut up = Up::start(lw, &folder)?;
        let outcome = tokio::time::timeout(LIMIT, self.measure(&mut up, lw, &folder, begun)).await;
        up.stop()?;
        let _ = std::fs::remove_dir_all(&folder);
        outcome.context("not done in time")?
    }

    async fn measure(&self, up: &mut Up, lw: &Path, folder: &Path, begun: Instant) -> anyhow::Result<Round> {
        up.wait_ready().await?;
        let ready_ms = millis(begun);
        let kubeconfig = folder.join("data/kubeconfig");
        let mut watch = tokio::process::Command::new(lw)
            .args(["get", "pods", "-w", "--no-headers", "--kubeconfig"])
            .arg(&kubeconfig)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut lines = BufReader::new(watch.stdout.take().context("piped")?).lines();
        let apply_begun = Instant::now();
        let mut apply = tokio::process::Command::new(lw);
        apply.args(["apply", "-f"]).arg(&self.manifest).arg("--kubeconfig").arg(&kubeconfig);
        let output = apply.output().await?;
        ensure!(output.status.success(), "apply: {}", String::from_utf8_lossy(&output.stderr));
        let mut running = std::collections::BTreeSet::new();
        while running.len() < self.pods {
            let line = lines.next_line().await?.context("the watch ended")?;
            let words: Vec<_> = line.split_whitespace().collect();
            if let [name, "1/1", "Running", ..] = words.as_slice() {
                running.insert((*name).to_owned());
            }
        }
        let (running_ms, apply_ms) = (millis(begun), millis(apply_begun));
        let memory = memory(lw, folder)?;
        Ok(Round { ready_ms, running_ms, apply_ms, memory })
    }
}

/// The supervisor of a round.
struct Up {
    child: Child,
    line: tokio::sync::oneshot::Receiver<String>,
}

impl Up {
    fn start(lw: &Path, folder: &Path) -> anyhow::Result<Up> {
        let mut command = Command::new(lw);
        command.args(["up", "--client-port", "0", "--secure-port", "0", "--ready-json", "--data-dir"]);
        command.arg(folder.join("data")).env("XDG_STATE_HOME", folder.join("state"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let out = child.stdout.take().context("piped")?;
        let (send, line) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let _ = std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut text);
            let _ = send.send(text);
        });
        Ok(Up { child, line })
    }

    async fn wait_ready(&mut self) -> anyhow::Result<()> {
        let line = (&mut self.line).await?;
        if line.is_empty() {
            bail!("lw up ended before it was ready");
        }
        Ok(())
    }

    fn stop(&mut self) -> anyhow::Result<()> {
        Command::new("kill").arg("-INT").arg(self.child.id().to_string()).status()?;
        self.child.wait()?;
        Ok(())
    }
}

fn memory(lw: &Path, folder: &Path) -> anyhow::Result<Vec<(String, f64)>> {
    let output = Command::new(lw).args(["status", "-o", "json", "--data-dir"]).arg(folder.join("data")).output()?;
    let status: Value = serde_json::from_slice(&output.stdout).context("lw status")?;
    let supervisor = status["supervisorPid"].as_u64().context("supervisorPid")?;
    let mut memory = vec![("lw up".to_owned(), pss_mib(supervisor)?)];
    for component in status["components"].as_array().into_iter().flatten() {
        let bytes = component["memoryBytes"].as_f64().unwrap_or(0.0);
        memory.push((component["name"].as_str().unwrap_or_default().to_owned(), bytes / 1048576.0));
    }
    Ok(memory)
}

fn pss_mib(pid: u64) -> anyhow::Result<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("Pss")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

fn millis(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}

fn report(rounds: &[Round]) {
    let of = |figure: fn(&Round) -> f64| {
        let values = rounds.iter().map(figure);
        (median(values.clone()), values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max))
    };
    println!("| median of {} cold starts | ms | least | most |\n|---|---:|---:|---:|", rounds.len());
    for (name, figure) in [
        ("start to cluster ready", (|r| r.ready_ms) as fn(&Round) -> f64),
        ("`lw apply` started to all pods Running", |r| r.apply_ms),
        ("start to all pods Running", |r| r.running_ms),
    ] {
        let (median, least, most) = of(figure);
        println!("| {name} | {median:.0} | {least:.0} | {most:.0} |");
    }
    println!("\n| process | proportional memory, MiB (median) |\n|---|---:|");
    let mut total = 0.0;
    for (index, (name, _)) in rounds.first().map_or(&[][..], |r| &r.memory).iter().enumerate() {
        let value = median(rounds.iter().filter_map(|r| r.memory.get(index)).map(|m| m.1));
        total += value;
        println!("| {name} | {value:.1} |");
    }
    println!("| all | {total:.1} |");
}
