//! From a cold start to Running pods, and what each process weighs.
//!
//! Each round is a fresh data folder. The watcher that tells when the pods run is `lw get pods -w`, a client like any
//! other, started before the Deployment is applied.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;

use super::up::{Up, millis};
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
        let mut rounds = Vec::new();
        for number in 1..=self.rounds {
            let round = self.round().await.with_context(|| format!("round {number}"))?;
            eprintln!("round {number}: {round:?}");
            rounds.push(round);
        }
        report(&rounds);
        Ok(())
    }

    async fn round(&self) -> anyhow::Result<Round> {
        let begun = Instant::now();
        let mut up = Up::start(&self.lw, &[], &[])?;
        let outcome = tokio::time::timeout(LIMIT, self.measure(&mut up, begun)).await;
        up.stop()?;
        outcome.context("not done in time")?
    }

    async fn measure(&self, up: &mut Up, begun: Instant) -> anyhow::Result<Round> {
        up.wait_ready().await?;
        let ready_ms = millis(begun);
        let mut pods = up.watch_pods()?;
        let apply_begun = Instant::now();
        up.lw(&["apply", "-f", self.manifest.to_str().context("the path of the manifest is text")?]).await?;
        pods.running(self.pods).await?;
        let (running_ms, apply_ms) = (millis(begun), millis(apply_begun));
        Ok(Round { ready_ms, running_ms, apply_ms, memory: up.memory().await? })
    }
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
