//! One write as the log holds it.
//!
//! A record can be read alone, given its place and length, and carries a checksum of its own, so that a read of an old
//! value never returns rotten bytes. All numbers are little-endian.

use bytes::{BufMut, Bytes};

use crate::storage::revision::Place;
use crate::storage::{EventKind, KeyValue, Origin};

/// Bytes before a record's body: length, checksum, kind, flags, two lengths.
pub const RECORD_HEADER_BYTES: usize = 12;
/// Bytes of a key record without key, value and names.
pub const KEY_RECORD_FIXED_BYTES: usize = 76;

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;
const KIND_LEASE_GRANT: u8 = 3;
const KIND_LEASE_RENEW: u8 = 4;
const KIND_LEASE_REVOKE: u8 = 5;
const KIND_COMPACT: u8 = 6;
const KIND_ALARM: u8 = 7;
const KIND_AUTH: u8 = 8;
const KIND_META: u8 = 9;

const FLAG_CLIENT_NAMED: u8 = 1;
const FLAG_EXPIRE: u8 = 1;

/// A write of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    /// Put or delete.
    pub kind: EventKind,
    /// Where in history.
    pub place: Place,
    /// The key's state before was written here; main 0 = there was none.
    pub prev: Place,
    /// The state after; of a delete only key and mod revision are set.
    pub kv: KeyValue,
    /// Who wrote, and what they had seen.
    pub origin: Origin,
}

/// Anything the log can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord {
    /// A write of a key; the only kind that has a revision.
    Key(KeyRecord),
    /// A lease begins.
    LeaseGrant {
        /// Its id.
        id: i64,
        /// Seconds granted.
        ttl_secs: i64,
        /// When it ends if never renewed, in wall-clock milliseconds.
        deadline_wall_ms: i64,
    },
    /// A lease lives on at least until the deadline.
    LeaseRenew {
        /// Its id.
        id: i64,
        /// In wall-clock milliseconds.
        deadline_wall_ms: i64,
    },
    /// A lease is over; its keys are deleted by key records in the same frame.
    LeaseRevoke {
        /// Its id.
        id: i64,
    },
    /// History below a revision is given up.
    Compact {
        /// The new floor.
        revision: i64,
        /// Whether the physical floor moves at once, instead of after the time of grace.
        expire: bool,
    },
    /// An alarm was raised or cleared; the content is the alarms' own.
    Alarm(Bytes),
    /// A change of users, roles or permissions; the content is the authentication's own.
    Auth(Bytes),
    /// A fact about the store by name.
    Meta {
        /// Its name.
        name: Bytes,
        /// Its content.
        content: Bytes,
    },
}

/// What a key record is made of, borrowed, so that writing one allocates nothing.
#[derive(Clone, Copy, Debug)]
pub struct KeyRecordRef<'a> {
    /// Put or delete.
    pub kind: EventKind,
    /// Where in history.
    pub place: Place,
    /// Where the key's state before was written.
    pub prev: Place,
    /// The key.
    pub key: &'a [u8],
    /// The value; empty for a delete.
    pub value: &'a [u8],
    /// Create revision; 0 for a delete.
    pub create_revision: i64,
    /// Version; 0 for a delete.
    pub version: i64,
    /// Lease or 0.
    pub lease: i64,
    /// Who wrote.
    pub origin: &'a Origin,
}

