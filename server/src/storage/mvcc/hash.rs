//! A hash over history: equal histories and floors give equal hashes, wherever the records lie.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;

use super::key_index::{KeyEntry, Version};
use super::read::Reader;
use super::store::Store;
use crate::storage::{Error, HashKv, KeyRange, KeyValue, RangeEnd};

/// Keys taken under one hold of the index's lock.
const STEP_KEYS: usize = 512;

/// Hashes all that a read at or above the promised floor can see, up to a revision; 0 = now.
pub fn hash_kv(store: &Arc<RwLock<Store>>, reader: &Reader, revision: i64) -> Result<HashKv, Error> {
    let (current, compacted) = {
        let store = store.read();
        (store.revision, store.compacted)
    };
    if revision > current {
        return Err(Error::FutureRevision { requested: revision, current });
    }
    if revision > 0 && revision < compacted {
        return Err(Error::Compacted { requested: revision, compacted });
    }
    let upto = if revision <= 0 { current } else { revision };
    let mut hash = 0;
    let mut from = Some(Bytes::new());
    while let Some(key) = from {
        let mut step: Vec<(Bytes, Vec<Version>)> = Vec::new();
        from = None;
        store.read().index.visit(&KeyRange { key, end: RangeEnd::Unbounded }, &mut |entry| {
            if step.len() >= STEP_KEYS {
                from = Some(Bytes::copy_from_slice(&entry.key));
                return ControlFlow::Break(());
            }
            step.push((Bytes::copy_from_slice(&entry.key), visible(entry, compacted, upto)));
            ControlFlow::Continue(())
        });
        for (key, versions) in step {
            for version in versions {
                hash = add(hash, &key, &version, reader)?;
            }
        }
    }
    Ok(HashKv { hash, compact_revision: compacted, hash_revision: upto })
}

/// The versions of a key up to a revision that the promised floor leaves.
fn visible(entry: &KeyEntry, compacted: i64, upto: i64) -> Vec<Version> {
    let mut versions: Vec<Version> = entry.versions().filter(|version| version.main <= upto).copied().collect();
    let at_or_below = versions.partition_point(|version| version.main <= compacted);
    let mut first = at_or_below.saturating_sub(1);
    if at_or_below > 0 && versions[first].is_tombstone() && versions[first].main < compacted {
        first += 1;
    }
    versions.drain(..first);
    versions
}

fn add(hash: u32, key: &Bytes, version: &Version, reader: &Reader) -> Result<u32, Error> {
    let place = version.place();
    let kv = match version.is_tombstone() {
        true => KeyValue { key: key.clone(), mod_revision: place.main, ..KeyValue::default() },
        // A version that compaction takes meanwhile is below the floor that is hashed for; the next hash has it right.
        false => {
            reader.state_at(key, place)?.ok_or(Error::Compacted { requested: place.main, compacted: place.main })?
        }
    };
    let mut hash = crc32c::crc32c_append(hash, &(key.len() as u64).to_le_bytes());
    hash = crc32c::crc32c_append(hash, key);
    for number in [place.main, i64::from(place.sub), kv.create_revision, kv.version, kv.lease] {
        hash = crc32c::crc32c_append(hash, &number.to_le_bytes());
    }
    Ok(crc32c::crc32c_append(hash, &kv.value))
}
