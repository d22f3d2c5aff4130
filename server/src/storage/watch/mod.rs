//! Watches: cursors into the history of a range of keys.
//!
//! A watcher in step gets its events from the hub, through a bounded queue. One that falls behind loses its queue and
//! reads history instead, from memory or from the log, until it is in step again; nobody else pays for it.

pub mod watcher;

pub mod hub;

pub mod group;

mod stream;

pub use hub::Hub;
pub use watcher::{Floor, WatchError, WatchMessage, WatchOptions, Watcher, WatcherInfo, WatcherLabel};
