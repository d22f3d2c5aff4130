//! Bad input: one clear message each, with the field, and nothing written; and values that somebody else has damaged.

use super::*;

/// What is sent, what is answered, and the fields that are named.
struct Refused {
    what: &'static str,
    kind: &'static str,
    namespace: &'static str,
    body: String,
    message: &'static str,
    fields: &'static [&'static str],
}

fn deployment(spec: Value) -> String {
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let mut body = json!({"metadata": {"name": "d"}, "spec": {"template": template}});
    for (key, value) in spec.as_object().expect("a map") {
        body["spec"][key] = value.clone();
    }
    body.to_string()
}

fn cases() -> Vec<Refused> {
    let pod = |spec: Value| {
        let mut body = pod_json("p", json!({}));
        for (key, value) in spec.as_object().expect("a map") {
            body["spec"][key] = value.clone();
        }
        body.to_string()
    };
    let case = |what, kind, body, message, fields| Refused { what, kind, namespace: "default", body, message, fields };
    vec![
        case(
            "wrong type",
            "deployment",
            deployment(json!({"replicas": "three"})),
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct \
             field DeploymentSpec.spec.replicas of type int32",
            &["spec.replicas"],
        ),
        case(
            "unknown field",
            "pod",
            pod(json!({"hostnetwork": true})),
            "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.hostnetwork\"",
            &[],
        ),
        case(
            "missing selector",
            "deployment",
            deployment(json!({})),
            "Deployment.apps \"d\" is invalid: [spec.selector: Required value, spec.template.metadata.labels: Invalid \
             value: {\"app\":\"a\"}: `selector` does not match template `labels`]",
            &["spec.selector", "spec.template.metadata.labels"],
        ),
        case(
            "selector that does not match",
            "deployment",
            deployment(json!({"selector": {"matchLabels": {"app": "b"}}})),
            "Deployment.apps \"d\" is invalid: spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` \
             does not match template `labels`",
            &["spec.template.metadata.labels"],
        ),
        case(
            "bad quantity",
            "pod",
            pod(json!({"containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": "lots"}}}]})),
            "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            &["spec.containers[0].resources.limits.cpu"],
        ),
        case(
            "taint effect",
            "node",
            json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "k", "effect": "Never"}]}}).to_string(),
            "Node \"n\" is invalid: metadata.taints[0].effect: Unsupported value: \"Never\": supported values: \
             \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            &["metadata.taints[0].effect"],
        ),
        case(
            "huge object",
            "configmap",
            json!({"metadata": {"name": "c"}, "data": {"k": "x".repeat(3 << 20)}}).to_string(),
            "Request entity too large: limit is 3145728",
            &[],
        ),
        case(
            "unknown kind",
            "pod",
            json!({"apiVersion": "v1", "kind": "Gizmo", "metadata": {"name": "g"}}).to_string(),
            "Gizmo in version \"v1\" cannot be handled as a Pod: no kind \"Gizmo\" is registered for version \"v1\" in scheme \
             \"pkg/runtime/scheme.go:111\"",
            &[],
        ),
        Refused {
            namespace: "nowhere",
            ..case("unknown namespace", "pod", pod(json!({})), "namespaces \"nowhere\" not found", &[])
        },
        case(
            "several faults at once",
            "pod",
            pod(json!({"containers": [{"name": "A", "image": ""}], "restartPolicy": "Maybe"})),
            "",
            &["spec.containers[0].name", "spec.containers[0].image", "spec.restartPolicy"],
        ),
        case("no JSON", "pod", "{".to_owned(), "", &[]),
    ]
}

#[tokio::test]
async fn bad_input_is_refused_with_its_field_and_nothing_is_written() {
    let bed = bed();
    bed.list(ListOptions::default()).await.expect("ready");
    let before = (bed.registry.revision(), bed.store.keys());
    for case in cases() {
        let kind = kind(case.kind);
        let target = Target::collection(kind, if kind.namespaced { case.namespace } else { "" });
        let options = WriteOptions::default();
        let error = bed.registry.create(&me(), &target, case.body.as_bytes(), &options).await.expect_err(case.what);
        assert!(error.code < 500 && !error.message.is_empty(), "{}: {error:?}", case.what);
        if !case.message.is_empty() {
            assert_eq!(error.message, case.message, "{}", case.what);
        }
        let fields: Vec<&str> = error.causes.iter().map(|cause| cause.field.as_str()).collect();
        assert_eq!(fields, case.fields, "{}", case.what);
        assert_eq!((bed.registry.revision(), bed.store.keys()), before, "{} left something behind", case.what);
    }
}

