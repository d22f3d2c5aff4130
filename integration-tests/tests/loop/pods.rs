//! ReplicaSets as a user sees them: what is theirs, what they take in and let go, who goes first.

use std::collections::BTreeSet;

use integration_tests::eventually;
use listwatch_components::client::{Api, Client, DeleteParams, Patch, Propagation};
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::json;

use crate::kubelets::Kubelets;
use crate::plane::{LIMIT, Plane, is_active, kind, list, make_node, object};

fn set(replicas: i64) -> Object {
    object(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "default", "name": "crew"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "crew"}}, "template": {
            "metadata": {"labels": {"app": "crew"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}}}))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

/// The pods of the set by uid, when there are so many, all ready, and the set says so.
async fn crew(client: &Client, count: i64) -> BTreeSet<String> {
    eventually(LIMIT, &format!("{count} pods of the set"), || async {
        let pods = list(client, "pods").await?;
        let own: BTreeSet<String> = pods
            .iter()
            .filter(|pod| is_active(pod) && pod.controller().is_some_and(|owner| owner.name == "crew"))
            .map(|pod| pod.uid().to_owned())
            .collect();
        let sets = list(client, "replicasets").await?;
        let status = sets.first().and_then(|set| set.at(&["status"]).cloned()).unwrap_or_default();
        let says = |field: &str| status[field] == json!(count);
        if own.len() == usize::try_from(count).unwrap_or(0) && says("replicas") && says("availableReplicas") {
            Ok(own)
        } else {
            Err(format!("{} own, {status}", own.len()))
        }
    })
    .await
}

async fn open() -> anyhow::Result<(Plane, Client, Kubelets, Api<Object>, Api<Object>)> {
    let plane = Plane::start()?;
    let client = plane.client()?;
    make_node(&client, "node01", json!({})).await?;
    let kubelets = Kubelets::start(&client);
    let (sets, pods) = (Api::of_kind(&client, kind("replicasets")), Api::of_kind(&client, kind("pods")));
    Ok((plane, client, kubelets, sets, pods))
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_outlive_an_orphaning_set_and_are_taken_in_by_the_next() -> anyhow::Result<()> {
    let (_plane, client, _kubelets, sets, _) = open().await?;
    sets.create(&set(3)).await?;
    let before = crew(&client, 3).await;
    let orphan = DeleteParams { propagation: Propagation::Orphan, ..DeleteParams::any() };
    sets.delete(&key("crew"), &orphan).await?;
    eventually(LIMIT, "nobody's pods", || async {
        let (sets, pods) = (list(&client, "replicasets").await?, list(&client, "pods").await?);
        let owned = pods.iter().filter(|pod| pod.controller().is_some()).count();
        if (sets.len(), pods.len(), owned) == (0, 3, 0) { Ok(()) } else { Err(format!("{owned} owned")) }
    })
    .await;
    sets.create(&set(3)).await?;
    assert_eq!(crew(&client, 3).await, before, "the same pods");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_no_longer_fits_is_let_go_and_taken_in_again_when_it_does() -> anyhow::Result<()> {
    let (_plane, client, _kubelets, sets, pods) = open().await?;
    sets.create(&set(2)).await?;
    let before = crew(&client, 2).await;
    let one = list(&client, "pods").await.map_err(anyhow::Error::msg)?.remove(0);
    let label = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"app": value}}}));
    pods.patch(&key(one.name()), &label("guest")).await?;
    eventually(LIMIT, "it is let go", || async {
        let pod = pods.get(&key(one.name())).await.map_err(|e| e.to_string())?.object;
        if pod.owner_references().is_empty() { Ok(()) } else { Err("owned") }.map_err(str::to_owned)
    })
    .await;
    let replaced = crew(&client, 2).await;
    assert!(!replaced.contains(one.uid()), "somebody else is in its place");
    assert_eq!(replaced.intersection(&before).count(), 1, "the other one stays");
    assert_eq!(list(&client, "pods").await.map_err(anyhow::Error::msg)?.len(), 3, "it lives on by itself");

    // It costs less to lose than any other, so that it is known who goes when it is back and there is one too many.
    let cheap = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-1"}}});
    pods.patch(&key(one.name()), &Patch::Merge(cheap)).await?;
    pods.patch(&key(one.name()), &label("crew")).await?;
    eventually(LIMIT, "it is taken in and then deleted", || async {
        let gone = pods.get_opt(&key(one.name())).await.map_err(|e| e.to_string())?.is_none();
        if gone { Ok(()) } else { Err("still there".to_owned()) }
    })
    .await;
    assert_eq!(crew(&client, 2).await, replaced);
    let events = list(&client, "events").await.map_err(anyhow::Error::msg)?;
    let told = |message: String| events.iter().any(|event| event.text(&["message"]) == message);
    assert!(told(format!("Created pod: {}", one.name())));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cheapest_goes_first_and_one_that_is_lost_is_replaced() -> anyhow::Result<()> {
    let (_plane, client, kubelets, sets, pods) = open().await?;
    sets.create(&set(4)).await?;
    let before = crew(&client, 4).await;
    let all = list(&client, "pods").await.map_err(anyhow::Error::msg)?;
    let mut kept = before.clone();
    for (pod, cost) in all.iter().zip(["5", "-7", "-3", "1"]) {
        let cost = json!({"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": cost}}});
        pods.patch(&key(pod.name()), &Patch::Merge(cost)).await?;
    }
    // The controller must have seen the costs: they come by the same watch, before the next write does.
    sets.scale(&key("crew"), 2).await?;
    kept.remove(all[1].uid());
    kept.remove(all[2].uid());
    assert_eq!(crew(&client, 2).await, kept, "the two cheapest went");

    kubelets.count_anew();
    pods.delete(&key(all[0].name()), &DeleteParams::any()).await?;
    eventually(LIMIT, "it is gone", || async {
        let gone = pods.get_opt(&key(all[0].name())).await.map_err(|e| e.to_string())?.is_none();
        if gone { Ok(()) } else { Err("still there".to_owned()) }
    })
    .await;
    let now = crew(&client, 2).await;
    assert!(now.contains(all[3].uid()) && !now.contains(all[0].uid()));
    assert!(kubelets.most() <= 2, "{} at once", kubelets.most());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_was_made_by_hand_counts() -> anyhow::Result<()> {
    let (_plane, client, _kubelets, sets, pods) = open().await?;
    pods.create(&object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": "by-hand", "labels": {"app": "crew"}},
        "spec": {"containers": [{"name": "c", "image": "web:1"}]}})))
        .await?;
    sets.create(&set(2)).await?;
    crew(&client, 2).await;
    let pod = pods.get(&key("by-hand")).await?.object;
    assert_eq!(
        pod.controller().map(|owner| (owner.name, owner.block_owner_deletion)),
        Some(("crew".into(), Some(true)))
    );
    Ok(())
}
