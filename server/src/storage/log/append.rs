//! The writing half of the log. There is one, and it is not `Clone`.
//!
//! Durability: [`Appender::append`] with `sync` returns after `fdatasync`; readers see a frame only after that. After a
//! failed write or sync the appender is broken and refuses everything: what the disk holds then is for the next start
//! to find out.

use std::path::PathBuf;
use std::sync::Arc;

use super::frame::{FRAME_HEADER_BYTES, FrameBuilder, FrameHeader, FrameKind};
use super::keeper::{Keeper, Maker};
use super::segment::{SEGMENT_HEADER_BYTES, Segment, SegmentId, Segments};
use crate::clock::Clock;
use crate::storage::Error;
use crate::storage::disk::Disk;

/// How the log is written.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The folder of the segments.
    pub dir: PathBuf,
    /// The store's incarnation.
    pub incarnation: [u8; 16],
    /// Bytes of the first segment of a store: small, for a quick start.
    pub first_segment_bytes: u64,
    /// Bytes of a usual segment; sizes grow fourfold up to it.
    pub segment_bytes: u64,
    /// Whether the log's first segment is known to have been durable: then a log without one is refused.
    pub begun: bool,
    /// Whether segments are filled with zeros in advance.
    pub preallocate: bool,
    /// Whether the housekeeper has a thread of its own.
    pub background: bool,
}

impl LogOptions {
    /// The usual sizes.
    pub fn new(dir: impl Into<PathBuf>, incarnation: [u8; 16]) -> Self {
        Self {
            dir: dir.into(),
            incarnation,
            first_segment_bytes: 1 << 20,
            segment_bytes: 16 << 20,
            begun: false,
            preallocate: true,
            background: true,
        }
    }
}

/// The largest frame; its offsets must fit into 32 bits with room to spare.
pub const FRAME_BYTES_MAX: usize = 1 << 30;

/// Where a frame went.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// The segment.
    pub segment: u32,
    /// The frame's first byte in it.
    pub offset: u32,
    /// The frame's number.
    pub seq: u64,
}

/// The writing half of the log.
#[derive(Debug)]
pub struct Appender {
    options: LogOptions,
    segments: Arc<Segments>,
    keeper: Keeper,
    active: Arc<Segment>,
    offset: u64,
    capacity: u64,
    seq: u64,
    synced_seq: u64,
    broken: bool,
}

/// Where a log ends, as found by recovery.
#[derive(Debug)]
pub(super) struct Tail {
    /// The segment to go on in; `None` = begin the one after `last_id`.
    pub(super) active: Option<Arc<Segment>>,
    pub(super) last_id: u64,
    pub(super) seq: u64,
}

impl Appender {
    pub(super) fn new(
        options: LogOptions,
        disk: Arc<dyn Disk>,
        clock: Arc<dyn Clock>,
        segments: Arc<Segments>,
        tail: Tail,
    ) -> Result<Self, Error> {
        let maker = Maker {
            disk,
            clock,
            dir: options.dir.clone(),
            incarnation: options.incarnation,
            preallocate: options.preallocate,
        };
        let active = match tail.active {
            Some(active) => active,
            None => {
                let made = maker.make(SegmentId(tail.last_id + 1), options.first_segment_bytes)?;
                segments.insert(made.clone());
                made
            }
        };
        let offset = active.end();
        let file_len = active.file.len().map_err(|source| Error::io("measure", &active.path, source))?;
        let capacity = file_len.max(options.first_segment_bytes);
        let keeper = Keeper::new(maker, options.background);
        // A crash may have come before a full segment was sealed.
        let full = segments.list().into_iter().filter(|segment| segment.id < active.id && !segment.extent().sealed);
        full.for_each(|segment| keeper.seal(segment));
        Ok(Self {
            options,
            segments,
            keeper,
            active,
            offset,
            capacity,
            seq: tail.seq,
            synced_seq: tail.seq,
            broken: false,
        })
    }

