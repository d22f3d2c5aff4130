//! What a start makes of the state and the log: the published store and the leases.
//!
//! Invariant: replaying a record that is already there, or an older one, changes nothing that is newer.

use std::time::Duration;

use crate::storage::lease::{Lessor, Moment};
use crate::storage::log::read::FrameView;
use crate::storage::log::record::{KEY_RECORD_FIXED_BYTES, KeyParts};
use crate::storage::log::recover::Replay;
use crate::storage::log::segment::Footer;
use crate::storage::log::{Location, LogRecord};
use crate::storage::mvcc::key_index::{SEGMENT_BASE, SEGMENT_CURRENT};
use crate::storage::mvcc::write::joined;
use crate::storage::mvcc::{Store, Version};
use crate::storage::revision::{Place, Revision};
use crate::storage::state::{LeaseRecord, RecordKind, RecordRef, StateMeta, StateReader};
use crate::storage::{EngineOptions, Error, EventKind, KeyValue};

/// A store in the making.
#[derive(Debug)]
pub(super) struct Replayed {
    store: Store,
    lessor: Lessor,
    now: Moment,
    applied: u64,
    /// Below this the state alone tells what there was.
    settled: i64,
    unapplied_bytes: u64,
}

impl Replayed {
    pub(super) fn new(options: &EngineOptions, meta: &StateMeta, now: Moment) -> Self {
        let mut store = Store::new(options.value_cache_bytes);
        store.restore_floors(meta.compactions.clone(), meta.floor.retained);
        store.revision = meta.applied.revision.max(Revision::EMPTY.0);
        // The ids of leases must differ from start to start, not be unguessable.
        let seed = now.wall_ms as u64 ^ Duration::as_nanos(&now.monotonic) as u64;
        Self {
            store,
            lessor: Lessor::new(seed, now),
            now,
            applied: meta.applied.seq,
            settled: meta.floor.settled,
            unapplied_bytes: 0,
        }
    }

    /// Takes in what the state holds, checking that it is whole.
    pub(super) fn load(&mut self, state: &StateReader) -> Result<(), Error> {
        let (store, lessor) = (&mut self.store, &mut self.lessor);
        state.scan_current(&mut |record| {
            let facts = (record.create_revision, record.version, record.lease);
            store.admit(record.key, version_of(&record, SEGMENT_CURRENT), Some(facts));
            if record.kind == RecordKind::Live {
                store.warm(|| stored_state(&record), record.key, record.key.len() + record.value.len());
            }
            if record.lease != 0 {
                lessor.attach(&bytes::Bytes::copy_from_slice(record.key), record.lease);
            }
        })?;
        state.scan_base(&mut |record| {
            store.admit(record.key, version_of(&record, SEGMENT_BASE), None);
        })?;
        for lease in state.leases()? {
            lessor.restored(lease, self.now);
        }
        Ok(())
    }

    /// Bytes of log that the state does not have.
    pub(super) fn unapplied_bytes(&self) -> u64 {
        self.unapplied_bytes
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
            if !tombstone {
                self.store.warm(|| logged_state(bytes, parts), key, parts.key.len() + parts.value.len());
            }
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

/// A key's state in a buffer of its own, as the cache keeps it.
fn stored_state(record: &RecordRef<'_>) -> KeyValue {
    let (key, value) = joined(record.key, record.value);
    KeyValue {
        key,
        value,
        create_revision: record.create_revision,
        mod_revision: record.mod_revision,
        version: record.version,
        lease: record.lease,
    }
}

fn logged_state(bytes: &bytes::Bytes, parts: &KeyParts) -> KeyValue {
    let (key, value) = joined(&bytes[parts.key.clone()], &bytes[parts.value.clone()]);
    KeyValue { key, value, ..parts.key_value(bytes) }
}

fn version_of(record: &RecordRef<'_>, segment: u32) -> Version {
    let place = Place { main: record.mod_revision, sub: record.sub as u32 };
    let len = (KEY_RECORD_FIXED_BYTES + record.key.len() + record.value.len()) as u32;
    Version::new(place, record.kind == RecordKind::Tombstone, Location { segment, offset: 0, len })
}

impl Replay for Replayed {
    fn frame(&mut self, frame: &FrameView) -> Result<(), Error> {
        let damaged = |reason: &str| Error::Damaged {
            segment: u64::from(frame.at.segment),
            revision: frame.header.last_revision,
            reason: reason.into(),
        };
        let is_new = frame.header.seq > self.applied;
        if is_new {
            self.unapplied_bytes += frame.header.frame_len() as u64;
        }
        for record in frame.records() {
            let (bytes, location) = record.map_err(damaged)?;
            if crate::storage::log::record::is_key(&bytes) {
                let parts = KeyParts::read(&bytes).map_err(damaged)?;
                if is_new || parts.place.main >= self.settled {
                    self.key(&bytes, &parts, location);
                }
            } else if is_new {
                let (record, _) = LogRecord::decode(&bytes).map_err(damaged)?;
                self.aside(record, frame.header.wall_ms);
            }
        }
        Ok(())
    }

    fn footer(&mut self, footer: &Footer) -> Result<(), Error> {
        footer.visit(&mut |entry| {
            if entry.place.main >= self.settled {
                let version = Version::new(entry.place, entry.kind == EventKind::Delete, entry.location);
                self.store.admit(entry.key, version, None);
            }
        });
        Ok(())
    }
}
