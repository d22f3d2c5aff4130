//! The checkpointer: one thread that takes the log over into the state, moves the floor, and lets go of segments.
//!
//! Invariants: it is the only writer of the state; a segment goes only when the state has all of it and the settled
//! floor is past it; whatever step a crash meets, the next start finds a state from which the log goes on.
//!
//! Lock order: its own work, then those of the committer, then those of the backlog. Commits never wait for it but when
//! the backlog is above its limit.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::backlog::{Backlog, Call};
use crate::clock::Clock;
use crate::storage::commit::{Committer, Stand};
use crate::storage::log::read::FrameView;
use crate::storage::log::{Cursor, KeyRecord, Location, LogRecord, Segment, Segments};
use crate::storage::mvcc::Store;
use crate::storage::mvcc::compaction::AtFloor;
use crate::storage::revision::Place;
use crate::storage::state::{Applied, Compactions, PendingFloor, RecordKind, RecordRef, StateWriter};
use crate::storage::{Disk, Error, EventKind};

/// Bytes of log that one checkpoint takes over: more than this is taken in several, each whole in itself, so that the
/// list of changed keys stays small.
const SLICE_BYTES: u64 = 32 << 20;

/// Keys of a floor advance that are gathered before they are worked off.
const FLOOR_KEYS_MAX: usize = 64 << 10;

/// Keys looked at under one hold of the store's lock.
const LOCK_KEYS_MAX: usize = 256;

/// Records that are read at a time: keys that follow one another have often been written one after the other, and are then
/// read with few calls. With the usual sizes some hundred KiB.
const READ_KEYS_MAX: usize = 256;

/// Between two batches the thread rests this long, so that commits and readers come in between.
const REST: Duration = Duration::from_millis(1);

/// What a checkpointer works on.
#[derive(Debug)]
pub(in crate::storage) struct Parts {
    pub(in crate::storage) writer: StateWriter,
    pub(in crate::storage) committer: Arc<Committer>,
    pub(in crate::storage) store: Arc<RwLock<Store>>,
    pub(in crate::storage) segments: Arc<Segments>,
    pub(in crate::storage) backlog: Arc<Backlog>,
    pub(in crate::storage) disk: Arc<dyn Disk>,
    pub(in crate::storage) log_dir: PathBuf,
    pub(in crate::storage) clock: Arc<dyn Clock>,
}

/// The owner's handle.
#[derive(Debug)]
pub(in crate::storage) struct Checkpointer {
    backlog: Arc<Backlog>,
    work: Arc<Mutex<Work>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The work and where it stands.
#[derive(Debug)]
struct Work {
    parts: Parts,
    /// Behind the last frame taken over.
    cursor: Option<Cursor>,
    /// A frame read and not yet taken over.
    ahead: Option<FrameView>,
    /// Since when something has been waiting, by the monotonic clock.
    dirty_since: Option<Duration>,
}

/// The last write of a key within a slice.
#[derive(Debug)]
struct Changed {
    key: Box<[u8]>,
    place: Place,
    location: Location,
}

/// A part of the log that one checkpoint takes over.
#[derive(Debug)]
struct Slice {
    changed: Vec<Changed>,
    bytes: u64,
    applied: Applied,
    /// Whether it reaches the stand that was asked for.
    last: bool,
}

impl Checkpointer {
    /// Starts the thread, if the options want one.
    pub(in crate::storage) fn start(parts: Parts, background: bool) -> Result<Self, Error> {
        let backlog = parts.backlog.clone();
        let dir = parts.log_dir.clone();
        let work = Arc::new(Mutex::new(Work { parts, cursor: None, ahead: None, dirty_since: None }));
        let thread = if background {
            let (backlog, work) = (backlog.clone(), work.clone());
            let spawned = thread::Builder::new().name("checkpointer".to_owned()).spawn(move || run(&backlog, &work));
            Some(spawned.map_err(|source| Error::io("start the checkpointer for", dir, source))?)
        } else {
            None
        };
        Ok(Self { backlog, work, thread: Mutex::new(thread) })
    }

    /// Does a whole round now, or waits until the thread has done one that began after this call.
    pub(in crate::storage) fn round(&self) -> Result<(), Error> {
        if self.thread.lock().is_none() {
            return self.work.lock().round();
        }
        self.backlog.wait_done(self.backlog.want());
        Ok(())
    }

    /// Asks for a round and does not wait.
    pub(in crate::storage) fn nudge(&self) {
        self.backlog.want();
    }

    /// Ends the thread after the batch it is writing. Nothing is taken over for the end's sake: a start after a clean end is the
    /// same as one after a crash.
    pub(in crate::storage) fn stop(&self) {
        self.backlog.stop();
        if let Some(thread) = self.thread.lock().take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpointer panicked");
        }
    }
}

