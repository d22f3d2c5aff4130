//! The verbs and the watch over the store in memory.

use std::sync::Arc;
use std::time::Duration;

use listwatch_proto::resource::{Kind, Object, Reason, Status};
use serde_json::{Value, json};

use super::store::MemoryStore;
use super::{
    AdmissionPlugin, AdmissionPlugins, DeleteOptions, EventType, ListOptions, Patch, PatchKind, Propagation, Registry,
    RegistryOptions, RegistryWatch, RequestContext, StoredObject, Target, WatchBatch, WatchOptions, WriteOptions,
    Written,
};
use crate::clock::ManualClock;

const LIMIT: Duration = Duration::from_secs(10);

struct Bed {
    store: MemoryStore,
    registry: Registry,
}

fn bed() -> Bed {
    bed_without(&[])
}

/// Without these plugins of admission.
fn bed_without(plugins: &[AdmissionPlugin]) -> Bed {
    let store = MemoryStore::new();
    let options = RegistryOptions {
        revision_wait: Duration::from_millis(50),
        plugins: AdmissionPlugins::default().without(plugins),
        ..RegistryOptions::default()
    };
    let registry = Registry::new(Arc::new(store.clone()), ManualClock::new(1_700_000_000_000), options);
    Bed { store, registry }
}

fn kind(name: &str) -> &'static Kind {
    Kind::by_name(name).expect(name)
}

fn pods() -> Target {
    Target::collection(kind("pod"), "default")
}

fn pod(name: &str) -> Target {
    Target::object(kind("pod"), "default", name)
}

fn me() -> RequestContext {
    RequestContext::user("me")
}

fn pod_json(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
}

impl Bed {
    async fn create(&self, target: &Target, body: &Value) -> Result<StoredObject, Status> {
        let written =
            self.registry.create(&me(), target, body.to_string().as_bytes(), &WriteOptions::default()).await?;
        Ok(written.object)
    }

    async fn make_pod(&self, name: &str, labels: Value) -> StoredObject {
        self.create(&pods(), &pod_json(name, labels)).await.expect("a pod")
    }

    async fn apply(&self, target: &Target, manager: &str, wanted: &Value, force: bool) -> Result<Written, Status> {
        let patch = Patch { kind: PatchKind::Apply, body: wanted.to_string().into(), force };
        let options = WriteOptions { field_manager: manager.to_owned(), ..WriteOptions::default() };
        self.registry.patch(&me(), target, &patch, &options).await
    }

    async fn merge(&self, target: &Target, patch: Value) -> Result<StoredObject, Status> {
        let patch = Patch { kind: PatchKind::Merge, body: patch.to_string().into(), force: false };
        Ok(self.registry.patch(&me(), target, &patch, &WriteOptions::default()).await?.object)
    }

