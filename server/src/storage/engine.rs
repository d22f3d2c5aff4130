//! The one door to the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rand::Rng;
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::clock::{Clock, SystemClock};
use crate::storage::commit::{Committer, Parts, Queue, Reply, Request};
use crate::storage::disk::{DiskLock, LockRefused, OpenMode};
use crate::storage::housekeeping::checkpointer::{self, Checkpointer};
use crate::storage::housekeeping::expirer::{self, LEASES_AT_ONCE, Leases};
use crate::storage::housekeeping::{Backlog, Bell, CheckpointOptions, bell, flusher};
use crate::storage::lease::{LeaseInfo, Lessor, Moment};
use crate::storage::log::{LogOptions, recover};
use crate::storage::mvcc::read::Fetcher;
use crate::storage::mvcc::{Reader, Store, hash};
use crate::storage::replay::Replayed;
use crate::storage::state::{Identity, MemoryState, OpenState, SledOptions, open_store};
use crate::storage::watch::watcher::Past;
use crate::storage::watch::{Floor, Hub, WatchOptions, Watcher, WatcherInfo};
use crate::storage::{Disk, Error, Origin, RangeOp, RangeResult, RealDisk, SimDisk, Txn, TxnResult};

/// Watchers that read the log at once: each holds some megabytes, and one reads 100,000 revisions a second.
const CATCH_UP_READERS: usize = 4;
/// Before due leases are tried again after a failure, such as a full queue.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// When a write counts as safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced to the disk before the answer.
    Sync,
    /// Written before the answer, synced at this interval: a power cut may lose that much, a killed process nothing.
    Buffered(Duration),
    /// Never written: gone with the process.
    Memory,
}

/// How an engine is opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The folder of the store; made if it is not there. Not used with [`Durability::Memory`].
    pub dir: PathBuf,
    /// When a write counts as safe.
    pub durability: Durability,
    /// Bytes of latest values kept in memory; what is beyond is read from the disk.
    pub value_cache_bytes: usize,
    /// The cluster's number, used when the store is made; 0 = draw one.
    pub cluster_id: u64,
    /// Sizes of the log's files.
    pub log: LogSizes,
    /// When the state follows the log.
    pub checkpoint: CheckpointOptions,
    /// Whether housekeeping (segments, checkpoints, ends of leases) has threads. Without, the owner calls
    /// [`Engine::checkpoint`] and [`Engine::end_due_leases`], and all work is done in the same order each time.
    pub background: bool,
}

/// Sizes of the log's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSizes {
    /// Bytes of the first segment of a new store.
    pub first_segment_bytes: u64,
    /// Bytes of a usual segment.
    pub segment_bytes: u64,
}

impl Default for LogSizes {
    fn default() -> Self {
        let usual = LogOptions::new("", [0; 16]);
        Self { first_segment_bytes: usual.first_segment_bytes, segment_bytes: usual.segment_bytes }
    }
}

impl LogSizes {
    fn apply(&self, options: &mut LogOptions) {
        options.first_segment_bytes = self.first_segment_bytes;
        options.segment_bytes = self.segment_bytes;
    }
}

impl Seams {
    /// The real ones: the operating system's files and clocks, sled in the store's folder.
    pub fn real(dir: &Path) -> Self {
        Self {
            disk: RealDisk::shared(),
            state: Arc::new(SledOptions::new(dir.join("state"))),
            clock: SystemClock::shared(),
        }
    }
}

impl EngineOptions {
    /// Sync durability and the default budgets in the given folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            durability: Durability::Sync,
            value_cache_bytes: 64 << 20,
            cluster_id: 0,
            log: LogSizes::default(),
            checkpoint: CheckpointOptions::default(),
            background: true,
        }
    }
}

/// What the engine stands on; each has a real form and a twin for tests.
#[derive(Clone, Debug)]
pub struct Seams {
    /// Log and side files.
    pub disk: Arc<dyn Disk>,
    /// The state beside the log.
    pub state: Arc<dyn OpenState>,
    /// Time.
    pub clock: Arc<dyn Clock>,
}

