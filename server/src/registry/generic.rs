//! The registry itself: what all verbs share, and the verbs by name.

use std::sync::Arc;
use std::time::Duration;

use listwatch_proto::resource::{Kind, Status};

use super::{
    Cell, Column, DeleteOptions, ListOptions, Patch, RegistryWatch, RequestContext, Store, StoredObject, Target,
    WatchOptions, WriteOptions,
};
use crate::clock::Clock;

/// What can be set about a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryOptions {
    /// How long an Event is kept; zero = for ever.
    pub event_ttl: Duration,
    /// The longest silence of a watch that asked for bookmarks.
    pub progress_interval: Duration,
    /// How long a read waits for a revision that the store has not reached (Kubernetes: 3 s).
    pub revision_wait: Duration,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            event_ttl: Duration::from_secs(3600),
            progress_interval: Duration::from_secs(5),
            revision_wait: Duration::from_secs(3),
        }
    }
}

/// All verbs for all kinds. Cheap to clone; all clones are the same registry. Verbs are cancel-safe: a write that was
/// begun is done or not, never half. They must be called within tokio's multi-thread runtime, since the engine may
/// commit on the calling thread.
#[derive(Clone, Debug)]
pub struct Registry {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: RegistryOptions,
}

/// The answer to a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object (or Scale, or Status) after the write.
    pub object: StoredObject,
    /// The store's revision, at or above the write's.
    pub revision: i64,
    /// Whether an object was made.
    pub created: bool,
    /// What a client should be told.
    pub warnings: Vec<String>,
}

/// The answer to a delete.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The object as it was last stored; marked, if it was not removed.
    pub object: StoredObject,
    /// The store's revision, at or above the write's.
    pub revision: i64,
    /// False: it carries a deletionTimestamp and goes later.
    pub removed: bool,
}

/// The answer to a list.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// By namespace and name.
    pub items: Vec<StoredObject>,
    /// The snapshot all pages of this list are cut from; a watch from here misses nothing.
    pub revision: i64,
    /// Empty at the end.
    pub continue_token: String,
    /// What is left behind this page; `None` at the end, and with a selector.
    pub remaining: Option<i64>,
}

#[expect(unused_variables, reason = "the bodies follow")]
impl Registry {
    /// A registry over a store.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: RegistryOptions) -> Self {
        Self { shared: Arc::new(Shared { store, clock, options }) }
    }

    /// Where the store stands.
    pub fn revision(&self) -> i64 {
        self.shared.store.revision()
    }

    /// The id of the history.
    pub fn incarnation(&self) -> &str {
        self.shared.store.incarnation()
    }

    /// Makes an object; with the subresource `binding` binds a pod and answers a Status.
    pub async fn create(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        unimplemented!()
    }

    /// Reads an object (or its `scale`), not older than `min_revision` (0 = the latest).
    pub async fn get(
        &self,
        context: &RequestContext,
        target: &Target,
        min_revision: i64,
    ) -> Result<StoredObject, Status> {
        unimplemented!()
    }

    /// Reads a collection or a page of it.
    pub async fn list(
        &self,
        context: &RequestContext,
        target: &Target,
        options: &ListOptions,
    ) -> Result<ListPage, Status> {
        unimplemented!()
    }

    /// Replaces an object, or the part of it that the subresource owns.
    pub async fn update(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        unimplemented!()
    }

    /// Changes an object, or the part of it that the subresource owns.
    pub async fn patch(
        &self,
        context: &RequestContext,
        target: &Target,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        unimplemented!()
    }

    /// Deletes an object, or marks it to go.
    pub async fn delete(
        &self,
        context: &RequestContext,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        unimplemented!()
    }

    /// Watches a collection, or one object of it.
    pub async fn watch(
        &self,
        context: &RequestContext,
        target: &Target,
        options: &WatchOptions,
    ) -> Result<RegistryWatch, Status> {
        unimplemented!()
    }

    /// The columns of a kind's table.
    pub fn columns(&self, kind: &'static Kind) -> &'static [Column] {
        unimplemented!()
    }

    /// The cells of an object's row, one for each column; ages are as of now.
    pub fn row(&self, object: &StoredObject) -> Vec<Cell> {
        unimplemented!()
    }
}