    async fn list(&self, options: ListOptions) -> Result<super::ListPage, Status> {
        self.registry.list(&me(), &pods(), &options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<RegistryWatch, Status> {
        self.registry.watch(&me(), &pods(), &options).await
    }
}

fn names(items: &[StoredObject]) -> Vec<&str> {
    items.iter().map(StoredObject::name).collect()
}

async fn next(watch: &mut RegistryWatch) -> Option<WatchBatch> {
    tokio::time::timeout(LIMIT, watch.next()).await.expect("in time").expect("no error")
}

/// The next events as `(type, name, revision)`.
async fn events(watch: &mut RegistryWatch) -> Vec<(EventType, String, i64)> {
    let batch = next(watch).await.expect("a batch");
    let name = |o: &Option<StoredObject>| o.as_ref().map(|o| o.name().to_owned()).unwrap_or_default();
    batch.events.iter().map(|e| (e.event_type, name(&e.object), e.revision)).collect()
}

#[tokio::test]
async fn an_untouched_store_stays_empty_until_the_first_verb() {
    let bed = bed();
    assert_eq!(bed.registry.revision(), 1);
    let page = bed.list(ListOptions::default()).await.expect("a list");
    assert!(page.items.is_empty());
    let namespaces = ["default", "kube-node-lease", "kube-public", "kube-system"];
    let classes = ["system-cluster-critical", "system-node-critical"];
    let namespaces = namespaces.map(|n| format!("/registry/namespaces/{n}"));
    let classes = classes.map(|n| format!("/registry/priorityclasses/{n}"));
    assert_eq!(bed.store.keys(), [&namespaces[..], &classes[..]].concat());
    assert_eq!(bed.registry.revision(), 7);
}

#[tokio::test]
async fn a_name_is_generated_and_another_one_tried_when_it_is_taken() {
    let bed = bed();
    let mut body = pod_json("", json!({}));
    body["metadata"] = json!({"generateName": "web-"});
    let first = bed.create(&pods(), &body).await.expect("a pod");
    assert!(first.name().starts_with("web-") && first.name().len() == 9, "{}", first.name());
    let second = bed.create(&pods(), &body).await.expect("a pod");
    assert_ne!(first.name(), second.name());
}

#[tokio::test]
async fn a_namespace_must_be_there_and_stay() {
    let bed = bed();
    let missing = Target::collection(kind("pod"), "nowhere");
    let error = bed.create(&missing, &pod_json("a", json!({}))).await.expect_err("no namespace");
    assert_eq!((error.reason, error.message.as_str()), (Reason::NotFound, "namespaces \"nowhere\" not found"));
    let namespaces = Target::collection(kind("namespace"), "");
    bed.create(&namespaces, &json!({"metadata": {"name": "going"}})).await.expect("a namespace");
    let going = Target::object(kind("namespace"), "", "going");
    let deleted = bed.registry.delete(&me(), &going, &DeleteOptions::default()).await.expect("marked");
    assert!(!deleted.removed);
    let error =
        bed.create(&Target::collection(kind("pod"), "going"), &pod_json("a", json!({}))).await.expect_err("going");
    assert_eq!(error.reason, Reason::Forbidden);
    assert_eq!(error.causes[0].reason, "NamespaceTerminating");
    let body = json!({"metadata": {"name": "going"}, "spec": {"finalizers": []}}).to_string();
    let finalize = going.clone().with_subresource("finalize");
    bed.registry.update(&me(), &finalize, body.as_bytes(), &WriteOptions::default()).await.expect("finalized");
    let error = bed.registry.get(&me(), &going, 0).await.expect_err("gone");
    assert_eq!(error.reason, Reason::NotFound);
}

#[tokio::test]
async fn a_stale_update_is_refused_and_one_without_version_goes_through() {
    let bed = bed();
    let first = bed.make_pod("a", json!({"n": "1"})).await;
    let second = bed.merge(&pod("a"), json!({"metadata": {"labels": {"n": "2"}}})).await.expect("patched");
    assert!(second.revision() > first.revision());
    let error = bed
        .registry
        .update(&me(), &pod("a"), &first.json(), &WriteOptions::default())
        .await
        .expect_err("the version is stale");
    assert_eq!(
        error.message,
        "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the \
         latest version and try again"
    );
    let mut body = first.object().clone();
    body.remove(&["metadata", "resourceVersion"]);
    let written =
        bed.registry.update(&me(), &pod("a"), &body.to_vec(), &WriteOptions::default()).await.expect("written");
    assert_eq!(written.object.object().label("n"), Some("1"));
}

#[tokio::test]
async fn a_lost_race_is_run_again_unless_the_client_named_a_version() {
    let bed = bed();
    let object = bed.make_pod("a", json!({})).await;
    bed.store.refuse_next(2);
    bed.merge(&pod("a"), json!({"metadata": {"labels": {"x": "y"}}})).await.expect("after two more rounds");
    bed.store.refuse_next(1);
    let patch = json!({"metadata": {"resourceVersion": object.revision().to_string(), "labels": {"x": "z"}}});
    let error = bed.merge(&pod("a"), patch).await.expect_err("named a version");
    assert_eq!(error.reason, Reason::Conflict);
}

#[tokio::test]
async fn what_changes_nothing_writes_nothing() {
    let bed = bed();
    let object = bed.make_pod("a", json!({"x": "y"})).await;
    let before = bed.registry.revision();
    let again = bed.merge(&pod("a"), json!({"metadata": {"labels": {"x": "y"}}})).await.expect("patched");
    assert_eq!(again.revision(), object.revision());
    let options = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let body = pod_json("b", json!({})).to_string();
    let dry = bed.registry.create(&me(), &pods(), body.as_bytes(), &options).await.expect("dry");
    assert!(!dry.object.uid().is_empty());
    assert_eq!(bed.registry.revision(), before);
}

#[tokio::test]
async fn pages_are_cut_from_one_snapshot() {
    let bed = bed();
    for name in ["a", "b", "c", "d"] {
        bed.make_pod(name, json!({})).await;
    }
    let first = bed.list(ListOptions { limit: 2, ..ListOptions::default() }).await.expect("a page");
    assert_eq!((names(&first.items), first.remaining), (vec!["a", "b"], Some(2)));
    bed.make_pod("bb", json!({})).await;
    bed.registry.delete(&me(), &pod("d"), &DeleteOptions::default()).await.expect("deleted");
    let token = first.continue_token.clone();
    let next = ListOptions { limit: 2, continue_token: token.clone(), ..ListOptions::default() };
    let second = bed.list(next.clone()).await.expect("a page");
    assert_eq!((names(&second.items), second.remaining), (vec!["c", "d"], None));
    assert_eq!((second.revision, second.continue_token.as_str()), (first.revision, ""));
    bed.store.expire(bed.registry.revision());
    let error = bed.list(next).await.expect_err("the snapshot is gone");
    assert_eq!((error.reason, error.current_revision), (Reason::Expired, bed.registry.revision()));
    let exact = ListOptions { exact_revision: first.revision, ..ListOptions::default() };
    assert_eq!(
        bed.list(exact).await.expect_err("gone").message,
        "The resourceVersion for the provided list is too old."
    );
    for token in ["!", "e30", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiIuLi94In0"] {
        let bad = ListOptions { continue_token: token.into(), ..ListOptions::default() };
        assert_eq!(bed.list(bad).await.expect_err(token).reason, Reason::BadRequest);
    }
}

#[tokio::test]
async fn a_page_through_a_selector_is_full() {
    let bed = bed();
    for i in 0..12 {
        bed.make_pod(&format!("p{i:02}"), json!({"odd": (i % 2).to_string()})).await;
    }
    let mut options = ListOptions { limit: 4, label_selector: "odd=1".into(), ..ListOptions::default() };
    let page = bed.list(options.clone()).await.expect("a page");
    assert_eq!(names(&page.items), ["p01", "p03", "p05", "p07"]);
    assert_eq!(page.remaining, None);
    options.continue_token = page.continue_token;
    let page = bed.list(options).await.expect("a page");
    assert_eq!(names(&page.items), ["p09", "p11"]);
    let by_name = ListOptions { field_selector: "metadata.name=p03".into(), ..ListOptions::default() };
    assert_eq!(names(&bed.list(by_name).await.expect("a page").items), ["p03"]);
    let unknown = ListOptions { field_selector: "spec.foo=x".into(), ..ListOptions::default() };
    assert_eq!(bed.list(unknown).await.expect_err("unknown").message, "field label not supported: spec.foo");
}

#[tokio::test]
async fn a_read_waits_for_its_revision_and_no_longer_than_the_limit() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    let ahead = bed.registry.revision() + 1;
    let error = bed.registry.get(&me(), &pod("a"), ahead).await.expect_err("not there yet");
    assert_eq!((error.code, error.causes[0].reason.as_str()), (504, "ResourceVersionTooLarge"));
    let registry = bed.registry.clone();
    let waiting = tokio::spawn(async move { registry.get(&me(), &pod("a"), ahead).await });
    bed.make_pod("b", json!({})).await;
    assert!(waiting.await.expect("joined").is_ok());
}

#[tokio::test]
async fn damaged_values_are_served_around() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    bed.store.put("/registry/pods/default/broken", "not json");
    bed.store.put("/registry/pods/default/bare", "{}");
    bed.store.put("/registry/pods/default/deep/er", "{}");
    assert_eq!(names(&bed.list(ListOptions::default()).await.expect("a list").items), ["a"]);
    let error = bed.registry.get(&me(), &pod("broken"), 0).await.expect_err("damaged");
    assert_eq!(error.reason, Reason::InternalError);
    let options = WatchOptions { start_revision: 1, ..WatchOptions::default() };
    let mut watch = bed.watch(options).await.expect("a watch");
    assert_eq!(events(&mut watch).await[0].1, "a");
    bed.make_pod("b", json!({})).await;
    assert_eq!(events(&mut watch).await[0].1, "b");
}

