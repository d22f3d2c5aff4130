//! A leader that was stopped, was replaced meanwhile, and goes on.

use std::time::Duration;

use integration_tests::eventually;
use listwatch_components::client::Api;
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::json;

use crate::kubelets::Kubelets;
use crate::plane::{LIMIT, Plane, deployment, kind, list, make_node, settled, web};

/// What one process may have on its way to the server (`IN_FLIGHT_MAX` of the product).
const ON_THEIR_WAY: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_leader_that_goes_on_makes_nothing_and_ends() -> anyhow::Result<()> {
    let mut plane = Plane::of_rivals()?;
    let client = plane.client()?;
    make_node(&client, "node01", json!({})).await?;
    let kubelets = Kubelets::start(&client);
    let deployments = Api::<Object>::of_kind(&client, kind("deployments"));
    let leases = Api::<Object>::of_kind(&client, kind("leases"));
    deployments.create(&deployment(3, "web:1")).await?;
    settled(&client, 3).await;
    plane.launch_as("controller-manager", "second")?;

    // Stopped in the middle of making pods; the other one takes over and finishes.
    kubelets.count_anew();
    deployments.scale(&web(), 60).await?;
    eventually(LIMIT, "it has begun", || async {
        let pods = list(&client, "pods").await?.len();
        if pods > 3 { Ok(()) } else { Err(pods.to_string()) }
    })
    .await;
    plane.processes["controller-manager"].pause();
    settled(&client, 60).await;
    assert!(kubelets.most() <= 60 + ON_THEIR_WAY, "{} pods at once", kubelets.most());
    let holder = leases.get(&ObjectKey::new("kube-system", "kube-controller-manager")).await?.object;
    let holder = holder.text(&["spec", "holderIdentity"]).to_owned();
    if holder == "controller-manager" {
        // It had made all of them before it was stopped: then the other one is still waiting for the Lease.
        eventually(LIMIT, "the other one leads", || async {
            let lease = leases.get(&ObjectKey::new("kube-system", "kube-controller-manager")).await;
            let lease = lease.map_err(|e| e.to_string())?.object;
            if lease.text(&["spec", "holderIdentity"]) == "second" { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
    }
    deployments.scale(&web(), 5).await?;
    settled(&client, 5).await;

    // It wakes with all it had planned for 60 and a cache that says so.
    kubelets.count_anew();
    let before: Vec<String> = uids(&client).await?;
    plane.processes["controller-manager"].resume();
    let status = plane.processes.get_mut("controller-manager").expect("it runs").wait(Duration::from_secs(20))?;
    assert!(!status.success(), "it has lost its Lease and says so: {status}");
    assert!(kubelets.most() <= 5 + ON_THEIR_WAY, "{} pods at once", kubelets.most());
    settled(&client, 5).await;
    assert_eq!(uids(&client).await?, before, "the pods that were there stay");
    Ok(())
}

async fn uids(client: &listwatch_components::client::Client) -> anyhow::Result<Vec<String>> {
    let mut uids: Vec<String> =
        list(client, "pods").await.map_err(anyhow::Error::msg)?.iter().map(|pod| pod.uid().to_owned()).collect();
    uids.sort();
    Ok(uids)
}
