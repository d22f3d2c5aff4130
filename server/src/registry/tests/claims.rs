//! What is handed out is handed out once: over the engine itself, by as many registries as there are servers.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;

use super::*;
use crate::clock::SystemClock;
use crate::registry::store::{Commit, Guard, Page, Store, StoreError, StoreWatch, StoreWatcher, Write};
use crate::registry::{AddressRange, EngineStore, Pools};
use crate::storage::{Durability, Engine, EngineOptions, KeyRange, KeyValue, Op, Origin, PutOp, RangeOp, Seams, Txn};

fn engine() -> Engine {
    let dir = std::path::Path::new("");
    let options = EngineOptions { durability: Durability::Memory, ..EngineOptions::new(dir) };
    Engine::open(options, Seams::real(dir)).expect("an engine in memory")
}

/// A server with 14 addresses and 40 node ports.
fn server(engine: &Engine) -> Registry {
    let addresses = vec![AddressRange::parse("10.0.0.0/28").expect("valid")];
    let pools = Pools { addresses, node_ports: 30_000..=30_039 };
    let options = RegistryOptions { pools, ..RegistryOptions::default() };
    Registry::new(Arc::new(EngineStore::new(engine.clone())), SystemClock::shared(), options)
}

fn services() -> Target {
    Target::collection(kind("service"), "default")
}

fn service(name: &str) -> Target {
    Target::object(kind("service"), "default", name)
}

async fn make(registry: &Registry, name: &str, spec: Value) -> Result<Object, Status> {
    let body = json!({"metadata": {"name": name}, "spec": spec}).to_string();
    let written = registry.create(&me(), &services(), body.as_bytes(), &WriteOptions::default()).await?;
    Ok(written.object.object().clone())
}

fn keys(engine: &Engine, prefix: &str) -> Vec<String> {
    let range = RangeOp { range: crate::storage::KeyRange::prefix(prefix.to_owned()), ..RangeOp::get("") };
    let found = engine.range(&range).expect("readable");
    found.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).replacen(prefix, "", 1)).collect()
}