#[tokio::test]
async fn a_watch_follows_objects_in_and_out_of_its_selector() {
    let bed = bed();
    bed.registry.list(&me(), &pods(), &ListOptions::default()).await.expect("ready");
    let options = WatchOptions { label_selector: "app=web".into(), ..WatchOptions::default() };
    let mut watch = bed.watch(options).await.expect("a watch");
    let made = bed.make_pod("a", json!({"app": "web", "n": "1"})).await;
    assert_eq!(events(&mut watch).await, [(EventType::Added, "a".into(), made.revision())]);
    let changed = bed.merge(&pod("a"), json!({"metadata": {"labels": {"n": "2"}}})).await.expect("patched");
    assert_eq!(events(&mut watch).await, [(EventType::Modified, "a".into(), changed.revision())]);
    let left = bed.merge(&pod("a"), json!({"metadata": {"labels": {"app": "db"}}})).await.expect("patched");
    let batch = next(&mut watch).await.expect("a batch");
    let event = &batch.events[0];
    let object = event.object.as_ref().expect("an object");
    assert_eq!((event.event_type, event.revision), (EventType::Deleted, left.revision()));
    // The content is that of before, the revision that of the change.
    assert_eq!((object.object().label("app"), object.object().revision()), (Some("web"), left.revision()));
    bed.merge(&pod("a"), json!({"metadata": {"labels": {"n": "3"}}})).await.expect("not seen");
    let back = bed.merge(&pod("a"), json!({"metadata": {"labels": {"app": "web"}}})).await.expect("patched");
    assert_eq!(events(&mut watch).await, [(EventType::Added, "a".into(), back.revision())]);
}

