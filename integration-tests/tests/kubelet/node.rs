//! A server and a kubelet whose life is the test's, and what tests ask of them.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result};
use listwatch_components::client::{Api, Client, ClientConfig, ListParams, LogParams, Patch, load_kubeconfig};
use listwatch_integration_tests::{Process, Server, binary, eventually};
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use listwatch_server::{
    clock::SystemClock,
    pki::{self, Identity},
};
use serde_json::{Value, json};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A server and a kubelet whose life is the test's.
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) kubelet: Process,
    pub(crate) folder: tempfile::TempDir,
    flags: Vec<String>,
    pub(crate) pods: Api<Object>,
    pub(crate) events: Api<Object>,
    pub(crate) nodes: Api<Object>,
    pub(crate) config_maps: Api<Object>,
}

impl Node {
    pub(crate) async fn start(flags: &[&str]) -> Result<Node> {
        Self::start_with(flags, None).await
    }

    pub(crate) async fn start_with(flags: &[&str], pipe: Option<&OwnedFd>) -> Result<Node> {
        let server = Server::start(&[])?;
        let folder = tempfile::tempdir()?;
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let kubelet = launch(&server, folder.path(), &flags, pipe)?;
        let config: ClientConfig = load_kubeconfig(&server.data_dir().join("kubeconfig"), None)?.config;
        let client = Client::new(&config)?;
        let api = |name: &str| Api::of_kind(&client, Kind::by_name(name).expect("a served kind"));
        let (pods, events, nodes) = (api("pods"), api("events"), api("nodes"));
        Ok(Node { server, kubelet, folder, flags, pods, events, nodes, config_maps: api("configmaps") })
    }

    pub(crate) fn restart_kubelet(&mut self, pipe: Option<&OwnedFd>) -> Result<()> {
        self.kubelet.kill();
        self.kubelet = launch(&self.server, self.folder.path(), &self.flags, pipe)?;
        Ok(())
    }

    /// Starts a kubelet that nobody waits for: it may be killed before it has come to anything.
    pub(crate) fn start_blindly(&self) -> Result<Child> {
        let mut command = command(&self.server, self.folder.path(), &self.flags)?;
        Ok(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    pub(crate) async fn create(&self, name: &str, spec: Value) -> Result<ObjectKey> {
        let mut spec = spec;
        spec["nodeName"] = json!("node01");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        });
        let pod = Object::from_value(pod).expect("a map");
        Ok(self.pods.create(&pod).await.with_context(|| format!("create {name}"))?.key)
    }

    /// Waits until the pod's status has this to say.
    pub(crate) async fn wait(&self, key: &ObjectKey, what: &str, condition: impl Fn(&Value) -> bool) -> Object {
        eventually(LIMIT, &format!("{key}: {what}"), || async {
            let pod = self.pods.get(key).await.map_err(|error| error.to_string())?.object;
            if condition(pod.at(&["status"]).unwrap_or(&Value::Null)) {
                Ok(pod)
            } else {
                Err(serde_json::to_string(&pod).unwrap_or_default())
            }
        })
        .await
    }

    pub(crate) async fn wait_running(&self, key: &ObjectKey) -> Object {
        self.wait(key, "running and ready", |status| {
            let ready = status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
            status["phase"] == "Running" && ready.is_some_and(|ready| ready["status"] == "True")
        })
        .await
    }

