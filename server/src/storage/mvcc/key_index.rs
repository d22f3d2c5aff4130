//! One key's revisions and where their records lie.
//!
//! Invariants: versions ascend; the newest one is `head`, the others are in `older`; if `head` is a tombstone the key
//! is dead and has no latest state.

use std::sync::Arc;

use crate::storage::KeyValue;
use crate::storage::log::Location;
use crate::storage::revision::Place;

/// The bit of [`Version::sub_and_kind`] that marks a deletion.
const TOMBSTONE: u32 = 1 << 31;

/// [`Version::segment`] of a record that lies in the state as the key's latest.
pub const SEGMENT_CURRENT: u32 = 0;
/// [`Version::segment`] of a record that lies in the state as the key's base at the floor.
pub const SEGMENT_BASE: u32 = u32::MAX;

/// One write of a key. 24 bytes, since there is one for each revision above the floor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The transaction's revision.
    pub main: i64,
    sub_and_kind: u32,
    /// The segment of its record, or [`SEGMENT_CURRENT`] or [`SEGMENT_BASE`].
    pub segment: u32,
    /// Where in the segment.
    pub offset: u32,
    /// The record's length.
    pub len: u32,
}

impl Version {
    /// A version whose record lies in the log.
    pub fn new(place: Place, tombstone: bool, location: Location) -> Self {
        assert!(place.sub < TOMBSTONE, "a transaction has fewer writes than 2^31");
        let kind = if tombstone { TOMBSTONE } else { 0 };
        Self {
            main: place.main,
            sub_and_kind: place.sub | kind,
            segment: location.segment,
            offset: location.offset,
            len: location.len,
        }
    }

    /// Its place in history.
    pub fn place(&self) -> Place {
        Place { main: self.main, sub: self.sub_and_kind & !TOMBSTONE }
    }

    /// Whether it is a deletion.
    pub fn is_tombstone(&self) -> bool {
        self.sub_and_kind & TOMBSTONE != 0
    }

    /// Where in the log its record lies.
    pub fn location(&self) -> Location {
        Location { segment: self.segment, offset: self.offset, len: self.len }
    }

    /// Whether its record lies in the log.
    pub fn is_in_log(&self) -> bool {
        self.segment != SEGMENT_CURRENT && self.segment != SEGMENT_BASE
    }
}

/// A key in the index.
#[derive(Clone, Debug)]
pub struct KeyEntry {
    /// The key.
    pub key: Box<[u8]>,
    /// The newest version.
    pub head: Version,
    /// Of the newest version, if it is no tombstone.
    pub create_revision: i64,
    /// Of the newest version, if it is no tombstone.
    pub version: i64,
    /// Of the newest version, if it is no tombstone.
    pub lease: i64,
    /// The newest state, while the budget allows.
    pub cached: Option<Arc<KeyValue>>,
    /// The versions before, oldest first; boxed twice because most keys have none.
    pub older: Option<Box<Vec<Version>>>,
}

impl KeyEntry {
    /// Whether the key exists now.
    pub fn is_live(&self) -> bool {
        !self.head.is_tombstone()
    }

    /// The version that was the newest at a revision.
    pub fn at(&self, revision: i64) -> Option<&Version> {
        if self.head.main <= revision {
            return Some(&self.head);
        }
        let older = self.older.as_ref()?;
        let after = older.partition_point(|version| version.main <= revision);
        after.checked_sub(1).map(|index| &older[index])
    }

    /// The version written at exactly this place.
    pub fn find(&self, place: Place) -> Option<&Version> {
        if self.head.place() == place {
            return Some(&self.head);
        }
        let older = self.older.as_ref()?;
        older.binary_search_by_key(&place, Version::place).ok().map(|index| &older[index])
    }

    /// All versions, oldest first.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.older.iter().flat_map(|older| older.iter()).chain(std::iter::once(&self.head))
    }

    /// Puts a newer version on top.
    pub fn push(&mut self, version: Version) {
        assert!(version.place() > self.head.place(), "revisions of a key ascend");
        self.older.get_or_insert_default().push(self.head);
        self.head = version;
    }

    /// Takes in a version found at a start, in whatever order; answers whether it is the newest one now. One that is
    /// known already is taken for where it lies: the log, if it is there too.
    pub fn admit(&mut self, version: Version, facts: Option<(i64, i64, i64)>) -> bool {
        let place = version.place();
        if place > self.head.place() {
            self.push(version);
            (self.create_revision, self.version, self.lease) = facts.unwrap_or_default();
            self.cached = None;
            return true;
        }
        if place == self.head.place() {
            if version.is_in_log() {
                self.head = version;
            }
            return true;
        }
        let older = self.older.get_or_insert_default();
        match older.binary_search_by_key(&place, Version::place) {
            Ok(index) if version.is_in_log() => older[index] = version,
            Ok(_) => {}
            Err(index) => older.insert(index, version),
        }
        false
    }

    /// Bytes of the cached state, as the budget counts them.
    pub fn cached_bytes(&self) -> usize {
        self.cached.as_ref().map_or(0, |kv| kv.size() + CACHED_OVERHEAD_BYTES)
    }
}

/// What a cached state costs beside its bytes: the shared structure, the counters of its buffer, the allocator's own.
pub const CACHED_OVERHEAD_BYTES: usize = 176;

#[cfg(test)]
mod tests {
    use super::*;

    fn version(main: i64, sub: u32, tombstone: bool) -> Version {
        Version::new(Place { main, sub }, tombstone, Location { segment: 1, offset: 64, len: 80 })
    }

    #[test]
    fn the_newest_at_or_before_a_revision_is_found() {
        let mut entry = KeyEntry {
            key: b"k"[..].into(),
            head: version(3, 0, false),
            create_revision: 3,
            version: 1,
            lease: 0,
            cached: None,
            older: None,
        };
        entry.push(version(5, 2, true));
        entry.push(version(9, 0, false));
        let at = |revision| entry.at(revision).map(|found| found.main);
        assert_eq!(
            [at(2), at(3), at(4), at(5), at(8), at(9), at(99)],
            [None, Some(3), Some(3), Some(5), Some(5), Some(9), Some(9)]
        );
        assert!(entry.at(6).is_some_and(Version::is_tombstone));
        assert_eq!(entry.find(Place { main: 5, sub: 2 }).map(Version::place), Some(Place { main: 5, sub: 2 }));
        assert_eq!(entry.find(Place { main: 5, sub: 1 }), None);
        assert_eq!(std::mem::size_of::<Version>(), 24);
        assert_eq!(std::mem::size_of::<KeyEntry>(), 80);
    }
}
