//! A deletion that somebody else runs into: what it deletes goes, is made anew under the same name, or changes meanwhile.

use std::sync::Mutex;

use async_trait::async_trait;

use super::*;
use crate::clock::SystemClock;
use crate::registry::EngineStore;
use crate::registry::store::{Commit, Guard, Page, Store, StoreError, StoreWatch, StoreWatcher, Write};
use crate::storage::{Durability, Engine, EngineOptions, KeyRange, KeyValue, Origin, Seams};

/// What somebody else does between a look at the object and the write that follows from it.
#[derive(Clone, Copy, Debug)]
enum Meddling {
    Deletes,
    MakesAnew,
    Relabels,
}

/// A store of a server, beside which another one meddles right before one commit: after `left` others.
#[derive(Debug)]
struct Meddled {
    store: EngineStore,
    other: Registry,
    plan: Arc<Mutex<Option<(usize, Meddling)>>>,
}

impl Meddled {
    fn due(&self) -> Option<Meddling> {
        let mut plan = self.plan.lock().expect("no panic under the lock");
        match plan.take()? {
            (0, meddling) => Some(meddling),
            (left, meddling) => {
                *plan = Some((left - 1, meddling));
                None
            }
        }
    }
}

async fn meddle(other: &Registry, meddling: Meddling) {
    match meddling {
        Meddling::Deletes => drop(other.delete(&me(), &pod("a"), &at_once()).await.expect("deleted")),
        Meddling::MakesAnew => {
            other.delete(&me(), &pod("a"), &at_once()).await.expect("deleted");
            make(other).await;
        }
        Meddling::Relabels => {
            let body = json!({"metadata": {"labels": {"by": "other"}}}).to_string().into();
            let patch = Patch { kind: PatchKind::Merge, body, force: false };
            other.patch(&me(), &pod("a"), &patch, &WriteOptions::default()).await.expect("patched");
        }
    }
}

#[async_trait]
impl Store for Meddled {
    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>, origin: &Origin) -> Result<Commit, StoreError> {
        if let Some(meddling) = self.due() {
            meddle(&self.other, meddling).await;
        }
        self.store.commit(guards, writes, origin).await
    }

    async fn get(&self, key: &[u8]) -> Result<(Option<KeyValue>, i64), StoreError> {
        self.store.get(key).await
    }

    async fn range(&self, range: &KeyRange, revision: i64, limit: usize) -> Result<Page, StoreError> {
        self.store.range(range, revision, limit).await
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

/// Two servers over one store, the second of which can be told to meddle.
struct Pair {
    registry: Registry,
    other: Registry,
    plan: Arc<Mutex<Option<(usize, Meddling)>>>,
}

async fn pair() -> Pair {
    let dir = std::path::Path::new("");
    let options = EngineOptions { durability: Durability::Memory, ..EngineOptions::new(dir) };
    let engine = Engine::open(options, Seams::real(dir)).expect("an engine in memory");
    let server = |store: Arc<dyn Store>| Registry::new(store, SystemClock::shared(), RegistryOptions::default());
    let other = server(Arc::new(EngineStore::new(engine.clone())));
    let plan = Arc::new(Mutex::new(None));
    let meddled = Meddled { store: EngineStore::new(engine), other: other.clone(), plan: plan.clone() };
    let registry = server(Arc::new(meddled));
    registry.list(&me(), &pods(), &ListOptions::default()).await.expect("ready");
    Pair { registry, other, plan }
}

impl Pair {
    /// Meddles after so many commits from now on.
    fn then(&self, commits: usize, meddling: Meddling) {
        *self.plan.lock().expect("no panic under the lock") = Some((commits, meddling));
    }

    fn has_meddled(&self) -> bool {
        self.plan.lock().expect("no panic under the lock").is_none()
    }

    async fn uid(&self) -> Option<String> {
        let found = self.other.get(&me(), &pod("a"), 0).await;
        found.ok().map(|pod| pod.object().uid().to_owned())
    }
}

async fn make(registry: &Registry) -> String {
    let body = pod_json("a", json!({})).to_string();
    let made = registry.create(&me(), &pods(), body.as_bytes(), &WriteOptions::default()).await.expect("made");
    made.object.object().uid().to_owned()
}

fn at_once() -> DeleteOptions {
    DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() }
}

/// A deletion writes twice: the mark, then the removal.
const COMMITS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_deletes_meanwhile_has_been_deleted() {
    for commits in 0..COMMITS {
        let pair = pair().await;
        let uid = make(&pair.registry).await;
        pair.then(commits, Meddling::Deletes);
        let told = pair.registry.delete(&me(), &pod("a"), &at_once()).await.expect("it is gone");
        assert!(pair.has_meddled());
        assert!(told.removed);
        assert_eq!(told.object.object().uid(), uid);
        assert_eq!(pair.uid().await, None);
        let again = pair.registry.delete(&me(), &pod("a"), &at_once()).await.expect_err("there is none");
        assert_eq!(again.reason, Reason::NotFound);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_made_anew_meanwhile_under_the_name_stays() {
    for commits in 0..COMMITS {
        for by_uid in [false, true] {
            let pair = pair().await;
            let uid = make(&pair.registry).await;
            pair.then(commits, Meddling::MakesAnew);
            let options = DeleteOptions { uid: by_uid.then(|| uid.clone()), ..at_once() };
            let told = pair.registry.delete(&me(), &pod("a"), &options).await.expect("the one that was meant is gone");
            assert!(pair.has_meddled());
            assert!(told.removed);
            assert_eq!(told.object.object().uid(), uid, "told of the one that was meant");
            let now = pair.uid().await.expect("the new one is there");
            assert_ne!(now, uid);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_meanwhile_goes_as_it_has_become_unless_it_was_to_be_as_it_was() {
    for commits in 0..COMMITS {
        let pair = pair().await;
        let uid = make(&pair.registry).await;
        pair.then(commits, Meddling::Relabels);
        let told = pair.registry.delete(&me(), &pod("a"), &at_once()).await.expect("deleted");
        assert!(pair.has_meddled());
        assert!(told.removed);
        assert_eq!(told.object.object().uid(), uid);
        // What is marked and waits for nothing goes with whatever write comes first, so the second is not told of.
        let by = told.object.object().text(&["metadata", "labels", "by"]);
        assert_eq!(by, if commits == 0 { "other" } else { "" });
        assert_eq!(pair.uid().await, None);
    }
    let pair = pair().await;
    make(&pair.registry).await;
    let seen = pair.registry.get(&me(), &pod("a"), 0).await.expect("there").revision();
    pair.then(0, Meddling::Relabels);
    let options = DeleteOptions { resource_version: Some(seen.to_string()), ..at_once() };
    let refused = pair.registry.delete(&me(), &pod("a"), &options).await.expect_err("it is not what was seen");
    assert_eq!(refused.reason, Reason::Conflict);
    assert!(pair.uid().await.is_some());
}
