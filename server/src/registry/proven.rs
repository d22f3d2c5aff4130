//! Which stored values have been looked at and are objects in our own form, so that a get or a page of a list hands
//! their bytes on without looking again.
//!
//! What the registry writes is in that form, but anybody may write past it, so that each value is looked at once. Only
//! what was found is kept: a hash of key and revision, and where the metadata begin. It is a cache of fixed size; what is
//! pushed out is looked at again.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::num::NonZeroU16;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stored::is_own_form;
use crate::storage::KeyValue;

/// Values of one chunk, which take 8 KiB.
const CHUNK: usize = 1 << 10;
/// Chunks; each is made when it is first needed. 64 k values: more than are read over and over at a time.
const CHUNKS: usize = 64;
/// The bits that tell where the metadata begin; the others are of the hash.
const PLACE_BITS: u32 = 16;

/// The cache. A revision has one slot, so that objects written one after the other do not push each other out.
#[derive(Debug)]
pub(super) struct Proven {
    /// Its keys are drawn by chance, so that nobody can write a value that looks like another.
    hashes: RandomState,
    chunks: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
}

impl Default for Proven {
    fn default() -> Self {
        Proven { hashes: RandomState::new(), chunks: [const { OnceLock::new() }; CHUNKS] }
    }
}

impl Proven {
    /// Where the inside of the metadata begins in a value that is an object in our own form; `None` = look at it in the
    /// long way.
    pub(super) fn place(&self, kv: &KeyValue) -> Option<NonZeroU16> {
        let slot = self.slot(kv.mod_revision);
        let tag = self.tag(kv);
        let known = slot.load(Ordering::Relaxed);
        if known >> PLACE_BITS == tag
            && let Some(place) = NonZeroU16::new(known as u16)
        {
            return Some(place);
        }
        let place = is_own_form(&kv.value)?;
        slot.store(tag << PLACE_BITS | u64::from(place.get()), Ordering::Relaxed);
        Some(place)
    }

    fn slot(&self, revision: i64) -> &AtomicU64 {
        let at = revision as usize % (CHUNK * CHUNKS);
        let chunk = self.chunks[at / CHUNK].get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
        &chunk[at % CHUNK]
    }

    fn tag(&self, kv: &KeyValue) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        kv.mod_revision.hash(&mut hasher);
        kv.key.hash(&mut hasher);
        hasher.finish() >> PLACE_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn kv(key: &'static str, revision: i64, value: &'static str) -> KeyValue {
        KeyValue {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from_static(value.as_bytes()),
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
        }
    }

    #[test]
    fn only_whole_objects_in_our_own_form_are_proven() {
        let proven = Proven::default();
        let good = kv("/a", 5, r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}}"#);
        let place = proven.place(&good).expect("an object").get();
        assert!(good.value[usize::from(place)..].starts_with(b"\"name\""));
        assert_eq!(proven.place(&good).map(NonZeroU16::get), Some(place));
        for bad in [
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}} x"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"7"}}"#,
            r#"{"kind":"Pod","metadata":{}}"#,
            "",
        ] {
            assert_eq!(proven.place(&kv("/b", 6, bad)), None, "{bad}");
        }
    }

    #[test]
    fn another_value_in_the_same_slot_is_looked_at_itself() {
        let proven = Proven::default();
        let good = r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#;
        assert!(proven.place(&kv("/a", 5, good)).is_some());
        let next = 5 + (CHUNK * CHUNKS) as i64;
        assert_eq!(proven.place(&kv("/a", next, "{")), None);
        assert_eq!(proven.place(&kv("/b", 5, "{")), None);
        // The one before was not pushed out by what is none.
        assert!(proven.place(&kv("/a", 5, good)).is_some());
    }
}
