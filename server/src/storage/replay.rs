//! What a start makes of the state and the log: the published store and the leases.
//!
//! Invariant: replaying a record that is already there, or an older one, changes nothing that is newer.

use std::time::Duration;

use crate::storage::lease::{Lessor, Moment};
use crate::storage::log::read::FrameView;
use crate::storage::log::record::KeyParts;
use crate::storage::log::recover::Replay;
use crate::storage::log::segment::FooterEntry;
use crate::storage::log::{Location, LogRecord};
use crate::storage::mvcc::{Store, Version};
use crate::storage::revision::Revision;
use crate::storage::state::{LeaseRecord, StateMeta};
use crate::storage::{EngineOptions, Error, EventKind};

/// A store in the making.
#[derive(Debug)]
pub(super) struct Replayed {
    store: Store,
    lessor: Lessor,
    now: Moment,
    applied: u64,
}

impl Replayed {
    pub(super) fn new(options: &EngineOptions, meta: &StateMeta, now: Moment) -> Self {
        let mut store = Store::new(options.value_cache_bytes);
        store.restore_floors(meta.compactions.clone(), meta.floor.retained);
        store.revision = meta.applied.revision.max(Revision::EMPTY.0);
        // The ids of leases must differ from start to start, not be unguessable.
        let seed = now.wall_ms as u64 ^ Duration::as_nanos(&now.monotonic) as u64;
        Self { store, lessor: Lessor::new(seed, now), now, applied: meta.applied.seq }
    }

    /// The store as it stands after the log's last frame.
    pub(super) fn finish(mut self, last_revision: i64) -> (Store, Lessor) {
        self.store.revision = self.store.revision.max(last_revision);
        self.store.settle();
        (self.store, self.lessor)
    }

    fn key(&mut self, bytes: &bytes::Bytes, parts: &KeyParts, location: Location) {
        let tombstone = parts.kind == EventKind::Delete;
        let key = &bytes[parts.key.clone()];
        let facts = (parts.create_revision, parts.version, parts.lease);
        if self.store.admit(key, Version::new(parts.place, tombstone, location), Some(facts)) {
            let key = bytes::Bytes::copy_from_slice(key);
            match tombstone {
                true => self.lessor.detach(&key),
                false => self.lessor.attach(&key, parts.lease),
            }
        }
    }

    fn aside(&mut self, record: LogRecord, wall_ms: i64) {
        match record {
            LogRecord::LeaseGrant { id, ttl_secs, deadline_wall_ms } => {
                self.lessor.replayed(LeaseRecord { id, ttl_secs, deadline_wall_ms }, self.now);
            }
            LogRecord::LeaseRenew { id, deadline_wall_ms } => {
                self.lessor.replayed_renewal(id, deadline_wall_ms, self.now);
            }
            LogRecord::LeaseRevoke { id } => self.lessor.revoked(id),
            LogRecord::Compact { revision, expire } => self.store.note_compaction(revision, expire, wall_ms),
            LogRecord::Key(_) | LogRecord::Alarm(_) | LogRecord::Auth(_) | LogRecord::Meta { .. } => {}
        }
    }
}

impl Replay for Replayed {
    fn frame(&mut self, frame: &FrameView) -> Result<(), Error> {
        let damaged = |reason: &str| Error::Damaged {
            segment: u64::from(frame.at.segment),
            revision: frame.header.last_revision,
            reason: reason.into(),
        };
        for record in frame.records() {
            let (bytes, location) = record.map_err(damaged)?;
            if crate::storage::log::record::is_key(&bytes) {
                let parts = KeyParts::read(&bytes).map_err(damaged)?;
                self.key(&bytes, &parts, location);
            } else if frame.header.seq > self.applied {
                let (record, _) = LogRecord::decode(&bytes).map_err(damaged)?;
                self.aside(record, frame.header.wall_ms);
            }
        }
        Ok(())
    }

    fn footer(&mut self, entries: Vec<FooterEntry>) -> Result<(), Error> {
        for entry in entries {
            let version = Version::new(entry.place, entry.kind == EventKind::Delete, entry.location);
            self.store.admit(&entry.key, version, None);
        }
        Ok(())
    }
}
