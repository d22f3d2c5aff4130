//! Disruption budgets: the controller counts, an eviction spends, and what is refused says why.

use anyhow::Context;
use integration_tests::{Cluster, Objects, cluster::LIMIT, eventually};
use listwatch_components::client::ListParams;
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::ObjectKey;
use serde_json::{Value, json};

struct Bed {
    cluster: Cluster,
    objects: Objects,
}

impl Bed {
    fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::start(&["--nodes", "2", "--runtime", "simulated"])?;
        let objects = Objects::of(&cluster.data_dir().join("kubeconfig"))?;
        Ok(Bed { cluster, objects })
    }

    /// Waits until the budget says so: disruptions allowed, healthy, desired, expected.
    async fn counted(&self, expected: [i64; 4]) {
        eventually(LIMIT, &format!("the budget counts {expected:?}"), || async {
            let key = ObjectKey::new("default", "web");
            let budget = self.objects.api("pdb").get(&key).await.map_err(|error| error.to_string())?.object;
            let keys = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
            let counts = keys.map(|key| budget.int(&["status", key]).unwrap_or(-1));
            let seen = budget.int(&["status", "observedGeneration"]).unwrap_or(0) == budget.generation();
            if seen && counts == expected { Ok(()) } else { Err(format!("{:?}", budget.at(&["status"]))) }
        })
        .await;
    }

    async fn a_pod(&self) -> anyhow::Result<ObjectKey> {
        let pods = self.objects.api("pods").list(&ListParams::in_namespace("default")).await?;
        let there = pods.items.iter().find(|pod| !pod.object.is_terminating());
        Ok(there.context("no pod")?.key.clone())
    }
}

fn deployment(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "default", "name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_spends_what_the_controller_has_counted() -> anyhow::Result<()> {
    let bed = Bed::start()?;
    bed.objects.make("deployments", deployment(2)).await?;
    let spec = json!({"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "web"}}});
    bed.objects.make("pdb", json!({"metadata": {"namespace": "default", "name": "web"}, "spec": spec})).await?;
    bed.counted([1, 2, 1, 2]).await;

    let first = bed.a_pod().await?;
    bed.objects.api("pods").evict(&first).await?;
    // Another one may go once a new one has taken the place of the first.
    bed.counted([1, 2, 1, 2]).await;
    eventually(LIMIT, "the first pod is gone", || async {
        let there = bed.objects.api("pods").get_opt(&first).await.map_err(|error| error.to_string())?;
        there.map_or(Ok(()), |pod| Err(format!("{:?}", pod.object.at(&["status"]))))
    })
    .await;

    bed.objects.api("deployments").scale(&ObjectKey::new("default", "web"), 1).await?;
    // Half of one is rounded up.
    bed.counted([1, 1, 0, 1]).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_that_is_spent_refuses_and_counts_again_after_a_restart_of_the_controllers() -> anyhow::Result<()> {
    let bed = Bed::start()?;
    bed.objects.make("deployments", deployment(2)).await?;
    let spec = json!({"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}});
    bed.objects.make("pdb", json!({"metadata": {"namespace": "default", "name": "web"}, "spec": spec})).await?;
    bed.counted([0, 2, 2, 2]).await;
    let refused = bed.objects.api("pods").evict(&bed.a_pod().await?).await.expect_err("nothing may go").to_string();
    assert!(refused.contains("Cannot evict pod as it would violate the pod's disruption budget."), "{refused}");
    bed.cluster.order(&["kill", "controller-manager"])?;
    bed.objects.api("deployments").scale(&ObjectKey::new("default", "web"), 3).await?;
    bed.counted([1, 3, 2, 3]).await;
    bed.objects.api("pods").evict(&bed.a_pod().await?).await?;
    Ok(())
}
