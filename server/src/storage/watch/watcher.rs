//! One watch, from the side of its owner.

use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;

use crate::storage::{Event, KeyRange};

/// Which floor bounds how far back a watch may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// What is promised to etcd's clients: the last compaction.
    Compacted,
    /// What is physically there, which is at least five minutes more.
    Retained,
}

/// Who watches; shown by `watchers`, not otherwise looked at.
#[derive(Clone, Debug, Default)]
pub struct WatcherLabel {
    /// Through which door: `etcd`, `registry`, ….
    pub door: &'static str,
    /// The authenticated user.
    pub user: Arc<str>,
    /// The name the client gave itself.
    pub client: Option<Arc<str>>,
    /// What is watched, in the door's words.
    pub target: Option<Arc<str>>,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// The keys.
    pub range: KeyRange,
    /// The first revision wanted; 0 = whatever comes after now. A future one waits in silence.
    pub start: i64,
    /// Fill in the state before each write.
    pub prev_kv: bool,
    /// Leave puts out.
    pub no_put: bool,
    /// Leave deletions out.
    pub no_delete: bool,
    /// How far back `start` may lie.
    pub floor: Floor,
    /// Who asks.
    pub label: WatcherLabel,
}

impl WatchOptions {
    /// All events of a range from a revision on, with the states before.
    pub fn new(range: KeyRange, start: i64) -> Self {
        Self {
            range,
            start,
            prev_kv: true,
            no_put: false,
            no_delete: false,
            floor: Floor::Compacted,
            label: WatcherLabel::default(),
        }
    }
}

/// A watcher as an operator sees it.
#[derive(Clone, Debug)]
pub struct WatcherInfo {
    /// The watcher's number, unique while the engine is open.
    pub id: u64,
    /// Who watches.
    pub label: WatcherLabel,
    /// The keys.
    pub range: KeyRange,
    /// Every matching event at or below this revision has been handed over.
    pub progress: i64,
    /// How many revisions it is behind the store.
    pub lag: i64,
    /// Whether it gets live events.
    pub synced: bool,
    /// Events that wait in its queue.
    pub queued: usize,
    /// Events handed over so far.
    pub delivered: u64,
}

/// What a watcher is given.
#[derive(Clone, Debug)]
pub enum WatchMessage {
    /// Events of whole revisions, in order.
    Events {
        /// The highest revision among the events: a reader may resume after it.
        revision: i64,
        /// The events, by (revision, sub).
        events: Vec<Arc<Event>>,
    },
}

/// Why a watch ended.
#[derive(Clone, Debug, Error)]
pub enum WatchError {
    /// History the watcher had not yet read is gone.
    #[error("the watch fell behind: history before revision {compacted} is gone, the store is at {current}")]
    Compacted {
        /// The oldest revision a new watch may start at.
        compacted: i64,
        /// Where the store stands.
        current: i64,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// History could not be read.
    #[error(transparent)]
    Engine(#[from] crate::storage::Error),
}

/// One watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watcher {}

impl Watcher {
    /// The next events; waits until there are some. Never splits a revision. Safe to cancel: nothing is lost.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] when compaction has passed the watcher, [`WatchError::Closed`] at the end.
    pub async fn next(&mut self) -> Result<WatchMessage, WatchError> {
        unimplemented!()
    }

    /// The same for those who poll many watchers in one task (the etcd door keeps all watches of a stream in one set, and
    /// must be able to ask each for its progress while it waits).
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<WatchMessage, WatchError>> {
        let _ = context;
        unimplemented!()
    }

    /// Every matching event at or below this revision has been returned by [`Watcher::next`].
    pub fn progress(&self) -> i64 {
        unimplemented!()
    }

    /// Whether the watcher has all there is to have: it gets live events and none wait.
    pub fn synced(&self) -> bool {
        unimplemented!()
    }

    /// The watcher's number, as in [`WatcherInfo`].
    pub fn id(&self) -> u64 {
        unimplemented!()
    }
}