#[tokio::test]
async fn the_event_of_a_deletion_carries_its_revision() {
    let bed = bed();
    let made = bed.make_pod("a", json!({})).await;
    let options = WatchOptions { start_revision: made.revision(), ..WatchOptions::default() };
    let mut watch = bed.watch(options).await.expect("a watch");
    bed.registry.delete(&me(), &pod("a"), &DeleteOptions::default()).await.expect("deleted");
    // An unscheduled pod is marked and goes at once, as upstream has it.
    assert_eq!(events(&mut watch).await[0].0, EventType::Modified);
    let gone = events(&mut watch).await;
    assert_eq!(gone, [(EventType::Deleted, "a".into(), bed.registry.revision())]);
}

#[tokio::test]
async fn the_initial_state_comes_first_and_its_end_is_marked() {
    let bed = bed();
    bed.make_pod("b", json!({})).await;
    bed.make_pod("a", json!({})).await;
    let revision = bed.registry.revision();
    let options = WatchOptions { send_initial_events: true, ..WatchOptions::default() };
    let mut watch = bed.watch(options).await.expect("a watch");
    let state: Vec<_> = events(&mut watch).await.into_iter().map(|e| (e.0, e.1)).collect();
    assert_eq!(state, [(EventType::Added, "a".into()), (EventType::Added, "b".into())]);
    let end = next(&mut watch).await.expect("a batch");
    assert!(end.events[0].initial_events_end);
    assert_eq!((end.revision, end.events[0].revision), (revision, revision));
    let made = bed.make_pod("c", json!({})).await;
    assert_eq!(events(&mut watch).await, [(EventType::Added, "c".into(), made.revision())]);
}

#[tokio::test]
async fn a_bounded_replay_ends_where_it_was_told() {
    let bed = bed();
    let first = bed.make_pod("a", json!({})).await;
    let second = bed.make_pod("b", json!({})).await;
    bed.make_pod("c", json!({})).await;
    let options =
        WatchOptions { start_revision: first.revision(), until_revision: second.revision(), ..WatchOptions::default() };
    let mut watch = bed.watch(options).await.expect("a watch");
    assert_eq!(events(&mut watch).await, [(EventType::Added, "b".into(), second.revision())]);
    assert!(next(&mut watch).await.is_none());
    // A replay without a matching event ends as well, and so does one whose end is still to come.
    let ahead = bed.registry.revision() + 1;
    let options = WatchOptions {
        start_revision: ahead - 1,
        until_revision: ahead,
        label_selector: "none=such".into(),
        ..WatchOptions::default()
    };
    let mut watch = bed.watch(options).await.expect("a watch");
    bed.make_pod("d", json!({})).await;
    assert!(next(&mut watch).await.is_none());
}

