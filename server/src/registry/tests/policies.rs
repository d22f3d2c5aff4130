//! Quotas, limits and default classes, as a whole namespace sees them.

use super::*;

fn quota() -> Target {
    Target::object(kind("resourcequota"), "default", "q")
}

fn config_maps() -> Target {
    Target::collection(kind("configmap"), "default")
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

impl Bed {
    /// A quota that somebody has counted: nothing of it is used.
    async fn make_quota(&self, hard: Value) {
        let body = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
        self.create(&Target::collection(kind("resourcequota"), "default"), &body).await.expect("a quota");
        let used: serde_json::Map<String, Value> =
            hard.as_object().expect("a map").keys().map(|name| (name.clone(), json!("0"))).collect();
        let mut status = quota();
        status.subresource = "status".to_owned();
        self.merge(&status, json!({"status": {"hard": hard, "used": used}})).await.expect("counted");
    }

    async fn used(&self) -> Value {
        let quota = self.registry.get(&me(), &quota(), 0).await.expect("the quota");
        quota.object().at(&["status", "used"]).cloned().unwrap_or_default()
    }
}

#[tokio::test]
async fn what_is_made_is_charged_with_it() {
    let bed = bed();
    bed.make_quota(json!({"configmaps": "1", "count/secrets": "0"})).await;
    let made = bed.create(&config_maps(), &named("a")).await.expect("within");
    assert_eq!(bed.used().await, json!({"configmaps": "1", "count/secrets": "0"}));
    let charged = bed.registry.get(&me(), &quota(), 0).await.expect("the quota");
    assert_eq!(charged.revision(), made.revision(), "one commit holds both");
    let refused = bed.create(&config_maps(), &named("b")).await.expect_err("beyond");
    assert_eq!(
        refused.message,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: \
         configmaps=1"
    );
    let secrets = Target::collection(kind("secret"), "default");
    let refused = bed.create(&secrets, &named("x")).await.expect_err("beyond");
    assert!(refused.message.contains("requested: count/secrets=1, used: count/secrets=0"), "{}", refused.message);
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let dry = bed.registry.create(&me(), &config_maps(), named("b").to_string().as_bytes(), &options).await;
    assert_eq!(dry.expect_err("a dry run is judged as well").reason, Reason::Forbidden);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_makers_together_get_no_further_than_the_quota() {
    const ROOM: usize = 5;
    let bed = bed();
    bed.make_quota(json!({"configmaps": ROOM.to_string()})).await;
    let tasks: Vec<_> = (0..20)
        .map(|i| {
            let registry = bed.registry.clone();
            tokio::spawn(async move {
                let body = named(&format!("c{i}")).to_string();
                registry.create(&me(), &config_maps(), body.as_bytes(), &WriteOptions::default()).await
            })
        })
        .collect();
    let mut made = 0;
    for task in tasks {
        match task.await.expect("no panic") {
            Ok(_) => made += 1,
            Err(status) => assert!(status.message.contains("exceeded quota: q"), "{}", status.message),
        }
    }
    assert_eq!(made, ROOM);
    assert_eq!(bed.used().await, json!({"configmaps": "5"}));
}

#[tokio::test]
async fn a_change_is_charged_for_what_it_adds() {
    let bed = bed();
    bed.make_quota(json!({"requests.storage": "3Gi"})).await;
    let claims = Target::collection(kind("persistentvolumeclaim"), "default");
    let classes = Target::collection(kind("storageclass"), "");
    let class = json!({"metadata": {"name": "fast", "annotations": {
        "storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "a.b/c", "allowVolumeExpansion": true});
    bed.create(&classes, &class).await.expect("a class");
    let size = |size: &str| json!({"resources": {"requests": {"storage": size}}});
    let mut spec = size("1Gi");
    spec["accessModes"] = json!(["ReadWriteOnce"]);
    let made = bed.create(&claims, &json!({"metadata": {"name": "c"}, "spec": spec})).await.expect("within");
    assert_eq!(made.object().text(&["spec", "storageClassName"]), "fast", "the default class");
    let claim = Target::object(kind("persistentvolumeclaim"), "default", "c");
    let early = bed.merge(&claim, json!({"spec": size("2Gi")})).await.expect_err("not bound");
    assert_eq!(early.causes[0].field, "spec");
    let mut status = claim.clone();
    status.subresource = "status".to_owned();
    bed.merge(&status, json!({"status": {"phase": "Bound"}})).await.expect("bound");
    bed.merge(&claim, json!({"spec": size("2Gi")})).await.expect("within");
    assert_eq!(bed.used().await, json!({"requests.storage": "2Gi"}));
    let refused = bed.merge(&claim, json!({"spec": size("4Gi")})).await.expect_err("beyond");
    assert!(
        refused.message.ends_with(
            "requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: \
                                       requests.storage=3Gi"
        ),
        "{}",
        refused.message
    );
}

#[tokio::test]
async fn limits_give_and_refuse() {
    let bed = bed();
    let ranges = Target::collection(kind("limitrange"), "default");
    let limit = json!({"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}});
    bed.create(&ranges, &json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}})).await.expect("a range");
    let pod = bed.make_pod("a", json!({})).await;
    assert_eq!(
        pod.object().at(&["spec", "containers"]).expect("containers")[0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}})
    );
    let greedy = json!({"metadata": {"name": "b"}, "spec": {"containers": [
        {"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "2"}}}]}});
    let refused = bed.create(&pods(), &greedy).await.expect_err("too much");
    assert_eq!(refused.message, "pods \"b\" is forbidden: maximum cpu usage per Container is 1, but limit is 2");
}
