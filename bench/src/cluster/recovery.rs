//! From a kill to work done again: each component is killed, and a Deployment that needs it is scaled up by one.
//!
//! Two times are told for each: until the supervisor says that the new process is ready, and until the new pod runs and the
//! Deployment's status says so, which needs every component of the chain.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::Value;

use super::up::{Up, millis};
use crate::stats::median;

/// A recovery that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// Kills of each component in turns.
#[derive(Debug, Args)]
pub(crate) struct RecoveryArgs {
    /// The lw binary
    #[arg(long, default_value = "target/release/lw")]
    lw: PathBuf,
    /// How often each component is killed
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// A component and the Deployment whose next pod needs it.
const VICTIMS: [(&str, &str); 4] = [
    ("server", "anywhere"),
    ("controller-manager", "anywhere"),
    ("scheduler", "anywhere"),
    ("kubelet-node01", "on-node01"),
];

impl RecoveryArgs {
    /// Runs the rounds and prints the medians.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let mut up = Up::start(&self.lw, &[], &[])?;
        let outcome = self.measure(&mut up).await;
        up.stop()?;
        println!(
            "| killed (SIGKILL), median of {} | process ready again, ms | next pod Running, ms | most |",
            self.rounds
        );
        println!("|---|---:|---:|---:|");
        for (component, times) in outcome? {
            let (ready, worked) = (times.iter().map(|t| t.0), times.iter().map(|t| t.1));
            let most = worked.clone().fold(0.0, f64::max);
            println!("| {component} | {:.0} | {:.0} | {most:.0} |", median(ready), median(worked));
        }
        Ok(())
    }

    async fn measure(&self, up: &mut Up) -> anyhow::Result<Vec<(&'static str, Vec<(f64, f64)>)>> {
        up.wait_ready().await?;
        let mut results: Vec<_> = VICTIMS.iter().map(|(component, _)| (*component, Vec::new())).collect();
        let mut replicas = 1;
        for (name, node) in [("anywhere", ""), ("on-node01", "nodeName: node01, ")] {
            let file = up.folder().join(name);
            std::fs::write(
                &file,
                format!(
                    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  selector: {{matchLabels: \
                     {{app: {name}}}}}\n  template:\n    metadata: {{labels: {{app: {name}}}}}\n    spec: \
                     {{{node}containers: [{{name: c, image: pause}}]}}\n"
                ),
            )?;
            up.lw(&["apply", "-f", file.to_str().context("a temporary folder's path is text")?]).await?;
            until_ready(up, name, replicas).await?;
        }
        for _ in 0..self.rounds {
            replicas += 1;
            for (index, (component, deployment)) in VICTIMS.into_iter().enumerate() {
                // Both Deployments grow by one a victim; each counts for itself.
                let wanted = if deployment == "anywhere" { (replicas - 2) * 3 + 2 + index } else { replicas };
                let times = recover(up, component, deployment, wanted).await.with_context(|| component.to_owned())?;
                eprintln!("{component}: {times:?}");
                results[index].1.push(times);
            }
        }
        Ok(results)
    }
}

/// Kills, scales, and waits; gives the milliseconds until the process was ready and until the pod ran.
async fn recover(up: &Up, component: &str, deployment: &str, replicas: usize) -> anyhow::Result<(f64, f64)> {
    // A process that has been healthy for a while is started again at once; that is the case of interest.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let pid = pid_of(&up.status().await?, component).context("it runs")?;
    let status = std::process::Command::new("kill").arg("-KILL").arg(pid.to_string()).status()?;
    ensure!(status.success(), "kill -KILL {pid}");
    let begun = Instant::now();
    let ready = async {
        loop {
            let now = up.status().await.ok().and_then(|status| pid_of(&status, component));
            if now.is_some_and(|now| now != pid) {
                return millis(begun);
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let worked = async {
        let target = (format!("deployment/{deployment}"), format!("--replicas={replicas}"));
        while !up.output(&["scale", &target.0, &target.1]).await?.status.success() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        until_ready(up, deployment, replicas).await?;
        anyhow::Ok(millis(begun))
    };
    let (ready, worked) =
        tokio::time::timeout(LIMIT, async { tokio::join!(ready, worked) }).await.context("in time")?;
    Ok((ready, worked?))
}

/// The process id of a component that is ready.
fn pid_of(status: &Value, component: &str) -> Option<u64> {
    let found = status["components"].as_array()?.iter().find(|c| c["name"] == component)?;
    (found["state"] == "Running").then(|| found["pid"].as_u64()).flatten()
}

async fn until_ready(up: &Up, deployment: &str, replicas: usize) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let output = up.output(&["get", "deployment", deployment, "-o", "json"]).await?;
        let object: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if object["status"]["readyReplicas"] == replicas {
            return Ok(());
        }
        ensure!(begun.elapsed() < LIMIT, "{deployment} has not {replicas} ready: {object}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
