//! Server, controller manager and scheduler as processes, and what tests ask of them.

use std::{
    collections::HashMap,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};

use integration_tests::{Process, eventually};
use listwatch_components::client::{Api, Client, ListParams, Patch, load_kubeconfig};
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use serde_json::{Value, json};

/// Within this time everything is done, also on a busy machine.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// A server, a controller manager and a scheduler.
pub(super) struct Plane {
    folder: tempfile::TempDir,
    port: u16,
    /// Further flags of the controller manager.
    flags: &'static [&'static str],
    pub(super) processes: HashMap<&'static str, Process>,
}

pub(super) const PROCESSES: [&str; 3] = ["server", "controller-manager", "scheduler"];

impl Plane {
    pub(super) fn start() -> anyhow::Result<Self> {
        Self::with(&[])
    }

    /// One whose leaders are replaced soon: when another controller manager runs beside it.
    pub(super) fn of_rivals() -> anyhow::Result<Self> {
        Self::with(&[
            "--leader-elect-lease-duration",
            "3s",
            "--leader-elect-renew-deadline",
            "2s",
            "--leader-elect-retry-period",
            "200ms",
        ])
    }

    pub(super) fn with(flags: &'static [&'static str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        // A port of its own, so that the server is found again after a restart.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut plane = Plane { folder, port, flags, processes: HashMap::new() };
        for name in PROCESSES {
            plane.launch(name)?;
        }
        Ok(plane)
    }

    pub(super) fn launch(&mut self, name: &'static str) -> anyhow::Result<()> {
        self.launch_as(name, name)
    }

    /// One more of a program, under a name of its own.
    pub(super) fn launch_as(&mut self, program: &'static str, name: &'static str) -> anyhow::Result<()> {
        let folder = self.folder.path();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let (data, port) = (text(folder.join("data")), self.port.to_string());
        let (kubeconfig, lock) = (text(self.kubeconfig()), text(folder.join(format!("{name}.lock"))));
        let mut args = match program {
            "server" => {
                vec![program, "--data-dir", &data, "--listen-client-urls", "http://127.0.0.1:0", "--secure-port", &port]
            }
            _ => vec![program, "--kubeconfig", &kubeconfig, "--leader-elect-identity", name, "--slot-lock", &lock],
        };
        if program == "controller-manager" {
            args.extend(self.flags);
        }
        let process = Process::start(name, folder, &args)?;
        self.processes.insert(name, process);
        Ok(())
    }

    pub(super) fn kill_and_restart(&mut self, name: &'static str) -> anyhow::Result<()> {
        self.processes.get_mut(name).expect("it runs").kill();
        self.launch(name)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("data/kubeconfig")
    }

    pub(super) fn client(&self) -> anyhow::Result<Client> {
        client(&self.kubeconfig())
    }
}

pub(super) fn client(kubeconfig: &Path) -> anyhow::Result<Client> {
    Ok(Client::new(&load_kubeconfig(kubeconfig, None)?.config)?)
}

pub(super) fn kind(name: &str) -> &'static Kind {
    Kind::by_name(name).expect("a served kind")
}

pub(super) fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

pub(super) fn is_active(pod: &Object) -> bool {
    !pod.is_terminating() && !matches!(pod.text(&["status", "phase"]), "Succeeded" | "Failed")
}

pub(super) async fn make_node(client: &Client, name: &str, labels: Value) -> anyhow::Result<()> {
    let nodes = Api::<Object>::of_kind(client, kind("nodes"));
    let amounts = json!({"cpu": "64", "memory": "64Gi", "pods": "110"});
    nodes
        .create(&object(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})))
        .await?;
    let status = json!({"status": {"capacity": amounts, "allocatable": amounts, "conditions": [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}]}});
    nodes.patch_status(&ObjectKey::new("", name), &Patch::Merge(status)).await?;
    Ok(())
}

pub(super) fn deployment(replicas: i64, image: &str) -> Object {
    object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "default", "name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}}))
}

pub(super) fn web() -> ObjectKey {
    ObjectKey::new("default", "web")
}

pub(super) async fn list(client: &Client, name: &str) -> Result<Vec<Object>, String> {
    let api = Api::<Object>::of_kind(client, kind(name));
    let list = api.list(&ListParams::in_namespace("default")).await.map_err(|e| e.to_string())?;
    Ok(list.items.into_iter().map(|cached| cached.object).collect())
}

/// Waits until exactly so many pods exist, all on nodes, and every count that is written anywhere says so.
pub(super) async fn settled(client: &Client, replicas: usize) {
    eventually(LIMIT, &format!("{replicas} pods and nothing else"), || async {
        let (pods, sets) = (list(client, "pods").await?, list(client, "replicasets").await?);
        let bound = pods.iter().filter(|pod| is_active(pod) && !pod.text(&["spec", "nodeName"]).is_empty()).count();
        let active: Vec<_> = sets.iter().filter(|set| set.int(&["spec", "replicas"]) != Some(0)).collect();
        let deployment = Api::<Object>::of_kind(client, kind("deployments")).get(&web()).await;
        let deployment = deployment.map_err(|e| e.to_string())?.object;
        let status = deployment.at(&["status"]).cloned().unwrap_or_default();
        // A count of zero is left out of a status.
        let wanted = |counts: &serde_json::Value, key: &str| counts[key].as_u64().unwrap_or(0) == replicas as u64;
        let counts = status["observedGeneration"] == deployment.generation()
            && wanted(&status, "replicas")
            && wanted(&status, "updatedReplicas")
            && wanted(&status, "availableReplicas")
            && active.iter().all(|set| set.at(&["status"]).is_some_and(|status| wanted(status, "availableReplicas")));
        if (pods.len(), bound, active.len(), counts) == (replicas, replicas, usize::from(replicas > 0), true) {
            Ok(())
        } else {
            Err(format!("{} pods, {bound} bound, {} active sets, status {status}", pods.len(), active.len()))
        }
    })
    .await;
}
