//! A quota from its making to its change: counted by the controller manager, kept by the server.

use integration_tests::{cluster::LIMIT, eventually, plane::Plane};
use listwatch_components::client::{Api, Client, DeleteParams, Patch, load_kubeconfig};
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::{Kind, Object, ObjectKey, Reason};
use serde_json::{Value, json};

fn api(client: &Client, kind: &str) -> Api<Object> {
    Api::of_kind(client, Kind::by_name(kind).expect("a served kind"))
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn pod(name: &str, cpu: &str) -> Object {
    object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": cpu}}}]}}))
}

async fn used(quotas: &Api<Object>, expected: Value) {
    eventually(LIMIT, &format!("{expected} is used"), || async {
        let quota = quotas.get(&ObjectKey::new("default", "q")).await.map_err(|error| error.to_string())?;
        match quota.object.at(&["status", "used"]) {
            Some(used) if *used == expected => Ok(()),
            used => Err(format!("{used:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_is_counted_and_kept() -> anyhow::Result<()> {
    let plane = Plane::start(&[])?;
    let client = Client::new(&load_kubeconfig(&plane.kubeconfig(), None)?.config)?;
    let (quotas, pods) = (api(&client, "resourcequotas"), api(&client, "pods"));
    pods.create(&pod("before", "1")).await?;
    let hard = json!({"pods": "2", "requests.cpu": "3"});
    quotas
        .create(&object(json!({"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"namespace": "default", "name": "q"}, "spec": {"hard": hard}})))
        .await?;
    used(&quotas, json!({"pods": "1", "requests.cpu": "1"})).await;

    pods.create(&pod("second", "500m")).await?;
    used(&quotas, json!({"pods": "2", "requests.cpu": "1500m"})).await;
    let refused = pods.create(&pod("third", "500m")).await.expect_err("there is no room");
    let status = refused.status().expect("the server's answer");
    assert_eq!(status.reason, Reason::Forbidden);
    assert_eq!(
        status.message,
        "pods \"third\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    );

    // What has gone, and what has ended, makes room.
    pods.delete(&ObjectKey::new("default", "second"), &DeleteParams::any().grace(0)).await?;
    used(&quotas, json!({"pods": "1", "requests.cpu": "1"})).await;
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status(&ObjectKey::new("default", "before"), &ended).await?;
    used(&quotas, json!({"pods": "0", "requests.cpu": "0"})).await;

    // New limits are counted as well.
    let limits = Patch::Merge(json!({"spec": {"hard": {"pods": null, "count/pods": "1"}}}));
    quotas.patch(&ObjectKey::new("default", "q"), &limits).await?;
    used(&quotas, json!({"count/pods": "1", "requests.cpu": "0"})).await;
    let refused = pods.create(&pod("fourth", "1")).await.expect_err("an ended pod is an object all the same");
    assert!(refused.to_string().contains("exceeded quota: q, requested: count/pods=1"), "{refused}");
    Ok(())
}
