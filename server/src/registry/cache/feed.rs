//! The caches of all kinds, and the tasks that keep them in step.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use listwatch_proto::resource::Kind;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::super::{RegistryWatcher, Store, StoreError, StoreWatcher};
use super::state::WatchCache;
use crate::storage::KeyRange;

/// How long a cache waits before it is loaded again after the store failed.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The caches, each made when its kind is first listed or watched. Dropping them ends their tasks.
#[derive(Debug, Default)]
pub(in super::super) struct Caches {
    /// Guards the map only.
    kinds: Mutex<HashMap<Name, Fed>>,
}

/// What tells caches apart: where the objects are, and for a custom resource in which form they are served.
type Name = (&'static str, usize);

fn name(kind: &'static Kind) -> Name {
    (kind.key_prefix, kind.extension.map_or(0, |_| std::ptr::from_ref(kind).addr()))
}

#[derive(Debug)]
struct Fed {
    cache: Arc<WatchCache>,
    task: JoinHandle<()>,
}

impl Drop for Fed {
    fn drop(&mut self) {
        self.task.abort();
        self.cache.close();
    }
}

impl Caches {
    /// The cache of a kind. The first call sets it to work; until it is whole the store answers.
    pub(in super::super) fn of(&self, kind: &'static Kind, store: &Arc<dyn Store>) -> Arc<WatchCache> {
        let mut kinds = self.kinds.lock();
        let fed = kinds.entry(name(kind)).or_insert_with(|| {
            let cache = Arc::new(WatchCache::new(kind));
            let task = tokio::spawn(feed(cache.clone(), store.clone()));
            Fed { cache, task }
        });
        fed.cache.clone()
    }

    /// The cache of a kind, if somebody has needed it before.
    pub(in super::super) fn existing(&self, kind: &'static Kind) -> Option<Arc<WatchCache>> {
        self.kinds.lock().get(&name(kind)).map(|fed| fed.cache.clone())
    }

    /// Lets the caches of all other kinds go.
    pub(in super::super) fn keep(&self, is_served: impl Fn(&'static Kind) -> bool) {
        let gone: Vec<Fed> = {
            let mut kinds = self.kinds.lock();
            let names: Vec<Name> =
                kinds.iter().filter(|(_, fed)| !is_served(fed.cache.kind())).map(|(name, _)| *name).collect();
            names.iter().filter_map(|name| kinds.remove(name)).collect()
        };
        // Closed outside of the lock: their watchers are woken.
        drop(gone);
    }

    /// For the operator's list of watches.
    pub(in super::super) fn watchers(&self) -> Vec<RegistryWatcher> {
        let caches: Vec<_> = self.kinds.lock().values().map(|fed| fed.cache.clone()).collect();
        caches.iter().flat_map(|cache| cache.watchers()).collect()
    }
}

/// Loads the cache and follows the store, until the store is closed.
async fn feed(cache: Arc<WatchCache>, store: Arc<dyn Store>) {
    loop {
        match follow(&cache, &*store).await {
            Ok(()) => return,
            // It is loaded anew; what it missed its watchers read from the store.
            Err(StoreError::Compacted { .. }) => debug!(kind = cache.kind().kind, "the cache fell behind history"),
            Err(error) => warn!(kind = cache.kind().kind, %error, "the cache lost the store"),
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

/// `Ok` = the store was closed.
async fn follow(cache: &Arc<WatchCache>, store: &dyn Store) -> Result<(), StoreError> {
    let range = KeyRange::prefix(cache.kind().key_prefix);
    let page = store.range(&range, 0, 0).await?;
    let watcher = StoreWatcher {
        user: "system:registry".to_owned(),
        client: None,
        target: format!("cache of {}", cache.kind().name()),
    };
    let source = store.watch(&range, page.revision + 1, &watcher).await?;
    cache.load(page, source);
    match std::future::poll_fn(|context| cache.poll(context)).await {
        None => Ok(()),
        Some(error) => Err(error),
    }
}