    /// The last frame's number.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Whether a write or sync failed.
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// Writes a frame; with `sync` it is durable when this returns, otherwise after [`Appender::sync_handle`] is run.
    pub fn append(
        &mut self,
        frame: &mut FrameBuilder,
        last_revision: i64,
        wall_ms: i64,
        sync: bool,
    ) -> Result<Written, Error> {
        assert!(!self.broken, "nothing is written after a failed flush");
        assert!(!frame.is_empty(), "a frame has records");
        if frame.len() > FRAME_BYTES_MAX {
            return Err(Error::TooLarge { size: frame.len(), limit: FRAME_BYTES_MAX });
        }
        let fits = self.offset + frame.len() as u64 <= self.capacity;
        if !fits && self.offset > SEGMENT_HEADER_BYTES as u64 {
            self.roll()?;
        }
        let header = FrameHeader {
            kind: FrameKind::Records,
            segment: self.active.id,
            seq: self.seq + 1,
            synced_seq: self.synced_seq,
            wall_ms,
            first_revision: frame.first_revision(),
            last_revision,
            records: frame.records(),
            payload_len: (frame.len() - FRAME_HEADER_BYTES) as u32,
        };
        let bytes = frame.finish(header, self.active.salt);
        if let Err(source) = self.active.file.write_at(bytes, self.offset) {
            self.broken = true;
            return Err(Error::io("write", &self.active.path, source));
        }
        if sync {
            self.sync()?;
        }
        let offset = self.offset as u32;
        self.seq += 1;
        if sync {
            self.synced_seq = self.seq;
        }
        self.offset += bytes.len() as u64;
        self.active.note_frame(&header, offset);
        if self.offset * 2 > self.capacity {
            self.keeper.want(SegmentId(self.active.id.0 + 1), self.next_size());
        }
        Ok(Written { segment: self.active.id.0 as u32, offset, seq: self.seq })
    }

    /// Syncs what was written, in place.
    pub fn sync(&mut self) -> Result<(), Error> {
        match self.active.file.sync() {
            Ok(()) => {
                self.synced_seq = self.seq;
                Ok(())
            }
            Err(source) => {
                self.broken = true;
                Err(Error::io("sync", &self.active.path, source))
            }
        }
    }

    /// What a later sync needs, so that it can run without the appender: the file, and the number it makes durable.
    pub fn unsynced(&self) -> Option<(Arc<Segment>, u64)> {
        (self.synced_seq < self.seq).then(|| (self.active.clone(), self.seq))
    }

    /// Notes the outcome of a sync that ran without the appender.
    pub fn note_sync(&mut self, seq: u64, outcome: Result<(), std::io::Error>) -> Result<(), Error> {
        match outcome {
            Ok(()) => {
                self.synced_seq = self.synced_seq.max(seq);
                Ok(())
            }
            Err(source) => {
                self.broken = true;
                Err(Error::io("sync", &self.active.path, source))
            }
        }
    }

    /// Ends the housekeeper's thread; what is unsynced is synced first.
    pub fn close(&mut self) -> Result<(), Error> {
        let outcome = if self.broken { Ok(()) } else { self.sync() };
        self.broken = true;
        self.keeper.stop();
        outcome
    }

    /// Bytes of the next segment.
    pub fn next_size(&self) -> u64 {
        (self.capacity * 4).clamp(self.options.first_segment_bytes, self.options.segment_bytes)
    }

    fn roll(&mut self) -> Result<(), Error> {
        // Nothing is written to the next segment before all of this one is durable.
        if self.synced_seq < self.seq {
            self.sync()?;
        }
        let size = self.next_size();
        let next = self.keeper.take(SegmentId(self.active.id.0 + 1), size)?;
        self.segments.insert(next.clone());
        let full = std::mem::replace(&mut self.active, next);
        self.keeper.seal(full);
        self.offset = SEGMENT_HEADER_BYTES as u64;
        self.capacity = size;
        Ok(())
    }
}

impl Segment {
    /// Syncs the file, for [`Appender::unsynced`].
    pub fn sync_file(&self) -> Result<(), std::io::Error> {
        self.file.sync()
    }
}
