//! The engine as a [`Store`].
//!
//! Reads and watches reach down to the physical floor, not only to what is promised to etcd's clients.

use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;

use crate::registry::store::{Commit, Guard, Page, Store, StoreError, StoreEvents, StoreWatch, StoreWatcher, Write};
use crate::storage::{
    Compare, CompareResult, CompareTarget, DeleteOp, Engine, Error, Floor, KeyRange, KeyValue, Op, Origin, PutOp,
    RangeOp, Txn, WatchError, WatchMessage, WatchOptions, Watcher, WatcherLabel,
};

/// The store of this process.
#[derive(Clone, Debug)]
pub struct EngineStore {
    engine: Engine,
}

impl EngineStore {
    /// Over an engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine }
    }

    fn error(&self, error: Error) -> StoreError {
        match error {
            Error::Compacted { requested, compacted } => {
                StoreError::Compacted { requested, oldest: compacted, current: self.engine.revision() }
            }
            Error::FutureRevision { requested, current } => StoreError::Future { requested, current },
            Error::TooLarge { size, limit } => StoreError::TooLarge { size, limit },
            Error::LeaseNotFound(_) => StoreError::LeaseEnded,
            Error::Busy | Error::Poisoned { .. } | Error::Closed | Error::NoSpace { .. } => {
                StoreError::Unavailable(error.told())
            }
            other => {
                tracing::error!(error = other.detail(), "a request failed in the store");
                StoreError::Failed(other.told())
            }
        }
    }
}

#[async_trait]
impl Store for EngineStore {
    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>, origin: &Origin) -> Result<Commit, StoreError> {
        let compare = |guard: Guard| Compare {
            range: KeyRange::single(guard.key),
            target: CompareTarget::Mod(guard.mod_revision),
            result: CompareResult::Equal,
        };
        let op = |write: Write| match write {
            Write::Put { key, value, lease } => Op::Put(PutOp { lease, ..PutOp::new(key, value) }),
            Write::Delete { key } => Op::Delete(DeleteOp { range: KeyRange::single(key), prev_kv: false }),
        };
        let txn = Txn {
            compares: guards.into_iter().map(compare).collect(),
            success: writes.into_iter().map(op).collect(),
            failure: Vec::new(),
        };
        let result = self.engine.submit(txn, origin).await.map_err(|e| self.error(e))?;
        Ok(if result.succeeded { Commit::Done(result.revision) } else { Commit::Refused })
    }

    async fn get(&self, key: &[u8]) -> Result<(Option<KeyValue>, i64), StoreError> {
        let op = RangeOp::get(bytes::Bytes::copy_from_slice(key));
        let mut result = self.engine.range(&op).map_err(|e| self.error(e))?;
        Ok((result.kvs.pop(), result.revision))
    }

    async fn mod_revision(&self, key: &[u8]) -> Result<Option<i64>, StoreError> {
        Ok(self.engine.mod_revision(key))
    }

    async fn range(&self, range: &KeyRange, revision: i64, limit: usize) -> Result<Page, StoreError> {
        // The snapshot is named before it is read, so that all of it is of one revision.
        let revision = if revision <= 0 { self.engine.revision() } else { revision };
        let op = RangeOp { revision, limit, ..RangeOp::new(range.clone()) };
        let result = self.engine.range_retained(&op).map_err(|e| self.error(e))?;
        Ok(Page { kvs: result.kvs, more: result.more, count: result.count, revision })
    }

    async fn watch(
        &self,
        range: &KeyRange,
        start: i64,
        watcher: &StoreWatcher,
    ) -> Result<Box<dyn StoreWatch>, StoreError> {
        let label = WatcherLabel {
            door: "resources",
            user: Arc::from(watcher.user.as_str()),
            client: watcher.client.as_deref().map(Arc::from),
            target: Some(Arc::from(watcher.target.as_str())),
        };
        let options = WatchOptions { floor: Floor::Retained, label, ..WatchOptions::new(range.clone(), start) };
        let watcher = self.engine.watch(options).map_err(|e| self.error(e))?;
        Ok(Box::new(EngineWatch { store: self.clone(), watcher }))
    }

    async fn lease(&self, ttl_secs: i64) -> Result<i64, StoreError> {
        let engine = self.engine.clone();
        let granted = tokio::task::spawn_blocking(move || engine.lease_grant(0, ttl_secs)).await;
        match granted {
            Ok(granted) => granted.map(|(id, _)| id).map_err(|e| self.error(e)),
            Err(error) => Err(StoreError::Failed(error.to_string())),
        }
    }

    fn revision(&self) -> i64 {
        self.engine.revision()
    }

    fn oldest(&self) -> i64 {
        self.engine.retained()
    }

    fn incarnation(&self) -> &str {
        self.engine.incarnation()
    }
}

#[derive(Debug)]
struct EngineWatch {
    store: EngineStore,
    watcher: Watcher,
}

impl StoreWatch for EngineWatch {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<StoreEvents>, StoreError>> {
        self.watcher.poll_next(context).map(|next| match next {
            Ok(WatchMessage::Events { revision, events }) => Ok(Some(StoreEvents { revision, events })),
            Err(WatchError::Closed) => Ok(None),
            Err(WatchError::Compacted { compacted, current }) => {
                Err(StoreError::Compacted { requested: 0, oldest: compacted, current })
            }
            Err(WatchError::Engine(error)) => Err(self.store.error(error)),
        })
    }

    fn progress(&self) -> i64 {
        self.watcher.progress()
    }
}
