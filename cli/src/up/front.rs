//! What a person in front of `lw up` sees: that it is ready, how to use it, and with `--demo` the chain.

use std::{
    collections::BTreeMap,
    io::Write,
    time::{Duration, Instant},
};

use serde::Serialize;
use tokio::sync::watch;

use super::{command::UpArgs, spec::Plan};
use crate::cluster::control::ClusterStatus;
use crate::terminal::{Unwritten, say, tell};

/// When a component has not become ready by then, a person wants to know which.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, Serialize)]
struct Ready<'a> {
    component: &'a str,
    pid: u32,
    addresses: BTreeMap<&'a str, String>,
    kubeconfig: String,
    ms: u64,
}

/// Waits until the cluster is ready, says so, and goes on to the demo if it was asked for.
pub(crate) async fn show(args: UpArgs, plan: Plan, mut status: watch::Receiver<ClusterStatus>, begun: Instant) {
    if tokio::time::timeout(PATIENCE, status.wait_for(ClusterStatus::is_ready)).await.is_err() {
        complain(&plan, &status.borrow().clone());
        if status.wait_for(ClusterStatus::is_ready).await.is_err() {
            return;
        }
    }
    let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    if args.ready_json {
        ready_line(&plan, ms);
    } else {
        // The cluster serves its clients also if nobody can read this.
        greet(&plan, ms).unwrap_or_else(|error| tell!("error: {error}"));
    }
    if args.demo {
        super::demo::run(&plan, begun).await;
    }
}

fn complain(plan: &Plan, status: &ClusterStatus) {
    for component in status.components.iter().filter(|c| c.state != "Running") {
        let log = plan.layout.log(&component.name);
        let exit = if component.last_exit.is_empty() { "" } else { ", last ended with " };
        tell!("{} is {}{exit}{}: see {}", component.name, component.state, component.last_exit, log.display());
    }
}

fn ready_line(plan: &Plan, ms: u64) {
    let address = |port: u16| format!("127.0.0.1:{port}");
    let ready = Ready {
        component: "cluster",
        pid: std::process::id(),
        addresses: BTreeMap::from([("client", address(plan.client_port)), ("secure", address(plan.secure_port))]),
        kubeconfig: plan.layout.kubeconfig().display().to_string(),
        ms,
    };
    let line = serde_json::to_string(&ready).expect("plain data serializes");
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn greet(plan: &Plan, ms: u64) -> Result<(), Unwritten> {
    let name = plan.layout.flags();
    let nodes = plan.nodes.len();
    say!(
        "cluster {:?} is ready after {ms} ms: {nodes} nodes, data in {}",
        plan.layout.name,
        plan.layout.root.display()
    )?;
    say!("  API   https://127.0.0.1:{}   lw get nodes{name}", plan.secure_port)?;
    say!(
        "  etcd  https://127.0.0.1:{}   eval $(lw env{name}); etcdctl get --prefix /registry --keys-only",
        plan.client_port
    )?;
    say!("  stop  Ctrl-C, or lw down{name}")
}
