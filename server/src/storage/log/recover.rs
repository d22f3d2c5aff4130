//! Finding out, at start, what of the log is there.
//!
//! A frame that cannot be read is damage only if a later frame of this log, read whole, names a synced number at or
//! beyond it; then the start is refused and the place is named. Otherwise nothing after it was ever acknowledged: the
//! log ends there, and the cut is made durable before anything new is written.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::append::{Appender, LogOptions, Tail};
use super::frame::{FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, FrameKind};
use super::read::FrameView;
use super::segment::{self, Footer, Location, SEGMENT_HEADER_BYTES, Segment, SegmentHeader, SegmentId, Segments};
use crate::clock::Clock;
use crate::storage::Error;
use crate::storage::disk::{Disk, DiskFile, OpenMode, read_all};

/// Who learns what the log holds, in order.
pub trait Replay {
    /// A frame whose records are to be replayed.
    fn frame(&mut self, frame: &FrameView) -> Result<(), Error>;
    /// A sealed segment whose records the state already has: only their places are wanted.
    fn footer(&mut self, footer: &Footer) -> Result<(), Error>;
}

/// An open log.
#[derive(Debug)]
pub struct Recovered {
    /// The writing half.
    pub appender: Appender,
    /// What is read from.
    pub segments: Arc<Segments>,
    /// Where the store stood at the log's last frame; 0 = the log is empty.
    pub last_revision: i64,
}

struct Loaded {
    segment: Arc<Segment>,
    bytes: Bytes,
}

/// Opens the log, making it if it is not there. Frames up to `applied` may be passed over by their footers.
///
/// # Errors
/// [`Error::Damaged`], [`Error::Foreign`], [`Error::FormatVersion`], [`Error::Io`].
pub fn open(
    options: LogOptions,
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    applied: u64,
    replay: &mut dyn Replay,
) -> Result<Recovered, Error> {
    let dir = options.dir.clone();
    let mut names = disk.list(&dir).map_err(|source| Error::io("list", &dir, source))?;
    names.retain(|name| SegmentId::from_file_name(name).is_some());
    let mut scan = Scan { disk: &*disk, options: &options, names, applied, last_seq: None, last_revision: 0 };
    scan.refuse_if_lost()?;
    disk.create_dir(&dir).map_err(|source| Error::io("make the folder", &dir, source))?;
    let segments = Arc::new(Segments::default());
    let tail = scan.run(&segments, replay)?;
    let last_revision = scan.last_revision;
    let appender = Appender::new(options, disk, clock, segments.clone(), tail)?;
    Ok(Recovered { appender, segments, last_revision })
}

struct Scan<'a> {
    disk: &'a dyn Disk,
    options: &'a LogOptions,
    names: Vec<String>,
    applied: u64,
    /// The number of the last good frame; `None` before the first.
    last_seq: Option<u64>,
    last_revision: i64,
}

