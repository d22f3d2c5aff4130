//! The records under `cur/`, `base/` and `lease/`, and their binary form.
//!
//! A record is a sealed header followed by the first chunk of the value; further chunks stand in entries of their own.
//! The header holds the length and CRC of the whole value, so its bytes stand for the record in the set hash. Each
//! chunk's CRC covers the revision too: a chunk left over from another version is never taken for this one's.

use std::sync::Arc;

use bytes::Bytes;

use super::StateError;
use super::schema::{CHUNK_BYTES, KEY_BYTES_MAX, VALUE_BYTES_MAX, chunk_key, lease_key};
use super::wire::{Decoder, Encoder, crc};

const VERSION: u8 = 1;

/// Whether a record holds a value or says that the key was deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// The key holds a value.
    Live,
    /// The key was deleted at the record's revision.
    Tombstone,
}

/// A key's record, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateRecord {
    /// The key, at most [`KEY_BYTES_MAX`] bytes.
    pub key: Bytes,
    /// Value or deletion.
    pub kind: RecordKind,
    /// Main revision of the change.
    pub mod_revision: i64,
    /// Its place within the revision.
    pub sub: i64,
    /// Revision of the key's creation; 0 for a tombstone.
    pub create_revision: i64,
    /// Changes since the creation, from 1; 0 for a tombstone.
    pub version: i64,
    /// The lease the key hangs on, 0 for none.
    pub lease: i64,
    /// The key's revision before this one, 0 for none.
    pub prev_revision: i64,
    /// Who wrote it.
    pub author: Arc<str>,
    /// The name the client gave itself.
    pub client: Option<Arc<str>>,
    /// The highest revision the author had seen, 0 if unknown.
    pub cause: i64,
    /// The value, at most [`VALUE_BYTES_MAX`] bytes; empty for a tombstone.
    pub value: Bytes,
}

/// A key's record as a scan shows it; the fields are those of [`StateRecord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are described at StateRecord")]
pub struct RecordRef<'a> {
    pub key: &'a [u8],
    pub kind: RecordKind,
    pub mod_revision: i64,
    pub sub: i64,
    pub create_revision: i64,
    pub version: i64,
    pub lease: i64,
    pub prev_revision: i64,
    pub author: &'a str,
    pub client: Option<&'a str>,
    pub cause: i64,
    pub value: &'a [u8],
}

impl StateRecord {
    /// Main revision and place within it: what decides which of two records is newer.
    pub fn at(&self) -> (i64, i64) {
        (self.mod_revision, self.sub)
    }

    /// The same record, borrowed.
    pub fn as_ref(&self) -> RecordRef<'_> {
        RecordRef {
            key: &self.key,
            kind: self.kind,
            mod_revision: self.mod_revision,
            sub: self.sub,
            create_revision: self.create_revision,
            version: self.version,
            lease: self.lease,
            prev_revision: self.prev_revision,
            author: &self.author,
            client: self.client.as_deref(),
            cause: self.cause,
            value: &self.value,
        }
    }
}

impl RecordRef<'_> {
    /// Main revision and place within it.
    pub fn at(&self) -> (i64, i64) {
        (self.mod_revision, self.sub)
    }

    /// A copy that stands alone.
    pub fn to_record(&self) -> StateRecord {
        StateRecord {
            key: Bytes::copy_from_slice(self.key),
            kind: self.kind,
            mod_revision: self.mod_revision,
            sub: self.sub,
            create_revision: self.create_revision,
            version: self.version,
            lease: self.lease,
            prev_revision: self.prev_revision,
            author: Arc::from(self.author),
            client: self.client.map(Arc::from),
            cause: self.cause,
            value: Bytes::copy_from_slice(self.value),
        }
    }

    /// The entries of the tree that hold this record at `tree_key`, the header first.
    pub(super) fn encode(&self, tree_key: &[u8]) -> Result<Encoded, StateError> {
        check_len("key", self.key.len(), KEY_BYTES_MAX)?;
        check_len("value", self.value.len(), VALUE_BYTES_MAX)?;
        let mut header = Encoder(Vec::with_capacity(64 + self.value.len().min(CHUNK_BYTES)));
        header.u8(VERSION);
        header.u8(match self.kind {
            RecordKind::Live => 1,
            RecordKind::Tombstone => 2,
        });
        for number in [
            self.mod_revision,
            self.sub,
            self.create_revision,
            self.version,
            self.lease,
            self.prev_revision,
            self.cause,
        ] {
            header.i64(number);
        }
        header.bytes(self.author.as_bytes());
        header.u8(self.client.is_some().into());
        header.bytes(self.client.unwrap_or_default().as_bytes());
        header.u64(self.value.len() as u64);
        header.u32_fixed(crc(&[self.value]));
        let mut first = header.seal(tree_key);
        let header_len = first.len();
        let mut chunks = self.value.chunks(CHUNK_BYTES);
        first.extend_from_slice(chunks.next().unwrap_or_default());
        let mut entries = vec![(tree_key.to_vec(), first)];
        for (index, chunk) in (1u16..).zip(chunks) {
            let key = chunk_key(tree_key, index);
            let crc = chunk_crc(&key, self.mod_revision, chunk);
            entries.push((key, [&crc.to_le_bytes()[..], chunk].concat()));
        }
        Ok(Encoded { entries, header_len })
    }
}