fn address(object: &Object) -> String {
    object.text(&["spec", "clusterIP"]).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_never_hand_out_the_same() {
    let engine = engine();
    let servers = [server(&engine), server(&engine)];
    let tasks: Vec<_> = (0..14)
        .map(|n| {
            let registry = servers[n % 2].clone();
            let spec = json!({"type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]});
            tokio::spawn(async move { make(&registry, &format!("s{n}"), spec).await.expect("an address is left") })
        })
        .collect();
    let (mut addresses, mut ports) = (HashSet::new(), HashSet::new());
    for task in tasks {
        let object = task.await.expect("joined");
        assert!(addresses.insert(address(&object)), "{} twice", address(&object));
        for port in object.at(&["spec", "ports"]).and_then(Value::as_array).expect("ports") {
            assert!(ports.insert(port["nodePort"].as_i64().expect("a node port")), "{port} twice");
        }
    }
    assert_eq!((addresses.len(), ports.len()), (14, 28));
    let mut kept = keys(&engine, "/registry/ranges/serviceips/");
    kept.sort_unstable();
    let mut signs = keys(&engine, "/registry/ipaddresses/");
    signs.sort_unstable();
    assert_eq!(kept, signs);
    assert_eq!(kept.iter().cloned().collect::<HashSet<_>>(), addresses);

    let full = make(&servers[0], "more", json!({"ports": [{"port": 80}]})).await.expect_err("none is left");
    assert_eq!(
        full.message,
        "Internal error occurred: failed to allocate a serviceIP for Service \"more\": range is full"
    );
    servers[1].delete(&me(), &service("s3"), &DeleteOptions::default()).await.expect("deleted");
    let again = make(&servers[0], "more", json!({"ports": [{"port": 80}]})).await.expect("one is free again");
    assert!(addresses.contains(&address(&again)));
    assert_eq!(keys(&engine, "/registry/ranges/servicenodeports/").len(), 26);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_is_had_by_one() {
    let engine = engine();
    let registry = server(&engine);
    let spec = json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]});
    make(&registry, "a", spec.clone()).await.expect("free");
    let taken = make(&registry, "b", spec.clone()).await.expect_err("taken");
    assert_eq!(
        taken.message,
        "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: failed to allocate IP 10.0.0.9: \
         provided IP is already allocated"
    );
    // A dry run takes nothing, and a change of type gives back.
    let dry = WriteOptions { dry_run: true, ..WriteOptions::default() };
    let body =
        json!({"metadata": {"name": "c"}, "spec": {"clusterIP": "10.0.0.8", "ports": [{"port": 80}]}}).to_string();
    registry.create(&me(), &services(), body.as_bytes(), &dry).await.expect("would be made");
    assert_eq!(keys(&engine, "/registry/ranges/serviceips/"), ["10.0.0.9"]);
    let patch = json!({"spec": {"type": "ExternalName", "externalName": "a.example.com"}}).to_string();
    let patch = Patch { kind: PatchKind::Merge, body: patch.into(), force: false };
    let external = registry.patch(&me(), &service("a"), &patch, &WriteOptions::default()).await.expect("changed");
    assert_eq!(external.object.object().at(&["spec", "clusterIP"]), None);
    assert!(keys(&engine, "/registry/ranges/").is_empty() && keys(&engine, "/registry/ipaddresses/").is_empty());
    make(&registry, "b", spec).await.expect("free again");
    // An address that somebody keeps for himself is left alone.
    let kept = json!({"metadata": {"name": "10.0.0.7"},
        "spec": {"parentRef": {"resource": "gateways", "group": "a.io", "name": "g"}}});
    let target = Target::collection(kind("ipaddress"), "");
    registry.create(&me(), &target, kept.to_string().as_bytes(), &WriteOptions::default()).await.expect("kept");
    let wanted = json!({"clusterIP": "10.0.0.7", "ports": [{"port": 80}]});
    assert!(make(&registry, "d", wanted).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_made_to_agree_with_objects_at_a_start() {
    let engine = engine();
    let spec = json!({"clusterIP": "10.0.0.9", "ports": [{"port": 80}]});
    let one = make(&server(&engine), "a", spec).await.expect("made");
    let foreign = |op: Op| {
        let txn = Txn { success: vec![op], ..Txn::default() };
        engine.commit(txn, &Origin::anonymous()).expect("written");
    };
    let stale = "/registry/ranges/serviceips/10.0.0.3";
    foreign(Op::Put(PutOp::new(stale.to_owned(), "{}".to_owned())));
    let mut written = one.clone();
    written.set(&["metadata", "name"], "b");
    written.set(&["spec", "clusterIP"], "10.0.0.4");
    written.set(&["spec", "clusterIPs"], json!(["10.0.0.4"]));
    foreign(Op::Put(PutOp::new("/registry/services/specs/default/b".to_owned(), json!(written.0).to_string())));
    server(&engine).list(&me(), &services(), &ListOptions::default()).await.expect("started");
    assert_eq!(keys(&engine, "/registry/ranges/serviceips/"), ["10.0.0.4", "10.0.0.9"]);
}

/// A store in which another server makes a service after each read of a range.
#[derive(Debug)]
struct Busy {
    store: EngineStore,
    other: Registry,
    reads: AtomicUsize,
}

#[async_trait]
impl Store for Busy {
    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>, origin: &Origin) -> Result<Commit, StoreError> {
        self.store.commit(guards, writes, origin).await
    }

    async fn get(&self, key: &[u8]) -> Result<(Option<KeyValue>, i64), StoreError> {
        self.store.get(key).await
    }

    async fn range(&self, range: &KeyRange, revision: i64, limit: usize) -> Result<Page, StoreError> {
        let page = self.store.range(range, revision, limit).await;
        let read = self.reads.fetch_add(1, Ordering::Relaxed);
        if read < 6 {
            let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
            make(&self.other, &format!("s{read}"), spec).await.expect("an address is left");
            if read == 1 {
                self.other.delete(&me(), &service("a"), &DeleteOptions::default()).await.expect("deleted");
            }
        }
        page
    }

    async fn watch(&self, range: &KeyRange, start: i64, who: &StoreWatcher) -> Result<Box<dyn StoreWatch>, StoreError> {
        self.store.watch(range, start, who).await
    }

    async fn lease(&self, ttl_secs: i64) -> Result<i64, StoreError> {
        self.store.lease(ttl_secs).await
    }

    fn revision(&self) -> i64 {
        self.store.revision()
    }

    fn oldest(&self) -> i64 {
        self.store.oldest()
    }

    fn incarnation(&self) -> &str {
        self.store.incarnation()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_starts_takes_nothing_from_what_another_hands_out() {
    let engine = engine();
    let other = server(&engine);
    make(&other, "a", json!({"ports": [{"port": 80}]})).await.expect("made");
    let store = Busy { store: EngineStore::new(engine.clone()), other: other.clone(), reads: AtomicUsize::new(0) };
    let starting = Registry::new(Arc::new(store), SystemClock::shared(), RegistryOptions::default());
    starting.list(&me(), &services(), &ListOptions::default()).await.expect("started");
    let all = other.list(&me(), &services(), &ListOptions::default()).await.expect("listed");
    let held: HashSet<String> = all.items.iter().map(|service| address(service.object())).collect();
    let kept = keys(&engine, "/registry/ranges/serviceips/");
    assert_eq!(kept.iter().cloned().collect::<HashSet<_>>(), held);
    assert!(held.len() >= 2, "{held:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_go_with_their_service() {
    let engine = engine();
    let registry = server(&engine);
    make(&registry, "a", json!({"ports": [{"port": 80}]})).await.expect("made");
    let target = Target::collection(kind("endpoints"), "default");
    for name in ["a", "b"] {
        let body = json!({"metadata": {"name": name}}).to_string();
        registry.create(&me(), &target, body.as_bytes(), &WriteOptions::default()).await.expect("made");
    }
    registry.delete(&me(), &service("a"), &DeleteOptions::default()).await.expect("deleted");
    assert_eq!(keys(&engine, "/registry/services/endpoints/default/"), ["b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_one_store_with_two_views() {
    let engine = engine();
    let registry = server(&engine);
    let newer = Kind::by_api_version("events.k8s.io/v1", "Event").expect("a served kind");
    let body = json!({
        "metadata": {"name": "x"}, "eventTime": "2024-01-02T03:04:05.000006Z", "reportingController": "a.io/c",
        "reportingInstance": "i", "action": "Doing", "reason": "Started", "type": "Normal", "note": "hello",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "p"}});
    let target = Target::collection(newer, "default");
    let options = WatchOptions { send_initial_events: true, ..WatchOptions::default() };
    let mut watch = registry.watch(&me(), &target, &options).await.expect("a watch");
    assert!(next(&mut watch).await.expect("a batch").events[0].initial_events_end);
    let written = registry.create(&me(), &target, body.to_string().as_bytes(), &WriteOptions::default()).await;
    assert_eq!(written.expect("made").object.object().text(&["note"]), "hello");
    let seen = next(&mut watch).await.expect("a batch").events[0].object.clone().expect("an object");
    assert_eq!((seen.object().api_version(), seen.object().text(&["regarding", "name"])), ("events.k8s.io/v1", "p"));
    let core = registry.get(&me(), &Target::object(kind("event"), "default", "x"), 0).await.expect("there");
    assert_eq!(core.object().text(&["message"]), "hello");
    assert_eq!(core.object().text(&["reportingComponent"]), "a.io/c");
    let select = |fields: &str| ListOptions { field_selector: fields.to_owned(), ..ListOptions::default() };
    let page = registry.list(&me(), &target, &select("regarding.name=p")).await.expect("a list");
    assert_eq!(names(&page.items), ["x"]);
    assert!(registry.list(&me(), &target, &select("involvedObject.name=p")).await.is_err());
    let patch = Patch { kind: PatchKind::Merge, body: r#"{"note":"other"}"#.into(), force: false };
    let object = Target::object(newer, "default", "x");
    let refused = registry.patch(&me(), &object, &patch, &WriteOptions::default()).await.expect_err("it stays");
    assert_eq!(refused.message, "Event \"x\" is invalid: message: Invalid value: \"other\": field is immutable");
    let series = r#"{"series":{"count":2,"lastObservedTime":"2024-01-02T03:04:06.000000Z"}}"#;
    let patch = Patch { kind: PatchKind::Merge, body: series.into(), force: false };
    let patched = registry.patch(&me(), &object, &patch, &WriteOptions::default()).await.expect("counted");
    assert_eq!(patched.object.object().int(&["series", "count"]), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_binding_may_be_sent_to_the_collection() {
    let engine = engine();
    let registry = server(&engine);
    let body = pod_json("a", json!({})).to_string();
    registry.create(&me(), &pods(), body.as_bytes(), &WriteOptions::default()).await.expect("a pod");
    let bindings = Target::collection(kind("binding"), "default");
    let bind = async |name: &str| {
        let body = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}).to_string();
        registry.create(&me(), &bindings, body.as_bytes(), &WriteOptions::default()).await
    };
    assert_eq!(bind("a").await.expect("bound").object.object().text(&["status"]), "Success");
    let bound = registry.get(&me(), &pod("a"), 0).await.expect("there");
    assert_eq!(bound.object().text(&["spec", "nodeName"]), "n1");
    assert_eq!(bind("a").await.expect_err("bound already").reason, Reason::Conflict);
    assert_eq!(bind("").await.expect_err("no name").message, "Name parameter required.");
    assert!(registry.list(&me(), &bindings, &ListOptions::default()).await.is_err());
}
