//! Evictions: what budgets say, and what is written.

use listwatch_proto::resource::Status;
use serde_json::{Value, json};

use super::super::{Target, WriteOptions};
use super::{Bed, bed, kind, me, pod, pods};

fn budgets() -> Target {
    Target::collection(kind("pdb"), "default")
}

impl Bed {
    async fn running(&self, name: &str, ready: bool) {
        let body = json!({"metadata": {"name": name, "labels": {"app": "a"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i:1"}]}});
        self.create(&pods(), &body).await.expect("a pod");
        let ready = if ready { "True" } else { "False" };
        // A write of the status writes the labels too.
        let status = json!({"metadata": {"name": name, "labels": {"app": "a"}}, "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}});
        self.put(&pod(name).with_subresource("status"), &status).await;
    }

    async fn put(&self, target: &Target, body: &Value) {
        let body = body.to_string();
        self.registry.update(&me(), target, body.as_bytes(), &WriteOptions::default()).await.expect("updated");
    }

    async fn budget(&self, name: &str, allowed: i64, healthy: i64) {
        let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}});
        let made = self.create(&budgets(), &json!({"metadata": {"name": name}, "spec": spec})).await.expect("a budget");
        let status = json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
            "desiredHealthy": 1, "expectedPods": 2});
        let metadata = json!({"name": name, "resourceVersion": made.revision().to_string()});
        let target = Target::object(kind("pdb"), "default", name).with_subresource("status");
        self.put(&target, &json!({"metadata": metadata, "status": status})).await;
    }

    async fn evict(&self, name: &str, options: Value) -> Result<(), Status> {
        let body = json!({"metadata": {"name": name}, "deleteOptions": options}).to_string();
        let target = pod(name).with_subresource("eviction");
        let written = self.registry.create(&me(), &target, body.as_bytes(), &WriteOptions::default()).await?;
        assert_eq!(written.object.object().text(&["status"]), "Success");
        Ok(())
    }

    async fn status_of(&self, name: &str) -> Value {
        let target = Target::object(kind("pdb"), "default", name);
        let object = self.registry.get(&me(), &target, 0).await.expect("there");
        object.object().at(&["status"]).cloned().expect("a status")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_eviction_spends_the_budget_and_tells_why_the_pod_goes() {
    let bed = bed();
    bed.running("x", true).await;
    bed.running("y", true).await;
    bed.budget("p", 1, 2).await;
    bed.evict("x", json!({"dryRun": ["All"]})).await.expect("it would go");
    assert_eq!(bed.status_of("p").await["disruptionsAllowed"], 1, "a dry run spends nothing");
    bed.evict("x", json!({})).await.expect("allowed");
    let status = bed.status_of("p").await;
    assert_eq!(status["disruptionsAllowed"], 0);
    assert!(status["disruptedPods"]["x"].is_string(), "{status}");
    let gone = bed.registry.get(&me(), &pod("x"), 0).await.expect("it ends with grace");
    assert!(gone.object().is_terminating());
    let conditions = gone.object().at(&["status", "conditions"]).cloned().expect("set");
    assert!(conditions.as_array().into_iter().flatten().any(|c| c["type"] == "DisruptionTarget"), "{conditions}");
    let refused = bed.evict("y", json!({})).await.expect_err("spent");
    assert_eq!((refused.code, refused.causes[0].reason.as_str()), (429, "DisruptionBudget"));
    bed.evict("x", json!({"gracePeriodSeconds": 1})).await.expect("what goes already goes free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_eviction_of_the_older_form_is_taken() {
    let bed = bed();
    bed.running("x", true).await;
    let target = pod("x").with_subresource("eviction");
    let ask = |version: &str| {
        json!({"apiVersion": version, "kind": "Eviction", "metadata": {"name": "x"}}).to_string().into_bytes()
    };
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    for version in ["policy/v1", "policy/v1beta1"] {
        bed.registry.create(&me(), &target, &ask(version), &options).await.expect(version);
    }
    let refused = bed.registry.create(&me(), &target, &ask("policy/v2"), &options).await.expect_err("unknown");
    assert_eq!(refused.code, 400, "{}", refused.message);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_wrong_uid_spends_nothing() {
    let bed = bed();
    bed.running("x", true).await;
    bed.budget("p", 1, 2).await;
    let refused = bed.evict("x", json!({"preconditions": {"uid": "u"}})).await.expect_err("another pod");
    assert_eq!(refused.code, 409);
    assert!(refused.message.starts_with("Operation cannot be fulfilled on Pod \"x\": the UID"), "{}", refused.message);
    assert_eq!(bed.status_of("p").await["disruptionsAllowed"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn two_budgets_for_one_pod_are_refused_and_an_unready_pod_goes_free() {
    let bed = bed();
    bed.running("x", false).await;
    bed.budget("p", 0, 1).await;
    bed.evict("x", json!({})).await.expect("one that is not healthy does not count");
    assert_eq!(bed.status_of("p").await["disruptedPods"], Value::Null);
    bed.running("y", true).await;
    bed.budget("q", 1, 2).await;
    let refused = bed.evict("y", json!({})).await.expect_err("two budgets");
    assert_eq!((refused.code, refused.reason.as_str()), (500, ""));
}