fn run(backlog: &Backlog, work: &Mutex<Work>) {
    if let Err(error) = work.lock().note_term() {
        tracing::warn!(%error, "the new term could not be noted; the next start will use it again");
    }
    loop {
        let (sleep, seen_dirty) = {
            let mut work = work.lock();
            (work.sleep(), work.dirty_since.is_some())
        };
        let (round, called) = match backlog.sleep(sleep, seen_dirty) {
            Call::Stop => return,
            Call::Work(round) => (round, true),
            Call::Time(round) => (round, false),
        };
        let mut work = work.lock();
        if !called && !work.is_due() {
            continue;
        }
        match work.round() {
            Ok(()) => {}
            // What was begun is begun again by the next start.
            Err(Error::Closed) => return,
            // Without a state that follows, the log could only grow until the disk is full.
            Err(error) => {
                let because = |why: String| format!("the state cannot follow the log: {why}");
                work.parts.committer.poison(&because(error.told()), &because(error.detail()));
            }
        }
        if work.parts.committer.poisoned().is_some() {
            backlog.stop();
            return;
        }
        backlog.done(round);
    }
}

impl Work {
    /// Notes the term of this run. The start does not wait for it: the term must not fall, but may come twice.
    fn note_term(&mut self) -> Result<(), Error> {
        let mut identity = self.parts.writer.meta().identity.clone();
        identity.term += 1;
        Ok(self.parts.writer.set_identity(identity)?)
    }

    /// How long there is nothing to do; `None` = until something happens.
    fn sleep(&mut self) -> Option<Duration> {
        if self.parts.store.read().retained > self.parts.writer.meta().floor.settled {
            return Some(Duration::ZERO);
        }
        let now = self.parts.clock.monotonic();
        let dirty = self.parts.backlog.bytes() > 0;
        self.dirty_since = if dirty { self.dirty_since.or(Some(now)) } else { None };
        let interval = self.parts.backlog.options().interval;
        let next_checkpoint = self.dirty_since.map(|since| (since + interval).saturating_sub(now));
        let next_floor = self.floor_due_in_ms().map(|ms| Duration::from_millis(ms.max(0) as u64));
        [next_checkpoint, next_floor].into_iter().flatten().min()
    }

    fn is_due(&mut self) -> bool {
        self.sleep() == Some(Duration::ZERO)
    }

    fn floor_due_in_ms(&self) -> Option<i64> {
        let due = self.parts.store.read().next_floor_wall_ms()?;
        Some(due.saturating_add(self.retention_ms()).saturating_sub(self.parts.clock.wall_ms()))
    }

    fn retention_ms(&self) -> i64 {
        i64::try_from(self.parts.backlog.options().retention.as_millis()).unwrap_or(i64::MAX)
    }

    fn round(&mut self) -> Result<(), Error> {
        self.dirty_since = None;
        let (now, retention) = (self.parts.clock.wall_ms(), self.retention_ms());
        let floor = {
            let mut store = self.parts.store.write();
            store.age_floor(now, retention);
            store.retained
        };
        self.checkpoint()?;
        if floor > self.parts.writer.meta().floor.settled {
            self.advance_floor(floor)?;
            self.remove_segments()?;
        }
        Ok(())
    }

    /// Takes over the log up to where it stands now.
    fn checkpoint(&mut self) -> Result<(), Error> {
        let stand = self.parts.committer.stand();
        // Durability: nothing goes into the state before it is safe in the log, so this comes after the stand.
        self.parts.committer.flush()?;
        if self.parts.committer.poisoned().is_some() {
            return Ok(());
        }
        if stand.seq <= self.parts.writer.meta().applied.seq && stand.leases.is_empty() {
            return Ok(());
        }
        loop {
            self.parts.backlog.check_open()?;
            let slice = self.read_slice(&stand)?;
            self.take_over(&slice, &stand)?;
            self.parts.backlog.remove(slice.bytes);
            if slice.last {
                return Ok(());
            }
        }
    }

