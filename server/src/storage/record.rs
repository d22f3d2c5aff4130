//! What the store holds of a key, and what it tells watchers.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

/// A key's state after some write; the fields and their meaning are etcd's `mvccpb.KeyValue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue {
    /// Any non-empty bytes.
    pub key: Bytes,
    /// May be empty.
    pub value: Bytes,
    /// The revision at which the key came to life (again).
    pub create_revision: i64,
    /// The revision of the last write.
    pub mod_revision: i64,
    /// Writes since the key came to life, from one.
    pub version: i64,
    /// The lease the key hangs on, or 0.
    pub lease: i64,
}

impl KeyValue {
    /// Bytes of key and value: what limits and budgets count.
    pub fn size(&self) -> usize {
        self.key.len() + self.value.len()
    }
}

/// What happened to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The key was created or changed.
    Put,
    /// The key was deleted, by request or because its lease ended.
    Delete,
}

/// One write as a watcher sees it. Made once, shared by all who receive it.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The key after the write; of a [`EventKind::Delete`] only `key` and `mod_revision` are set.
    pub kv: KeyValue,
    /// The key before the write; absent when it did not exist, or when compaction took it before the watcher came.
    pub prev: Option<Arc<KeyValue>>,
    /// The write's number within its revision, from zero.
    pub sub: i64,
    encoded: [OnceLock<Bytes>; 2],
}

/// Which of an event's shared encodings is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Without the previous state.
    Plain,
    /// With the previous state.
    WithPrev,
}

impl Event {
    /// An event that nobody has encoded yet.
    pub fn new(kind: EventKind, kv: KeyValue, prev: Option<Arc<KeyValue>>, sub: i64) -> Self {
        Self { kind, kv, prev, sub, encoded: [OnceLock::new(), OnceLock::new()] }
    }

    /// Whether this write brought the key to life.
    pub fn is_create(&self) -> bool {
        self.kind == EventKind::Put && self.kv.create_revision == self.kv.mod_revision
    }

    /// The revision of the write.
    pub fn revision(&self) -> i64 {
        self.kv.mod_revision
    }

    /// Bytes of keys and values that an answer with this event would carry.
    pub fn size(&self) -> usize {
        self.kv.size() + self.prev.as_ref().map_or(0, |prev| prev.size())
    }

    /// The event on the wire, encoded by whoever asks first and shared by all who follow. All callers of one process
    /// must pass the same encoder; the store itself knows no wire.
    pub fn encoded(&self, which: Encoding, encode: impl FnOnce(&Event) -> Bytes) -> &Bytes {
        self.encoded[which as usize].get_or_init(|| encode(self))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.kv == other.kv && self.prev == other.prev && self.sub == other.sub
    }
}