/// A record in its binary form.
pub(super) struct Encoded {
    /// Tree key and value of the header entry, then of the further chunks.
    pub(super) entries: Vec<(Vec<u8>, Vec<u8>)>,
    /// Length of the sealed header within the first entry.
    pub(super) header_len: usize,
}

impl Encoded {
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// The bytes that stand for the record in the set hash.
    pub(super) fn header(&self) -> &[u8] {
        &self.entries[0].1[..self.header_len]
    }
}

/// The decoded header entry of a record.
pub(super) struct Header<'a> {
    /// The record; its value is only the first chunk.
    pub(super) record: RecordRef<'a>,
    pub(super) value_len: usize,
    value_crc: u32,
    /// The bytes that stand for the record in the set hash.
    pub(super) sealed: &'a [u8],
}

impl<'a> Header<'a> {
    /// Decodes the entry at `tree_key`, whose key is `key`.
    pub(super) fn decode(tree_key: &'a [u8], key: &'a [u8], entry: &'a [u8]) -> Result<Self, StateError> {
        let mut d = Decoder::new(tree_key, entry);
        let version = d.u8()?;
        if version != VERSION {
            return Err(d.damaged(format!("record version {version}, expected {VERSION}")));
        }
        let kind = match d.u8()? {
            1 => RecordKind::Live,
            2 => RecordKind::Tombstone,
            other => return Err(d.damaged(format!("record kind {other}"))),
        };
        let (mod_revision, sub, create_revision) = (d.i64()?, d.i64()?, d.i64()?);
        let (version, lease, prev_revision, cause) = (d.i64()?, d.i64()?, d.i64()?, d.i64()?);
        let author = d.text()?;
        let has_client = d.u8()? != 0;
        let client = Some(d.text()?).filter(|_| has_client);
        let value_len = usize::try_from(d.u64()?).unwrap_or(usize::MAX);
        let value_crc = d.u32_fixed()?;
        d.check_seal()?;
        if value_len > VALUE_BYTES_MAX {
            return Err(d.damaged(format!("a value of {value_len} bytes")));
        }
        let (sealed, value) = (d.consumed(), d.rest());
        if value.len() != value_len.min(CHUNK_BYTES) {
            return Err(d.damaged(format!("a first chunk of {} bytes for a value of {value_len}", value.len())));
        }
        let record = RecordRef {
            key,
            kind,
            mod_revision,
            sub,
            create_revision,
            version,
            lease,
            prev_revision,
            author,
            client,
            cause,
            value,
        };
        Ok(Header { record, value_len, value_crc, sealed })
    }

    /// How many entries follow the header entry.
    pub(super) fn further_chunks(&self) -> u16 {
        let chunks = self.value_len.div_ceil(CHUNK_BYTES).max(1) - 1;
        u16::try_from(chunks).expect("the length was checked against the limit")
    }

    /// Checks the whole value against the header.
    pub(super) fn check_value(&self, tree_key: &[u8], value: &[u8]) -> Result<(), StateError> {
        if value.len() == self.value_len && crc(&[value]) == self.value_crc {
            return Ok(());
        }
        let reason = format!("the value of {} bytes does not match its checksum", value.len());
        Err(StateError::damaged(tree_key.escape_ascii().to_string(), reason))
    }
}

/// Checks a chunk entry and returns its data.
pub(super) fn decode_chunk<'a>(tree_key: &[u8], mod_revision: i64, entry: &'a [u8]) -> Result<&'a [u8], StateError> {
    let damaged = || StateError::damaged(tree_key.escape_ascii().to_string(), "a chunk does not match its checksum");
    let (found, data) = entry.split_first_chunk::<4>().ok_or_else(damaged)?;
    if u32::from_le_bytes(*found) != chunk_crc(tree_key, mod_revision, data) {
        return Err(damaged());
    }
    Ok(data)
}

fn chunk_crc(tree_key: &[u8], mod_revision: i64, data: &[u8]) -> u32 {
    crc(&[tree_key, &mod_revision.to_le_bytes(), data])
}

fn check_len(what: &'static str, len: usize, limit: usize) -> Result<(), StateError> {
    if len > limit { Err(StateError::TooLarge { what, len, limit }) } else { Ok(()) }
}

/// A lease as it is kept across restarts. Its keys are found by the `lease` field of their records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRecord {
    /// The id, never 0.
    pub id: i64,
    /// Granted time to live in seconds.
    pub ttl_secs: i64,
    /// The durable deadline by the wall clock, in milliseconds since 1970: no acknowledged deadline is later.
    pub deadline_wall_ms: i64,
}

impl LeaseRecord {
    pub(super) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let key = lease_key(self.id);
        let mut e = Encoder(Vec::new());
        e.u8(VERSION);
        e.i64(self.ttl_secs);
        e.i64(self.deadline_wall_ms);
        let value = e.seal(&key);
        (key, value)
    }

    pub(super) fn decode(id: i64, tree_key: &[u8], entry: &[u8]) -> Result<Self, StateError> {
        let mut d = Decoder::new(tree_key, entry);
        let version = d.u8()?;
        if version != VERSION {
            return Err(d.damaged(format!("lease version {version}, expected {VERSION}")));
        }
        let record = LeaseRecord { id, ttl_secs: d.i64()?, deadline_wall_ms: d.i64()? };
        d.finish()?;
        Ok(record)
    }
}
