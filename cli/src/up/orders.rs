//! The commands that speak to a supervisor, and `env`.

use std::{process::ExitCode, time::Duration};

use super::command::{NameArgs, StatusArgs};
use crate::cluster::{
    Layout,
    control::{self, ClusterStatus, ComponentStatus, Request},
    locate,
};
use crate::terminal::{say, write_text};

fn layout(args: &NameArgs) -> anyhow::Result<Layout> {
    locate::cluster(args.name.as_deref(), args.data_dir.as_deref())
}

/// Passes an order on and says what came of it.
pub(crate) fn order(args: &NameArgs, request: Request) -> anyhow::Result<ExitCode> {
    let layout = layout(args)?;
    let status = control::ask(&layout, &request)?;
    let (name, done) = match &request {
        Request::Start(name) => (name, "started"),
        Request::Stop(name) => (name, "stopped"),
        Request::Kill(name) => (name, "killed"),
        Request::Restart(name) => (name, "restarted"),
        Request::Status | Request::Down => unreachable!("these are no orders to a component"),
    };
    say!("{} {done}", status.component(name).map_or(name.as_str(), |c| c.name.as_str()))?;
    Ok(ExitCode::SUCCESS)
}

/// Stops the cluster and waits until its supervisor is gone.
pub(crate) fn down(args: &NameArgs) -> anyhow::Result<ExitCode> {
    let layout = layout(args)?;
    control::ask(&layout, &Request::Down)?;
    // The lock is the supervisor's for its life; waiting for it is waiting for its last breath.
    let lock = std::fs::File::open(layout.lock())?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)?;
    say!("cluster {:?} stopped; its data stays in {}", layout.name, layout.root.display())?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the processes.
pub(crate) fn status(args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let layout = layout(&args.cluster)?;
    let status = control::ask(&layout, &Request::Status)?;
    if args.output.is_some() {
        say!("{}", serde_json::to_string_pretty(&with_memory(&status)?)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    say!("cluster {:?}, supervisor pid {}, data in {}", status.name, status.supervisor_pid, status.data_dir)?;
    let mut rows = vec![["COMPONENT", "STATE", "PID", "RESTARTS", "AGE", "MEMORY", "ADDRESSES"].map(str::to_owned)];
    rows.extend(status.components.iter().map(row));
    write_text(&columns(&rows))?;
    Ok(ExitCode::SUCCESS)
}

fn row(component: &ComponentStatus) -> [String; 7] {
    let running = component.pid != 0;
    let addresses: Vec<_> = component.addresses.iter().map(|(name, at)| format!("{name}={at}")).collect();
    let memory =
        memory_bytes(component.pid).map_or_else(|| "-".to_owned(), |b| format!("{:.1}Mi", b as f64 / 1048576.0));
    [
        component.name.clone(),
        component.state.clone(),
        if running { component.pid.to_string() } else { "-".to_owned() },
        component.restarts.to_string(),
        if running { age(Duration::from_millis(component.uptime_ms)) } else { "-".to_owned() },
        memory,
        if addresses.is_empty() { "-".to_owned() } else { addresses.join(" ") },
    ]
}

fn with_memory(status: &ClusterStatus) -> anyhow::Result<serde_json::Value> {
    let mut value = serde_json::to_value(status)?;
    for (component, json) in status.components.iter().zip(value["components"].as_array_mut().into_iter().flatten()) {
        json["memoryBytes"] = memory_bytes(component.pid).into();
    }
    Ok(value)
}

/// A process's share of the memory it uses (pages that several use are divided), as far as this user may see.
fn memory_bytes(pid: u32) -> Option<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

/// `12s`, `3m4s`, `2h3m`: as kubectl writes an age.
fn age(since: Duration) -> String {
    let seconds = since.as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3600, seconds / 60 % 60),
    }
}

fn columns(rows: &[[String; 7]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..7).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

/// Prints the variables for etcdctl and kubectl, for a shell's `eval`.
pub(crate) fn env(args: &NameArgs) -> anyhow::Result<ExitCode> {
    let layout = layout(args)?;
    let Some(file) = layout.read_cluster_file()? else {
        anyhow::bail!("there is no cluster {:?} in {}: start it with `lw up`", layout.name, layout.root.display());
    };
    let pki = layout.pki();
    let variables = [
        ("KUBECONFIG", layout.kubeconfig().display().to_string()),
        ("ETCDCTL_API", "3".to_owned()),
        ("ETCDCTL_ENDPOINTS", format!("https://127.0.0.1:{}", file.client_port)),
        ("ETCDCTL_CACERT", pki.join("ca.crt").display().to_string()),
        ("ETCDCTL_CERT", pki.join("admin.crt").display().to_string()),
        ("ETCDCTL_KEY", pki.join("admin.key").display().to_string()),
    ];
    for (name, value) in variables {
        say!("export {name}={}", quoted(&value))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A word for a shell, whatever stands in it.
fn quoted(text: &str) -> String {
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-:=+,@".contains(&b));
    if plain { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        assert_eq!(quoted("/a/b-c.d"), "/a/b-c.d");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }

    #[test]
    fn ages_read_as_kubectl_writes_them() {
        for (seconds, text) in [(0, "0s"), (119, "119s"), (125, "2m5s"), (3725, "1h2m")] {
            assert_eq!(age(Duration::from_secs(seconds)), text);
        }
    }
}
