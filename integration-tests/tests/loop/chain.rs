//! The whole chain with real kubelets: who tells what, what waits for whom, and pods that their node refuses.

use std::collections::BTreeMap;

use integration_tests::{Cluster, cluster::LIMIT, eventually};
use listwatch_integration_tests as integration_tests;
use serde_json::Value;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/myapp.yaml");

/// A deployment for a node that can never have its pods.
const TOO_BIG: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: giant}
spec:
  replicas: 3
  selector: {matchLabels: {app: giant}}
  template:
    metadata: {labels: {app: giant}}
    spec:
      nodeName: node01
      containers:
      - name: giant
        image: soscscs/myapp:v1
        resources: {requests: {cpu: '100'}}
";

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// `component reason message`, of the events about each object, in the order in which they were written.
fn told(events: &[Value]) -> BTreeMap<String, Vec<String>> {
    let mut sorted: Vec<&Value> = events.iter().collect();
    sorted.sort_by_key(|event| text(event, "/metadata/resourceVersion").parse::<i64>().unwrap_or(0));
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in sorted {
        let about = format!("{} {}", text(event, "/involvedObject/kind"), text(event, "/involvedObject/name"));
        let words = format!("{} {}", text(event, "/source/component"), text(event, "/reason"));
        told.entry(about).or_default().push(format!("{words} {}", text(event, "/message")));
    }
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn each_link_of_the_chain_tells_its_part() -> anyhow::Result<()> {
    let cluster = Cluster::start(&[])?;
    cluster.lw(&["apply", "-f", EXAMPLE])?;
    let pods = cluster.wait_running(3).await;
    let set = text(&cluster.objects("replicasets")?[0], "/metadata/name").to_owned();
    eventually(LIMIT, "every event is there", || async {
        let told = told(&cluster.objects("events").map_err(|e| e.to_string())?);
        let deployment = [format!("deployment-controller ScalingReplicaSet Scaled up replica set {set} from 0 to 3")];
        if told.get("Deployment myapp").is_none_or(|words| words[..] != deployment) {
            return Err(format!("{told:#?}"));
        }
        let mut made = told.get(&format!("ReplicaSet {set}")).cloned().unwrap_or_default();
        made.sort();
        let name = |pod: &Value| text(pod, "/metadata/name").to_owned();
        let mut expected: Vec<String> = pods
            .iter()
            .map(|pod| format!("replicaset-controller SuccessfulCreate Created pod: {}", name(pod)))
            .collect();
        expected.sort();
        if made != expected {
            return Err(format!("{made:#?}"));
        }
        for pod in &pods {
            let words = told.get(&format!("Pod {}", name(pod))).cloned().unwrap_or_default();
            let reasons = |from: &str| -> Vec<String> {
                let of = words.iter().filter_map(|words| words.strip_prefix(from)?.strip_prefix(' '));
                of.map(|rest| rest.split(' ').next().unwrap_or_default().to_owned()).collect()
            };
            let node = text(pod, "/spec/nodeName");
            let bound = format!("Scheduled Successfully assigned default/{} to {node}", name(pod));
            let scheduled = words.iter().filter(|words| words.ends_with(&bound)).count();
            if (scheduled, reasons("kubelet").join(" ").as_str()) != (1, "Pulled Created Started") {
                return Err(format!("{words:#?}"));
            }
        }
        Ok(())
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_stopped_is_waited_for_and_nothing_is_lost() -> anyhow::Result<()> {
    let cluster = Cluster::start(&[])?;
    for component in ["controller-manager", "scheduler", "kubelet-node01", "kubelet-node02"] {
        cluster.order(&["stop", component])?;
    }
    cluster.lw(&["apply", "-f", EXAMPLE])?;
    assert_eq!(cluster.objects("deployments")?.len(), 1);
    assert!(cluster.objects("replicasets")?.is_empty(), "nobody makes a set");

    cluster.order(&["start", "controller-manager"])?;
    let pods = count_pods(&cluster, |pod| text(pod, "/spec/nodeName").is_empty()).await;
    assert!(pods.iter().all(|pod| text(pod, "/status/phase") == "Pending"), "nobody places them");

    cluster.order(&["start", "scheduler"])?;
    let pods = count_pods(&cluster, |pod| !text(pod, "/spec/nodeName").is_empty()).await;
    let started = |pod: &Value| pod.pointer("/status/containerStatuses").is_some();
    assert!(pods.iter().all(|pod| text(pod, "/status/phase") == "Pending" && !started(pod)), "nobody runs them");

    cluster.order(&["start", "kubelet-node01"])?;
    cluster.order(&["start", "kubelet-node02"])?;
    let names = |pods: &[Value]| {
        let mut names: Vec<String> = pods.iter().map(|pod| text(pod, "/metadata/uid").to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&cluster.wait_running(3).await), names(&pods), "the same pods");
    Ok(())
}

/// The three pods, once this holds of each.
async fn count_pods(cluster: &Cluster, holds: impl Fn(&Value) -> bool) -> Vec<Value> {
    eventually(LIMIT, "three pods", || async {
        let pods = cluster.objects("pods").map_err(|e| e.to_string())?;
        let count = pods.iter().filter(|pod| holds(pod)).count();
        if (count, pods.len()) == (3, 3) { Ok(pods) } else { Err(format!("{count} of {}", pods.len())) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_pod_is_replaced() -> anyhow::Result<()> {
    let cluster = Cluster::start(&[])?;
    cluster.lw(&["apply", "-f", EXAMPLE])?;
    let pods = cluster.wait_running(3).await;
    let victim = text(&pods[0], "/metadata/name").to_owned();
    cluster.lw(&["delete", "pod", &victim])?;
    let after = cluster.wait_running(3).await;
    assert!(after.iter().all(|pod| text(pod, "/metadata/name") != victim));
    let kept = after.iter().filter(|pod| pods.iter().any(|before| before["metadata"]["uid"] == pod["metadata"]["uid"]));
    assert_eq!(kept.count(), 2, "the others stay");
    let table = cluster.lw(&["get", "rs"])?;
    let row: Vec<&str> = table.lines().nth(1).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[1..4], ["3", "3", "3"], "{table}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_their_node_refuses_are_made_slowly_and_the_set_says_why() -> anyhow::Result<()> {
    let cluster = Cluster::start(&[])?;
    let manifest = cluster.data_dir().with_file_name("giant.yaml");
    std::fs::write(&manifest, TOO_BIG)?;
    cluster.lw(&["apply", "-f", manifest.to_str().expect("a temporary folder's path is text")])?;
    let pods = eventually(LIMIT, "some that were made slowly", || async {
        let pods = cluster.objects("pods").map_err(|e| e.to_string())?;
        if pods.len() >= 18 { Ok(pods) } else { Err(pods.len().to_string()) }
    })
    .await;
    // Ten may fail for nothing, and three are made at a time until that is seen. From then on one a second at most.
    let mut made: Vec<&str> = pods.iter().map(|pod| text(pod, "/metadata/creationTimestamp")).collect();
    made.sort_unstable();
    let slow = &made[12..];
    assert!(slow.windows(2).all(|two| two[0] != two[1]), "two in the same second: {made:?}");
    for pod in pods.iter().filter(|pod| text(pod, "/status/phase") == "Failed") {
        assert_eq!(text(pod, "/status/reason"), "OutOfcpu");
    }
    let set = &cluster.objects("replicasets")?[0];
    let condition = &set["status"]["conditions"][0];
    assert_eq!((text(condition, "/type"), text(condition, "/status")), ("ReplicaFailure", "True"), "{set}");
    assert_eq!(text(condition, "/reason"), "PodsFail");
    let message = text(condition, "/message");
    assert!(
        message.contains("The last failed with OutOfcpu: ") && message.contains("cpu, requested: 100000"),
        "{message}"
    );
    let deployment = &cluster.objects("deployments")?[0];
    let conditions = deployment["status"]["conditions"].as_array().cloned().unwrap_or_default();
    assert!(conditions.iter().any(|c| c["type"] == "ReplicaFailure" && c["reason"] == "PodsFail"), "{deployment}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ready_pod_is_available_after_its_time_without_anything_else_happening() -> anyhow::Result<()> {
    let cluster = Cluster::start(&[])?;
    let example = std::fs::read_to_string(EXAMPLE)?.replace("  replicas: 3", "  replicas: 2\n  minReadySeconds: 4");
    let manifest = cluster.data_dir().with_file_name("patient.yaml");
    std::fs::write(&manifest, example)?;
    cluster.lw(&["apply", "-f", manifest.to_str().expect("a temporary folder's path is text")])?;
    let counts = |field: &'static str| {
        let deployment = cluster.objects("deployments").map_err(|e| e.to_string())?.remove(0);
        Ok::<_, String>(deployment["status"][field].as_i64().unwrap_or(0))
    };
    eventually(LIMIT, "both are ready", || async {
        let ready = counts("readyReplicas")?;
        if ready == 2 { Ok(()) } else { Err(ready.to_string()) }
    })
    .await;
    assert_eq!(counts("availableReplicas").map_err(anyhow::Error::msg)?, 0, "ready, but not for long enough");
    eventually(LIMIT, "both are available", || async {
        let available = counts("availableReplicas")?;
        if available == 2 { Ok(()) } else { Err(available.to_string()) }
    })
    .await;
    for pod in cluster.wait_running(2).await {
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    }
    Ok(())
}
