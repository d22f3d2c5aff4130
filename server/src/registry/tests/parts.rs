//! Parts of objects, forms of objects and objects that are there by themselves, through the verbs.

use super::*;

fn options_of(authority: &str) -> RegistryOptions {
    RegistryOptions { client_authority: Some(authority.to_owned()), ..RegistryOptions::default() }
}

#[tokio::test]
async fn ephemeral_containers_come_by_their_subresource_alone() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    let one = json!({"spec": {"ephemeralContainers": [{"name": "e", "image": "i"}]}});
    let refused = bed.merge(&pod("a"), one.clone()).await.expect_err("through the pod");
    assert_eq!(refused.reason, Reason::Invalid);
    let part = pod("a").with_subresource("ephemeralcontainers");
    let with = bed.merge(&part, json!({"metadata": {"labels": {"b": "c"}}, "spec": one["spec"]})).await.expect("added");
    let object = with.object();
    assert_eq!(object.at(&["spec", "ephemeralContainers"]).and_then(Value::as_array).map(Vec::len), Some(1));
    assert_eq!(object.generation(), 2);
    assert_eq!(object.at(&["metadata", "labels", "b"]), None, "only the containers change");
    let owners = object.at(&["metadata", "managedFields"]).and_then(Value::as_array).cloned().unwrap_or_default();
    let own = owners.iter().find(|entry| entry["subresource"] == "ephemeralcontainers").expect("an owner of the part");
    let fields = own["fieldsV1"].as_object().expect("fields");
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["f:spec"], "nobody owns what the part cannot change: {own}");
    let read = bed.registry.get(&me(), &part, 0).await.expect("read");
    assert_eq!(read.revision(), with.revision());
}

#[tokio::test]
async fn a_resize_changes_processor_and_memory() {
    let bed = bed();
    let mut sized = pod_json("a", json!({}));
    sized["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1", "memory": "1Gi"}});
    bed.create(&pods(), &sized).await.expect("a pod");
    let part = pod("a").with_subresource("resize");
    let wanted = json!({"spec": {"containers": [{"name": "c", "image": "other", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}]}});
    let resized = bed.merge(&part, wanted).await.expect("resized");
    let container = &resized.object().at(&["spec", "containers"]).expect("there")[0];
    assert_eq!((&container["image"], &container["resources"]["requests"]["cpu"]), (&json!("i:1"), &json!("2")));
    let gone =
        json!({"spec": {"containers": [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "2"}}}]}});
    assert_eq!(bed.merge(&part, gone).await.expect_err("memory goes").reason, Reason::Invalid);
}

#[tokio::test]
async fn an_autoscaler_has_two_forms() {
    let bed = bed();
    let of = |version: &str| {
        let kind = Kind::by_api_version(&format!("autoscaling/{version}"), "HorizontalPodAutoscaler").expect("served");
        Target::collection(kind, "default")
    };
    let target = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    let body = json!({"metadata": {"name": "x"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target,
        "targetCPUUtilizationPercentage": 50}});
    let older = bed.create(&of("v1"), &body).await.expect("made in the older form");
    assert_eq!(older.object().text(&["apiVersion"]), "autoscaling/v1");
    assert_eq!(older.object().int(&["spec", "targetCPUUtilizationPercentage"]), Some(50));
    let one = |version: &str| Target { name: "x".to_owned(), ..of(version) };
    let newer = bed.registry.get(&me(), &one("v2"), 0).await.expect("read in the newer form");
    let metrics = newer.object().at(&["spec", "metrics"]).expect("metrics").clone();
    assert_eq!(metrics[0]["resource"]["target"]["averageUtilization"], 50);
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "1"}}});
    let change = json!({"spec": {"metrics": [pods]}});
    bed.merge(&one("v2"), change).await.expect("changed in the newer form");
    let older = bed.registry.get(&me(), &one("v1"), 0).await.expect("read in the older form");
    let told = older.object().text(&["metadata", "annotations", "autoscaling.alpha.kubernetes.io/metrics"]).to_owned();
    assert_eq!(told, r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]"#);
    bed.merge(&one("v1"), json!({"spec": {"maxReplicas": 4}})).await.expect("changed in the older form");
    let newer = bed.registry.get(&me(), &one("v2"), 0).await.expect("read");
    assert_eq!(newer.object().at(&["spec", "metrics"]), Some(&json!([pods])), "nothing is lost on the way");
}

#[tokio::test]
async fn warnings_are_told_beside_a_failure() {
    let bed = bed();
    let body = json!({"metadata": {"name": "Wrong"}, "data": {}, "other": 1}).to_string();
    let options = WriteOptions { field_validation: crate::registry::FieldValidation::Warn, ..WriteOptions::default() };
    let target = Target::collection(kind("configmap"), "default");
    let refused = bed.registry.create(&me(), &target, body.as_bytes(), &options).await.expect_err("the name");
    assert_eq!(
        (refused.reason, refused.warnings.as_slice()),
        (Reason::Invalid, ["unknown field \"other\"".to_owned()].as_slice())
    );
}

#[tokio::test]
async fn other_servers_learn_whom_this_one_believes() {
    let store = MemoryStore::new();
    let target = Target::object(kind("configmap"), "kube-system", "extension-apiserver-authentication");
    for authority in ["one", "other", "other"] {
        let clock = ManualClock::new(1_700_000_000_000);
        let registry = Registry::new(Arc::new(store.clone()), clock, options_of(authority));
        let told = registry.get(&me(), &target, 0).await.expect("written at the start");
        assert_eq!(told.object().text(&["data", "client-ca-file"]), authority);
    }
}

#[tokio::test]
async fn the_state_of_the_store_is_made_when_it_is_read() {
    let bed = bed();
    let all = Target::collection(kind("componentstatus"), "");
    let page = bed.registry.list(&me(), &all, &ListOptions::default()).await.expect("listed");
    assert_eq!(page.items.iter().map(StoredObject::name).collect::<Vec<_>>(), ["etcd-0"]);
    let selected = ListOptions { label_selector: "a=b".to_owned(), ..ListOptions::default() };
    assert!(bed.registry.list(&me(), &all, &selected).await.expect("listed").items.is_empty());
    let one = |name: &str| Target::object(kind("componentstatus"), "", name);
    let store = bed.registry.get(&me(), &one("etcd-0"), 0).await.expect("read");
    assert_eq!(
        store.object().at(&["conditions"]),
        Some(&json!([{"type": "Healthy", "status": "True", "message": "ok"}]))
    );
    let gone = bed.registry.get(&me(), &one("nosuch"), 0).await.expect_err("there is none");
    assert_eq!(gone.message, "componentstatus \"nosuch\" not found");
    let refused = bed.registry.delete(&me(), &one("etcd-0"), &DeleteOptions::default()).await.expect_err("read only");
    assert_eq!(refused.reason, Reason::MethodNotAllowed);
}

#[tokio::test]
async fn a_request_for_a_certificate_is_approved_by_its_part() {
    let bed = bed();
    let csr = kind("csr");
    let body =
        json!({"metadata": {"name": "x"}, "spec": {"request": "eA==", "signerName": "a.io/b", "usages": ["any"]}});
    let refused = bed.create(&Target::collection(csr, ""), &body).await.expect_err("no request");
    assert!(refused.message.contains("PEM block type must be CERTIFICATE REQUEST"), "{}", refused.message);
}
