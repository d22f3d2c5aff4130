//! The keys of the tree and the limits of what one batch may hold.
//!
//! ```text
//! cur/  ESC(key) 00 01            the key's latest record, with the first chunk of its value
//! cur/  ESC(key) 00 01 NNNN       chunk NNNN (from 1, big-endian) of the same value
//! base/ ESC(key) 00 01 [NNNN]     its record at the retained floor, while cur/ holds a newer one
//! lease/ ID                       a lease; ID is big-endian with the sign bit flipped, so ids are in numeric order
//! meta/ NAME                      format, identity, applied, compactions, floor, totals
//! ```
//!
//! ESC replaces each zero byte by `00 FF`. So tree keys sort as the keys do, and a record's chunks follow it directly.

use std::borrow::Cow;

use super::StateError;

/// Chunk length of values in bytes. At 8 MiB segments sled keeps entries of this size in its log; larger pages would go
/// to files that it never syncs.
pub const CHUNK_BYTES: usize = 64 * 1024;

/// Longest key in bytes: a page holds up to 16 entries, and 16 keys with a chunk each must stay below the quarter of a
/// segment at which sled turns to unsynced files.
pub const KEY_BYTES_MAX: usize = 32 * 1024;

/// Longest value in bytes: a record is written whole in one batch, and a batch must stay well below one segment, or a
/// power cut may take more than the batch. The engine refuses longer values at its door.
pub const VALUE_BYTES_MAX: usize = 3 * 1024 * 1024 / 2;

/// Payload of one batch in bytes, beyond which the next one is begun; a single larger record has a batch of its own.
pub const BATCH_BYTES_MAX: usize = 3 * 1024 * 1024 / 2;

/// Records in one batch: sled keeps readers out while it applies one (about 10 µs a record).
pub const BATCH_RECORDS_MAX: usize = 512;

/// The format of everything in the tree; raised when an older program could not read it.
pub(super) const FORMAT: u32 = 1;

pub(super) const CURRENT: &[u8] = b"cur/";
pub(super) const BASE: &[u8] = b"base/";
pub(super) const LEASE: &[u8] = b"lease/";
pub(super) const META_FORMAT: &[u8] = b"meta/format";
pub(super) const META_IDENTITY: &[u8] = b"meta/identity";
pub(super) const META_APPLIED: &[u8] = b"meta/applied";
pub(super) const META_COMPACTIONS: &[u8] = b"meta/compactions";
pub(super) const META_FLOOR: &[u8] = b"meta/floor";
pub(super) const META_TOTALS: &[u8] = b"meta/totals";

const END: [u8; 2] = [0, 1];

/// The tree key of the record of `key` under `area` (`CURRENT` or `BASE`).
pub(super) fn record_key(area: &[u8], key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(area.len() + key.len() + 4);
    out.extend_from_slice(area);
    let mut rest = key;
    while let Some(zero) = rest.iter().position(|&b| b == 0) {
        out.extend_from_slice(&rest[..zero]);
        out.extend_from_slice(&[0, 0xff]);
        rest = &rest[zero + 1..];
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&END);
    out
}

/// The tree key of chunk `index` (from 1) of the record at `record_key`.
pub(super) fn chunk_key(record_key: &[u8], index: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(record_key.len() + 2);
    out.extend_from_slice(record_key);
    out.extend_from_slice(&index.to_be_bytes());
    out
}

/// Splits a tree key under `area` into the key and, for a chunk, its index.
pub(super) fn parse_key<'a>(area: &[u8], tree_key: &'a [u8]) -> Result<(Cow<'a, [u8]>, Option<u16>), StateError> {
    let damaged = || StateError::damaged(tree_key.escape_ascii().to_string(), "not a key of this format");
    let coded = tree_key.strip_prefix(area).ok_or_else(damaged)?;
    let mut plain: Cow<'a, [u8]> = Cow::Borrowed(&[]);
    let mut rest = coded;
    loop {
        let zero = rest.iter().position(|&b| b == 0).ok_or_else(damaged)?;
        let piece = &rest[..zero];
        if plain.is_empty() {
            plain = Cow::Borrowed(piece)
        } else {
            plain.to_mut().extend_from_slice(piece)
        }
        let after = rest.get(zero + 2..).ok_or_else(damaged)?;
        match rest[zero + 1] {
            0xff => plain.to_mut().push(0),
            0x01 => {
                return match after {
                    [] => Ok((plain, None)),
                    [high, low] => Ok((plain, Some(u16::from_be_bytes([*high, *low])))),
                    _ => Err(damaged()),
                };
            }
            _ => return Err(damaged()),
        }
        rest = after;
    }
}

/// The tree key of a lease.
pub(super) fn lease_key(id: i64) -> Vec<u8> {
    let ordered = (id as u64) ^ (1 << 63);
    [LEASE, &ordered.to_be_bytes()].concat()
}

/// The id in the tree key of a lease.
pub(super) fn parse_lease_key(tree_key: &[u8]) -> Result<i64, StateError> {
    let id = tree_key.strip_prefix(LEASE).and_then(|id| id.try_into().ok());
    let id = id.ok_or_else(|| StateError::damaged(tree_key.escape_ascii().to_string(), "not a key of a lease"))?;
    Ok((u64::from_be_bytes(id) ^ (1 << 63)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tree_keys_sort_as_keys_do(a in proptest::collection::vec(0u8..4, 0..6),
                                     b in proptest::collection::vec(0u8..4, 0..6)) {
            let (ta, tb) = (record_key(CURRENT, &a), record_key(CURRENT, &b));
            prop_assert_eq!(a.cmp(&b), ta.cmp(&tb));
            prop_assert_eq!(parse_key(CURRENT, &ta).unwrap(), (Cow::Borrowed(&a[..]), None));
            let chunk = chunk_key(&ta, 7);
            prop_assert_eq!(parse_key(CURRENT, &chunk).unwrap(), (Cow::Borrowed(&a[..]), Some(7)));
            if a < b {
                prop_assert!(chunk < tb, "a chunk stands before the next key");
            }
        }

        #[test]
        fn foreign_keys_are_refused_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..12)) {
            let _ = parse_key(CURRENT, &[CURRENT, &bytes].concat());
            let _ = parse_lease_key(&[LEASE, &bytes].concat());
        }
    }

    #[test]
    fn lease_keys_are_in_numeric_order() {
        let ids = [i64::MIN, -5, -1, 0, 1, 77, i64::MAX];
        let keys: Vec<_> = ids.iter().map(|&id| lease_key(id)).collect();
        assert!(keys.is_sorted());
        for (key, id) in keys.iter().zip(ids) {
            assert_eq!(parse_lease_key(key).unwrap(), id);
        }
    }
}
