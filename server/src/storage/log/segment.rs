//! One file of the log, and the set of them.
//!
//! A segment is a header, frames one after the other, zeros up to where the file was preallocated. When it is full it
//! is sealed: a footer frame with the places of all its key records, and a trailer that tells where the footer begins.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{BufMut, Bytes};
use parking_lot::{Mutex, RwLock};

use super::frame::{FRAME_HEADER_BYTES, FrameBuilder, FrameHeader, FrameKind};
use super::record;
use crate::storage::disk::{Disk, DiskFile, OpenMode};
use crate::storage::revision::Place;
use crate::storage::{Error, EventKind};

/// Where a segment begins.
pub const SEGMENT_MAGIC: [u8; 8] = *b"LWLOGSEG";
/// Bytes before the first frame.
pub const SEGMENT_HEADER_BYTES: usize = 64;
/// The segment format this build writes and reads.
pub const SEGMENT_VERSION: u16 = 1;
/// What the end of a sealed segment begins with.
const TRAILER_MAGIC: [u8; 8] = *b"LWLOGEND";
/// Bytes at the end of a sealed segment.
pub const TRAILER_BYTES: usize = 32;
/// Bytes of a footer entry without its key.
const FOOTER_ENTRY_BYTES: usize = 25;
/// Between two marks of the sparse index there are at least this many bytes.
const MARK_EVERY_BYTES: u32 = 64 << 10;

/// A segment's number; they are filled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SegmentId {
    /// The file's name in the log's folder.
    pub fn file_name(self) -> String {
        format!("{:016}.seg", self.0)
    }

    /// The number a file's name stands for; `None` if the file is no segment.
    pub fn from_file_name(name: &str) -> Option<SegmentId> {
        name.strip_suffix(".seg").filter(|digits| digits.len() == 16)?.parse().ok().map(SegmentId)
    }
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The segment's number; zero is none.
    pub segment: u32,
    /// The record's first byte in the file.
    pub offset: u32,
    /// The record's length.
    pub len: u32,
}

/// What a segment's first bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Its number.
    pub id: SegmentId,
    /// Random; enters the checksum of each frame.
    pub salt: u64,
    /// When it was made, in wall-clock milliseconds.
    pub wall_ms: i64,
    /// The store's incarnation as 16 bytes: a segment of another store is refused.
    pub incarnation: [u8; 16],
}

impl SegmentHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES] {
        let mut out = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        out.put_slice(&SEGMENT_MAGIC);
        out.put_u16_le(SEGMENT_VERSION);
        out.put_u16_le(SEGMENT_HEADER_BYTES as u16);
        out.put_u64_le(self.id.0);
        out.put_u64_le(self.salt);
        out.put_i64_le(self.wall_ms);
        out.put_slice(&self.incarnation);
        out.put_slice(&[0; 8]);
        let crc = crc32c::crc32c(&out);
        out.put_u32_le(crc);
        out.try_into().expect("the fields add up to the header's length")
    }

    /// Reads a header; `None` if it is not whole.
    ///
    /// # Errors
    /// [`Error::FormatVersion`] if a newer build wrote it.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Option<SegmentHeader>, Error> {
        let Some(bytes) = bytes.get(..SEGMENT_HEADER_BYTES) else { return Ok(None) };
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were sliced"));
        let crc = u32::from_le_bytes(bytes[60..64].try_into().expect("four bytes were sliced"));
        if bytes[..8] != SEGMENT_MAGIC || crc32c::crc32c(&bytes[..60]) != crc {
            return Ok(None);
        }
        let found = u16::from_le_bytes([bytes[8], bytes[9]]);
        if found != SEGMENT_VERSION {
            return Err(Error::FormatVersion { path: path.to_owned(), found, supported: SEGMENT_VERSION });
        }
        let incarnation = bytes[36..52].try_into().expect("sixteen bytes were sliced");
        Ok(Some(SegmentHeader { id: SegmentId(long(12)), salt: long(20), wall_ms: long(28) as i64, incarnation }))
    }
}

