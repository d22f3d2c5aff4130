//! One commit group in the log: a header, then records.
//!
//! The checksum covers the header, the records and, before them, the salt of the segment. So a frame of another
//! segment, or the image of a frame inside somebody's value, is never taken for a frame.

use super::segment::SegmentId;

/// `LWF1`: where a frame begins.
pub const FRAME_MAGIC: [u8; 4] = *b"LWF1";
/// Bytes before a frame's records.
pub const FRAME_HEADER_BYTES: usize = 72;
/// The frame format this build writes and reads.
pub const FRAME_VERSION: u16 = 1;

const CRC_AT: usize = 68;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// Records.
    Records,
    /// The index of a sealed segment; has no sequence number of its own.
    Footer,
}

/// What a frame says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What follows.
    pub kind: FrameKind,
    /// The segment it was written to.
    pub segment: SegmentId,
    /// Its number in the log: one more than the frame before.
    pub seq: u64,
    /// The highest number known synced when this was written.
    pub synced_seq: u64,
    /// When it was written, in wall-clock milliseconds.
    pub wall_ms: i64,
    /// The first revision of its records; 0 if it has none.
    pub first_revision: i64,
    /// Where the store stands after it, also if it has no revision of its own.
    pub last_revision: i64,
    /// How many records follow.
    pub records: u32,
    /// Bytes of what follows.
    pub payload_len: u32,
}

impl FrameHeader {
    /// Bytes of the whole frame.
    pub fn frame_len(&self) -> usize {
        FRAME_HEADER_BYTES + self.payload_len as usize
    }

    /// Reads a header without looking at the checksum; `None` if this is not one.
    pub fn parse(bytes: &[u8]) -> Option<FrameHeader> {
        let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
        let short = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let int = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes were sliced"));
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were sliced"));
        let kind = match short(6) {
            0 => FrameKind::Records,
            1 => FrameKind::Footer,
            _ => return None,
        };
        if bytes[..4] != FRAME_MAGIC || short(4) != FRAME_VERSION {
            return None;
        }
        Some(FrameHeader {
            kind,
            segment: SegmentId(long(8)),
            seq: long(16),
            synced_seq: long(24),
            wall_ms: long(32) as i64,
            first_revision: long(40) as i64,
            last_revision: long(48) as i64,
            records: int(56),
            payload_len: int(60),
        })
    }

    /// Reads the frame at the first byte if it is there whole, belongs to the segment and its checksum matches.
    pub fn read(bytes: &[u8], segment: SegmentId, salt: u64) -> Option<FrameHeader> {
        let header = Self::parse(bytes)?;
        let frame = bytes.get(..header.frame_len())?;
        if header.segment != segment || crc_of(frame, salt) != stored_crc(frame) {
            return None;
        }
        Some(header)
    }
}

fn stored_crc(frame: &[u8]) -> u32 {
    u32::from_le_bytes(frame[CRC_AT..CRC_AT + 4].try_into().expect("four bytes were sliced"))
}

fn crc_of(frame: &[u8], salt: u64) -> u32 {
    let crc = crc32c::crc32c(&salt.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &frame[..CRC_AT]);
    crc32c::crc32c_append(crc, &frame[FRAME_HEADER_BYTES..])
}

/// A frame in the making; reused from group to group, so that a frame costs no allocation.
#[derive(Debug)]
pub struct FrameBuilder {
    bytes: Vec<u8>,
    records: u32,
    first_revision: i64,
}

/// How much a builder keeps between groups; one huge group must not pin its memory.
const KEEP_BYTES: usize = 1 << 20;

impl Default for FrameBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameBuilder {
    /// An empty frame.
    pub fn new() -> Self {
        Self { bytes: vec![0; FRAME_HEADER_BYTES], records: 0, first_revision: 0 }
    }

    /// Makes it empty again.
    pub fn clear(&mut self) {
        self.bytes.truncate(FRAME_HEADER_BYTES);
        self.bytes.shrink_to(KEEP_BYTES);
        self.records = 0;
        self.first_revision = 0;
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds one record by its encoder, which answers the length; answers where in the frame it begins, and its length.
    pub fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> u32) -> (u32, u32) {
        let at = self.bytes.len() as u32;
        let len = encode(&mut self.bytes);
        self.records += 1;
        (at, len)
    }

    /// Notes that a record of this revision was added.
    pub fn note_revision(&mut self, revision: i64) {
        if self.first_revision == 0 {
            self.first_revision = revision;
        }
    }

    /// Where the frame stands, to come back to with [`FrameBuilder::roll_back`].
    pub fn mark(&self) -> FrameMark {
        FrameMark { len: self.bytes.len(), records: self.records, first_revision: self.first_revision }
    }

    /// Forgets all that was added since the mark.
    pub fn roll_back(&mut self, mark: FrameMark) {
        self.bytes.truncate(mark.len);
        self.records = mark.records;
        self.first_revision = mark.first_revision;
    }