impl KeyRecordRef<'_> {
    /// Appends the record; answers its length.
    pub fn encode(&self, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        let author = cut(&self.origin.author, Origin::AUTHOR_BYTES_MAX);
        let client = cut(self.origin.client.as_deref().unwrap_or(""), Origin::CLIENT_BYTES_MAX);
        let kind = match self.kind {
            EventKind::Put => KIND_PUT,
            EventKind::Delete => KIND_DELETE,
        };
        let flags = if self.origin.client.is_some() { FLAG_CLIENT_NAMED } else { 0 };
        out.reserve(KEY_RECORD_FIXED_BYTES + self.key.len() + self.value.len() + author.len() + client.len());
        out.put_slice(&[0; 8]);
        out.put_slice(&[kind, flags, author.len() as u8, client.len() as u8]);
        out.put_i64_le(self.place.main);
        out.put_u32_le(self.place.sub);
        out.put_u32_le(self.key.len() as u32);
        out.put_u32_le(self.value.len() as u32);
        out.put_u32_le(self.prev.sub);
        out.put_i64_le(self.prev.main);
        out.put_i64_le(self.create_revision);
        out.put_i64_le(self.version);
        out.put_i64_le(self.lease);
        out.put_i64_le(self.origin.cause);
        out.put_slice(self.key);
        out.put_slice(self.value);
        out.put_slice(author.as_bytes());
        out.put_slice(client.as_bytes());
        seal(out, start)
    }
}

impl LogRecord {
    /// Appends the record; answers its length.
    pub fn encode(&self, out: &mut Vec<u8>) -> u32 {
        let start = out.len();
        let head = |out: &mut Vec<u8>, kind: u8, flags: u8| {
            out.put_slice(&[0; 8]);
            out.put_slice(&[kind, flags, 0, 0]);
        };
        match self {
            LogRecord::Key(record) => {
                return KeyRecordRef {
                    kind: record.kind,
                    place: record.place,
                    prev: record.prev,
                    key: &record.kv.key,
                    value: &record.kv.value,
                    create_revision: record.kv.create_revision,
                    version: record.kv.version,
                    lease: record.kv.lease,
                    origin: &record.origin,
                }
                .encode(out);
            }
            LogRecord::LeaseGrant { id, ttl_secs, deadline_wall_ms } => {
                head(out, KIND_LEASE_GRANT, 0);
                out.put_i64_le(*id);
                out.put_i64_le(*ttl_secs);
                out.put_i64_le(*deadline_wall_ms);
            }
            LogRecord::LeaseRenew { id, deadline_wall_ms } => {
                head(out, KIND_LEASE_RENEW, 0);
                out.put_i64_le(*id);
                out.put_i64_le(*deadline_wall_ms);
            }
            LogRecord::LeaseRevoke { id } => {
                head(out, KIND_LEASE_REVOKE, 0);
                out.put_i64_le(*id);
            }
            LogRecord::Compact { revision, expire } => {
                head(out, KIND_COMPACT, if *expire { FLAG_EXPIRE } else { 0 });
                out.put_i64_le(*revision);
            }
            LogRecord::Alarm(content) => {
                head(out, KIND_ALARM, 0);
                out.put_slice(content);
            }
            LogRecord::Auth(content) => {
                head(out, KIND_AUTH, 0);
                out.put_slice(content);
            }
            LogRecord::Meta { name, content } => {
                head(out, KIND_META, 0);
                out.put_u32_le(name.len() as u32);
                out.put_slice(name);
                out.put_slice(content);
            }
        }
        seal(out, start)
    }

