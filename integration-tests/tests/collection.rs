//! What goes when something else has gone: pods of nodes that never were, dependents of owners, content of namespaces.

use std::time::Duration;

use integration_tests::{Objects, cluster::LIMIT, eventually, plane::Plane};
use listwatch_components::client::{DeleteParams, ListParams, Patch, Propagation, WatchEvent, WatchParams};
use listwatch_integration_tests as integration_tests;
use listwatch_proto::resource::{Object, ObjectKey, Reason};
use serde_json::{Value, json};

struct Bed {
    plane: Plane,
    objects: Objects,
}

impl Bed {
    fn start(flags: &[&str]) -> anyhow::Result<Self> {
        let plane = Plane::start(flags)?;
        let objects = Objects::of(&plane.kubeconfig())?;
        Ok(Bed { plane, objects })
    }

    async fn gone(&self, kind: &str, key: &ObjectKey) {
        eventually(LIMIT, &format!("{kind} {key} is gone"), || async {
            self.objects.get(kind, key).await.map_or(Ok(()), |object| Err(Value::Object(object.0).to_string()))
        })
        .await;
    }

    async fn count(&self, kind: &str, namespace: &str, expected: usize) {
        eventually(LIMIT, &format!("{expected} {kind}"), || async {
            let list =
                self.objects.api(kind).list(&ListParams::in_namespace(namespace)).await.map_err(|e| e.to_string())?;
            if list.items.len() == expected { Ok(()) } else { Err(list.items.len().to_string()) }
        })
        .await;
    }
}

fn at(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(namespace, name)
}

fn config_map(namespace: &str, name: &str, owners: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": name, "ownerReferences": owners}})
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn owned_by(owner: &Object) -> Value {
    json!([{"apiVersion": owner.api_version(), "kind": owner.kind_name(), "name": owner.name(), "uid": owner.uid(),
        "blockOwnerDeletion": true}])
}

fn deployment(replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "default", "name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web:1"}]}}}})
}

/// The revisions at which the objects of a kind went, from a revision to now.
async fn went(bed: &Bed, kind: &str, from: i64) -> anyhow::Result<Vec<i64>> {
    let params = WatchParams {
        start_revision: from,
        until_revision: bed.objects.client().seen_revision(),
        ..Default::default()
    };
    let mut watch = bed.objects.api(kind).watch(&params).await?;
    let mut revisions = Vec::new();
    while let Some(batch) = watch.next().await? {
        let gone = batch.events.iter().filter(|event| matches!(event, WatchEvent::Deleted(_)));
        revisions.extend(gone.map(WatchEvent::revision));
    }
    Ok(revisions)
}

