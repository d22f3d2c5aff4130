//! One kubelet beside a real server: pods as processes, from their start to their end, over deaths of the kubelet.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::fd::{AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use listwatch_components::client::{
    Api, Client, ClientConfig, DeleteParams, ListParams, LogParams, Patch, load_kubeconfig,
};
use listwatch_integration_tests::{Process, Server, binary, eventually};
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use listwatch_server::{
    clock::SystemClock,
    pki::{self, Identity},
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(20);

/// A server and a kubelet whose life is the test's.
struct Node {
    server: Server,
    kubelet: Process,
    folder: tempfile::TempDir,
    flags: Vec<String>,
    pods: Api<Object>,
    events: Api<Object>,
    nodes: Api<Object>,
}

impl Node {
    async fn start(flags: &[&str]) -> Result<Node> {
        Self::start_with(flags, None).await
    }

    async fn start_with(flags: &[&str], pipe: Option<&OwnedFd>) -> Result<Node> {
        let server = Server::start(&[])?;
        let folder = tempfile::tempdir()?;
        let flags: Vec<_> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let kubelet = launch(&server, folder.path(), &flags, pipe)?;
        let config: ClientConfig = load_kubeconfig(&server.data_dir().join("kubeconfig"), None)?.config;
        let client = Client::new(&config)?;
        let api = |name: &str| Api::of_kind(&client, Kind::by_name(name).expect("a served kind"));
        let (pods, events, nodes) = (api("pods"), api("events"), api("nodes"));
        Ok(Node { server, kubelet, folder, flags, pods, events, nodes })
    }

    fn restart_kubelet(&mut self, pipe: Option<&OwnedFd>) -> Result<()> {
        self.kubelet.kill();
        self.kubelet = launch(&self.server, self.folder.path(), &self.flags, pipe)?;
        Ok(())
    }

    async fn create(&self, name: &str, spec: Value) -> Result<ObjectKey> {
        let mut spec = spec;
        spec["nodeName"] = json!("node01");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        });
        let pod = Object::from_value(pod).expect("a map");
        Ok(self.pods.create(&pod).await.with_context(|| format!("create {name}"))?.key)
    }

    /// Waits until the pod's status has this to say.
    async fn wait(&self, key: &ObjectKey, what: &str, condition: impl Fn(&Value) -> bool) -> Object {
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

    async fn wait_running(&self, key: &ObjectKey) -> Object {
        self.wait(key, "running and ready", |status| {
            let ready = status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
            status["phase"] == "Running" && ready.is_some_and(|ready| ready["status"] == "True")
        })
        .await
    }

    async fn wait_gone(&self, key: &ObjectKey) {
        eventually(LIMIT, &format!("{key} is gone"), || async {
            match self.pods.get_opt(key).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Waits for an Event about the pod and gives its message.
    async fn wait_event(&self, key: &ObjectKey, reason: &str) -> String {
        let params =
            ListParams::in_namespace("default").fields(format!("involvedObject.name={},reason={reason}", key.name));
        eventually(LIMIT, &format!("{key}: Event {reason}"), || async {
            let list = self.events.list(&params).await.map_err(|error| error.to_string())?;
            list.items.first().map(|event| event.text(&["message"]).to_owned()).ok_or_else(|| "none yet".to_owned())
        })
        .await
    }

    async fn log(&self, key: &ObjectKey, params: LogParams) -> Result<String> {
        let mut stream = self.pods.log(key, &params).await?;
        let mut text = Vec::new();
        while let Some(chunk) = stream.next().await? {
            text.extend_from_slice(&chunk);
        }
        Ok(String::from_utf8(text)?)
    }

    /// Processes that belong to this node, by command line: their shims name its directory.
    fn shims(&self) -> Result<Vec<String>> {
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

    async fn wait_no_shims(&self) {
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

fn launch(server: &Server, folder: &Path, flags: &[String], pipe: Option<&OwnedFd>) -> Result<Process> {
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
    if let Some(pipe) = pipe {
        command.env("LW_CLUSTER_PIPE_FD", pipe.as_raw_fd().to_string());
    }
    Process::spawn("kubelet", folder, command)
}

fn container<'a>(pod: &'a Object, name: &str) -> &'a Value {
    let all = pod.at(&["status", "containerStatuses"]).and_then(Value::as_array);
    all.into_iter().flatten().find(|status| status["name"] == name).expect("the container has a status")
}

fn pid(pod: &Object, name: &str) -> i32 {
    let id = container(pod, name)["containerID"].as_str().expect("an id");
    let pid = id.strip_prefix("process://").and_then(|id| id.split('.').next());
    pid.and_then(|pid| pid.parse().ok()).expect("the id names the process")
}

fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text.split_once("\r\n\r\n").context("an answer")?.1.to_owned())
}

fn myapp(port: u16) -> Value {
    json!({"containers": [{"name": "myapp", "image": "soscscs/myapp:v1", "ports": [{"containerPort": port}]}]})
}

fn shell(policy: &str, script: &str) -> Value {
    json!({
        "restartPolicy": policy, "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "app", "image": "busybox", "command": ["sh", "-c", script]}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_serves_and_ends() -> Result<()> {
    let node = Node::start(&["--node-labels", "disk=ssd", "--node-capacity", "cpu=2"]).await?;
    let object = node.nodes.get(&ObjectKey::new("", "node01")).await?.object;
    assert_eq!(object.condition("Ready").map(|ready| &ready["status"]), Some(&json!("True")), "with the ready line");
    assert_eq!(object.label("disk"), Some("ssd"));
    assert_eq!(object.text(&["status", "allocatable", "cpu"]), "2");

    let first = node.create("one", myapp(18080)).await?;
    let second = node.create("two", myapp(18080)).await?;
    let one = node.wait_running(&first).await;
    let two = node.wait_running(&second).await;
    for pod in [&one, &two] {
        let address = format!("{}:18080", pod.text(&["status", "podIP"]));
        // Without a readiness probe a pod is Ready as soon as its process runs.
        let body = eventually(LIMIT, "it answers", || async { get(&address, "/") }).await;
        assert_eq!(body, "Hello MyApp | Version: v1 | <a href=\"hostname.html\">Pod Name</a>\n");
        assert_eq!(get(&address, "/hostname.html")?, format!("{}\n", pod.name()));
    }
    assert_eq!(node.wait_event(&first, "Started").await, "Container started");

    eventually(LIMIT, "the request is logged", || async {
        let params = LogParams { tail_lines: Some(1), ..LogParams::default() };
        let log = node.log(&first, params).await.map_err(|error| error.to_string())?;
        if log.contains("\"GET /hostname.html HTTP/1.1\" 200") && log.lines().count() == 1 { Ok(()) } else { Err(log) }
    })
    .await;

    node.pods.delete(&first, &DeleteParams::any()).await?;
    node.wait_gone(&first).await;
    assert!(!lives(pid(&one, "myapp")), "gone from the API only after the process");
    assert!(lives(pid(&two, "myapp")));
    assert_eq!(node.wait_event(&first, "Killing").await, "Stopping container myapp");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_outlive_the_kubelet_and_orphans_are_ended() -> Result<()> {
    let mut node = Node::start(&[]).await?;
    let kept = node.create("kept", myapp(18080)).await?;
    let orphan = node.create("orphan", shell("Always", "sleep 3600")).await?;
    let before = node.wait_running(&kept).await;
    let lost = node.wait_running(&orphan).await;
    node.kubelet.kill();
    assert!(lives(pid(&before, "myapp")) && lives(pid(&lost, "app")));
    node.pods.delete(&orphan, &DeleteParams::any().grace(0)).await?;
    node.restart_kubelet(None)?;
    eventually(LIMIT, "the orphan is ended", || async {
        if lives(pid(&lost, "app")) { Err("still there") } else { Ok(()) }
    })
    .await;
    let after = node.wait_running(&kept).await;
    assert_eq!(container(&after, "myapp"), container(&before, "myapp"), "the same process, and nothing counted");
    assert!(lives(pid(&before, "myapp")));
    let untouched = |pod: &Object| pod.condition("Ready").map(|ready| ready["lastTransitionTime"].clone());
    assert_eq!(untouched(&after), untouched(&before), "Ready all the time");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_fails_pauses_and_its_count_survives_the_kubelet() -> Result<()> {
    let mut node = Node::start(&["--failure-backoff", "1", "--failure-backoff-max", "300"]).await?;
    let key = node.create("crash", shell("Always", "echo going; exit 3")).await?;
    let pausing = |status: &Value| status["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    let pod = node.wait(&key, "pauses", |s| pausing(s) && s["containerStatuses"][0]["restartCount"] == 2).await;
    let app = container(&pod, "app");
    assert_eq!(app["lastState"]["terminated"]["exitCode"], 3);
    assert_eq!(pod.text(&["status", "phase"]), "Running");
    let message = app["state"]["waiting"]["message"].as_str().unwrap_or_default();
    assert_eq!(message, format!("back-off 2s restarting failed container=app pod=crash_default({})", pod.uid()));
    assert!(
        node.wait_event(&key, "BackOff").await.starts_with("Back-off restarting failed container app in pod crash")
    );
    node.restart_kubelet(None)?;
    node.wait(&key, "is counted on", |s| s["containerStatuses"][0]["restartCount"].as_i64() >= Some(3)).await;
    let log = node.log(&key, LogParams { previous: true, ..LogParams::default() }).await?;
    assert_eq!(log, "going\n");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_says_why() -> Result<()> {
    let node = Node::start(&["--failure-backoff", "2"]).await?;
    let image = json!({"containers": [{"name": "app", "image": "nginx:1.27"}]});
    let image = node.create("image", image).await?;
    let probe = json!({"containers": [
        {"name": "app", "image": "soscscs/myapp:v1", "volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    ], "volumes": [{"name": "v", "emptyDir": {}}]});
    let mounts = node.create("mounts", probe).await?;
    let command = node.create(
        "command",
        json!({"containers": [
            {"name": "app", "image": "busybox", "command": ["no-such-command"]},
        ]}),
    );
    let command = command.await?;
    let big = json!({"containers": [
        {"name": "app", "image": "pause", "resources": {"requests": {"cpu": "64"}}},
    ]});
    let big = node.create("big", big).await?;

    let waiting = |status: &Value| status["containerStatuses"][0]["state"]["waiting"].clone();
    let pod = node.wait(&image, "pauses", |s| waiting(s)["reason"] == "ImagePullBackOff").await;
    let message = container(&pod, "app")["state"]["waiting"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("no program for image \"nginx:1.27\""), "{message}");
    let pod = node.wait(&mounts, "is refused", |s| waiting(s)["reason"] == "CreateContainerConfigError").await;
    let message = container(&pod, "app")["state"]["waiting"]["message"].as_str().unwrap_or_default();
    assert_eq!(message, "volumeMounts is not supported by the process runtime");
    let pod = node.wait(&command, "fails to start", |s| waiting(s)["reason"] == "CrashLoopBackOff").await;
    let ended = &container(&pod, "app")["lastState"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(128), &json!("StartError")));
    assert_eq!(ended["message"], "exec: \"no-such-command\": executable file not found in $PATH");
    let pod = node.wait(&big, "is rejected", |s| s["phase"] == "Failed").await;
    assert_eq!(pod.text(&["status", "reason"]), "OutOfcpu");
    let told = "Pod was rejected: Node didn't have enough resource: cpu, requested: 64000, used: 0, capacity: 4000";
    assert_eq!(pod.text(&["status", "message"]), told);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_end_are_over_for_ever() -> Result<()> {
    let mut node = Node::start(&[]).await?;
    let init = json!({
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "first", "image": "busybox", "command": ["sh", "-c", "echo init of $(POD)"], "env": [
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ]},
            {"name": "second", "image": "busybox", "command": ["true"]},
        ],
        "containers": [{"name": "app", "image": "busybox", "command": ["sh", "-c", "echo \"$GREETING\""], "env": [
            {"name": "GREETING", "value": "hello"},
        ]}],
    });
    let well = node.create("well", init).await?;
    let badly = node.create("badly", shell("Never", "exit 4")).await?;
    let done = node.wait(&well, "ends well", |s| s["phase"] == "Succeeded").await;
    let failed = node.wait(&badly, "ends badly", |s| s["phase"] == "Failed").await;
    assert_eq!(container(&failed, "app")["state"]["terminated"]["exitCode"], 4);
    assert_eq!(done.condition("Ready").map(|c| &c["reason"]), Some(&json!("PodCompleted")));
    let log = |container: &str| LogParams { container: container.into(), ..LogParams::default() };
    assert_eq!(node.log(&well, log("first")).await?, "init of well\n");
    assert_eq!(node.log(&well, log("app")).await?, "hello\n");
    node.restart_kubelet(None)?;
    // A pod that is made later runs, so the kubelet has seen the others too.
    let later = node.create("later", myapp(18080)).await?;
    node.wait_running(&later).await;
    for (key, before) in [(&well, &done), (&badly, &failed)] {
        let after = node.pods.get(key).await?.object;
        assert_eq!(after.at(&["status"]), before.at(&["status"]), "{key}");
    }
    node.pods.delete(&well, &DeleteParams::any()).await?;
    node.wait_gone(&well).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_cluster_ends_containers_and_the_next_start_goes_on() -> Result<()> {
    let pipe = || -> Result<(OwnedFd, OwnedFd)> {
        let (read, write) = rustix::pipe::pipe()?;
        rustix::io::fcntl_setfd(&write, rustix::io::FdFlags::CLOEXEC)?;
        Ok((read, write))
    };
    let (read, write) = pipe()?;
    let mut node = Node::start_with(&[], Some(&read)).await?;
    let key = node.create("app", myapp(18080)).await?;
    let before = node.wait_running(&key).await;
    let address = format!("{}:18080", before.text(&["status", "podIP"]));
    eventually(LIMIT, "it answers", || async { get(&address, "/") }).await;
    drop((read, write));
    let status = node.kubelet.wait(LIMIT)?;
    ensure!(status.success(), "the kubelet ends well with its cluster: {status}");
    node.wait_no_shims().await;
    assert!(!lives(pid(&before, "myapp")));

    let (read, _write) = pipe()?;
    node.restart_kubelet(Some(&read))?;
    let after = node
        .wait(&key, "runs once more", |s| {
            s["containerStatuses"][0]["restartCount"] == 1 && s["containerStatuses"][0]["ready"] == true
        })
        .await;
    assert_eq!(after.uid(), before.uid());
    assert_eq!(container(&after, "myapp")["lastState"]["terminated"]["exitCode"], 0);
    assert_ne!(pid(&after, "myapp"), pid(&before, "myapp"));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_replaced_and_told() -> Result<()> {
    let node = Node::start(&[]).await?;
    let stranger = TcpListener::bind("127.0.0.1:0")?;
    let taken = stranger.local_addr()?.port();
    let mut spec = myapp(taken);
    spec["hostNetwork"] = json!(true);
    let key = node.create("web", spec).await?;
    node.wait_running(&key).await;
    let told = node.wait_event(&key, "PortReplaced").await;
    let pod = eventually(LIMIT, "the annotation is there", || async {
        let pod = node.pods.get(&key).await.map_err(|error| error.to_string())?.object;
        if pod.annotation("listwatch.dev/ports").is_some() { Ok(pod) } else { Err("not yet".to_owned()) }
    })
    .await;
    let text = pod.annotation("listwatch.dev/ports").unwrap_or_default();
    let (wanted, actual) = text.split_once(':').context("WANTED:ACTUAL")?;
    assert_eq!(wanted, taken.to_string());
    assert!(told.contains(actual), "{told}");
    eventually(LIMIT, "it answers there", || async { get(&format!("127.0.0.1:{actual}"), "/") }).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn grace_is_given_and_can_be_shortened() -> Result<()> {
    let node = Node::start(&[]).await?;
    let mut spec = shell("Always", "trap 'echo asked' TERM; echo up; while :; do sleep 60 & wait; done");
    spec["terminationGracePeriodSeconds"] = json!(3600);
    let key = node.create("stubborn", spec).await?;
    node.wait_running(&key).await;
    let logged = |text: &'static str| {
        let (node, key) = (&node, &key);
        async move {
            eventually(LIMIT, text, || async {
                let log = node.log(key, LogParams::default()).await.map_err(|error| error.to_string())?;
                if log.contains(text) { Ok(()) } else { Err(log) }
            })
            .await;
        }
    };
    logged("up").await;
    node.pods.delete(&key, &DeleteParams::any()).await?;
    logged("asked").await;
    let pod = node.pods.get(&key).await?.object;
    assert!(pod.is_terminating() && lives(pid(&pod, "app")));
    node.pods.delete(&key, &DeleteParams::any().grace(1)).await?;
    node.wait_gone(&key).await;
    assert!(!lives(pid(&pod, "app")));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_kubelet_on_the_directory_is_refused_by_name() -> Result<()> {
    let node = Node::start(&[]).await?;
    let refused = launch(&node.server, node.folder.path(), &[], None);
    let error = refused.map(|_| ()).expect_err("refused").to_string();
    let holder = format!("is in use by the kubelet with process id {}", node.kubelet.pid());
    assert!(error.contains(&holder), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_deleted_comes_back_at_once() -> Result<()> {
    let node = Node::start(&[]).await?;
    let key = ObjectKey::new("", "node01");
    let before = node.nodes.get(&key).await?.uid;
    node.nodes.delete(&key, &DeleteParams::any()).await?;
    eventually(LIMIT, "the node is there again", || async {
        match node.nodes.get_opt(&key).await {
            Ok(Some(new)) if new.uid != before && new.condition("Ready").is_some() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let unknown = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    node.nodes.patch_status(&key, &Patch::Merge(unknown)).await?;
    eventually(LIMIT, "it says Ready again", || async {
        let node = node.nodes.get(&key).await.map_err(|error| error.to_string())?;
        let status = node.condition("Ready").map(|ready| ready["status"].clone());
        if status == Some(json!("True")) { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_api_server_may_read_logs() -> Result<()> {
    let node = Node::start(&[]).await?;
    let key = node.create("web", myapp(18080)).await?;
    node.wait_running(&key).await;
    // The node's own certificate is of the right authority, but it is not the API server's.
    let file = |name: &str| node.server.data_dir().join("pki").join(name).display().to_string();
    let address = node.kubelet.address("kubelet");
    let ask = |path: &str, certificate: Option<&str>| -> Result<String> {
        let mut command = Command::new("curl");
        command.args(["-sS", "--max-time", "10", "--cacert", &file("ca.crt"), "-o", "/dev/null", "-w", "%{http_code}"]);
        if let Some(name) = certificate {
            command.args(["--cert", &file(&format!("{name}.crt")), "--key", &file(&format!("{name}.key"))]);
        }
        let output = command.arg(format!("https://127.0.0.1:{}{path}", address.port())).output().context("run curl")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no curl on this machine");
        return Ok(());
    }
    let log = "/containerLogs/default/web/myapp";
    let answers: BTreeMap<_, _> = [
        ("health, nobody", ask("/healthz", None)?),
        ("log, nobody", ask(log, None)?),
        ("log, a node", ask(log, Some("node-node01"))?),
        ("log, the API server", ask(log, Some("kubelet-client"))?),
        ("nothing there", ask("/exec/default/web/myapp", Some("kubelet-client"))?),
    ]
    .into();
    let expected: BTreeMap<_, _> = [
        ("health, nobody", "200".to_owned()),
        ("log, nobody", "401".to_owned()),
        ("log, a node", "401".to_owned()),
        ("log, the API server", "200".to_owned()),
        ("nothing there", "404".to_owned()),
    ]
    .into();
    assert_eq!(answers, expected);
    Ok(())
}
