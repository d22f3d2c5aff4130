//! What the registry stands on: keys, values and revisions, one to one an etcd store.
//!
//! Invariant: nothing here is interactive. A write is a list of guards and a list of writes, judged and done at one
//! revision, so that any etcd can take the engine's place.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use bytes::Bytes;
use listwatch_proto::resource::{Reason, Status};
use thiserror::Error;

use crate::storage::{Event, KeyRange, KeyValue, Origin};

/// What must hold of a key for a commit to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The key.
    pub key: Bytes,
    /// Its mod revision; 0 = it must not exist.
    pub mod_revision: i64,
}

/// One write of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets a key.
    Put {
        /// The key.
        key: Bytes,
        /// The new value.
        value: Bytes,
        /// The lease it hangs on; 0 = none.
        lease: i64,
    },
    /// Deletes a key.
    Delete {
        /// The key.
        key: Bytes,
    },
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// All guards held; the writes happened at this revision.
    Done(i64),
    /// A guard did not hold; nothing happened.
    Refused,
}

/// What a read found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In key order.
    pub kvs: Vec<KeyValue>,
    /// Whether there are more beyond the limit.
    pub more: bool,
    /// How many keys the whole range has.
    pub count: i64,
    /// The snapshot that was read.
    pub revision: i64,
}

/// What a watch delivers: events of whole revisions, in order.
#[derive(Clone, Debug)]
pub struct StoreEvents {
    /// The highest revision among them.
    pub revision: i64,
    /// By revision, then by place in it.
    pub events: Vec<Arc<Event>>,
}

/// Why the store did not answer.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// The revision is below what history holds.
    #[error("revision {requested} is gone; the oldest is {oldest}")]
    Compacted {
        /// What was asked for; 0 when a watch fell behind.
        requested: i64,
        /// The oldest revision that can be read.
        oldest: i64,
        /// Where the store stands.
        current: i64,
    },
    /// The revision has not happened yet.
    #[error("revision {requested} is in the future; the store is at {current}")]
    Future {
        /// What was asked for.
        requested: i64,
        /// Where the store stands.
        current: i64,
    },
    /// The object does not fit.
    #[error("the object of {size} bytes is above the limit of {limit}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The lease a write hangs on has ended.
    #[error("the lease has ended")]
    LeaseEnded,
    /// Try again later.
    #[error("{0}")]
    Unavailable(String),
    /// A fault that a retry does not cure.
    #[error("{0}")]
    Failed(String),
}

/// One watch of a [`Store`].
pub trait StoreWatch: Send + fmt::Debug {
    /// The next events, if there are some; else the waker is called when there are. `None` = the store was closed.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<StoreEvents>, StoreError>>;
    /// Every event of the range at or below this revision has been returned by [`StoreWatch::poll_next`].
    fn progress(&self) -> i64;
}

impl dyn StoreWatch {
    /// Waits for the next events. Safe to cancel. `None` = the store was closed.
    pub async fn next(&mut self) -> Result<Option<StoreEvents>, StoreError> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }
}

/// Who watches, for the operator's list of watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreWatcher {
    /// The authenticated user.
    pub user: String,
    /// The name the client gave itself.
    pub client: Option<String>,
    /// What is watched, in words.
    pub target: String,
}

/// A store of keys with revisions.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Does all writes at one revision if all guards hold. Durable when it answers. Dropping the future does not undo
    /// the write.
    async fn commit(&self, guards: Vec<Guard>, writes: Vec<Write>, origin: &Origin) -> Result<Commit, StoreError>;
    /// Reads a key at the latest revision, with that revision.
    async fn get(&self, key: &[u8]) -> Result<(Option<KeyValue>, i64), StoreError>;

    /// The revision of a key's last write, where what it holds is known already; `None` = there is no such key.
    async fn mod_revision(&self, key: &[u8]) -> Result<Option<i64>, StoreError> {
        Ok(self.get(key).await?.0.map(|kv| kv.mod_revision))
    }

    /// Reads a range at a revision (0 = the latest), `limit` keys at most (0 = all), down to what is physically kept.
    async fn range(&self, range: &KeyRange, revision: i64, limit: usize) -> Result<Page, StoreError>;
    /// Watches a range from a revision on (0 = what comes after now), with the state before each event.
    async fn watch(
        &self,
        range: &KeyRange,
        start: i64,
        watcher: &StoreWatcher,
    ) -> Result<Box<dyn StoreWatch>, StoreError>;
    /// A lease that ends after `ttl` seconds, taking its keys with it.
    async fn lease(&self, ttl_secs: i64) -> Result<i64, StoreError>;
    /// Where the store stands.
    fn revision(&self) -> i64;
    /// The oldest revision that can be read.
    fn oldest(&self) -> i64;
    /// The id of the history.
    fn incarnation(&self) -> &str;
}

impl From<StoreError> for Status {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Compacted { requested, oldest, current } => Status::expired(requested, oldest, current),
            StoreError::Future { requested, current } => crate::registry::error::too_large_revision(requested, current),
            StoreError::TooLarge { size, limit } => Status::new(
                Reason::RequestEntityTooLarge,
                format!("Request entity too large: the object has {size} bytes, the limit is {limit}"),
            ),
            StoreError::LeaseEnded => Status::internal("the lease of the object has ended"),
            StoreError::Unavailable(why) => {
                let mut status = Status::new(Reason::ServiceUnavailable, why);
                status.retry_after_seconds = 1;
                status
            }
            StoreError::Failed(why) => Status::internal(why),
        }
    }
}
