//! Reading the log in order: cursors that never see a frame before it is durable.

use std::sync::Arc;

use bytes::Bytes;

use super::frame::{FRAME_HEADER_BYTES, FrameHeader, FrameKind};
use super::record::{self, KeyParts};
use super::segment::{Location, SEGMENT_HEADER_BYTES, Segment, Segments};
use crate::storage::Error;

/// Bytes read at once; frames are taken from the buffer without copying.
const CHUNK_BYTES: usize = 256 << 10;

/// A frame that was read.
#[derive(Clone, Debug)]
pub struct FrameView {
    /// What it says about itself.
    pub header: FrameHeader,
    /// Its records.
    pub payload: Bytes,
    /// Where the first record lies.
    pub at: Location,
}

impl FrameView {
    /// Its records one by one: the bytes of each and its place.
    pub fn records(&self) -> impl Iterator<Item = Result<(Bytes, Location), &'static str>> + '_ {
        let mut at = 0;
        (0..self.header.records).map(move |_| {
            let rest = &self.payload[at..];
            let len = record::peek_len(rest)?;
            let bytes = self.payload.slice(at..at + len);
            let location = Location { segment: self.at.segment, offset: self.at.offset + at as u32, len: len as u32 };
            at += len;
            Ok((bytes, location))
        })
    }

    /// Its key records one by one, taken apart.
    pub fn key_records(&self) -> impl Iterator<Item = Result<(Bytes, KeyParts, Location), &'static str>> + '_ {
        self.records().filter_map(|record| match record {
            Ok((bytes, location)) if record::is_key(&bytes) => {
                Some(KeyParts::read(&bytes).map(|parts| (bytes, parts, location)))
            }
            Ok(_) => None,
            Err(reason) => Some(Err(reason)),
        })
    }
}

/// A place in the log that moves forward.
#[derive(Debug)]
pub struct Cursor {
    segments: Arc<Segments>,
    segment: Arc<Segment>,
    offset: u64,
    buffer: Bytes,
    buffer_at: u64,
}

impl Cursor {
    /// A cursor at or before the frame of a revision; `None` if the log has no segment.
    pub fn at_revision(segments: &Arc<Segments>, revision: i64) -> Option<Cursor> {
        let segment = segments.find(revision)?;
        let offset = segment.seek(revision);
        Some(Self::at(segments, segment, offset))
    }

    /// A cursor at a segment's first frame.
    pub fn at_segment(segments: &Arc<Segments>, segment: Arc<Segment>) -> Cursor {
        Self::at(segments, segment, SEGMENT_HEADER_BYTES as u64)
    }

    fn at(segments: &Arc<Segments>, segment: Arc<Segment>, offset: u64) -> Cursor {
        Cursor { segments: segments.clone(), segment, offset, buffer: Bytes::new(), buffer_at: 0 }
    }

    /// The next frame of records; `None` at the end of what is durable, where a later call may find more.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a frame that was durable cannot be read back.
    pub fn next_frame(&mut self) -> Result<Option<FrameView>, Error> {
        loop {
            if self.offset >= self.segment.end() {
                let Some(next) = self.segments.after(self.segment.id.0) else { return Ok(None) };
                // The end of this segment may have moved between the two looks, but not once the next one has frames.
                if next.is_empty() || self.offset < self.segment.end() {
                    if next.is_empty() {
                        return Ok(None);
                    }
                    continue;
                }
                if next.id.0 != self.segment.id.0 + 1 {
                    return Err(Error::Damaged {
                        segment: self.segment.id.0 + 1,
                        revision: self.segment.extent().last_revision,
                        reason: "the segment was deleted while it was being read".into(),
                    });
                }
                *self = Self::at_segment(&self.segments, next);
                continue;
            }
            let frame = self.load()?;
            self.offset += frame.header.frame_len() as u64;
            if frame.header.kind == FrameKind::Records {
                return Ok(Some(frame));
            }
        }
    }

    fn load(&mut self) -> Result<FrameView, Error> {
        self.fill(FRAME_HEADER_BYTES)?;
        let from = (self.offset - self.buffer_at) as usize;
        let header = FrameHeader::parse(&self.buffer[from..])
            .ok_or_else(|| self.segment.damaged("a frame's header cannot be read back"))?;
        self.fill(header.frame_len())?;
        let from = (self.offset - self.buffer_at) as usize;
        let bytes = self.buffer.slice(from..from + header.frame_len());
        if FrameHeader::read(&bytes, self.segment.id, self.segment.salt).is_none() {
            return Err(self.segment.damaged("a frame's checksum does not match"));
        }
        let at = Location {
            segment: self.segment.id.0 as u32,
            offset: (self.offset + FRAME_HEADER_BYTES as u64) as u32,
            len: 0,
        };
        Ok(FrameView { header, payload: bytes.slice(FRAME_HEADER_BYTES..), at })
    }

    /// Makes sure that the buffer holds so many bytes from the offset on.
    fn fill(&mut self, len: usize) -> Result<(), Error> {
        let have =
            self.buffer_at <= self.offset && self.offset + len as u64 <= self.buffer_at + self.buffer.len() as u64;
        if have {
            return Ok(());
        }
        let available = self.segment.end().saturating_sub(self.offset) as usize;
        if available < len {
            return Err(self.segment.damaged("a frame is longer than the segment"));
        }
        let mut buffer = vec![0; CHUNK_BYTES.max(len).min(available)];
        let io = |source| Error::io("read", &self.segment.path, source);
        let read = self.segment.file.read_at(&mut buffer, self.offset).map_err(io)?;
        if read < len {
            return Err(self.segment.damaged("the file is shorter than its frames"));
        }
        buffer.truncate(read);
        self.buffer = Bytes::from(buffer);
        self.buffer_at = self.offset;
        Ok(())
    }
}
