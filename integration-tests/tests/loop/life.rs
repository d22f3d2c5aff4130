//! Whichever process is killed, the end is exactly what was asked for, and no more was ever made than that.

use std::time::Duration;

use integration_tests::eventually;
use listwatch_components::client::{Api, Client, DeleteParams, ListParams, Patch, Propagation};
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::{Value, json};

use crate::kubelets::Kubelets;
use crate::plane::{LIMIT, Plane, deployment, kind, list, make_node, object, settled, web};

#[tokio::test(flavor = "multi_thread")]
async fn killed_in_turn_they_end_where_they_should_and_never_make_too_much() -> anyhow::Result<()> {
    let mut plane = Plane::start()?;
    let client = plane.client()?;
    make_node(&client, "node01", json!({})).await?;
    make_node(&client, "node02", json!({})).await?;
    let kubelets = Kubelets::start(&client);
    let deployments = Api::<Object>::of_kind(&client, kind("deployments"));
    deployments.create(&deployment(20, "web:1")).await?;
    settled(&client, 20).await;

    let mut before = 20;
    for (victim, replicas) in
        [("scheduler", 45), ("controller-manager", 70), ("server", 90), ("controller-manager", 15), ("server", 50)]
    {
        kubelets.count_anew();
        deployments.scale(&web(), replicas).await?;
        plane.kill_and_restart(victim)?;
        let wanted = usize::try_from(replicas)?;
        settled(&client, wanted).await;
        assert!(kubelets.most() <= wanted.max(before), "{} pods at once after {victim} was killed", kubelets.most());
        before = wanted;
    }
    assert_eq!(list(&client, "replicasets").await.map_err(anyhow::Error::msg)?.len(), 1, "one template, one set");
    let spread =
        |node: &str| kubelets.pods.list().iter().filter(|p| p.object.text(&["spec", "nodeName"]) == node).count();
    assert!(spread("node01").abs_diff(spread("node02")) <= 10, "{} and {}", spread("node01"), spread("node02"));

    // A rolling update with a kill in the middle: never more than the surge, and the old set keeps no pod.
    kubelets.count_anew();
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "web:2"}]}}}});
    deployments.patch(&web(), &Patch::Merge(image)).await?;
    plane.kill_and_restart("controller-manager")?;
    settled(&client, 50).await;
    assert!(kubelets.most() <= 50 + 13, "{} pods at once, where 63 are allowed", kubelets.most());
    let sets = list(&client, "replicasets").await.map_err(anyhow::Error::msg)?;
    let mut sizes: Vec<_> = sets.iter().filter_map(|set| set.int(&["spec", "replicas"])).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 50]);

    // What the deployment owns goes with it, though nobody was there when it was deleted.
    plane.processes.get_mut("controller-manager").expect("it runs").kill();
    deployments.delete(&web(), &DeleteParams::any()).await?;
    plane.launch("controller-manager")?;
    eventually(LIMIT, "nothing is left", || async {
        let left = (list(&client, "pods").await?.len(), list(&client, "replicasets").await?.len());
        if left == (0, 0) { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_without_a_place_is_told_why_and_placed_as_soon_as_there_is_one() -> anyhow::Result<()> {
    let plane = Plane::start()?;
    let client = plane.client()?;
    let pods = Api::<Object>::of_kind(&client, kind("pods"));
    let key = ObjectKey::new("default", "picky");
    pods.create(&object(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "picky"},
        "spec": {"nodeSelector": {"disk": "ssd"}, "containers": [{"name": "c", "image": "web:1"}]}})))
        .await?;
    let told = |message: &'static str| {
        let (pods, key) = (pods.clone(), key.clone());
        async move {
            eventually(LIMIT, message, || async {
                let pod = pods.get(&key).await.map_err(|e| e.to_string())?;
                let condition = pod.object.condition("PodScheduled").cloned().unwrap_or_default();
                let says = condition["status"] == "False" && condition["reason"] == "Unschedulable";
                if says && condition["message"] == message { Ok(()) } else { Err(condition.to_string()) }
            })
            .await;
        }
    };
    told("no nodes available to schedule pods").await;
    make_node(&client, "node01", json!({"disk": "hdd"})).await?;
    told(
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, \
         preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )
    .await;
    let label = json!({"metadata": {"labels": {"disk": "ssd"}}});
    Api::<Object>::of_kind(&client, kind("nodes")).patch(&ObjectKey::new("", "node01"), &Patch::Merge(label)).await?;
    eventually(LIMIT, "bound and told so", || async {
        let pod = pods.get(&key).await.map_err(|e| e.to_string())?.object;
        let scheduled = pod.condition("PodScheduled").cloned().unwrap_or_default();
        let bound = pod.text(&["spec", "nodeName"]) == "node01" && scheduled["status"] == "True";
        if bound { Ok(()) } else { Err(scheduled.to_string()) }
    })
    .await;
    eventually(LIMIT, "the event is there", || async {
        let events = list(&client, "events").await?;
        let message = "Successfully assigned default/picky to node01";
        let found = events.iter().any(|e| e.text(&["reason"]) == "Scheduled" && e.text(&["message"]) == message);
        if found { Ok(()) } else { Err(format!("{} events", events.len())) }
    })
    .await;
    Ok(())
}