    /// Reads the record that begins at the first byte; its slices share the buffer. Answers its length too.
    ///
    /// # Errors
    /// A word about what is wrong with the bytes.
    pub fn decode(bytes: &Bytes) -> Result<(LogRecord, usize), &'static str> {
        let len = verify(bytes)?;
        let body = bytes.slice(RECORD_HEADER_BYTES..len);
        let number = |at: usize| -> Result<i64, &'static str> {
            let field = body.get(at..at + 8).ok_or("a record is shorter than its kind")?;
            Ok(i64::from_le_bytes(field.try_into().expect("eight bytes were sliced")))
        };
        let record = match bytes[8] {
            KIND_PUT | KIND_DELETE => LogRecord::Key(decode_key(&bytes.slice(..len))?),
            KIND_LEASE_GRANT => {
                LogRecord::LeaseGrant { id: number(0)?, ttl_secs: number(8)?, deadline_wall_ms: number(16)? }
            }
            KIND_LEASE_RENEW => LogRecord::LeaseRenew { id: number(0)?, deadline_wall_ms: number(8)? },
            KIND_LEASE_REVOKE => LogRecord::LeaseRevoke { id: number(0)? },
            KIND_COMPACT => LogRecord::Compact { revision: number(0)?, expire: bytes[9] & FLAG_EXPIRE != 0 },
            KIND_ALARM => LogRecord::Alarm(body),
            KIND_AUTH => LogRecord::Auth(body),
            KIND_META => {
                let field = body.get(..4).ok_or("a meta record is cut short")?;
                let name_len = u32::from_le_bytes(field.try_into().expect("four bytes were sliced")) as usize;
                if body.len() < 4 + name_len {
                    return Err("a meta record is cut short");
                }
                LogRecord::Meta { name: body.slice(4..4 + name_len), content: body.slice(4 + name_len..) }
            }
            _ => return Err("a record of unknown kind"),
        };
        Ok((record, len))
    }
}

fn decode_key(bytes: &Bytes) -> Result<KeyRecord, &'static str> {
    let parts = KeyParts::read(bytes)?;
    let text = |range: std::ops::Range<usize>| -> Result<&str, &'static str> {
        std::str::from_utf8(&bytes[range]).map_err(|_| "a name in a record is not UTF-8")
    };
    let client_named = bytes[9] & FLAG_CLIENT_NAMED != 0;
    let origin = Origin {
        author: text(parts.author.clone())?.into(),
        client: if client_named { Some(text(parts.client.clone())?.into()) } else { None },
        cause: parts.cause,
    };
    Ok(KeyRecord { kind: parts.kind, place: parts.place, prev: parts.prev, kv: parts.key_value(bytes), origin })
}

/// A key record taken apart without copying: what replay, catch-up and point reads need of it.
#[derive(Clone, Debug)]
pub struct KeyParts {
    /// Put or delete.
    pub kind: EventKind,
    /// Where in history.
    pub place: Place,
    /// Where the state before was written; main 0 = nowhere.
    pub prev: Place,
    /// Create revision.
    pub create_revision: i64,
    /// Version.
    pub version: i64,
    /// Lease.
    pub lease: i64,
    /// What the author had seen.
    pub cause: i64,
    /// The key's bytes within the record.
    pub key: std::ops::Range<usize>,
    /// The value's bytes within the record.
    pub value: std::ops::Range<usize>,
    /// The author's name within the record.
    pub author: std::ops::Range<usize>,
    /// The claimed client name within the record.
    pub client: std::ops::Range<usize>,
}

impl KeyParts {
    /// Takes a key record apart. The length and checksum must have been verified.
    pub fn read(bytes: &[u8]) -> Result<KeyParts, &'static str> {
        const SHORT: &str = "a key record is cut short";
        if bytes.len() < KEY_RECORD_FIXED_BYTES {
            return Err(SHORT);
        }
        let long = |at: usize| i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were sliced"));
        let int = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were sliced"));
        let kind = match bytes[8] {
            KIND_PUT => EventKind::Put,
            KIND_DELETE => EventKind::Delete,
            _ => return Err("not a key record"),
        };
        let key = KEY_RECORD_FIXED_BYTES..KEY_RECORD_FIXED_BYTES + int(24) as usize;
        let value = key.end..key.end + int(28) as usize;
        let author = value.end..value.end + bytes[10] as usize;
        let client = author.end..author.end + bytes[11] as usize;
        if client.end > bytes.len() {
            return Err(SHORT);
        }
        Ok(KeyParts {
            kind,
            place: Place { main: long(12), sub: int(20) },
            prev: Place { main: long(36), sub: int(32) },
            create_revision: long(44),
            version: long(52),
            lease: long(60),
            cause: long(68),
            key,
            value,
            author,
            client,
        })
    }

    /// The state after the write, sharing the record's buffer.
    pub fn key_value(&self, bytes: &Bytes) -> KeyValue {
        KeyValue {
            key: bytes.slice(self.key.clone()),
            value: bytes.slice(self.value.clone()),
            create_revision: self.create_revision,
            mod_revision: self.place.main,
            version: self.version,
            lease: self.lease,
        }
    }
}