#[tokio::test]
async fn what_is_there_already_or_has_changed_is_a_conflict() {
    let bed = bed();
    let made = bed.make_pod("a", json!({})).await;
    let again = bed.create(&pods(), &pod_json("a", json!({}))).await.expect_err("taken");
    assert_eq!((again.code, again.message.as_str()), (409, "pods \"a\" already exists"));
    bed.merge(&pod("a"), json!({"metadata": {"labels": {"x": "y"}}})).await.expect("a change by somebody else");
    let mut stale = made.object().clone();
    stale.set(&["metadata", "labels"], json!({"x": "z"}));
    let options = WriteOptions::default();
    let error = bed.registry.update(&me(), &pod("a"), &stale.to_vec(), &options).await.expect_err("stale");
    assert_eq!((error.code, error.reason), (409, Reason::Conflict));
    assert!(error.message.ends_with("please apply your changes to the latest version and try again"), "{error:?}");
}

#[tokio::test]
async fn a_damaged_value_can_be_deleted_and_its_name_used_again() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    for damage in ["", "not json", "[1]", "{\"metadata\":{\"name\":", "\u{0}\u{1}"] {
        bed.store.put("/registry/pods/default/broken", damage);
        assert_eq!(bed.registry.get(&me(), &pod("broken"), 0).await.expect_err("damaged").code, 500);
        let conditions = DeleteOptions { uid: Some("u".into()), ..DeleteOptions::default() };
        let error = bed.registry.delete(&me(), &pod("broken"), &conditions).await.expect_err("another uid");
        assert_eq!(error.reason, Reason::Conflict);
        let dry_run = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
        assert!(bed.registry.delete(&me(), &pod("broken"), &dry_run).await.expect("in theory").removed);
        let deleted = bed.registry.delete(&me(), &pod("broken"), &DeleteOptions::default()).await.expect("gone");
        assert!(deleted.removed);
        assert_eq!((deleted.object.name(), deleted.object.namespace()), ("broken", "default"));
        assert_eq!(bed.registry.get(&me(), &pod("broken"), 0).await.expect_err("gone").reason, Reason::NotFound);
    }
    bed.make_pod("broken", json!({})).await;
}

#[tokio::test]
async fn damage_to_what_must_be_there_stops_nothing_else_and_can_be_undone() {
    let bed = bed();
    bed.store.put("/registry/namespaces/default", "not json");
    bed.store.put("/registry/priorityclasses/system-node-critical", "[]");
    let in_kube_system = Target::collection(kind("pod"), "kube-system");
    bed.create(&in_kube_system, &pod_json("a", json!({}))).await.expect("another namespace");
    assert_eq!(bed.create(&pods(), &pod_json("a", json!({}))).await.expect_err("its namespace is damaged").code, 500);
    for target in [
        Target::object(kind("namespace"), "", "default"),
        Target::object(kind("priorityclass"), "", "system-node-critical"),
    ] {
        bed.registry.delete(&me(), &target, &DeleteOptions::default()).await.expect("removed and made anew");
        let anew = bed.registry.get(&me(), &target, 0).await.expect("there again");
        assert_eq!(anew.name(), target.name);
        let error = bed.registry.delete(&me(), &target, &DeleteOptions::default()).await.expect_err("it must stay");
        assert_eq!(error.reason, Reason::Forbidden);
    }
    bed.make_pod("a", json!({})).await;
}

#[tokio::test]
async fn copies_of_copies_are_refused_before_they_fill_the_memory() {
    let bed = bed();
    let target = Target::object(kind("configmap"), "default", "c");
    let body = json!({"metadata": {"name": "c"}, "data": {"k": "x".repeat(1000)}});
    bed.create(&Target::collection(kind("configmap"), "default"), &body).await.expect("made");
    let copies: Vec<Value> =
        (0..30).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/{n}")})).collect();
    let patch = Patch { kind: PatchKind::Json, body: Value::from(copies).to_string().into(), force: false };
    let error = bed.registry.patch(&me(), &target, &patch, &WriteOptions::default()).await.expect_err("a bomb");
    assert_eq!(error.code, 422, "{error:?}");
    assert_eq!(error.message, "the server rejected our request due to an error in our request");
}

#[tokio::test]
async fn a_grace_beyond_the_calendar_is_its_end() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    let placed = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"name": "n"}});
    let target = Target::object(kind("pod"), "default", "a");
    bed.create(&target.clone().with_subresource("binding"), &placed).await.expect("bound");
    for (asked, year) in [(i64::MAX, "9999-"), (1, "20")] {
        let options = DeleteOptions { grace_period_seconds: Some(asked), ..DeleteOptions::default() };
        let deleted = bed.registry.delete(&me(), &target, &options).await.expect("marked");
        let due = deleted.object.object().deletion_timestamp().expect("a time").to_owned();
        assert!(due.starts_with(year), "{asked}: {due}");
    }
}
