//! Many Deployments at once: from one `lw apply` of them all to every pod Running.

use std::{
    fmt::Write as _,
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::Args;

use super::up::{Up, millis};
use crate::stats::median;

/// A round that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(180);

/// Many Deployments, applied together.
#[derive(Debug, Args)]
pub(crate) struct DeploymentsArgs {
    /// The lw binary
    #[arg(long, default_value = "target/release/lw")]
    lw: PathBuf,
    /// How many clusters, one after another
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many Deployments
    #[arg(long, default_value_t = 50)]
    deployments: usize,
    /// Pods of each
    #[arg(long, default_value_t = 10)]
    replicas: usize,
    /// Nodes, each with room for all pods
    #[arg(long, default_value_t = 4)]
    nodes: usize,
}

impl DeploymentsArgs {
    /// Runs the rounds and prints the medians.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let (mut times, mut memory) = (Vec::new(), Vec::new());
        let pods = self.deployments * self.replicas;
        for number in 1..=self.rounds {
            let nodes = self.nodes.to_string();
            let capacity = format!("pods={pods}");
            let mut up = Up::start(&self.lw, &["--nodes", &nodes], &[("LW_NODE_CAPACITY", &capacity)])?;
            let outcome = tokio::time::timeout(LIMIT, self.measure(&mut up)).await;
            up.stop()?;
            let (ms, weights) =
                outcome.context("not done in time").flatten().with_context(|| format!("round {number}"))?;
            eprintln!("round {number}: {ms:.0} ms");
            times.push(ms);
            memory.push(weights);
        }
        let ms = median(times.iter().copied());
        println!(
            "{} Deployments of {} on {} nodes, `lw apply` started to all {pods} pods Running: {ms:.0} ms (median of {}), {:.0} pods/s\n",
            self.deployments,
            self.replicas,
            self.nodes,
            self.rounds,
            pods as f64 / ms * 1000.0,
        );
        println!("| process, {pods} pods running | proportional memory, MiB (median) |\n|---|---:|");
        for (index, (name, _)) in memory.first().into_iter().flatten().enumerate() {
            let value = median(memory.iter().filter_map(|round| round.get(index)).map(|(_, weight)| *weight));
            println!("| {name} | {value:.1} |");
        }
        Ok(())
    }

    async fn measure(&self, up: &mut Up) -> anyhow::Result<(f64, Vec<(String, f64)>)> {
        up.wait_ready().await?;
        let file = up.folder().join("many.yaml");
        std::fs::write(&file, self.manifests())?;
        let mut pods = up.watch_pods()?;
        let begun = Instant::now();
        up.lw(&["apply", "-f", file.to_str().context("a temporary folder's path is text")?]).await?;
        pods.running(self.deployments * self.replicas).await?;
        Ok((millis(begun), up.memory().await?))
    }

    fn manifests(&self) -> String {
        let mut text = String::new();
        for number in 0..self.deployments {
            let _ = write!(
                text,
                "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: app{number}}}\nspec:\n  replicas: {}\n  \
                 selector: {{matchLabels: {{app: app{number}}}}}\n  template:\n    metadata: {{labels: {{app: \
                 app{number}}}}}\n    spec: {{containers: [{{name: c, image: \"soscscs/myapp:v1\"}}]}}\n",
                self.replicas
            );
        }
        text
    }
}