#[tokio::test]
async fn a_silent_watch_sends_bookmarks_that_never_overtake_an_event() {
    let bed = bed();
    let made = bed.make_pod("a", json!({})).await;
    let options = WatchOptions {
        start_revision: made.revision(),
        allow_bookmarks: true,
        label_selector: "app=web".into(),
        progress_interval: Some(Duration::from_millis(20)),
        ..WatchOptions::default()
    };
    let mut watch = bed.watch(options).await.expect("a watch");
    bed.make_pod("b", json!({})).await;
    let batch = next(&mut watch).await.expect("a batch");
    assert_eq!(batch.events[0].event_type, EventType::Bookmark);
    assert_eq!(batch.revision, bed.registry.revision());
    let seen = bed.make_pod("c", json!({"app": "web"})).await;
    assert_eq!(events(&mut watch).await, [(EventType::Added, "c".into(), seen.revision())]);
}

#[tokio::test]
async fn an_expired_watch_says_what_history_holds() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    let start = bed.registry.revision();
    bed.make_pod("b", json!({})).await;
    let mut behind = bed.watch(WatchOptions { start_revision: 1, ..WatchOptions::default() }).await.expect("a watch");
    bed.store.expire(start + 1);
    let current = bed.registry.revision();
    for error in [
        bed.watch(WatchOptions { start_revision: 2, ..WatchOptions::default() }).await.expect_err("at open"),
        tokio::time::timeout(LIMIT, behind.next()).await.expect("in time").expect_err("in stream"),
    ] {
        assert_eq!(
            (error.reason, error.oldest_revision, error.current_revision),
            (Reason::Expired, start + 1, current)
        );
    }
    let other = WatchOptions { start_revision: current, incarnation: "another".into(), ..WatchOptions::default() };
    assert_eq!(bed.watch(other).await.expect_err("another history").reason, Reason::Expired);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let bed = bed();
    let replica_sets = Target::collection(kind("replicaset"), "default");
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let body =
        json!({"metadata": {"name": "rs"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    bed.create(&replica_sets, &body).await.expect("a replica set");
    let target = Target::object(kind("replicaset"), "default", "rs");
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    let deleted = bed.registry.delete(&me(), &target, &options).await.expect("marked");
    assert!(!deleted.removed);
    assert_eq!(deleted.object.object().finalizers().collect::<Vec<_>>(), ["foregroundDeletion"]);
    assert_eq!(deleted.object.object().generation(), 2);
    let error = bed.merge(&target, json!({"metadata": {"finalizers": ["a.b/c", "foregroundDeletion"]}})).await;
    assert_eq!(error.expect_err("a new finalizer").causes[0].field, "metadata.finalizers");
    bed.merge(&target, json!({"metadata": {"finalizers": null}})).await.expect("the last finalizer");
    assert_eq!(bed.registry.get(&me(), &target, 0).await.expect_err("gone").reason, Reason::NotFound);
    let body =
        json!({"metadata": {"name": "rs"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    bed.create(&replica_sets, &body).await.expect("a replica set");
    assert!(bed.registry.delete(&me(), &target, &DeleteOptions::default()).await.expect("gone").removed);
}

#[tokio::test]
async fn what_waits_for_what_it_owns_may_be_told_anew() {
    let bed = bed();
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let body =
        json!({"metadata": {"name": "rs"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    bed.create(&Target::collection(kind("replicaset"), "default"), &body).await.expect("a replica set");
    let target = Target::object(kind("replicaset"), "default", "rs");
    let delete = async |propagation| {
        let options = DeleteOptions { propagation, ..DeleteOptions::default() };
        let deleted = bed.registry.delete(&me(), &target, &options).await.expect("deleted");
        let finalizers: Vec<_> = deleted.object.object().finalizers().map(str::to_owned).collect();
        (deleted.removed, finalizers)
    };
    let marked = |finalizer: &str| (false, vec![finalizer.to_owned()]);
    assert_eq!(delete(Some(Propagation::Foreground)).await, marked("foregroundDeletion"));
    assert_eq!(delete(None).await, marked("foregroundDeletion"));
    assert_eq!(delete(Some(Propagation::Orphan)).await, marked("orphan"));
    assert_eq!(delete(Some(Propagation::Background)).await, (true, vec![]));
}

#[tokio::test]
async fn events_hang_on_the_lease_of_the_minute() {
    let bed = bed();
    let events = Target::collection(kind("event"), "default");
    let body =
        |name: &str| json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}, "reason": "R"});
    bed.create(&events, &body("a")).await.expect("an event");
    bed.create(&events, &body("b")).await.expect("an event");
    // Somebody revokes the shared lease: the next event takes another.
    bed.store.end_leases();
    bed.create(&events, &body("c")).await.expect("an event");
    let page = bed.registry.list(&me(), &events, &ListOptions::default()).await.expect("a list");
    assert_eq!(names(&page.items), ["a", "b", "c"]);
}

#[tokio::test]
async fn scaling_changes_the_number_of_replicas_only() {
    let bed = bed();
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let body =
        json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template}});
    bed.create(&Target::collection(kind("deployment"), "default"), &body).await.expect("a deployment");
    let scale = Target::object(kind("deployment"), "default", "d").with_subresource("scale");
    let scaled = bed.merge(&scale, json!({"spec": {"replicas": 3}})).await.expect("scaled");
    assert_eq!((scaled.object().kind_name(), scaled.object().int(&["spec", "replicas"])), ("Scale", Some(3)));
    let stored = bed.registry.get(&me(), &Target { subresource: String::new(), ..scale }, 0).await.expect("there");
    assert_eq!((stored.object().int(&["spec", "replicas"]), stored.object().generation()), (Some(3), 2));
    let wanted =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}});
    let target = Target::object(kind("deployment"), "default", "d").with_subresource("scale");
    let refused = bed.apply(&target, "m", &wanted, false).await.expect_err("somebody has scaled it");
    assert_eq!(refused.reason, Reason::Conflict);
    let forced = bed.apply(&target, "m", &wanted, true).await.expect("forced");
    assert_eq!(forced.object.object().int(&["spec", "replicas"]), Some(5));
    let stored = bed.registry.get(&me(), &Target::object(kind("deployment"), "default", "d"), 0).await.expect("there");
    let entries = stored.object().at(&["metadata", "managedFields"]).and_then(Value::as_array).expect("tracked");
    let owner = entries.iter().find(|entry| entry["subresource"] == "scale").expect("of the scale");
    assert_eq!(
        (&owner["manager"], &owner["operation"], &owner["apiVersion"]),
        (&json!("m"), &json!("Apply"), &json!("apps/v1"))
    );
}