/// One open segment.
#[derive(Debug)]
pub struct Segment {
    /// Its number.
    pub id: SegmentId,
    /// What enters its frames' checksums.
    pub salt: u64,
    /// Its file.
    pub path: PathBuf,
    pub(super) file: Arc<dyn DiskFile>,
    /// Frames below this offset may be read.
    end: AtomicU64,
    extent: Mutex<Extent>,
}

/// What a segment holds; grows with each frame.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// The number of its first frame; 0 = it has none.
    pub first_seq: u64,
    /// The number of its last frame.
    pub last_seq: u64,
    /// The first revision in it; 0 = none.
    pub first_revision: i64,
    /// Where the store stood after its last frame.
    pub last_revision: i64,
    /// Whether footer and trailer are there.
    pub sealed: bool,
    /// Where some revisions begin, ascending.
    marks: Vec<(i64, u32)>,
}

impl Segment {
    pub(super) fn new(header: SegmentHeader, path: PathBuf, file: Arc<dyn DiskFile>) -> Self {
        Self {
            id: header.id,
            salt: header.salt,
            path,
            file,
            end: AtomicU64::new(SEGMENT_HEADER_BYTES as u64),
            extent: Mutex::default(),
        }
    }

    /// Makes a segment of zeros with a header, durable but for its name.
    pub(super) fn create(
        disk: &dyn Disk,
        dir: &Path,
        header: SegmentHeader,
        size: u64,
        preallocate: bool,
    ) -> Result<Self, Error> {
        let path = dir.join(header.id.file_name());
        let io = |source| Error::io("make", &path, source);
        let file = disk.open(&path, OpenMode::Replace).map_err(io)?;
        file.write_at(&header.encode(), 0).map_err(io)?;
        if preallocate {
            // Written zeros, not a hole: filling unwritten extents costs a commit of the file system's journal with
            // each sync.
            const STEP: usize = 1 << 20;
            let zeros = vec![0; STEP.min(size as usize)];
            let mut at = SEGMENT_HEADER_BYTES as u64;
            while at < size {
                let step = zeros.len().min((size - at) as usize);
                file.write_at(&zeros[..step], at).map_err(io)?;
                at += step as u64;
                // Each step is synced alone, so that a commit's sync never waits for more than one.
                file.sync().map_err(io)?;
            }
        }
        file.sync().map_err(io)?;
        Ok(Self::new(header, path, file))
    }

    /// Where its frames end.
    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// What it holds.
    pub fn extent(&self) -> Extent {
        self.extent.lock().clone()
    }

    /// Whether it has no frame.
    pub fn is_empty(&self) -> bool {
        self.extent.lock().first_seq == 0
    }

    /// Notes a frame that was written, or found, at an offset, and lets readers see it.
    pub(super) fn note_frame(&self, header: &FrameHeader, offset: u32) {
        let mut extent = self.extent.lock();
        if extent.first_seq == 0 {
            extent.first_seq = header.seq;
        }
        extent.last_seq = header.seq;
        extent.last_revision = header.last_revision;
        if header.first_revision > 0 {
            if extent.first_revision == 0 {
                extent.first_revision = header.first_revision;
            }
            if extent.marks.last().is_none_or(|(_, at)| offset - at >= MARK_EVERY_BYTES) {
                extent.marks.push((header.first_revision, offset));
            }
        }
        drop(extent);
        self.end.store(u64::from(offset) + header.frame_len() as u64, Ordering::Release);
    }

    /// Notes that the segment is sealed, and what its footer says of it.
    pub(super) fn note_sealed(&self, footer: &FooterHead, end: u64) {
        let mut extent = self.extent.lock();
        extent.sealed = true;
        extent.first_seq = footer.first_seq;
        extent.last_seq = footer.last_seq;
        extent.first_revision = footer.first_revision;
        extent.last_revision = footer.last_revision;
        drop(extent);
        self.end.store(end, Ordering::Release);
    }

    /// Notes that a footer follows the last frame noted.
    pub(super) fn mark_sealed(&self) {
        self.extent.lock().sealed = true;
    }