/// Renews a node's Lease as its kubelet would, until the task is dropped.
async fn renew(client: Client, node: &'static str) {
    let leases = Api::<Object>::of_kind(&client, kind("leases"));
    let key = ObjectKey::new("kube-node-lease", node);
    for count in 0_u32.. {
        let renewed = format!("2026-01-01T00:00:00.{count:06}Z");
        let spec = json!({"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": renewed});
        let patch = Patch::Merge(json!({"spec": spec}));
        if leases.patch(&key, &patch).await.is_err_and(|error| error.is_not_found()) {
            let metadata = json!({"namespace": key.namespace, "name": key.name});
            let lease =
                json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec});
            let _ = leases.create(&object(lease)).await;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
}

/// The node's status of Ready and its taints, as `True` or `Unknown unreachable:NoSchedule …`.
async fn state_of(client: &Client, node: &str) -> Result<String, String> {
    let node = Api::<Object>::of_kind(client, kind("nodes")).get(&ObjectKey::new("", node)).await;
    let node = node.map_err(|e| e.to_string())?.object;
    let ready = node.condition("Ready").map_or("none", |c| c["status"].as_str().unwrap_or("none"));
    let taints = node.at(&["spec", "taints"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let text = |taint: &Value, field: &str| taint[field].as_str().unwrap_or_default().to_owned();
    let mut words: Vec<_> = taints
        .iter()
        .map(|t| format!("{}:{}", text(t, "key").trim_start_matches("node.kubernetes.io/"), text(t, "effect")))
        .collect();
    words.sort();
    words.insert(0, ready.to_owned());
    Ok(words.join(" "))
}

async fn becomes(client: &Client, node: &'static str, state: &'static str) {
    eventually(LIMIT, state, || async {
        let now = state_of(client, node).await?;
        if now == state { Ok(()) } else { Err(now) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_falls_silent_is_marked_and_comes_back() -> anyhow::Result<()> {
    let plane = Plane::with(&["--node-monitor-grace-period", "4s"])?;
    let client = plane.client()?;
    let kubelets = Kubelets::start(&client);
    let steady = tokio::spawn(renew(client.clone(), "node01"));
    let fickle = tokio::spawn(renew(client.clone(), "node02"));
    for node in ["node01", "node02"] {
        make_node(&client, node, json!({})).await?;
        becomes(&client, node, "True").await;
    }
    Api::<Object>::of_kind(&client, kind("deployments")).create(&deployment(4, "web:1")).await?;
    settled(&client, 4).await;

    fickle.abort();
    becomes(&client, "node02", "Unknown unreachable:NoExecute unreachable:NoSchedule").await;
    eventually(LIMIT, "no pod of the lost node is ready", || async {
        let pods = list(&client, "pods").await?;
        let ready = |pod: &Object| pod.condition("Ready").is_some_and(|c| c["status"] == "True");
        let wrong = pods.iter().filter(|pod| ready(pod) != (pod.text(&["spec", "nodeName"]) == "node01")).count();
        if wrong == 0 { Ok(()) } else { Err(format!("{wrong} of {}", pods.len())) }
    })
    .await;
    assert_eq!(state_of(&client, "node01").await.map_err(anyhow::Error::msg)?, "True", "the other is left alone");

    let back = tokio::spawn(renew(client.clone(), "node02"));
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T00:00:00Z"}]}});
    Api::<Object>::of_kind(&client, kind("nodes"))
        .patch_status(&ObjectKey::new("", "node02"), &Patch::Merge(ready))
        .await?;
    becomes(&client, "node02", "True").await;
    back.abort();
    steady.abort();
    drop(kubelets);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_and_namespaces_go_as_they_are_told() -> anyhow::Result<()> {
    let plane = Plane::start()?;
    let client = plane.client()?;
    make_node(&client, "node01", json!({})).await?;
    let _kubelets = Kubelets::start(&client);
    let deployments = Api::<Object>::of_kind(&client, kind("deployments"));
    deployments.create(&deployment(3, "web:1")).await?;
    settled(&client, 3).await;
    let uids = |objects: Vec<Object>| {
        let mut uids: Vec<String> = objects.iter().map(|o| o.uid().to_owned()).collect();
        uids.sort();
        uids
    };
    let state = || async {
        let pods = uids(list(&client, "pods").await.map_err(anyhow::Error::msg)?);
        anyhow::Ok((pods, uids(list(&client, "replicasets").await.map_err(anyhow::Error::msg)?)))
    };
    let before = state().await?;

    // Orphan: the deployment goes, its set and its pods stay, and a new deployment takes them in.
    let orphan = DeleteParams { propagation: Propagation::Orphan, ..DeleteParams::any() };
    deployments.delete(&web(), &orphan).await?;
    eventually(LIMIT, "the set is nobody's", || async {
        let gone = deployments.get_opt(&web()).await.map_err(|e| e.to_string())?.is_none();
        let owned = list(&client, "replicasets").await?.iter().filter(|set| set.controller().is_some()).count();
        if gone && owned == 0 { Ok(()) } else { Err(format!("gone {gone}, {owned} owned")) }
    })
    .await;
    deployments.create(&deployment(3, "web:1")).await?;
    settled(&client, 3).await;
    assert_eq!(state().await?, before, "taken in, not made anew");

    // Foreground: the deployment goes last.
    let foreground = DeleteParams { propagation: Propagation::Foreground, ..DeleteParams::any() };
    deployments.delete(&web(), &foreground).await?;
    eventually(LIMIT, "all is gone", || async {
        let gone = deployments.get_opt(&web()).await.map_err(|e| e.to_string())?.is_none();
        let left = list(&client, "pods").await?.len() + list(&client, "replicasets").await?.len();
        assert!(!gone || left == 0, "the deployment went before {left} others");
        if gone && left == 0 { Ok(()) } else { Err(format!("gone {gone}, {left} left")) }
    })
    .await;

    // A namespace takes everything with it.
    let namespaces = Api::<Object>::of_kind(&client, kind("namespaces"));
    let shop = ObjectKey::new("", "shop");
    namespaces.create(&object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}))).await?;
    let mut web = deployment(3, "web:1");
    web.set(&["metadata", "namespace"], "shop");
    deployments.create(&web).await?;
    let pods = Api::<Object>::of_kind(&client, kind("pods"));
    let bound = || async {
        let list = pods.list(&ListParams::in_namespace("shop")).await.map_err(|e| e.to_string())?.items;
        let bound = list.iter().filter(|p| !p.object.text(&["spec", "nodeName"]).is_empty()).count();
        if bound == 3 { Ok(()) } else { Err(bound.to_string()) }
    };
    eventually(LIMIT, "three pods in the namespace", bound).await;
    namespaces.delete(&shop, &DeleteParams::any()).await?;
    eventually(LIMIT, "the namespace is gone", || async {
        let left = namespaces.get_opt(&shop).await.map_err(|e| e.to_string())?;
        left.map_or(Ok(()), |left| Err(format!("{:?}", left.object.at(&["status"]))))
    })
    .await;
    assert!(pods.list(&ListParams::in_namespace("shop")).await?.items.is_empty());
    Ok(())
}
