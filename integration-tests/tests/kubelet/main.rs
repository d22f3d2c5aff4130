//! One kubelet beside a real server: pods as processes, from their start to their end, over deaths of the kubelet.

mod admission;
mod deaths;
mod life;
mod node;
mod order;
mod probes;
mod storm;
mod volumes;

use std::{collections::BTreeMap, process::Command};

use anyhow::{Context, Result};
use listwatch_components::client::{DeleteParams, Patch};
use listwatch_integration_tests::eventually;
use listwatch_proto::resource::ObjectKey;
use serde_json::json;

use crate::node::{LIMIT, Node, launch, myapp};

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
        ("nothing there", ask("/pods", Some("kubelet-client"))?),
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