    /// Reads which keys changed next, each with its last write.
    fn read_slice(&mut self, stand: &Stand) -> Result<Slice, Error> {
        let applied = self.parts.writer.meta().applied;
        let mut slice = Slice { changed: Vec::new(), bytes: 0, applied, last: false };
        while slice.applied.seq < stand.seq && slice.bytes < SLICE_BYTES {
            let frame = match self.ahead.take() {
                Some(frame) => frame,
                None => self.next_frame()?,
            };
            if frame.header.seq > stand.seq {
                self.ahead = Some(frame);
                break;
            }
            if frame.header.seq <= applied.seq {
                continue;
            }
            let damaged = |reason: &str| damaged(&frame, reason);
            for record in frame.key_records() {
                let (bytes, parts, location) = record.map_err(damaged)?;
                slice.changed.push(Changed { key: bytes[parts.key].into(), place: parts.place, location });
            }
            slice.bytes += frame.header.frame_len() as u64;
            slice.applied = Applied { seq: frame.header.seq, revision: frame.header.last_revision };
        }
        // In key order the tree is written page by page; of each key the last write counts.
        slice.changed.sort_unstable_by(|a, b| a.key.cmp(&b.key).then(b.place.cmp(&a.place)));
        slice.changed.dedup_by(|later, first| later.key == first.key);
        slice.last = slice.applied.seq >= stand.seq;
        Ok(slice)
    }

    fn next_frame(&mut self) -> Result<FrameView, Error> {
        let applied = self.parts.writer.meta().applied.seq;
        if self.cursor.is_none() {
            let segments = self.parts.segments.list();
            let holds = |segment: &&Arc<Segment>| {
                let extent = segment.extent();
                extent.first_seq > 0 && extent.last_seq > applied
            };
            let first = segments.iter().find(holds).cloned();
            self.cursor = first.map(|segment| Cursor::at_segment(&self.parts.segments, segment));
        }
        let next = match &mut self.cursor {
            Some(cursor) => cursor.next_frame()?,
            None => None,
        };
        next.ok_or_else(|| Error::Damaged {
            segment: 0,
            revision: self.parts.writer.meta().applied.revision,
            reason: format!("the frames after {applied} are not there").into(),
        })
    }

    fn take_over(&mut self, slice: &Slice, stand: &Stand) -> Result<(), Error> {
        let compactions =
            if slice.last { self.compactions(stand) } else { self.parts.writer.meta().compactions.clone() };
        let Parts { writer, segments, backlog, .. } = &mut self.parts;
        let mut checkpoint = writer.checkpoint()?;
        let mut batches = 0;
        for changed in slice.changed.chunks(READ_KEYS_MAX) {
            let places: Vec<Location> = changed.iter().map(|changed| changed.location).collect();
            for (bytes, place) in segments.read_records(&places)?.iter().zip(places) {
                let record = key_record(bytes, place)?;
                checkpoint.put(as_state(&record))?;
                rest(&mut batches, checkpoint.batches(), backlog)?;
            }
        }
        if slice.last {
            for (id, lease) in &stand.leases {
                match lease {
                    Some(lease) => checkpoint.put_lease(*lease)?,
                    None => checkpoint.remove_lease(*id)?,
                }
            }
        }
        let report = checkpoint.finish(slice.applied, compactions)?;
        tracing::debug!(
            seq = slice.applied.seq,
            revision = slice.applied.revision,
            log_bytes = slice.bytes,
            records = report.records,
            batches = report.batches,
            "the state has followed the log"
        );
        Ok(())
    }

    /// The compactions at a stand. A floor that has risen in memory and not yet in the state goes along as one that is
    /// due, so that it does not fall back over a crash between here and its advance.
    fn compactions(&self, stand: &Stand) -> Compactions {
        let mut compactions = stand.compactions.clone();
        if stand.retained > self.parts.writer.meta().floor.retained {
            compactions.pending.insert(0, PendingFloor { revision: stand.retained, wall_ms: 0 });
        }
        compactions
    }

    /// Puts the state and the index right for a floor that has risen.
    fn advance_floor(&mut self, floor: i64) -> Result<(), Error> {
        let Parts { writer, store, segments, backlog, .. } = &mut self.parts;
        let mut advance = writer.advance_floor(floor)?;
        let mut cursor = Cursor::at_revision(segments, advance.settled());
        let mut keys: BTreeSet<Box<[u8]>> = BTreeSet::new();
        let mut batches = 0;
        loop {
            let frame = match &mut cursor {
                Some(cursor) => cursor.next_frame()?.filter(|frame| frame.header.first_revision <= floor),
                None => None,
            };
            if let Some(frame) = &frame {
                for record in frame.key_records() {
                    let (bytes, parts, _) = record.map_err(|reason| damaged(frame, reason))?;
                    if parts.place.main >= advance.settled() && parts.place.main <= floor {
                        keys.insert(bytes[parts.key].into());
                    }
                }
            }
            if frame.is_some() && keys.len() < FLOOR_KEYS_MAX {
                continue;
            }
            let keys: Vec<_> = std::mem::take(&mut keys).into_iter().collect();
            for keys in keys.chunks(LOCK_KEYS_MAX) {
                let plans: Vec<_> = {
                    let store = store.read();
                    keys.iter().map(|key| store.at_floor(key, floor)).collect()
                };
                for (key, plan) in keys.iter().zip(plans) {
                    match plan {
                        AtFloor::Base(version) if version.is_in_log() => {
                            let record = read_key_record(segments, version.location())?;
                            advance.set_base(as_state(&record))?;
                        }
                        // Beyond the log already: then the base is where it belongs.
                        AtFloor::Base(_) => {}
                        AtFloor::Newest => advance.drop_base(key)?,
                    }
                    rest(&mut batches, advance.batches(), backlog)?;
                }
                let mut store = store.write();
                keys.iter().for_each(|key| store.prune(key, floor));
            }
            if frame.is_none() {
                break;
            }
        }
        advance.finish()?;
        tracing::debug!(floor, "the retained floor has risen");
        Ok(())
    }