/// The length of the record at the first byte, if it is there whole; its checksum is not looked at.
pub fn peek_len(bytes: &[u8]) -> Result<usize, &'static str> {
    let Some(field) = bytes.get(..4) else { return Err("a record is cut short") };
    let len = u32::from_le_bytes(field.try_into().expect("four bytes were sliced")) as usize;
    if len < RECORD_HEADER_BYTES || len > bytes.len() {
        return Err("a record's length does not fit");
    }
    Ok(len)
}

/// Whether the record at the first byte is one of a key.
pub fn is_key(bytes: &[u8]) -> bool {
    matches!(bytes.get(8), Some(&(KIND_PUT | KIND_DELETE)))
}

/// Checks the length and checksum of the record at the first byte; answers its length.
pub fn verify(bytes: &[u8]) -> Result<usize, &'static str> {
    let len = peek_len(bytes)?;
    let stored = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes were sliced"));
    if crc32c::crc32c(&bytes[8..len]) != stored {
        return Err("a record's checksum does not match");
    }
    Ok(len)
}

fn seal(out: &mut [u8], start: usize) -> u32 {
    let len = (out.len() - start) as u32;
    let crc = crc32c::crc32c(&out[start + 8..]);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    out[start + 4..start + 8].copy_from_slice(&crc.to_le_bytes());
    len
}

fn cut(name: &str, bytes_max: usize) -> &str {
    if name.len() <= bytes_max {
        return name;
    }
    let mut end = bytes_max;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: LogRecord) {
        let mut out = b"before".to_vec();
        let len = record.encode(&mut out) as usize;
        let bytes = Bytes::from(out).slice(6..);
        assert_eq!(bytes.len(), len);
        assert_eq!(LogRecord::decode(&bytes), Ok((record, len)));
        for at in 0..len {
            let mut rotten = bytes.to_vec();
            rotten[at] ^= 0x10;
            assert!(LogRecord::decode(&Bytes::from(rotten)).is_err(), "a flipped bit at {at} went unnoticed");
        }
        for at in 0..len {
            assert!(LogRecord::decode(&bytes.slice(..at)).is_err(), "a record cut at {at} was read");
        }
    }

    #[test]
    fn records_come_back_as_written_or_not_at_all() {
        let kv = KeyValue {
            key: "key".into(),
            value: "value".into(),
            create_revision: 3,
            mod_revision: 9,
            version: 4,
            lease: -7,
        };
        let origin = Origin { author: "root".into(), client: Some("ünit".into()), cause: 8 };
        let place = Place { main: 9, sub: 2 };
        let prev = Place { main: 5, sub: 1 };
        check(LogRecord::Key(KeyRecord { kind: EventKind::Put, place, prev, kv, origin }));
        check(LogRecord::LeaseGrant { id: -1, ttl_secs: 60, deadline_wall_ms: 1 });
        check(LogRecord::LeaseRenew { id: 1, deadline_wall_ms: 2 });
        check(LogRecord::LeaseRevoke { id: 5 });
        check(LogRecord::Compact { revision: 17, expire: true });
        check(LogRecord::Alarm("a".into()));
        check(LogRecord::Auth(Bytes::new()));
        check(LogRecord::Meta { name: "term".into(), content: "2".into() });
    }

    #[test]
    fn long_names_are_cut_at_a_character() {
        assert_eq!(cut("aü", 2), "a");
        assert_eq!(cut("aü", 3), "aü");
    }
}