impl Scan<'_> {
    fn run(&mut self, segments: &Segments, replay: &mut dyn Replay) -> Result<Tail, Error> {
        let names = self.names.clone();
        let mut last_id = 0;
        let mut active = None;
        for (index, name) in names.iter().enumerate() {
            let id = SegmentId::from_file_name(name).expect("only segments' names are kept");
            let Some((segment, file)) = self.open_segment(name, id)? else {
                // A header that is not whole: the segment was being made when the power went, unless a later one knows
                // better.
                self.refuse_if_it_had_frames(name, id)?;
                self.refuse_if_vouched(id, &names[index + 1..])?;
                self.refuse_if_behind(id)?;
                self.drop_from(&names[index..])?;
                break;
            };
            if self.pass_over(&segment, replay)? {
                last_id = id.0;
                active = None;
                segments.insert(segment);
                continue;
            }
            let path = segment.path.clone();
            let bytes = Bytes::from(read_all(&*file).map_err(|source| Error::io("read", &path, source))?);
            let loaded = Loaded { segment: segment.clone(), bytes };
            let end = self.frames(&loaded, replay)?;
            last_id = id.0;
            segments.insert(segment.clone());
            match end {
                End::Sealed => active = None,
                End::Open(at) => {
                    if self.continues(&names[index + 1..])? {
                        continue;
                    }
                    self.refuse_if_behind(id)?;
                    self.cut(&loaded, at, &names[index + 1..])?;
                    active = Some(segment);
                    break;
                }
            }
        }
        self.refuse_if_behind(SegmentId(last_id))?;
        Ok(Tail { active, last_id, seq: self.last_seq.unwrap_or(self.applied) })
    }

    /// Once the first segment was durable there is always one with a header: the next one is durable before the one
    /// before it may go.
    fn refuse_if_lost(&self) -> Result<(), Error> {
        if !self.options.begun {
            return Ok(());
        }
        for name in &self.names {
            let id = SegmentId::from_file_name(name).expect("only segments' names are kept");
            if self.open_segment(name, id)?.is_some() {
                return Ok(());
            }
        }
        let first = self.names.first().and_then(|name| SegmentId::from_file_name(name));
        let dir = self.options.dir.display();
        let reason = match first {
            Some(_) => format!("no segment in {dir} has a header that can be read, yet the log had begun"),
            None => format!("there is no segment in {dir}, yet the log had begun"),
        };
        Err(self.damage(first.unwrap_or(SegmentId(1)), &reason))
    }

    /// A checkpoint syncs the log before it takes anything over, so a log that ends before `applied` has lost its end;
    /// numbers given again would be taken for old ones at the next start.
    fn refuse_if_behind(&self, id: SegmentId) -> Result<(), Error> {
        match self.last_seq {
            Some(last) if last < self.applied => {
                let applied = self.applied;
                Err(self.damage(id, &format!("the log ends at frame {last}, yet the state holds it up to {applied}")))
            }
            _ => Ok(()),
        }
    }

    fn open_segment(&self, name: &str, id: SegmentId) -> Result<Option<OpenSegment>, Error> {
        let path = self.options.dir.join(name);
        let io = |source| Error::io("open", &path, source);
        let file = self.disk.open(&path, OpenMode::Existing).map_err(io)?;
        let mut head = [0; SEGMENT_HEADER_BYTES];
        file.read_at(&mut head, 0).map_err(io)?;
        let Some(header) = SegmentHeader::decode(&head, &path)? else { return Ok(None) };
        if header.id != id || header.incarnation != self.options.incarnation {
            let reason = "the segment belongs to another store or another place in the log";
            return Err(Error::Foreign { path, reason: reason.into() });
        }
        Ok(Some((Arc::new(Segment::new(header, path, file.clone())), file)))
    }

    /// A header is durable before the first frame is written, so a bad one before a frame was damaged later.
    fn refuse_if_it_had_frames(&self, name: &str, id: SegmentId) -> Result<(), Error> {
        let path = self.options.dir.join(name);
        let io = |source| Error::io("read", &path, source);
        let file = self.disk.open(&path, OpenMode::Existing).map_err(io)?;
        let mut head = [0; FRAME_HEADER_BYTES];
        file.read_at(&mut head, SEGMENT_HEADER_BYTES as u64).map_err(io)?;
        match FrameHeader::parse(&head) {
            Some(frame) if frame.segment == id => Err(self.damage(id, "the segment's header cannot be read")),
            _ => Ok(()),
        }
    }

    /// Takes a sealed segment by its footer, if the state has all of it.
    fn pass_over(&mut self, segment: &Segment, replay: &mut dyn Replay) -> Result<bool, Error> {
        if self.applied == 0 {
            return Ok(false);
        }
        let Some(footer) = segment::read_footer(segment)? else { return Ok(false) };
        let head = footer.head;
        let dense = self.last_seq.is_none_or(|last| head.first_seq == last + 1);
        if head.last_seq > self.applied || !dense {
            return Ok(false);
        }
        segment.note_sealed(&head, footer.end);
        self.last_seq = Some(head.last_seq);
        self.last_revision = head.last_revision;
        replay.footer(&footer)?;
        Ok(true)
    }

    fn frames(&mut self, loaded: &Loaded, replay: &mut dyn Replay) -> Result<End, Error> {
        let (segment, bytes) = (&loaded.segment, &loaded.bytes);
        let mut at = SEGMENT_HEADER_BYTES;
        loop {
            let Some(header) = FrameHeader::read(&bytes[at.min(bytes.len())..], segment.id, segment.salt) else {
                return Ok(End::Open(at));
            };
            if header.kind == FrameKind::Footer {
                // Without its trailer the footer is of no use to a start; it is then written once more.
                if segment::read_footer(segment)?.is_some() {
                    segment.mark_sealed();
                }
                return Ok(End::Sealed);
            }
            match self.last_seq {
                Some(last) if header.seq != last + 1 => return Ok(End::Open(at)),
                None if header.seq > self.applied + 1 => {
                    return Err(segment.damaged("the frames before the first one are gone"));
                }
                _ => {}
            }
            let payload = bytes.slice(at + FRAME_HEADER_BYTES..at + header.frame_len());
            let first = Location { segment: segment.id.0 as u32, offset: (at + FRAME_HEADER_BYTES) as u32, len: 0 };
            segment.note_frame(&header, at as u32);
            replay.frame(&FrameView { header, payload, at: first })?;
            self.last_seq = Some(header.seq);
            self.last_revision = header.last_revision;
            at += header.frame_len();
        }
    }

    fn expected(&self) -> u64 {
        self.last_seq.unwrap_or(self.applied) + 1
    }

    /// Whether the next segment goes on where this one ends: then what follows the last frame here is only the room
    /// that the next frame did not fit into.
    fn continues(&self, later: &[String]) -> Result<bool, Error> {
        let Some(name) = later.first() else { return Ok(false) };
        let id = SegmentId::from_file_name(name).expect("only segments' names are kept");
        let Some((segment, file)) = self.open_segment(name, id)? else { return Ok(false) };
        let mut head = [0; FRAME_HEADER_BYTES];
        let io = |source| Error::io("read", &segment.path, source);
        file.read_at(&mut head, SEGMENT_HEADER_BYTES as u64).map_err(io)?;
        let Some(header) = FrameHeader::parse(&head) else { return Ok(false) };
        if header.segment != id || header.seq != self.expected() {
            return Ok(false);
        }
        let mut frame = vec![0; header.frame_len().min(file.len().map_err(io)? as usize)];
        file.read_at(&mut frame, SEGMENT_HEADER_BYTES as u64).map_err(io)?;
        Ok(FrameHeader::read(&frame, id, segment.salt).is_some())
    }

    /// Ends the log at a place in a segment, durably, unless a later frame vouches for what is missing.
    fn cut(&self, loaded: &Loaded, at: usize, later: &[String]) -> Result<(), Error> {
        let segment = &loaded.segment;
        if find_vouching(&loaded.bytes[at.min(loaded.bytes.len())..], segment, self.expected()) {
            return Err(self.damage(segment.id, "a frame that was durable cannot be read"));
        }
        self.refuse_if_vouched(segment.id, later)?;
        let io = |source| Error::io("cut", &segment.path, source);
        if let Some(last) = loaded.bytes[at.min(loaded.bytes.len())..].iter().rposition(|byte| *byte != 0) {
            tracing::warn!(
                segment = segment.id.0,
                offset = at,
                bytes = last + 1,
                "cut an unfinished write off the log"
            );
            segment.file.write_at(&vec![0; last + 1], at as u64).map_err(io)?;
        }
        segment.file.sync().map_err(io)?;
        self.drop_from(later)
    }

    /// Removes segments, durably.
    fn drop_from(&self, names: &[String]) -> Result<(), Error> {
        let dir = &self.options.dir;
        for name in names {
            self.disk.remove(&dir.join(name)).map_err(|source| Error::io("remove", dir.join(name), source))?;
        }
        self.disk.sync_dir(dir).map_err(|source| Error::io("sync the folder", dir, source))
    }

    fn refuse_if_vouched(&self, bad: SegmentId, later: &[String]) -> Result<(), Error> {
        for name in later {
            let id = SegmentId::from_file_name(name).expect("only segments' names are kept");
            let Some((segment, file)) = self.open_segment(name, id)? else { continue };
            let bytes = read_all(&*file).map_err(|source| Error::io("read", &segment.path, source))?;
            if find_vouching(&bytes[SEGMENT_HEADER_BYTES.min(bytes.len())..], &segment, self.expected()) {
                return Err(self.damage(bad, "a later segment proves that durable frames are missing"));
            }
        }
        Ok(())
    }

    fn damage(&self, segment: SegmentId, reason: &str) -> Error {
        Error::Damaged { segment: segment.0, revision: self.last_revision, reason: reason.into() }
    }
}

/// A segment with the file it was opened from.
type OpenSegment = (Arc<Segment>, Arc<dyn DiskFile>);

enum End {
    Sealed,
    Open(usize),
}

/// Whether somewhere in the bytes there is a whole frame of the segment that names a synced number at or beyond one.
fn find_vouching(bytes: &[u8], segment: &Segment, seq: u64) -> bool {
    const STEP: usize = 4096;
    const ZEROS: [u8; STEP] = [0; STEP];
    let mut at = 0;
    while at < bytes.len() {
        let step = &bytes[at..bytes.len().min(at + STEP)];
        if step == &ZEROS[..step.len()] {
            at += step.len();
            continue;
        }
        for begin in at..at + step.len() {
            if !bytes[begin..].starts_with(&FRAME_MAGIC) {
                continue;
            }
            let whole = FrameHeader::read(&bytes[begin..], segment.id, segment.salt);
            if whole.is_some_and(|header| header.synced_seq >= seq) {
                return true;
            }
        }
        at += step.len();
    }
    false
}

/// The folder of the log within a store's folder.
pub fn log_dir(store: &Path) -> std::path::PathBuf {
    store.join("log")
}
