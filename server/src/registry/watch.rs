//! Watches of a collection through selectors.

use listwatch_proto::resource::Status;

use super::StoredObject;

/// What happened to an object, as the watcher's selectors see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// It was made, or it now matches.
    Added,
    /// It changed and still matches.
    Modified,
    /// It was removed, or it no longer matches; the object is as it was, at the revision of the change.
    Deleted,
    /// Only a revision: everything at or below it has been delivered.
    Bookmark,
}

/// One event of a watch.
#[derive(Clone, Debug)]
pub struct RegistryEvent {
    /// What happened.
    pub event_type: EventType,
    /// When.
    pub revision: i64,
    /// `None` in a bookmark.
    pub object: Option<StoredObject>,
    /// On a bookmark: the initial state is complete as of its revision.
    pub initial_events_end: bool,
}

/// Events of whole revisions, in order.
#[derive(Clone, Debug)]
pub struct WatchBatch {
    /// Every event of this watch at or below it has been delivered with this batch.
    pub revision: i64,
    /// In order.
    pub events: Vec<RegistryEvent>,
}

/// One watch. Dropping it ends it.
#[derive(Debug)]
pub struct RegistryWatch {}

impl RegistryWatch {
    /// The next events. Safe to cancel. `None` = the stream has come to its end: `until_revision` was sent, or the
    /// server is closing.
    ///
    /// # Errors
    /// `Expired` when history has passed the watcher.
    pub async fn next(&mut self) -> Result<Option<WatchBatch>, Status> {
        unimplemented!()
    }
}