    /// Where to begin reading to find a revision: at or before its frame.
    pub(super) fn seek(&self, revision: i64) -> u64 {
        let extent = self.extent.lock();
        let after = extent.marks.partition_point(|(first, _)| *first <= revision);
        match after.checked_sub(1) {
            Some(index) => u64::from(extent.marks[index].1),
            None => SEGMENT_HEADER_BYTES as u64,
        }
    }

    /// An error that names this segment.
    pub(super) fn damaged(&self, reason: &str) -> Error {
        let revision = self.extent.lock().last_revision;
        Error::Damaged { segment: self.id.0, revision, reason: reason.into() }
    }

    /// Reads a stretch of the file, which must lie within its frames.
    pub fn read_bytes(&self, offset: u32, len: usize) -> Result<Bytes, Error> {
        let mut buffer = vec![0; len];
        let io = |source| Error::io("read", &self.path, source);
        if self.file.read_at(&mut buffer, u64::from(offset)).map_err(io)? < len {
            return Err(self.damaged("the file is shorter than its frames"));
        }
        Ok(Bytes::from(buffer))
    }

    /// Reads one record by its place and verifies it.
    pub fn read_record(&self, location: Location) -> Result<Bytes, Error> {
        let mut buffer = vec![0; location.len as usize];
        let io = |source| Error::io("read", &self.path, source);
        let read = self.file.read_at(&mut buffer, u64::from(location.offset)).map_err(io)?;
        if read < buffer.len() {
            return Err(self.damaged("the file is shorter than a record in it"));
        }
        match record::verify(&buffer) {
            Ok(len) if len == buffer.len() => Ok(Bytes::from(buffer)),
            Ok(_) => Err(self.damaged("a record has another length than its index says")),
            Err(reason) => Err(self.damaged(reason)),
        }
    }
}

/// All segments by number, shared by the appender and all readers.
#[derive(Debug, Default)]
pub struct Segments {
    map: RwLock<BTreeMap<u64, Arc<Segment>>>,
}

impl Segments {
    /// The segment of a number.
    pub fn get(&self, id: u64) -> Option<Arc<Segment>> {
        self.map.read().get(&id).cloned()
    }

    /// The segment that follows.
    pub fn after(&self, id: u64) -> Option<Arc<Segment>> {
        self.map.read().range(id + 1..).next().map(|(_, segment)| segment.clone())
    }

    /// All of them, in order.
    pub fn list(&self) -> Vec<Arc<Segment>> {
        self.map.read().values().cloned().collect()
    }

    pub(super) fn insert(&self, segment: Arc<Segment>) {
        self.map.write().insert(segment.id.0, segment);
    }

    /// Forgets a segment; readers that have it go on reading.
    pub fn remove(&self, id: u64) -> Option<Arc<Segment>> {
        self.map.write().remove(&id)
    }

    /// Bytes of frames in all of them.
    pub fn size(&self) -> u64 {
        self.map.read().values().map(|segment| segment.end()).sum()
    }

    /// The first segment that may hold the revision or a later one.
    pub(super) fn find(&self, revision: i64) -> Option<Arc<Segment>> {
        let map = self.map.read();
        let holds = |segment: &&Arc<Segment>| {
            let extent = segment.extent.lock();
            !extent.sealed && extent.last_revision == 0 || extent.last_revision >= revision
        };
        map.values().find(holds).or_else(|| map.values().next_back()).cloned()
    }

    /// Reads one record by its place.
    pub fn read_record(&self, location: Location) -> Result<Bytes, Error> {
        match self.get(u64::from(location.segment)) {
            Some(segment) => segment.read_record(location),
            None => Err(Error::Damaged {
                segment: u64::from(location.segment),
                revision: 0,
                reason: "the segment of a record is not there".into(),
            }),
        }
    }
}

/// One line of a footer: a key record of the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FooterEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its revision.
    pub place: Place,
    /// Put or delete.
    pub kind: EventKind,
    /// Where the record lies.
    pub location: Location,
}

