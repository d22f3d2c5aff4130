//! A whole cluster under `lw up`, in a folder of its own on free ports, and the commands a person gives it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use anyhow::Context;
use serde_json::Value;

use crate::{Process, wait::eventually};

/// Within this time everything that a healthy cluster does is done, also on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// A cluster under test; killed when dropped.
#[derive(Debug)]
pub struct Cluster {
    folder: tempfile::TempDir,
    flags: Vec<String>,
    env: Vec<(String, String)>,
    up: Process,
}

impl Cluster {
    /// A fresh cluster with further flags of `lw up`.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn start(flags: &[&str]) -> anyhow::Result<Cluster> {
        Self::start_with(flags, &[])
    }

    /// A fresh cluster, whose components find these variables: each of their flags has one.
    ///
    /// # Errors
    /// If it does not get ready.
    pub fn start_with(flags: &[&str], env: &[(&str, &str)]) -> anyhow::Result<Cluster> {
        let folder = tempfile::tempdir()?;
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let env: Vec<_> = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let up = launch(folder.path(), &flags, &env)?;
        Ok(Cluster { folder, flags, env, up })
    }

    /// Ctrl-C, a clean end, and a start on the same data.
    ///
    /// # Errors
    /// If it does not end cleanly or does not get ready again.
    pub fn stop_and_restart(&mut self) -> anyhow::Result<()> {
        self.up.stop()?;
        self.up = launch(self.folder.path(), &self.flags, &self.env)?;
        Ok(())
    }

    /// SIGKILL of the supervisor.
    pub fn kill_supervisor(&mut self) {
        self.up.kill();
    }

    /// A start on the same data, after [`Cluster::kill_supervisor`] or a stop.
    ///
    /// # Errors
    /// If it does not get ready again.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        self.up = launch(self.folder.path(), &self.flags, &self.env)?;
        Ok(())
    }

    /// The supervisor.
    pub fn supervisor(&mut self) -> &mut Process {
        &mut self.up
    }

    /// Its data folder.
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Runs `lw` as a person would, pointed at this cluster.
    ///
    /// # Errors
    /// If the command cannot be started.
    pub fn output(&self, args: &[&str]) -> anyhow::Result<Output> {
        let mut command = Command::new(crate::binary::lw());
        command.args(args).env("LW_KUBECONFIG", self.data_dir().join("kubeconfig"));
        command.output().with_context(|| format!("run lw {args:?}"))
    }

    /// What a command prints.
    ///
    /// # Errors
    /// If the command fails: the text holds what it said.
    pub fn lw(&self, args: &[&str]) -> anyhow::Result<String> {
        text(args, self.output(args)?)
    }

    /// What an order to the supervisor prints.
    ///
    /// # Errors
    /// As [`Cluster::lw`].
    pub fn order(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(crate::binary::lw());
        command.args(args).arg("--data-dir").arg(self.data_dir());
        text(args, command.output()?)
    }

    /// The objects of a kind in the namespace `default`, as JSON.
    ///
    /// # Errors
    /// As [`Cluster::lw`].
    pub fn objects(&self, kind: &str) -> anyhow::Result<Vec<Value>> {
        let list: Value = serde_json::from_str(&self.lw(&["get", kind, "-o", "json"])?)?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// `lw status -o json`.
    ///
    /// # Errors
    /// As [`Cluster::lw`].
    pub fn status(&self) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.order(&["status", "-o", "json"])?)?)
    }

    /// Waits until exactly so many pods exist and all are Running and ready; gives them.
    pub async fn wait_running(&self, count: usize) -> Vec<Value> {
        eventually(LIMIT, &format!("{count} pods Running"), || async {
            let pods = self.objects("pods").map_err(|e| e.to_string())?;
            let running = pods.iter().filter(|pod| is_running(pod)).count();
            if running == count && pods.len() == count { Ok(pods) } else { Err(brief(&pods)) }
        })
        .await
    }

    /// The process ids of the containers, by pod name and container name, as the shims recorded them.
    ///
    /// # Errors
    /// If the shims' folders cannot be read.
    pub fn container_pids(&self) -> anyhow::Result<BTreeMap<String, u32>> {
        let mut pids = BTreeMap::new();
        find_started(&self.data_dir().join("nodes"), &mut pids)?;
        Ok(pids)
    }
}

/// Every process whose command line holds this text, for "nothing is left".
///
/// # Errors
/// If `/proc` cannot be read.
pub fn processes_with(needle: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|b| b.is_ascii_digit()) || name == std::process::id().to_string() {
            continue;
        }
        let command = std::fs::read(format!("/proc/{name}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(needle) {
            found.push(format!("{name}: {command}"));
        }
    }
    Ok(found)
}

fn launch(folder: &Path, flags: &[String], env: &[(String, String)]) -> anyhow::Result<Process> {
    let data = folder.join("data");
    let data = data.to_str().context("a temporary folder's path is text")?;
    let mut args = vec!["up", "--data-dir", data, "--client-port", "0", "--secure-port", "0"];
    args.extend(flags.iter().map(String::as_str));
    let mut command = Command::new(crate::binary::lw());
    // The notes of clusters with unusual places go beside the data, not into the home of whoever runs the tests.
    command.args(args).arg("--ready-json").env("XDG_STATE_HOME", folder.join("state"));
    command.envs(env.iter().map(|(name, value)| (name, value)));
    Process::spawn("up", folder, command)
}

fn text(args: &[&str], output: Output) -> anyhow::Result<String> {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    anyhow::ensure!(output.status.success(), "lw {args:?} ended with {}: {out}{err}", output.status);
    Ok(out.into_owned())
}

fn is_running(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    pod["status"]["phase"] == "Running" && ready && pod["metadata"]["deletionTimestamp"].is_null()
}

fn brief(pods: &[Value]) -> String {
    let line = |pod: &Value| {
        let (meta, status) = (&pod["metadata"], &pod["status"]);
        format!("{} on {} {} {}", meta["name"], pod["spec"]["nodeName"], status["phase"], status["containerStatuses"])
    };
    pods.iter().map(line).collect::<Vec<_>>().join("; ")
}

fn find_started(folder: &Path, pids: &mut BTreeMap<String, u32>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_started(&path, pids)?;
        } else if path.file_name().is_some_and(|name| name == "started.json")
            && !path.with_file_name("exit.json").exists()
        {
            let record: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
            let pid = record["process"]["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
            let alive = pid.filter(|pid| Path::new(&format!("/proc/{pid}")).exists());
            if let Some(pid) = alive {
                pids.insert(path.display().to_string(), pid);
            }
        }
    }
    Ok(())
}
