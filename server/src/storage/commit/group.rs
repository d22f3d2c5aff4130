//! The leader's work: evaluate, write, sync, publish, send out, answer.
//!
//! Lock order: writer, lessor, store, hub, watcher. The lessor's and the store's locks are never held over a sync.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use super::queue::{Lead, Queue, Taken};
use super::request::{Class, Reply, Request};
use crate::clock::Clock;
use crate::storage::housekeeping::Backlog;
use crate::storage::lease::{Lessor, Moment};
use crate::storage::log::{Appender, FrameBuilder, LogRecord};
use crate::storage::mvcc::write::{self, Outcome};
use crate::storage::mvcc::{Batch, Reader, Store};
use crate::storage::state::{Compactions, LeaseRecord};
use crate::storage::watch::Hub;
use crate::storage::{Error, Event, EventKind, Origin, Txn, TxnResult};

/// Bytes of a frame beyond which no further request is taken into the group: catch-up reads frames whole, and readers
/// of the default message size must be able to.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// Requests of a group.
const GROUP_REQUESTS_MAX: usize = 4096;

/// What a committer works on.
#[derive(Debug)]
pub struct Parts {
    /// The writing half of the log.
    pub appender: Appender,
    /// What is published.
    pub store: Arc<RwLock<Store>>,
    /// All leases.
    pub lessor: Arc<Mutex<Lessor>>,
    /// Where values are fetched from.
    pub reader: Reader,
    /// Where events go.
    pub hub: Arc<Hub>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// What the state does not have yet.
    pub backlog: Arc<Backlog>,
    /// Whether each group is synced before it is answered.
    pub sync: bool,
}

/// Where the store stands between two groups: what a checkpoint takes over.
#[derive(Debug)]
pub struct Stand {
    /// The last frame's number.
    pub seq: u64,
    /// The compactions up to it.
    pub compactions: Compactions,
    /// The physical floor as it is published.
    pub retained: i64,
    /// The leases that changed since the last stand.
    pub leases: Vec<(i64, Option<LeaseRecord>)>,
}

/// Does the work of whoever leads.
#[derive(Debug)]
pub struct Committer {
    writer: Mutex<Writer>,
    store: Arc<RwLock<Store>>,
    lessor: Arc<Mutex<Lessor>>,
    reader: Reader,
    hub: Arc<Hub>,
    clock: Arc<dyn Clock>,
    backlog: Arc<Backlog>,
    sync: bool,
    poisoned: OnceLock<Arc<str>>,
    /// Bytes that the last write found no room for; 0: it found room.
    lacking: AtomicU64,
}

#[derive(Debug)]
struct Writer {
    appender: Appender,
    frame: FrameBuilder,
    closed: bool,
}

/// Answers that wait for the frame to be durable.
type Answers = Vec<(Taken, Result<Reply, Error>)>;

/// What a group does beside its keys, once durable.
#[derive(Debug, Default)]
struct Aside {
    granted: Vec<LeaseRecord>,
    renewed: Vec<LeaseRecord>,
    revoked: Vec<i64>,
    compact: Option<(i64, bool)>,
}

impl Lead for Committer {
    fn lead(&self, queue: &Queue) {
        self.backlog.wait_for_room();
        let mut writer = self.writer.lock();
        let Some(first) = queue.pop(None) else { return };
        if let Some(refusal) = self.refusal(&writer) {
            first.complete(Err(refusal));
            return;
        }
        let writer = &mut *writer;
        writer.frame.clear();
        let mut answers = Answers::new();
        let mut aside = Aside::default();
        let mut lessor = self.lessor.lock();
        let store = self.store.read();
        let outcome = match first.class() {
            Class::Txn => self.gather_txns(first, queue, &store, &lessor, &mut writer.frame, &mut answers),
            Class::Lease => {
                self.gather_leases(first, queue, &mut lessor, &mut writer.frame, &mut answers, &mut aside);
                None
            }
            Class::Alone => self.alone(first, &store, &lessor, &mut writer.frame, &mut answers, &mut aside),
        };
        let revision = outcome.as_ref().map_or(store.revision, |outcome| outcome.revision);
        drop(store);
        drop(lessor);
        if !writer.frame.is_empty()
            && let Err(error) = self.append(writer, revision, outcome, aside)
        {
            answers.iter_mut().for_each(|(_, answer)| *answer = Err(error.clone()));
        }
        for (slot, answer) in answers {
            slot.complete(answer);
        }
    }