#[tokio::test]
async fn an_apply_makes_changes_and_takes_back() {
    let bed = bed();
    let target = Target::object(kind("configmap"), "default", "c");
    let wanted =
        |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data});
    let made = bed.apply(&target, "m1", &wanted(json!({"a": "1", "b": "1"})), false).await.expect("made");
    assert!(made.created);
    let again = bed.apply(&target, "m1", &wanted(json!({"a": "1", "b": "1"})), false).await.expect("the same");
    assert_eq!((again.created, again.object.revision()), (false, made.object.revision()));
    let less = bed.apply(&target, "m1", &wanted(json!({"a": "2"})), false).await.expect("changed");
    assert_eq!(less.object.object().at(&["data"]), Some(&json!({"a": "2"})));
    let shared = bed.apply(&target, "m2", &wanted(json!({"a": "2"})), false).await.expect("shared");
    assert!(shared.object.revision() > less.object.revision(), "a new owner is told");
    let nobody = bed.apply(&target, "", &wanted(json!({})), false).await.expect_err("who?");
    assert_eq!(
        nobody.message,
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
    );
    let mut versioned = wanted(json!({"a": "3"}));
    versioned["metadata"]["resourceVersion"] = json!("1");
    assert_eq!(bed.apply(&target, "m1", &versioned, true).await.expect_err("changed since").code, 409);
    let absent = Target::object(kind("configmap"), "default", "none");
    let merge = Patch { kind: PatchKind::Merge, body: "{}".into(), force: false };
    let options = WriteOptions::default();
    assert_eq!(bed.registry.patch(&me(), &absent, &merge, &options).await.expect_err("absent").code, 404);
    let forced = Patch { force: true, ..merge };
    assert_eq!(bed.registry.patch(&me(), &target, &forced, &options).await.expect_err("no apply").code, 422);
}