/// What `status` tells.
#[derive(Clone, Debug)]
pub struct EngineStatus {
    /// Bytes on disk.
    pub db_size: i64,
    /// Bytes of live keys and values, about.
    pub db_size_in_use: i64,
    /// Where the store stands.
    pub revision: i64,
    /// The promised floor.
    pub compacted: i64,
    /// The physical floor.
    pub retained: i64,
    /// Grows by one at each start.
    pub raft_term: u64,
    /// The log's sequence number.
    pub raft_index: u64,
    /// Drawn when the store was made.
    pub cluster_id: u64,
    /// Drawn when the store was made.
    pub member_id: u64,
    /// How many keys are alive.
    pub keys: i64,
    /// How many leases are alive.
    pub leases: usize,
    /// How many watchers there are.
    pub watchers: usize,
    /// When a write counts as safe.
    pub durability: Durability,
    /// The median time of a sync as measured at open; zero without a disk.
    pub sync_cost: Duration,
    /// Why writes are refused, if they are.
    pub poisoned: Option<Arc<str>>,
}

/// The answer to `hash_kv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKv {
    /// The hash over all revisions of all keys up to `hash_revision`.
    pub hash: u32,
    /// The promised floor.
    pub compact_revision: i64,
    /// The revision hashed at.
    pub hash_revision: i64,
}