    /// Lets go of the segments that neither a start nor a reader above the floor needs.
    fn remove_segments(&mut self) -> Result<(), Error> {
        let meta = self.parts.writer.meta();
        let (settled, applied) = (meta.floor.settled, meta.applied.seq);
        let segments = self.parts.segments.list();
        let Some((_, full)) = segments.split_last() else { return Ok(()) };
        for segment in full {
            let extent = segment.extent();
            if extent.last_revision >= settled || extent.last_seq > applied {
                break;
            }
            self.parts.backlog.check_open()?;
            self.move_out_of(segment)?;
            self.parts.segments.remove(segment.id.0);
            let path = &segment.path;
            self.parts.disk.remove(path).map_err(|source| Error::io("remove", path, source))?;
            // One by one, so that no crash leaves a gap between those that stay.
            let dir = &self.parts.log_dir;
            self.parts.disk.sync_dir(dir).map_err(|source| Error::io("sync the folder", dir, source))?;
        }
        Ok(())
    }

    fn move_out_of(&self, segment: &Arc<Segment>) -> Result<(), Error> {
        let id = segment.id.0 as u32;
        let mut cursor = Cursor::at_segment(&self.parts.segments, segment.clone());
        while let Some(frame) = cursor.next_frame()?.filter(|frame| frame.at.segment == id) {
            let mut moved: Vec<(Box<[u8]>, Place)> = Vec::new();
            for record in frame.key_records() {
                let (bytes, parts, _) = record.map_err(|reason| damaged(&frame, reason))?;
                moved.push((bytes[parts.key].into(), parts.place));
            }
            for moved in moved.chunks(LOCK_KEYS_MAX) {
                let mut store = self.parts.store.write();
                moved.iter().for_each(|(key, place)| store.move_to_state(key, *place, id));
            }
        }
        Ok(())
    }
}

/// Rests after a batch, so that commits and readers come in between; not when writers may soon have to wait.
fn rest(before: &mut u64, batches: u64, backlog: &Backlog) -> Result<(), Error> {
    if batches > *before {
        *before = batches;
        backlog.check_open()?;
        if backlog.bytes() < backlog.options().log_bytes_max / 2 {
            thread::sleep(REST);
        }
    }
    Ok(())
}

fn damaged(frame: &FrameView, reason: &str) -> Error {
    Error::Damaged { segment: u64::from(frame.at.segment), revision: frame.header.last_revision, reason: reason.into() }
}

fn read_key_record(segments: &Segments, location: Location) -> Result<KeyRecord, Error> {
    key_record(&segments.read_record(location)?, location)
}

fn key_record(bytes: &Bytes, location: Location) -> Result<KeyRecord, Error> {
    match LogRecord::decode(bytes) {
        Ok((LogRecord::Key(record), _)) => Ok(record),
        Ok(_) => Err(Error::Damaged {
            segment: u64::from(location.segment),
            revision: 0,
            reason: "a record of a key is of another kind".into(),
        }),
        Err(reason) => Err(Error::Damaged { segment: u64::from(location.segment), revision: 0, reason: reason.into() }),
    }
}

fn as_state(record: &KeyRecord) -> RecordRef<'_> {
    RecordRef {
        key: &record.kv.key,
        kind: match record.kind {
            EventKind::Put => RecordKind::Live,
            EventKind::Delete => RecordKind::Tombstone,
        },
        mod_revision: record.place.main,
        sub: i64::from(record.place.sub),
        create_revision: record.kv.create_revision,
        version: record.kv.version,
        lease: record.kv.lease,
        prev_revision: record.prev.main,
        author: &record.origin.author,
        client: record.origin.client.as_deref(),
        cause: record.origin.cause,
        value: &record.kv.value,
    }
}