    /// The first revision noted; 0 if none.
    pub fn first_revision(&self) -> i64 {
        self.first_revision
    }

    /// How many records it has.
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Writes header and checksum; answers the bytes to write.
    pub fn finish(&mut self, header: FrameHeader, salt: u64) -> &[u8] {
        let bytes = &mut self.bytes;
        let kind: u16 = match header.kind {
            FrameKind::Records => 0,
            FrameKind::Footer => 1,
        };
        bytes[..4].copy_from_slice(&FRAME_MAGIC);
        bytes[4..6].copy_from_slice(&FRAME_VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&header.segment.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&header.seq.to_le_bytes());
        bytes[24..32].copy_from_slice(&header.synced_seq.to_le_bytes());
        bytes[32..40].copy_from_slice(&header.wall_ms.to_le_bytes());
        bytes[40..48].copy_from_slice(&header.first_revision.to_le_bytes());
        bytes[48..56].copy_from_slice(&header.last_revision.to_le_bytes());
        bytes[56..60].copy_from_slice(&header.records.to_le_bytes());
        bytes[60..64].copy_from_slice(&header.payload_len.to_le_bytes());
        bytes[64..68].fill(0);
        let crc = crc_of(bytes, salt);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        bytes
    }
}

/// A place in a [`FrameBuilder`].
#[derive(Clone, Copy, Debug)]
pub struct FrameMark {
    len: usize,
    records: u32,
    first_revision: i64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::log::LogRecord;

    #[test]
    fn a_frame_is_read_only_in_its_segment_and_whole() {
        let mut builder = FrameBuilder::new();
        builder.push(|out| LogRecord::LeaseRevoke { id: 9 }.encode(out));
        let header = FrameHeader {
            kind: FrameKind::Records,
            segment: SegmentId(3),
            seq: 8,
            synced_seq: 7,
            wall_ms: 1,
            first_revision: 0,
            last_revision: 5,
            records: builder.records(),
            payload_len: (builder.len() - FRAME_HEADER_BYTES) as u32,
        };
        let bytes = builder.finish(header, 77).to_vec();
        assert_eq!(FrameHeader::read(&bytes, SegmentId(3), 77), Some(header));
        assert_eq!(FrameHeader::read(&bytes, SegmentId(4), 77), None);
        assert_eq!(FrameHeader::read(&bytes, SegmentId(3), 78), None);
        assert_eq!(FrameHeader::read(&bytes[..bytes.len() - 1], SegmentId(3), 77), None);
        for at in 0..bytes.len() {
            let mut rotten = bytes.clone();
            rotten[at] ^= 1;
            assert_eq!(FrameHeader::read(&rotten, SegmentId(3), 77), None, "a flipped bit at {at} went unnoticed");
        }
    }

    /// The bytes of format 1, once and for all: a change here is a new format.
    #[test]
    fn today_writes_format_1_to_the_letter() {
        use crate::storage::log::record::KeyRecordRef;
        use crate::storage::log::segment::SegmentHeader;
        use crate::storage::revision::Place;
        use crate::storage::{EventKind, Origin};

        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let segment = SegmentHeader { id: SegmentId(3), salt: 77, wall_ms: 1_700_000_000_000, incarnation: [9; 16] };
        assert_eq!(hex(&segment.encode()), FIXTURE_SEGMENT);
        let origin = Origin { author: "root".into(), client: Some("lw".into()), cause: 4 };
        let put = KeyRecordRef {
            kind: EventKind::Put,
            place: Place { main: 5, sub: 1 },
            prev: Place { main: 3, sub: 2 },
            key: b"key",
            value: b"value",
            create_revision: 2,
            version: 6,
            lease: -1,
            origin: &origin,
        };
        let mut builder = FrameBuilder::new();
        builder.push(|out| put.encode(out));
        builder.note_revision(5);
        builder.push(|out| LogRecord::Compact { revision: 4, expire: true }.encode(out));
        let header = FrameHeader {
            kind: FrameKind::Records,
            segment: SegmentId(3),
            seq: 8,
            synced_seq: 7,
            wall_ms: 1_700_000_000_001,
            first_revision: builder.first_revision(),
            last_revision: 5,
            records: builder.records(),
            payload_len: (builder.len() - FRAME_HEADER_BYTES) as u32,
        };
        assert_eq!(hex(builder.finish(header, 77)), FIXTURE_FRAME);
    }

    const FIXTURE_SEGMENT: &str = "4c574c4f475345470100400003000000000000004d000000000000000068e5cf8b010000090909090909090909090909090909090000000000000000a0c4c93e";
    const FIXTURE_FRAME: &str = concat!(
        "4c574631010000000300000000000000080000000000000007000000000000000168e5cf8b01000005000000000000000500",
        "000000000000020000006e00000000000000b44523c75a0000003e749fd10101040205000000000000000100000003000000",
        "0500000002000000030000000000000002000000000000000600000000000000ffffffffffffffff04000000000000006b65",
        "7976616c7565726f6f746c77140000005138283a060100000400000000000000",
    );
}
