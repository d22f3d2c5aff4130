//! What a rising floor and the end of a segment mean for the index.
//!
//! Invariants: of each key the newest version at or before the floor stays (unless it is a tombstone below it), and all
//! after it; a version is moved from the log to the state before its segment is forgotten, so a reader finds it in one
//! or the other. All work is done key by key in short holds of the lock.

use super::key_index::{KeyEntry, SEGMENT_BASE, SEGMENT_CURRENT, Version};
use super::store::Store;
use crate::storage::revision::Place;

/// What the state must hold of a key once the floor has risen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtFloor {
    /// Its state at the floor, beside a newer one: this version.
    Base(Version),
    /// Nothing but its newest.
    Newest,
}

impl Store {
    /// What the state must hold of a key at the floor.
    pub fn at_floor(&self, key: &[u8], floor: i64) -> AtFloor {
        let Some(entry) = self.index.get(key) else { return AtFloor::Newest };
        match entry.at(floor) {
            Some(version) if entry.head.main > floor && !version.is_tombstone() => AtFloor::Base(*version),
            _ => AtFloor::Newest,
        }
    }

    /// Forgets the versions of a key that nobody can ask for any more.
    pub fn prune(&mut self, key: &[u8], floor: i64) {
        let gone = self.index.update(key, |entry| {
            prune_older(entry, floor);
            entry.older.is_none() && entry.head.is_tombstone() && entry.head.main < floor
        });
        if gone == Some(true)
            && let Some(entry) = self.index.remove(key)
        {
            self.note_removed(&entry);
        }
    }

    /// Points the index to the state for a version whose segment is about to go.
    pub fn move_to_state(&mut self, key: &[u8], place: Place, segment: u32) {
        self.index.update(key, |entry| {
            if entry.head.place() == place {
                if entry.head.segment == segment {
                    entry.head.segment = SEGMENT_CURRENT;
                }
                return;
            }
            let Some(older) = entry.older.as_mut() else { return };
            if let Ok(index) = older.binary_search_by_key(&place, Version::place)
                && older[index].segment == segment
            {
                older[index].segment = SEGMENT_BASE;
            }
        });
    }
}

/// Keeps of the older versions the newest at or before the floor, unless it is a tombstone below it, and all after.
fn prune_older(entry: &mut KeyEntry, floor: i64) {
    let head_covers = entry.head.main <= floor;
    let Some(older) = entry.older.as_mut() else { return };
    if head_covers {
        entry.older = None;
        return;
    }
    let mut first = older.partition_point(|version| version.main <= floor);
    if let Some(at_floor) = first.checked_sub(1) {
        let useless = older[at_floor].is_tombstone() && older[at_floor].main < floor;
        first = if useless { first } else { at_floor };
    }
    older.drain(..first);
    older.shrink_to_fit();
    if older.is_empty() {
        entry.older = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::Published;
    use super::*;
    use crate::storage::log::Location;

    /// A key written at the revisions; a negative one is a deletion.
    fn store(revisions: &[i64]) -> Store {
        let mut store = Store::new(1 << 20);
        for &revision in revisions {
            let place = Place { main: revision.abs(), sub: 0 };
            let version = Version::new(place, revision < 0, Location { segment: 7, offset: 64, len: 80 });
            store.publish(b"k", Published { version, kv: None });
            store.revision = revision.abs();
        }
        store
    }

    fn kept(store: &Store) -> Vec<i64> {
        let sign = |version: &Version| if version.is_tombstone() { -version.main } else { version.main };
        store.index.get(b"k").map_or(Vec::new(), |entry| entry.versions().map(sign).collect())
    }

    fn check(revisions: &[i64], floor: i64, expected: &[i64], base: Option<i64>) {
        let mut store = store(revisions);
        let at_floor = match store.at_floor(b"k", floor) {
            AtFloor::Base(version) => Some(version.main),
            AtFloor::Newest => None,
        };
        assert_eq!(at_floor, base, "base of {revisions:?} at {floor}");
        store.prune(b"k", floor);
        assert_eq!(kept(&store), expected, "{revisions:?} at {floor}");
    }

    #[test]
    fn a_rising_floor_keeps_what_can_still_be_asked_for() {
        check(&[3, 5, 9], 2, &[3, 5, 9], None);
        check(&[3, 5, 9], 4, &[3, 5, 9], Some(3));
        check(&[3, 5, 9], 5, &[5, 9], Some(5));
        check(&[3, 5, 9], 8, &[5, 9], Some(5));
        check(&[3, 5, 9], 9, &[9], None);
        check(&[3, 5, 9], 20, &[9], None);
        check(&[3, -5, 9], 5, &[-5, 9], None);
        check(&[3, -5, 9], 6, &[9], None);
        check(&[3, -5], 5, &[-5], None);
        check(&[3, -5], 6, &[], None);
        check(&[3, -5], 4, &[3, -5], Some(3));
    }

    #[test]
    fn a_version_is_found_in_the_state_after_its_segment() {
        let mut store = store(&[3, 5]);
        store.move_to_state(b"k", Place { main: 3, sub: 0 }, 7);
        store.move_to_state(b"k", Place { main: 5, sub: 0 }, 8);
        let entry = store.index.get(b"k").unwrap();
        assert_eq!(entry.versions().map(|version| version.segment).collect::<Vec<_>>(), [SEGMENT_BASE, 7]);
        store.move_to_state(b"k", Place { main: 5, sub: 0 }, 7);
        assert_eq!(store.index.get(b"k").unwrap().head.segment, SEGMENT_CURRENT);
        store.move_to_state(b"other", Place { main: 5, sub: 0 }, 7);
    }
}