    fn panicked(&self) {
        self.poison("a commit panicked", "a commit panicked");
    }
}

impl Committer {
    /// A committer on its parts.
    pub fn new(parts: Parts) -> Self {
        let Parts { appender, store, lessor, reader, hub, clock, backlog, sync } = parts;
        let writer = Mutex::new(Writer { appender, frame: FrameBuilder::new(), closed: false });
        Self {
            writer,
            store,
            lessor,
            reader,
            hub,
            clock,
            backlog,
            sync,
            poisoned: OnceLock::new(),
            lacking: AtomicU64::new(0),
        }
    }

    /// Why writes are refused, if they are.
    pub fn poisoned(&self) -> Option<Arc<str>> {
        self.poisoned.get().cloned()
    }

    /// Ends all writing, for good. Clients are told the reason, the log the detail.
    pub fn poison(&self, reason: &str, detail: &str) {
        self.backlog.stop();
        if self.poisoned.set(reason.into()).is_ok() {
            tracing::error!(reason = detail, "the store takes no more writes; restart the server");
        }
    }

    fn poison_by(&self, error: &Error) {
        self.poison(&error.told(), &error.detail());
    }

    /// Bytes that the last write found no room for, if it found none.
    pub fn lacking(&self) -> Option<u64> {
        Some(self.lacking.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Notes how a write went, and tells the operator when it turns.
    fn note_room(&self, refused: Option<&Error>, wanted: u64) {
        let lacked = self.lacking.load(Ordering::Relaxed) > 0;
        match refused {
            Some(error @ Error::NoSpace { .. }) => {
                self.lacking.store(wanted.max(1), Ordering::Relaxed);
                if !lacked {
                    tracing::error!(
                        error = error.detail(),
                        bytes_wanted = wanted,
                        "writes are refused: make room on the disk, then they go on by themselves"
                    );
                }
            }
            None if lacked => {
                self.lacking.store(0, Ordering::Relaxed);
                tracing::info!("there is room on the disk again: writes go on");
            }
            _ => {}
        }
    }

    /// The number of the last frame.
    pub fn seq(&self) -> u64 {
        self.writer.lock().appender.seq()
    }

    /// Where the store stands now; the changed leases count as taken over.
    pub fn stand(&self) -> Stand {
        let writer = self.writer.lock();
        let leases = self.lessor.lock().take_dirty();
        let store = self.store.read();
        Stand { seq: writer.appender.seq(), compactions: store.compactions(), retained: store.retained, leases }
    }

    /// Refuses further writes, syncs what was written, ends the log's housekeeper.
    pub fn close(&self) {
        let mut writer = self.writer.lock();
        if writer.closed {
            return;
        }
        writer.closed = true;
        if let Err(error) = writer.appender.close() {
            self.poison_by(&error);
        }
    }

    /// Answers a transaction that can change nothing, without the log.
    pub fn read_only(&self, txn: &Txn) -> Result<TxnResult, Error> {
        let lessor = self.lessor.lock();
        let store = self.store.read();
        write::read_only(&store, self.reader.fetcher(), &lessor, txn)
    }

    /// Syncs what was answered before it was synced. The file is synced without the writer's lock, so commits go on.
    pub fn flush(&self) -> Result<(), Error> {
        let unsynced = {
            let writer = self.writer.lock();
            if writer.closed || self.poisoned.get().is_some() {
                return Ok(());
            }
            writer.appender.unsynced()
        };
        let Some((segment, seq)) = unsynced else { return Ok(()) };
        let outcome = segment.sync_file();
        let noted = self.writer.lock().appender.note_sync(seq, outcome);
        noted.inspect_err(|error| self.poison_by(error))
    }

    fn refusal(&self, writer: &Writer) -> Option<Error> {
        match self.poisoned.get() {
            Some(reason) => Some(Error::Poisoned { reason: reason.clone() }),
            None => writer.closed.then_some(Error::Closed),
        }
    }

    fn gather_txns(
        &self,
        first: Taken,
        queue: &Queue,
        store: &Store,
        lessor: &Lessor,
        frame: &mut FrameBuilder,
        answers: &mut Answers,
    ) -> Option<Outcome> {
        let mut batch = Batch::new(store, self.reader.fetcher(), lessor, frame);
        let mut next = Some(first);
        while let Some(slot) = next {
            let answer = match slot.take() {
                Request::Txn { txn, origin } => batch.run(&txn, &origin).map(Reply::Txn),
                other => unreachable!("{other:?} is not of the class"),
            };
            answers.push((slot, answer));
            let room = batch.frame_len() < GROUP_BYTES_MAX && answers.len() < GROUP_REQUESTS_MAX;
            next = if room { queue.pop(Some(Class::Txn)) } else { None };
        }
        Some(batch.into_outcome())
    }

    fn gather_leases(
        &self,
        first: Taken,
        queue: &Queue,
        lessor: &mut Lessor,
        frame: &mut FrameBuilder,
        answers: &mut Answers,
        aside: &mut Aside,
    ) {
        let now = Moment::now(&*self.clock);
        let mut next = Some(first);
        while let Some(slot) = next {
            let answer = match slot.take() {
                Request::LeaseGrant { id, .. } if aside.granted.iter().any(|granted| granted.id == id) => {
                    Err(Error::LeaseExists(id))
                }
                Request::LeaseGrant { id, ttl_secs } => lessor.plan_grant(id, ttl_secs, now).map(|record| {
                    let LeaseRecord { id, ttl_secs, deadline_wall_ms } = record;
                    frame.push(|out| LogRecord::LeaseGrant { id, ttl_secs, deadline_wall_ms }.encode(out));
                    aside.granted.push(record);
                    Reply::Lease(record)
                }),
                Request::LeaseRenew(record) if !lessor.contains(record.id) => Err(Error::LeaseNotFound(record.id)),
                Request::LeaseRenew(record) => {
                    let LeaseRecord { id, deadline_wall_ms, .. } = record;
                    frame.push(|out| LogRecord::LeaseRenew { id, deadline_wall_ms }.encode(out));
                    aside.renewed.push(record);
                    Ok(Reply::Lease(record))
                }
                other => unreachable!("{other:?} is not of the class"),
            };
            answers.push((slot, answer));
            next = if answers.len() < GROUP_REQUESTS_MAX { queue.pop(Some(Class::Lease)) } else { None };
        }
    }

    fn alone(
        &self,
        slot: Taken,
        store: &Store,
        lessor: &Lessor,
        frame: &mut FrameBuilder,
        answers: &mut Answers,
        aside: &mut Aside,
    ) -> Option<Outcome> {
        let mut outcome = None;
        let answer = match slot.take() {
            Request::LeaseRevoke { ids, origin, only_due } => {
                let mut batch = Batch::new(store, self.reader.fetcher(), lessor, frame);
                let revoked = self.revoke(&ids, only_due, &origin, lessor, &mut batch, aside);
                let done = batch.into_outcome();
                let revision = done.revision;
                outcome = Some(done);
                revoked.map(|()| Reply::Done { revision })
            }
            Request::Compact { revision, expire } => {
                compact(store, revision, expire, frame, aside).map(|()| Reply::Done { revision: store.revision })
            }
            Request::Meta { name, content } => {
                frame.push(|out| LogRecord::Meta { name, content }.encode(out));
                Ok(Reply::Done { revision: store.revision })
            }
            other => unreachable!("{other:?} is not of the class"),
        };
        answers.push((slot, answer));
        outcome
    }

    fn revoke(
        &self,
        ids: &[i64],
        only_due: bool,
        origin: &Origin,
        lessor: &Lessor,
        batch: &mut Batch<'_>,
        aside: &mut Aside,
    ) -> Result<(), Error> {
        let now = self.clock.monotonic();
        for &id in ids {
            if only_due && !lessor.is_due(id, now) {
                continue;
            }
            if only_due && batch.frame_len() >= GROUP_BYTES_MAX {
                // The others are still due at the next look.
                break;
            }
            let keys = match lessor.keys_of(id) {
                Some(keys) => keys,
                None if only_due => continue,
                None => return Err(Error::LeaseNotFound(id)),
            };
            batch.delete_keys(&keys, origin)?;
            batch.frame().push(|out| LogRecord::LeaseRevoke { id }.encode(out));
            aside.revoked.push(id);
        }
        Ok(())
    }

    /// Makes the frame durable and the group visible.
    fn append(&self, writer: &mut Writer, revision: i64, outcome: Option<Outcome>, aside: Aside) -> Result<(), Error> {
        let wall_ms = self.clock.wall_ms();
        let frame_bytes = writer.frame.len() as u64;
        let written = match writer.appender.append(&mut writer.frame, revision, wall_ms, self.sync) {
            Ok(written) => {
                self.note_room(None, 0);
                written
            }
            Err(error) => {
                self.note_room(Some(&error), writer.appender.next_size().max(frame_bytes));
                if writer.appender.is_broken() {
                    self.poison_by(&error);
                }
                return Err(error);
            }
        };
        let (writes, events) = outcome.map(|outcome| (outcome.writes, outcome.events)).unwrap_or_default();
        {
            let mut store = self.store.write();
            for (key, pendings) in writes {
                for pending in pendings {
                    store.publish(&key, pending.published(written.segment, written.offset));
                }
            }
            store.revision = revision;
            store.evict();
            if let Some((floor, expire)) = aside.compact {
                store.note_compaction(floor, expire, wall_ms);
            }
        }
        self.backlog.add(frame_bytes);
        self.settle_leases(&events, &aside);
        self.hub.dispatch(events, revision);
        Ok(())
    }

    fn settle_leases(&self, events: &[Arc<Event>], aside: &Aside) {
        let touches =
            |event: &Arc<Event>| event.kv.lease != 0 || event.prev.as_ref().is_some_and(|prev| prev.lease != 0);
        let idle = aside.granted.is_empty() && aside.renewed.is_empty() && aside.revoked.is_empty();
        if idle && !events.iter().any(touches) {
            return;
        }
        let now = Moment::now(&*self.clock);
        let mut lessor = self.lessor.lock();
        for event in events.iter().filter(|event| touches(event)) {
            match event.kind {
                // A copy: the key of an event shares its buffer with the value.
                EventKind::Put => lessor.attach(&Bytes::copy_from_slice(&event.kv.key), event.kv.lease),
                EventKind::Delete => lessor.detach(&event.kv.key),
            }
        }
        aside.granted.iter().for_each(|record| lessor.granted(*record, now));
        aside.renewed.iter().for_each(|record| lessor.renewed(*record, now));
        aside.revoked.iter().for_each(|id| lessor.revoked(*id));
    }
}

fn compact(
    store: &Store,
    revision: i64,
    expire: bool,
    frame: &mut FrameBuilder,
    aside: &mut Aside,
) -> Result<(), Error> {
    if revision > store.revision {
        return Err(Error::FutureRevision { requested: revision, current: store.revision });
    }
    if expire && revision <= store.retained {
        return Ok(());
    }
    if !expire && store.last_compacted().is_some_and(|last| revision <= last) || revision < 0 {
        return Err(Error::Compacted { requested: revision, compacted: store.compacted });
    }
    frame.push(|out| LogRecord::Compact { revision, expire }.encode(out));
    aside.compact = Some((revision, expire));
    Ok(())
}