/// The store. Cheap to clone; all clones are the same store.
#[derive(Clone, Debug)]
pub struct Engine {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    options: EngineOptions,
    identity: Identity,
    store: Arc<RwLock<Store>>,
    reader: Reader,
    lessor: Arc<Mutex<Lessor>>,
    hub: Arc<Hub>,
    past: Past,
    queue: Queue,
    committer: Arc<Committer>,
    checkpointer: Checkpointer,
    clock: Arc<dyn Clock>,
    /// The term of this run.
    term: u64,
    sync_cost: Duration,
    /// Rung when a lease may be due earlier than the expirer thinks.
    leases_bell: Arc<Bell>,
    flush_bell: Arc<Bell>,
    threads: Mutex<Vec<(&'static str, JoinHandle<()>)>>,
    /// Held for the store's life; the next one to open it waits for this.
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

impl Engine {
    /// Opens the store, making it if it is not there.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Damaged`], [`Error::State`], [`Error::Foreign`], [`Error::FormatVersion`],
    /// [`Error::Io`].
    pub fn open(options: EngineOptions, seams: Seams) -> Result<Engine, Error> {
        let engine = Engine { inner: Arc::new(Inner::open(options, seams)?) };
        engine.start_threads()?;
        Ok(engine)
    }

    fn start_threads(&self) -> Result<(), Error> {
        let inner = &self.inner;
        if !inner.options.background {
            return Ok(());
        }
        let io = |source| Error::io("start a thread for", &inner.options.dir, source);
        let mut threads = inner.threads.lock();
        let expirer = expirer::spawn(Arc::downgrade(inner), inner.leases_bell.clone());
        threads.push(("lease-expirer", expirer.map_err(io)?));
        inner.leases_bell.ring();
        if let Durability::Buffered(every) = inner.options.durability {
            let flusher = flusher::spawn(inner.committer.clone(), inner.flush_bell.clone(), every);
            threads.push(("log-flusher", flusher.map_err(io)?));
        }
        Ok(())
    }

    /// Where the store stands.
    pub fn revision(&self) -> i64 {
        self.inner.store.read().revision
    }

    /// The floor promised to etcd's clients; 0 before the first compaction.
    pub fn compacted(&self) -> i64 {
        self.inner.store.read().compacted
    }

    /// The oldest revision that can physically be read.
    pub fn retained(&self) -> i64 {
        self.inner.store.read().retained
    }

    /// The history's id: another one means that revisions cannot be compared.
    pub fn incarnation(&self) -> &str {
        &self.inner.identity.incarnation
    }

    /// Reads keys, down to the promised floor.
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::FutureRevision`], [`Error::Damaged`], [`Error::Io`].
    pub fn range(&self, op: &RangeOp) -> Result<RangeResult, Error> {
        self.inner.reader.range(op, Floor::Compacted)
    }

    /// Reads keys, down to the physical floor.
    ///
    /// # Errors
    /// As [`Engine::range`].
    pub fn range_retained(&self, op: &RangeOp) -> Result<RangeResult, Error> {
        self.inner.reader.range(op, Floor::Retained)
    }

    /// Runs a transaction; it is durable when this returns. Blocks the thread: call it through `block_in_place`, or use
    /// [`Engine::submit`].
    ///
    /// # Errors
    /// What the operations' checks say, then with nothing written; [`Error::Poisoned`], [`Error::Busy`].
    pub fn commit(&self, txn: Txn, origin: &Origin) -> Result<TxnResult, Error> {
        if !txn.may_write() {
            return self.inner.committer.read_only(&txn);
        }
        txn_of(self.inner.request(Request::Txn { txn, origin: origin.clone() })?)
    }

    /// The same for tasks: whoever finds nobody leading a group leads one in place, the others wait without holding a
    /// thread. Dropping the future does not undo the write. Needs tokio's multi-thread runtime.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    pub async fn submit(&self, txn: Txn, origin: &Origin) -> Result<TxnResult, Error> {
        if !txn.may_write() {
            return self.inner.committer.read_only(&txn);
        }
        let request = Request::Txn { txn, origin: origin.clone() };
        txn_of(self.inner.request_async(request).await?)
    }

    /// Gives up history below `revision`; durable when this returns. With `physical`, waits until what can go is gone.
    ///
    /// # Errors
    /// [`Error::Compacted`] at or below the last compaction, [`Error::FutureRevision`], [`Error::Poisoned`].
    pub fn compact(&self, revision: i64, physical: bool) -> Result<i64, Error> {
        let answer = revision_of(self.inner.request(Request::Compact { revision, expire: false })?)?;
        if physical {
            self.inner.checkpointer.round()?;
        }
        Ok(answer)
    }

    /// Moves the physical floor to `revision` now.
    ///
    /// # Errors
    /// [`Error::FutureRevision`], [`Error::Poisoned`].
    pub fn expire(&self, revision: i64) -> Result<(), Error> {
        revision_of(self.inner.request(Request::Compact { revision, expire: true })?)?;
        self.inner.checkpointer.nudge();
        Ok(())
    }

    /// Takes over into the state what the log has now, and puts floors right that have risen; waits for it.
    ///
    /// # Errors
    /// [`Error::State`], [`Error::Damaged`], [`Error::Io`], if it is done in place; else they poison the store.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.inner.checkpointer.round()
    }

    /// Grants a lease; id 0 = draw one. Answers its id and the time to live in seconds, raised to the least allowed.
    ///
    /// # Errors
    /// [`Error::LeaseExists`], [`Error::LeaseTtlTooLarge`], [`Error::Poisoned`].
    pub fn lease_grant(&self, id: i64, ttl: i64) -> Result<(i64, i64), Error> {
        match self.inner.request(Request::LeaseGrant { id, ttl_secs: ttl })? {
            Reply::Lease(record) => {
                self.inner.leases_bell.ring();
                Ok((record.id, record.ttl_secs))
            }
            other => unreachable!("{other:?} is no answer to a grant"),
        }
    }

    /// The same for tasks, as [`Engine::submit`].
    ///
    /// # Errors
    /// As [`Engine::lease_grant`].
    pub async fn submit_lease_grant(&self, id: i64, ttl: i64) -> Result<(i64, i64), Error> {
        match self.inner.request_async(Request::LeaseGrant { id, ttl_secs: ttl }).await? {
            Reply::Lease(record) => {
                self.inner.leases_bell.ring();
                Ok((record.id, record.ttl_secs))
            }
            other => unreachable!("{other:?} is no answer to a grant"),
        }
    }

    /// Ends a lease and deletes its keys in one revision; answers where the store stands.
    ///
    /// # Errors
    /// [`Error::LeaseNotFound`], [`Error::Poisoned`].
    pub fn lease_revoke(&self, id: i64) -> Result<i64, Error> {
        let origin = Origin::system();
        revision_of(self.inner.request(Request::LeaseRevoke { ids: vec![id], origin, only_due: false })?)
    }

    /// The same for tasks, as [`Engine::submit`].
    ///
    /// # Errors
    /// As [`Engine::lease_revoke`].
    pub async fn submit_lease_revoke(&self, id: i64) -> Result<i64, Error> {
        let origin = Origin::system();
        revision_of(self.inner.request_async(Request::LeaseRevoke { ids: vec![id], origin, only_due: false }).await?)
    }

    /// Renews a lease to its granted time; `None` = no such lease.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn lease_keep_alive(&self, id: i64) -> Result<Option<i64>, Error> {
        let now = Moment::now(&*self.inner.clock);
        let Some(renewal) = self.inner.lessor.lock().keep_alive(id, now) else { return Ok(None) };
        if let Some(record) = renewal.record {
            match self.inner.request(Request::LeaseRenew(record)) {
                Ok(_) => {}
                Err(Error::LeaseNotFound(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(renewal.ttl_secs))
    }

    /// The same for tasks, as [`Engine::submit`]. Most renewals need no record and do not wait for anything.
    ///
    /// # Errors
    /// As [`Engine::lease_keep_alive`].
    pub async fn submit_lease_keep_alive(&self, id: i64) -> Result<Option<i64>, Error> {
        let now = Moment::now(&*self.inner.clock);
        let Some(renewal) = self.inner.lessor.lock().keep_alive(id, now) else { return Ok(None) };
        if let Some(record) = renewal.record {
            match self.inner.request_async(Request::LeaseRenew(record)).await {
                Ok(_) => {}
                Err(Error::LeaseNotFound(_)) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(renewal.ttl_secs))
    }

    /// What is left of a lease; `None` = no such lease.
    pub fn lease_time_to_live(&self, id: i64, keys: bool) -> Option<LeaseInfo> {
        let now = Moment::now(&*self.inner.clock);
        self.inner.lessor.lock().time_to_live(id, keys, now)
    }

    /// All leases, the next to end first.
    pub fn leases(&self) -> Vec<i64> {
        self.inner.lessor.lock().ids()
    }

    /// Begins a watch.
    ///
    /// # Errors
    /// [`Error::Compacted`] if the start is below the floor, [`Error::Closed`].
    pub fn watch(&self, options: WatchOptions) -> Result<Watcher, Error> {
        if options.start < 0 {
            return Err(Error::Compacted { requested: options.start, compacted: self.compacted() });
        }
        Watcher::new(options, self.inner.past.clone())
    }

    /// All watches.
    pub fn watchers(&self) -> Vec<WatcherInfo> {
        self.inner.hub.watchers()
    }

    /// Sizes and numbers.
    pub fn status(&self) -> EngineStatus {
        let inner = &self.inner;
        let (revision, compacted, retained, keys, live_bytes) = {
            let store = inner.store.read();
            (store.revision, store.compacted, store.retained, store.index.live() as i64, store.live_bytes)
        };
        EngineStatus {
            db_size: inner.reader.fetcher().size_on_disk() as i64,
            db_size_in_use: live_bytes,
            revision,
            compacted,
            retained,
            raft_term: inner.term,
            raft_index: inner.committer.seq(),
            cluster_id: inner.identity.cluster_id,
            member_id: inner.identity.member_id,
            keys,
            leases: inner.lessor.lock().len(),
            watchers: inner.hub.len(),
            durability: inner.options.durability,
            sync_cost: inner.sync_cost,
            poisoned: inner.committer.poisoned(),
        }
    }

    /// A hash over the whole store as it is now.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    pub fn hash(&self) -> Result<u32, Error> {
        self.hash_kv(0).map(|hash| hash.hash)
    }

    /// A hash over all revisions up to one; 0 = now. Reads every value, in steps that hold nobody up.
    ///
    /// # Errors
    /// [`Error::Compacted`], [`Error::FutureRevision`], [`Error::Damaged`], [`Error::Io`].
    pub fn hash_kv(&self, revision: i64) -> Result<HashKv, Error> {
        hash::hash_kv(&self.inner.store, &self.inner.reader, revision)
    }

    /// Ends the leases whose time is over; answers how long until the next one is due.
    pub fn end_due_leases(&self) -> Option<Duration> {
        self.inner.end_due()
    }

    /// Ends all watches and background work, refuses further writes, and lets go of the lock.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn open(options: EngineOptions, seams: Seams) -> Result<Inner, Error> {
        let seams = match options.durability {
            Durability::Memory => {
                Seams { disk: Arc::new(SimDisk::honest()), state: Arc::new(MemoryState::new()), clock: seams.clock }
            }
            _ => seams,
        };
        let Seams { disk, state, clock } = seams;
        let dir = options.dir.clone();
        disk.create_dir(&dir).map_err(|source| Error::io("make the folder", &dir, source))?;
        let lock = take_lock(&*disk, &dir)?;
        let cluster_id = options.cluster_id;
        let (state_reader, writer) = open_store(state.open()?, || new_identity(cluster_id))?;
        let meta = writer.meta().clone();
        let mut replayed = Replayed::new(&options, &meta, Moment::now(&*clock));
        replayed.load(&state_reader)?;
        let mut log_options = LogOptions::new(recover::log_dir(&dir), incarnation_bytes(&meta.identity.incarnation));
        log_options.preallocate = options.durability != Durability::Memory;
        log_options.background = options.background;
        options.log.apply(&mut log_options);
        let log_dir = log_options.dir.clone();
        let recovered = recover::open(log_options, disk.clone(), clock.clone(), meta.applied.seq, &mut replayed)?;
        let backlog =
            Arc::new(Backlog::new(options.checkpoint.clone(), replayed.unapplied_bytes(), options.background));
        let (store, lessor) = replayed.finish(recovered.last_revision);
        let hub = Arc::new(Hub::new(store.revision));
        let store = Arc::new(RwLock::new(store));
        let lessor = Arc::new(Mutex::new(lessor));
        let reader = Reader::new(store.clone(), Fetcher { segments: recovered.segments.clone(), state: state_reader });
        let readers = Arc::new(Semaphore::new(CATCH_UP_READERS));
        let past = Past { hub: hub.clone(), reader: reader.clone(), store: store.clone(), readers };
        let committer = Arc::new(Committer::new(Parts {
            appender: recovered.appender,
            store: store.clone(),
            lessor: lessor.clone(),
            reader: reader.clone(),
            hub: hub.clone(),
            clock: clock.clone(),
            backlog: backlog.clone(),
            sync: options.durability == Durability::Sync,
        }));
        let sync_cost = match options.durability {
            Durability::Memory => Duration::ZERO,
            _ => measure_sync(&*disk, &*clock, &dir)?,
        };
        let parts = checkpointer::Parts {
            writer,
            committer: committer.clone(),
            store: store.clone(),
            segments: recovered.segments,
            backlog,
            disk,
            log_dir,
            clock: clock.clone(),
        };
        let checkpointer = Checkpointer::start(parts, options.background)?;
        Ok(Inner {
            options,
            term: meta.identity.term + 1,
            sync_cost,
            leases_bell: Arc::new(Bell::default()),
            flush_bell: Arc::new(Bell::default()),
            threads: Mutex::new(Vec::new()),
            identity: meta.identity,
            store,
            reader,
            lessor,
            hub,
            past,
            queue: Queue::default(),
            committer,
            checkpointer,
            clock,
            lock: Mutex::new(Some(lock)),
        })
    }

    fn request(&self, request: Request) -> Result<Reply, Error> {
        self.queue.submit(request)?.wait(&self.queue, &*self.committer)
    }

    async fn request_async(&self, request: Request) -> Result<Reply, Error> {
        self.queue.submit(request)?.wait_async(&self.queue, &*self.committer).await
    }

    fn close(&self) {
        self.hub.close();
        self.leases_bell.stop();
        self.flush_bell.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_iter().for_each(|(name, thread)| bell::join(name, thread));
        self.checkpointer.stop();
        self.committer.close();
        self.lock.lock().take();
    }
}

impl Leases for Inner {
    fn end_due(&self) -> Option<Duration> {
        let now = Moment::now(&*self.clock);
        let due = self.lessor.lock().tick(now, LEASES_AT_ONCE);
        let more = due.len() == LEASES_AT_ONCE;
        if !due.is_empty() {
            let request = Request::LeaseRevoke { ids: due, origin: Origin::system(), only_due: true };
            let outcome = self.request(request);
            if matches!(outcome, Err(Error::Poisoned { .. } | Error::Closed)) {
                // Nothing ends any more until a restart; the leases are then as old as they are.
                return None;
            }
            if let Err(error) = outcome {
                tracing::warn!(%error, "due leases could not be ended; they are tried again");
                return Some(RETRY_AFTER);
            }
        }
        if more {
            return Some(Duration::ZERO);
        }
        let next = self.lessor.lock().next_deadline()?;
        Some(next.saturating_sub(self.clock.monotonic()))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

fn txn_of(reply: Reply) -> Result<TxnResult, Error> {
    match reply {
        Reply::Txn(result) => Ok(result),
        other => unreachable!("{other:?} is no answer to a transaction"),
    }
}

fn revision_of(reply: Reply) -> Result<i64, Error> {
    match reply {
        Reply::Done { revision } => Ok(revision),
        other => unreachable!("{other:?} is no revision"),
    }
}

fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>, Error> {
    let path = dir.join("lock");
    disk.lock(&path).map_err(|refused| match refused {
        LockRefused::Held { pid } => Error::Locked { path, pid },
        LockRefused::Io(source) => Error::io("lock", path, source),
    })
}

fn new_identity(cluster_id: u64) -> Identity {
    let mut rng = rand::rng();
    let mut draw = || rng.random_range(1..=u64::MAX);
    Identity {
        incarnation: Uuid::new_v4().to_string(),
        cluster_id: if cluster_id == 0 { draw() } else { cluster_id },
        member_id: draw(),
        term: 1,
    }
}

/// How long a sync takes here: the middle one of a few, of a page each.
fn measure_sync(disk: &dyn Disk, clock: &dyn Clock, dir: &Path) -> Result<Duration, Error> {
    let path = dir.join("probe");
    let io = |source| Error::io("measure the disk with", &path, source);
    let file = disk.open(&path, OpenMode::Replace).map_err(io)?;
    let mut times = Vec::new();
    for _ in 0..3 {
        let before = clock.monotonic();
        file.write_at(&[1; 4096], 0).map_err(io)?;
        file.sync().map_err(io)?;
        times.push(clock.monotonic() - before);
    }
    disk.remove(&path).map_err(io)?;
    times.sort();
    Ok(times[1])
}

/// The incarnation as the log's segments hold it.
fn incarnation_bytes(incarnation: &str) -> [u8; 16] {
    match Uuid::parse_str(incarnation) {
        Ok(uuid) => uuid.into_bytes(),
        Err(_) => {
            let mut bytes = [0; 16];
            let text = incarnation.as_bytes();
            let len = text.len().min(bytes.len());
            bytes[..len].copy_from_slice(&text[..len]);
            bytes
        }
    }
}