/// What a footer says of the whole segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FooterHead {
    /// The number of the first frame.
    pub first_seq: u64,
    /// The number of the last frame.
    pub last_seq: u64,
    /// The first revision; 0 = none.
    pub first_revision: i64,
    /// Where the store stood at the end.
    pub last_revision: i64,
}

/// The index of a sealed segment, read and checked.
#[derive(Debug)]
pub struct Footer {
    /// What it says of the whole segment.
    pub head: FooterHead,
    /// Where the frames end.
    pub(super) end: u64,
    segment: SegmentId,
    lines: Bytes,
}

/// Reads a sealed segment's footer from the file's end. `None` if the segment is not sealed or the footer is not whole:
/// then the frames are read instead.
pub(super) fn read_footer(segment: &Segment) -> Result<Option<Footer>, Error> {
    let io = |source| Error::io("read", &segment.path, source);
    let len = segment.file.len().map_err(io)?;
    let mut trailer = [0; TRAILER_BYTES];
    let Some(trailer_at) = len.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
    if segment.file.read_at(&mut trailer, trailer_at).map_err(io)? < TRAILER_BYTES {
        return Ok(None);
    }
    let footer_at = u64::from_le_bytes(trailer[8..16].try_into().expect("eight bytes were sliced"));
    if trailer != encode_trailer(footer_at, segment.salt) || footer_at >= trailer_at {
        return Ok(None);
    }
    let mut bytes = vec![0; (trailer_at - footer_at) as usize];
    if segment.file.read_at(&mut bytes, footer_at).map_err(io)? < bytes.len() {
        return Ok(None);
    }
    let Some(header) = FrameHeader::read(&bytes, segment.id, segment.salt) else { return Ok(None) };
    let payload = Bytes::from(bytes).slice(FRAME_HEADER_BYTES..);
    if header.kind != FrameKind::Footer || payload.len() < 8 {
        return Ok(None);
    }
    let head = FooterHead {
        first_seq: u64::from_le_bytes(payload[..8].try_into().expect("eight bytes were sliced")),
        last_seq: header.seq,
        first_revision: header.first_revision,
        last_revision: header.last_revision,
    };
    let footer = Footer { head, end: footer_at, segment: segment.id, lines: payload.slice(8..) };
    let whole = footer.entries().try_fold(0, |bytes, entry| Some(bytes + FOOTER_ENTRY_BYTES + entry?.key.len()));
    Ok((whole == Some(footer.lines.len())).then_some(footer))
}

impl Footer {
    /// Its lines in order; one that is not whole ends them.
    fn entries(&self) -> impl Iterator<Item = Option<FooterEntry<'_>>> {
        let mut rest = &self.lines[..];
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let entry = decode_entry(self.segment, rest);
            rest = entry.map_or(&[], |entry| &rest[FOOTER_ENTRY_BYTES + entry.key.len()..]);
            Some(entry)
        })
    }

    /// Shows its lines in order.
    pub fn visit(&self, see: &mut dyn FnMut(FooterEntry<'_>)) {
        self.entries().flatten().for_each(see);
    }
}

fn decode_entry(segment: SegmentId, line: &[u8]) -> Option<FooterEntry<'_>> {
    let fixed = line.get(..FOOTER_ENTRY_BYTES)?;
    let int = |at: usize| u32::from_le_bytes(fixed[at..at + 4].try_into().expect("four bytes were sliced"));
    let main = i64::from_le_bytes(fixed[..8].try_into().expect("eight bytes were sliced"));
    Some(FooterEntry {
        key: line.get(FOOTER_ENTRY_BYTES..FOOTER_ENTRY_BYTES + int(21) as usize)?,
        place: Place { main, sub: int(8) },
        kind: if fixed[20] == 0 { EventKind::Put } else { EventKind::Delete },
        location: Location { segment: segment.0 as u32, offset: int(12), len: int(16) },
    })
}