    pub(crate) async fn wait_gone(&self, key: &ObjectKey) {
        eventually(LIMIT, &format!("{key} is gone"), || async {
            match self.pods.get_opt(key).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Waits for an Event about the pod and gives its message.
    pub(crate) async fn wait_event(&self, key: &ObjectKey, reason: &str) -> String {
        let params =
            ListParams::in_namespace("default").fields(format!("involvedObject.name={},reason={reason}", key.name));
        eventually(LIMIT, &format!("{key}: Event {reason}"), || async {
            let list = self.events.list(&params).await.map_err(|error| error.to_string())?;
            list.items.first().map(|event| event.text(&["message"]).to_owned()).ok_or_else(|| "none yet".to_owned())
        })
        .await
    }

    /// Waits for an Event about the pod with this message: several may have one reason.
    pub(crate) async fn wait_event_saying(&self, key: &ObjectKey, reason: &str, message: &str) {
        let params =
            ListParams::in_namespace("default").fields(format!("involvedObject.name={},reason={reason}", key.name));
        eventually(LIMIT, &format!("{key}: Event {reason}: {message}"), || async {
            let list = self.events.list(&params).await.map_err(|error| error.to_string())?;
            let said: Vec<_> = list.items.iter().map(|event| event.text(&["message"]).to_owned()).collect();
            if said.iter().any(|said| said == message) { Ok(()) } else { Err(format!("{said:?}")) }
        })
        .await;
    }

    pub(crate) async fn log(&self, key: &ObjectKey, params: LogParams) -> Result<String> {
        let mut stream = self.pods.log(key, &params).await?;
        let mut text = Vec::new();
        while let Some(chunk) = stream.next().await? {
            text.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8(text)?)
    }

    /// Makes a ConfigMap, or gives the one that is there this data.
    pub(crate) async fn config_map(&self, name: &str, data: Value) -> Result<()> {
        let key = ObjectKey::new("default", name);
        if self.config_maps.get_opt(&key).await?.is_some() {
            self.config_maps.patch(&key, &Patch::Merge(json!({"data": data}))).await?;
            return Ok(());
        }
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data,
        });
        self.config_maps.create(&Object::from_value(map).expect("a map")).await?;
        Ok(())
    }

    /// Changes the node by a merge patch.
    pub(crate) async fn patch_node(&self, patch: Value) -> Result<()> {
        self.nodes.patch(&ObjectKey::new("", "node01"), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// The log of a container, once it holds this.
    pub(crate) async fn wait_log(&self, key: &ObjectKey, name: &str, what: &str) -> String {
        eventually(LIMIT, &format!("{key}/{name} logs {what:?}"), || async {
            let params = LogParams { container: name.to_owned(), ..LogParams::default() };
            let log = self.log(key, params).await.map_err(|error| error.to_string())?;
            if log.contains(what) { Ok(log) } else { Err(log) }
        })
        .await
    }

    /// Processes that belong to this node, by command line: their shims name its directory.
    pub(crate) fn shims(&self) -> Result<Vec<String>> {
        let root = self.folder.path().join("root").display().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let path = entry?.path().join("cmdline");
            let line = fs::read(&path).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&root) && line.contains(" shim ") {
                found.push(line);
            }
        }
        Ok(found)
    }

    pub(crate) async fn wait_no_shims(&self) {
        eventually(LIMIT, "no shim is left", || async {
            match self.shims() {
                Ok(shims) if shims.is_empty() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
}

/// No process outlives its test, whatever came of it.
impl Drop for Node {
    fn drop(&mut self) {
        self.kubelet.kill();
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let root = self.folder.path().join("root").display().to_string();
            if line.contains(&root)
                && line.contains(" shim ")
                && let Some(pid) = pid.and_then(rustix::process::Pid::from_raw)
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

pub(crate) fn launch(server: &Server, folder: &Path, flags: &[String], pipe: Option<&OwnedFd>) -> Result<Process> {
    let mut command = command(server, folder, flags)?;
    if let Some(pipe) = pipe {
        command.env("LW_CLUSTER_PIPE_FD", pipe.as_raw_fd().to_string());
    }
    Process::spawn("kubelet", folder, command)
}

/// How a kubelet of this node is started.
fn command(server: &Server, folder: &Path, flags: &[String]) -> Result<Command> {
    let pki = pki::ensure(server.data_dir().join("pki"), &SystemClock::new())?;
    pki.issue(&Identity::Node("node01".into()))?;
    let file = |name: &str| -> PathBuf { server.data_dir().join("pki").join(name) };
    let mut command = Command::new(binary::lw());
    command
        .args(["kubelet", "--hostname-override", "node01", "--port", "0", "--ready-json"])
        .args(["--server", &format!("https://{}", server.secure_address())])
        .arg("--root-dir")
        .arg(folder.join("root"))
        .arg("--certificate-authority")
        .arg(file("ca.crt"))
        .arg("--client-certificate")
        .arg(file("node-node01.crt"))
        .arg("--client-key")
        .arg(file("node-node01.key"))
        .args(flags);
    Ok(command)
}

pub(crate) fn container<'a>(pod: &'a Object, name: &str) -> &'a Value {
    let list = |field: &str| pod.at(&["status", field]).and_then(Value::as_array).into_iter().flatten();
    list("containerStatuses")
        .chain(list("initContainerStatuses"))
        .find(|status| status["name"] == name)
        .expect("the container has a status")
}

pub(crate) fn pid(pod: &Object, name: &str) -> i32 {
    let id = container(pod, name)["containerID"].as_str().expect("an id");
    let pid = id.strip_prefix("process://").and_then(|id| id.split('.').next());
    pid.and_then(|pid| pid.parse().ok()).expect("the id names the process")
}

pub(crate) fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

pub(crate) fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.split_once("\r\n\r\n").context("an answer")?.1.to_owned())
}

pub(crate) fn myapp(port: u16) -> Value {
    json!({"containers": [{"name": "myapp", "image": "soscscs/myapp:v1", "ports": [{"containerPort": port}]}]})
}

pub(crate) fn shell(policy: &str, script: &str) -> Value {
    json!({
        "restartPolicy": policy, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "app", "image": "busybox", "command": ["sh", "-c", script]}],
    })
}

/// Whether this machine lets us have a mount namespace; without one no volume can be mounted.
pub(crate) fn mounts_are_possible() -> bool {
    let tries = [["-m", "true"], ["-Urm", "true"]];
    let possible =
        tries.iter().any(|words| Command::new("unshare").args(words).output().is_ok_and(|o| o.status.success()));
    if !possible {
        eprintln!("skipped: there is no mount namespace (or no unshare) for us on this machine");
    }
    possible
}
