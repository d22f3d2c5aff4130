//! The registry over the engine itself.

use super::*;
use crate::clock::SystemClock;
use crate::registry::EngineStore;
use crate::storage::{Durability, Engine, EngineOptions, Origin, PutOp, RangeOp, Seams, Txn};

fn engine() -> Engine {
    let dir = std::path::Path::new("");
    let options = EngineOptions { durability: Durability::Memory, ..EngineOptions::new(dir) };
    Engine::open(options, Seams::real(dir)).expect("an engine in memory")
}

fn registry(engine: &Engine) -> Registry {
    let options = RegistryOptions { revision_wait: Duration::from_millis(100), ..RegistryOptions::default() };
    Registry::new(Arc::new(EngineStore::new(engine.clone())), SystemClock::shared(), options)
}

async fn make(registry: &Registry, name: &str, labels: Value) -> StoredObject {
    let body = pod_json(name, labels).to_string();
    registry.create(&me(), &pods(), body.as_bytes(), &WriteOptions::default()).await.expect("a pod").object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_from_birth_to_death_is_seen_by_all() {
    let engine = engine();
    let registry = registry(&engine);
    assert_eq!(engine.revision(), 1);
    let options = WatchOptions { send_initial_events: true, ..WatchOptions::default() };
    let mut watch = registry.watch(&me(), &pods(), &options).await.expect("a watch");
    assert!(next(&mut watch).await.expect("a batch").events[0].initial_events_end);
    let made = make(&registry, "a", json!({"x": "1"})).await;
    let patch = Patch { kind: PatchKind::Merge, body: r#"{"metadata":{"labels":{"x":"2"}}}"#.into(), force: false };
    let patched = registry.patch(&me(), &pod("a"), &patch, &WriteOptions::default()).await.expect("patched");
    registry.delete(&me(), &pod("a"), &DeleteOptions::default()).await.expect("deleted");
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.extend(events(&mut watch).await);
    }
    let types: Vec<_> = seen.iter().map(|e| e.0).collect();
    assert_eq!(types, [EventType::Added, EventType::Modified, EventType::Modified, EventType::Deleted]);
    assert_eq!((seen[0].2, seen[1].2, seen[3].2), (made.revision(), patched.object.revision(), engine.revision()));
    let stored = engine.range(&RangeOp::get("/registry/namespaces/default")).expect("readable");
    assert_eq!(stored.kvs.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_program_may_write_beside_the_registry() {
    let engine = engine();
    let registry = registry(&engine);
    make(&registry, "a", json!({})).await;
    let options = WatchOptions { start_revision: engine.revision(), ..WatchOptions::default() };
    let mut watch = registry.watch(&me(), &pods(), &options).await.expect("a watch");
    let foreign = |key: &str, value: &str| {
        let put = crate::storage::Op::Put(PutOp::new(key.to_owned(), value.to_owned()));
        let txn = Txn { success: vec![put], ..Txn::default() };
        engine.commit(txn, &Origin::anonymous()).expect("written").revision
    };
    foreign("/registry/pods/default/bad", "rubbish");
    let written =
        foreign("/registry/pods/default/b", r#"{"kind":"Pod","metadata":{"name":"b","resourceVersion":"3"}}"#);
    let batch = next(&mut watch).await.expect("a batch");
    let object = batch.events[0].object.clone().expect("an object");
    assert_eq!((object.name(), object.object().revision()), ("b", written));
    let page = registry.list(&me(), &pods(), &ListOptions::default()).await.expect("a list");
    assert_eq!(names(&page.items), ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_ends_at_the_floor_with_a_typed_error() {
    let engine = engine();
    let registry = registry(&engine);
    make(&registry, "a", json!({})).await;
    let start = engine.revision();
    for name in ["b", "c", "d"] {
        make(&registry, name, json!({})).await;
    }
    let floor = engine.revision() - 1;
    engine.expire(floor).expect("expired");
    let options = WatchOptions { start_revision: start, ..WatchOptions::default() };
    let error = registry.watch(&me(), &pods(), &options).await.expect_err("history is gone");
    assert_eq!((error.reason, error.current_revision), (Reason::Expired, engine.revision()));
    assert!(error.oldest_revision > start);
    let exact = ListOptions { exact_revision: start, ..ListOptions::default() };
    assert_eq!(registry.list(&me(), &pods(), &exact).await.expect_err("gone").reason, Reason::Expired);
    let resumed = WatchOptions { start_revision: error.oldest_revision, ..WatchOptions::default() };
    assert!(registry.watch(&me(), &pods(), &resumed).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_to_one_object_each_get_their_turn() {
    let engine = engine();
    let registry = registry(&engine);
    make(&registry, "a", json!({})).await;
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let registry = registry.clone();
            tokio::spawn(async move {
                for i in 0..25 {
                    let body = json!({"metadata": {"labels": {format!("w{writer}-{i}"): "x"}}}).to_string();
                    let patch = Patch { kind: PatchKind::Merge, body: body.into(), force: false };
                    registry.patch(&me(), &pod("a"), &patch, &WriteOptions::default()).await.expect("patched");
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("joined");
    }
    let object = registry.get(&me(), &pod("a"), 0).await.expect("there");
    assert_eq!(object.object().labels().count(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_expire_with_their_lease() {
    let engine = engine();
    let registry = registry(&engine);
    let target = Target::collection(kind("event"), "default");
    let body = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}}).to_string();
    registry.create(&me(), &target, body.as_bytes(), &WriteOptions::default()).await.expect("an event");
    let leases = engine.leases();
    assert_eq!(leases.len(), 1);
    engine.lease_revoke(leases[0]).expect("revoked");
    let page = registry.list(&me(), &target, &ListOptions::default()).await.expect("a list");
    assert!(page.items.is_empty());
    registry.create(&me(), &target, body.as_bytes(), &WriteOptions::default()).await.expect("another lease is taken");
}

/// Writers and watchers at once, through the cache and past it: every watcher's fold ends as the list shows it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn watchers_among_concurrent_writers_miss_nothing() {
    let engine = engine();
    let registry = registry(&engine);
    make(&registry, "seed", json!({"color": "red"})).await;
    let start = engine.revision();
    let mut watchers = Vec::new();
    for selector in ["", "color=red", "color!=red", "!color"] {
        for initial in [true, false] {
            // Without the initial state the fold begins from the seed, which each selector sees or not.
            let options = WatchOptions {
                label_selector: selector.into(),
                send_initial_events: initial,
                start_revision: if initial { 0 } else { start },
                allow_bookmarks: true,
                progress_interval: Some(Duration::from_millis(10)),
                ..WatchOptions::default()
            };
            let watch = registry.watch(&me(), &pods(), &options).await.expect("a watch");
            let sees_seed = !initial && matches!(selector, "" | "color=red");
            let fold = std::collections::BTreeMap::from_iter(sees_seed.then(|| ("seed".to_owned(), start)));
            watchers.push((selector, watch, fold));
        }
    }
    let writers: Vec<_> = (0..4).map(|writer| tokio::spawn(write(registry.clone(), writer))).collect();
    for writer in writers {
        writer.await.expect("joined");
    }
    let revision = engine.revision();
    for (selector, mut watch, mut fold) in watchers {
        super::cached::fold_until(&mut watch, &mut fold, revision).await;
        let options = ListOptions { label_selector: selector.into(), ..ListOptions::default() };
        let page = registry.list(&me(), &pods(), &options).await.expect("a list");
        let listed: Vec<_> = page.items.iter().map(|o| (o.name().to_owned(), o.revision())).collect();
        assert_eq!(fold.into_iter().collect::<Vec<_>>(), listed, "selector {selector:?}");
    }
}

async fn write(registry: Registry, writer: usize) {
    for i in 0..100 {
        let name = format!("p{}", (i * 7 + writer * 3) % 6);
        let color = ["red", "blue"][(i + writer) % 2];
        let patch = |labels: Value| Patch {
            kind: PatchKind::Merge,
            body: json!({"metadata": {"labels": labels}}).to_string().into(),
            force: false,
        };
        let options = WriteOptions::default();
        // Any of these may be too late for another writer's; that is the point.
        match (i + writer) % 4 {
            0 => drop(registry.delete(&me(), &pod(&name), &DeleteOptions::default()).await),
            1 => drop(registry.patch(&me(), &pod(&name), &patch(json!({"color": null})), &options).await),
            2 => drop(registry.patch(&me(), &pod(&name), &patch(json!({"color": color})), &options).await),
            _ => {
                let body = pod_json(&name, json!({"color": color})).to_string();
                drop(registry.create(&me(), &pods(), body.as_bytes(), &options).await);
            }
        }
    }
}