fn encode_trailer(footer_at: u64, salt: u64) -> [u8; TRAILER_BYTES] {
    let mut out = Vec::with_capacity(TRAILER_BYTES);
    out.put_slice(&TRAILER_MAGIC);
    out.put_u64_le(footer_at);
    out.put_u64_le(0);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &out);
    out.put_u32_le(crc);
    out.put_u32_le(0);
    out.try_into().expect("the fields add up to the trailer's length")
}

/// Seals a full segment: reads its frames, writes footer and trailer after them, gives the rest of the file back.
/// Nothing depends on it but the time of the next start, so it runs behind the appender.
pub(super) fn seal(segment: &Segment) -> Result<(), Error> {
    let io = |source| Error::io("seal", &segment.path, source);
    let extent = segment.extent();
    if extent.sealed || extent.first_seq == 0 {
        return Ok(());
    }
    let end = segment.end();
    let mut frames = vec![0; end as usize];
    if segment.file.read_at(&mut frames, 0).map_err(io)? < frames.len() {
        return Err(segment.damaged("the file is shorter than its frames"));
    }
    let mut builder = FrameBuilder::new();
    let first_seq = extent.first_seq;
    builder.push(|out| {
        out.put_u64_le(first_seq);
        8
    });
    let mut at = SEGMENT_HEADER_BYTES;
    while at < frames.len() {
        let header = FrameHeader::read(&frames[at..], segment.id, segment.salt)
            .ok_or_else(|| segment.damaged("a frame cannot be read back for sealing"))?;
        index_frame(segment, &frames, at, &header, &mut builder)?;
        at += header.frame_len();
    }
    let header = FrameHeader {
        kind: FrameKind::Footer,
        segment: segment.id,
        seq: extent.last_seq,
        synced_seq: extent.last_seq,
        wall_ms: 0,
        first_revision: extent.first_revision,
        last_revision: extent.last_revision,
        records: builder.records(),
        payload_len: (builder.len() - FRAME_HEADER_BYTES) as u32,
    };
    let footer = builder.finish(header, segment.salt);
    let trailer_at = end + footer.len() as u64;
    segment.file.write_at(footer, end).map_err(io)?;
    segment.file.write_at(&encode_trailer(end, segment.salt), trailer_at).map_err(io)?;
    segment.file.set_len(trailer_at + TRAILER_BYTES as u64).map_err(io)?;
    segment.file.sync().map_err(io)?;
    segment.extent.lock().sealed = true;
    Ok(())
}

fn index_frame(
    segment: &Segment,
    frames: &[u8],
    frame_at: usize,
    header: &FrameHeader,
    footer: &mut FrameBuilder,
) -> Result<(), Error> {
    let mut at = frame_at + FRAME_HEADER_BYTES;
    for _ in 0..header.records {
        let record = &frames[at..frame_at + header.frame_len()];
        let len = record::peek_len(record).map_err(|reason| segment.damaged(reason))?;
        if record::is_key(record) {
            let parts = record::KeyParts::read(&record[..len]).map_err(|reason| segment.damaged(reason))?;
            footer.push(|out| {
                let start = out.len();
                out.put_i64_le(parts.place.main);
                out.put_u32_le(parts.place.sub);
                out.put_u32_le(at as u32);
                out.put_u32_le(len as u32);
                out.put_u8(u8::from(parts.kind == EventKind::Delete));
                out.put_u32_le(parts.key.len() as u32);
                out.put_slice(&record[parts.key.clone()]);
                (out.len() - start) as u32
            });
        }
        at += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_names() {
        let header = SegmentHeader { id: SegmentId(7), salt: 99, wall_ms: 5, incarnation: [3; 16] };
        let mut bytes = header.encode();
        let path = Path::new("s");
        assert_eq!(SegmentHeader::decode(&bytes, path).expect("known version"), Some(header));
        bytes[30] ^= 1;
        assert_eq!(SegmentHeader::decode(&bytes, path).expect("known version"), None);
        assert_eq!(SegmentId::from_file_name(&SegmentId(7).file_name()), Some(SegmentId(7)));
        assert_eq!(SegmentId::from_file_name("7.seg"), None);
        assert_eq!(SegmentId::from_file_name("lock"), None);
    }
}