#[tokio::test]
async fn a_status_write_keeps_the_owners_of_the_spec() {
    let bed = bed();
    bed.make_pod("a", json!({})).await;
    let target = Target::object(kind("pod"), "default", "a");
    let status = target.clone().with_subresource("status");
    let patched = bed.merge(&status, json!({"status": {"phase": "Running"}, "spec": {"nodeName": "x"}})).await;
    let patched = patched.expect("written");
    let entries = patched.object().at(&["metadata", "managedFields"]).and_then(Value::as_array).expect("tracked");
    assert_eq!(entries.len(), 2, "{entries:?}");
    let owner = entries.iter().find(|entry| entry["subresource"] == "status").expect("of the status");
    assert_eq!(owner["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
}

#[tokio::test]
async fn a_collection_is_deleted_by_what_a_list_finds() {
    let bed = bed();
    let maps = Target::collection(kind("configmap"), "default");
    for (name, t) in [("a", "1"), ("b", "0"), ("c", "1")] {
        let body = json!({"metadata": {"name": name, "labels": {"t": t}}});
        bed.create(&maps, &body).await.expect("made");
    }
    let delete = |list: ListOptions, options: DeleteOptions| {
        let (registry, maps) = (bed.registry.clone(), maps.clone());
        async move { registry.delete_collection(&me(), &maps, &list, &options).await }
    };
    let left = || async {
        let page = bed.registry.list(&me(), &maps, &ListOptions::default()).await.expect("listed");
        page.items.iter().map(|item| item.name().to_owned()).collect::<Vec<_>>()
    };
    let dry = DeleteOptions { dry_run: true, ..DeleteOptions::default() };
    assert_eq!(delete(ListOptions::default(), dry).await.expect("dry").items.len(), 3);
    assert_eq!(left().await, ["a", "b", "c"]);
    let other = DeleteOptions { uid: Some("u".into()), ..DeleteOptions::default() };
    assert_eq!(delete(ListOptions::default(), other).await.expect_err("another uid").code, 409);
    let some = ListOptions { label_selector: "t=0".into(), ..ListOptions::default() };
    assert_eq!(delete(some, DeleteOptions::default()).await.expect("done").items[0].name(), "b");
    let first = ListOptions { limit: 1, ..ListOptions::default() };
    let page = delete(first, DeleteOptions::default()).await.expect("done");
    assert_eq!((page.items.len(), page.continue_token.is_empty()), (1, false));
    assert_eq!(left().await, ["c"]);
    let everywhere = Target::collection(kind("configmap"), "");
    let (list, options) = (ListOptions::default(), DeleteOptions::default());
    assert_eq!(bed.registry.delete_collection(&me(), &everywhere, &list, &options).await.expect_err("no").code, 405);
    let namespaces = Target::collection(kind("namespace"), "");
    assert_eq!(bed.registry.delete_collection(&me(), &namespaces, &list, &options).await.expect_err("no").code, 405);
}

#[tokio::test]
async fn stored_values_have_no_resource_version() {
    let bed = bed();
    let made = bed.make_pod("a", json!({})).await;
    let stored = Object::from_slice(made.raw()).expect("JSON");
    assert!(stored.at(&["metadata", "resourceVersion"]).is_none());
    assert_eq!(made.object().revision(), made.revision());
    let error = bed.create(&pods(), &json!({"metadata": {"name": "b", "resourceVersion": "5"}})).await;
    assert_eq!(error.expect_err("versioned").message, "resourceVersion should not be set on objects to be created");
}

mod bookmarks;
mod cached;
mod claims;
mod delete_races;
mod engine;
mod evictions;
mod judged;
mod parts;
mod policies;
mod priority;
mod recorded;
mod refusals;
mod service_accounts;