#[tokio::test(flavor = "multi_thread")]
async fn deployments_go_in_the_order_that_was_asked_for() -> anyhow::Result<()> {
    let mut bed = Bed::start(&[])?;
    for (propagation, last) in [(Propagation::Foreground, true), (Propagation::Background, false)] {
        let made = bed.objects.make("deployments", deployment(3)).await?;
        bed.count("pods", "default", 3).await;
        let params = DeleteParams { propagation, ..DeleteParams::any() };
        bed.objects.api("deployments").delete(&at("default", "web"), &params).await?;
        for kind in ["pods", "replicasets", "deployments"] {
            bed.count(kind, "default", 0).await;
        }
        let order = |kind| went(&bed, kind, made.revision());
        let (owner, sets, pods) = (order("deployments").await?, order("replicasets").await?, order("pods").await?);
        assert_eq!((owner.len(), sets.len(), pods.len()), (1, 1, 3));
        let ascending = if last { [pods, sets, owner] } else { [owner, sets, pods] };
        for pair in ascending.windows(2) {
            assert!(pair[0].iter().max() < pair[1].iter().min(), "{propagation:?}: {ascending:?}");
        }
    }

    // Orphan: what it owned stays, ownerless, and is taken in again.
    bed.objects.make("deployments", deployment(3)).await?;
    bed.count("pods", "default", 3).await;
    let orphan = DeleteParams { propagation: Propagation::Orphan, ..DeleteParams::any() };
    bed.objects.api("deployments").delete(&at("default", "web"), &orphan).await?;
    bed.gone("deployments", &at("default", "web")).await;
    let sets = bed.objects.api("replicasets").list(&ListParams::in_namespace("default")).await?.items;
    assert!(sets.len() == 1 && sets[0].object.owner_references().is_empty());
    bed.count("pods", "default", 3).await;

    // Nobody is there when the owner goes; who comes later finds what it has left.
    bed.plane.kill_manager();
    bed.objects.api("replicasets").delete(&sets[0].key, &DeleteParams::any()).await?;
    bed.gone("replicasets", &sets[0].key).await;
    bed.plane.start_manager()?;
    bed.count("pods", "default", 0).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_are_found_by_kind_place_name_and_uid_together() -> anyhow::Result<()> {
    let bed = Bed::start(&[])?;
    bed.objects.make("namespaces", namespace("shop")).await?;
    let owner = bed.objects.make("configmaps", config_map("default", "owner", Value::Null)).await?;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5,
        "metadata": {"name": "class", "ownerReferences": owned_by(&owner)}});
    bed.objects.make("priorityclasses", class).await?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node01"}});
    let node = bed.objects.make("nodes", node).await?;
    for (name, owner) in [("mine", &owner), ("nodes-own", &node)] {
        bed.objects.make("configmaps", config_map("default", name, owned_by(owner))).await?;
    }
    // In another namespace there is no such owner, whatever the uid.
    let stray = bed.objects.make("configmaps", config_map("shop", "stray", owned_by(&owner))).await?;
    bed.gone("configmaps", &at("shop", "stray")).await;
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: shop, name: owner, uid: {}] does not exist in namespace \"shop\"",
        owner.uid()
    );
    eventually(LIMIT, "the stray is told", || async {
        let list =
            bed.objects.api("events").list(&ListParams::in_namespace("shop")).await.map_err(|e| e.to_string())?;
        let told = |event: &Object| {
            event.text(&["reason"]) == "OwnerRefInvalidNamespace"
                && event.text(&["message"]) == message
                && event.text(&["involvedObject", "uid"]) == stray.uid()
        };
        if list.items.iter().any(|event| told(&event.object)) {
            Ok(())
        } else {
            Err(format!("{} events", list.items.len()))
        }
    })
    .await;

    bed.objects.api("configmaps").delete(&at("default", "owner"), &DeleteParams::any()).await?;
    bed.objects.api("nodes").delete(&at("", "node01"), &DeleteParams::any()).await?;
    bed.gone("configmaps", &at("default", "mine")).await;
    bed.gone("configmaps", &at("default", "nodes-own")).await;
    assert!(
        bed.objects.get("priorityclasses", &at("", "class")).await.is_some(),
        "nobody can say whether it has an owner"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_that_is_stuck_says_what_holds_it() -> anyhow::Result<()> {
    let bed = Bed::start(&[])?;
    let shop = at("", "shop");
    bed.objects.make("namespaces", namespace("shop")).await?;
    bed.objects.make("configmaps", config_map("shop", "settings", Value::Null)).await?;
    let pod = |name: &str, finalizers: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "web:1"}]},
            "metadata": {"namespace": "shop", "name": name, "finalizers": finalizers}})
    };
    bed.objects.make("pods", pod("held", json!(["example.com/hold"]))).await?;
    bed.objects.make("pods", pod("free", Value::Null)).await?;
    bed.objects.api("namespaces").delete(&shop, &DeleteParams::any()).await?;
    let message = |namespace: &Object, kind: &str| namespace.condition(kind).cloned().unwrap_or_default();
    eventually(LIMIT, "it says what holds it", || async {
        let namespace = bed.objects.get("namespaces", &shop).await.ok_or("it is gone")?;
        let (content, finalizers) =
            (message(&namespace, "NamespaceContentRemaining"), message(&namespace, "NamespaceFinalizersRemaining"));
        let says = content["status"] == "True"
            && content["reason"] == "SomeResourcesRemain"
            && content["message"] == "Some resources are remaining: pods. has 1 resource instances"
            && finalizers["message"]
                == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances";
        if says { Ok(()) } else { Err(format!("{content} {finalizers}")) }
    })
    .await;
    assert!(bed.objects.get("configmaps", &at("shop", "settings")).await.is_some(), "what pods need outlives them");
    let refused = bed.objects.make("pods", pod("late", Value::Null)).await.expect_err("it is being deleted");
    let refused = refused.downcast::<listwatch_components::client::Error>()?;
    assert!(
        refused.is(Reason::Forbidden) && refused.to_string().contains("because it is being terminated"),
        "{refused}"
    );

    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    bed.objects.api("pods").patch(&at("shop", "held"), &free).await?;
    bed.gone("namespaces", &shop).await;
    bed.count("configmaps", "shop", 0).await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_of_a_node_that_never_was_is_collected_after_its_quarantine() -> anyhow::Result<()> {
    let bed = Bed::start(&["--pod-gc-quarantine", "2s"])?;
    let key = at("default", "lost");
    for _ in 0..2 {
        let spec = json!({"nodeName": "ghost", "containers": [{"name": "c", "image": "web:1"}]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": "lost"},
            "spec": spec});
        let made = bed.objects.make("pods", pod).await?;
        let start = std::time::Instant::now();
        bed.gone("pods", &key).await;
        assert!(start.elapsed() >= Duration::from_secs(2), "each has a quarantine of its own: {:?}", start.elapsed());
        // Who watches it go is told why.
        let params = WatchParams { start_revision: made.revision(), ..WatchParams::default() };
        let mut watch = bed.objects.api("pods").watch(&params).await?;
        let mut last = None;
        while last.is_none() {
            let batch = watch.next().await?.expect("the watch is live");
            last = batch.events.into_iter().find_map(|event| match event {
                WatchEvent::Deleted(object) => Some(object.object),
                _ => None,
            });
        }
        let last = last.expect("it has gone");
        let target = last.condition("DisruptionTarget").cloned().unwrap_or_default();
        assert_eq!(
            (&target["reason"], &target["message"]),
            (&json!("DeletionByPodGC"), &json!("PodGC: node no longer exists"))
        );
        assert_eq!(last.text(&["status", "phase"]), "Failed");
    }
    Ok(())
}
