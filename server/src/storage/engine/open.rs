//! Opening a store: lock, state, log, then the parts that work on them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use rand::Rng;
use tokio::sync::Semaphore;
use uuid::Uuid;

use super::Inner;
use super::folder::check_folder;
use super::options::{Durability, EngineOptions, Seams};
use crate::clock::Clock;
use crate::storage::commit::{Committer, Parts, Queue};
use crate::storage::disk::{DiskLock, LockRefused, OpenMode};
use crate::storage::housekeeping::checkpointer::{self, Checkpointer};
use crate::storage::housekeeping::{Backlog, Bell};
use crate::storage::lease::{Lessor, Moment};
use crate::storage::log::{LogOptions, Recovered, recover};
use crate::storage::mvcc::read::Fetcher;
use crate::storage::mvcc::{Reader, Store};
use crate::storage::replay::Replayed;
use crate::storage::state::{Identity, MemoryState, StateReader, StateWriter, open_store};
use crate::storage::watch::Hub;
use crate::storage::watch::watcher::Past;
use crate::storage::{Disk, Error, SimDisk};

/// Watchers that read the log at once: each holds some megabytes, and one reads 100,000 revisions a second.
const CATCH_UP_READERS: usize = 4;

/// What a start has found on the disk.
struct Found {
    lock: Box<dyn DiskLock>,
    identity: Identity,
    state: StateReader,
    writer: StateWriter,
    log: Recovered,
    log_dir: PathBuf,
    store: Store,
    lessor: Lessor,
    unapplied_bytes: u64,
    sync_cost: Duration,
}

impl Inner {
    pub(super) fn open(options: EngineOptions, seams: Seams) -> Result<Inner, Error> {
        let seams = match options.durability {
            Durability::Memory => {
                Seams { disk: Arc::new(SimDisk::honest()), state: Arc::new(MemoryState::new()), clock: seams.clock }
            }
            _ => seams,
        };
        let found = find(&options, &seams)?;
        let clock = seams.clock;
        let backlog = Backlog::new(options.checkpoint.clone(), found.unapplied_bytes, options.background);
        let backlog = Arc::new(backlog);
        let hub = Arc::new(Hub::new(found.store.revision));
        let store = Arc::new(RwLock::new(found.store));
        let lessor = Arc::new(Mutex::new(found.lessor));
        let segments = found.log.segments;
        let reader = Reader::new(store.clone(), Fetcher { segments: segments.clone(), state: found.state });
        let readers = Arc::new(Semaphore::new(CATCH_UP_READERS));
        let past = Past { hub: hub.clone(), reader: reader.clone(), store: store.clone(), readers };
        let committer = Arc::new(Committer::new(Parts {
            appender: found.log.appender,
            store: store.clone(),
            lessor: lessor.clone(),
            reader: reader.clone(),
            hub: hub.clone(),
            clock: clock.clone(),
            backlog: backlog.clone(),
            sync: options.durability == Durability::Sync,
        }));
        let parts = checkpointer::Parts {
            writer: found.writer,
            committer: committer.clone(),
            store: store.clone(),
            segments,
            backlog,
            disk: seams.disk,
            log_dir: found.log_dir,
            clock: clock.clone(),
        };
        let checkpointer = Checkpointer::start(parts, options.background)?;
        Ok(Inner {
            options,
            term: found.identity.term + 1,
            sync_cost: found.sync_cost,
            leases_bell: Arc::new(Bell::default()),
            flush_bell: Arc::new(Bell::default()),
            threads: Mutex::new(Vec::new()),
            identity: found.identity,
            store,
            reader,
            lessor,
            hub,
            past,
            queue: Queue::default(),
            committer,
            checkpointer,
            clock,
            lock: Mutex::new(Some(found.lock)),
        })
    }
}

/// Takes the lock and reads what there is: the state first, then the log beyond it.
fn find(options: &EngineOptions, seams: &Seams) -> Result<Found, Error> {
    let Seams { disk, state, clock } = seams;
    let dir = &options.dir;
    check_folder(&**disk, dir)?;
    disk.create_dir(dir).map_err(|source| Error::io("make the folder", dir, source))?;
    let lock = take_lock(&**disk, dir)?;
    let (state, mut writer) = open_store(state.open()?, || new_identity(options.cluster_id))?;
    let meta = writer.meta().clone();
    let mut replayed = Replayed::new(options, &meta, Moment::now(&**clock));
    replayed.load(&state)?;
    let log_dir = recover::log_dir(dir);
    let mut log_options = LogOptions::new(&log_dir, incarnation_bytes(&meta.identity.incarnation));
    log_options.preallocate = options.durability != Durability::Memory;
    log_options.background = options.background;
    log_options.begun = writer.log_begun();
    options.log.apply(&mut log_options);
    let log = recover::open(log_options, disk.clone(), clock.clone(), meta.applied.seq, &mut replayed)?;
    writer.note_log_begun()?;
    let unapplied_bytes = replayed.unapplied_bytes();
    let (store, lessor) = replayed.finish(log.last_revision);
    let sync_cost = match options.durability {
        Durability::Memory => Duration::ZERO,
        _ => measure_sync(&**disk, &**clock, dir)?,
    };
    let identity = meta.identity;
    Ok(Found { lock, identity, state, writer, log, log_dir, store, lessor, unapplied_bytes, sync_cost })
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

/// On a slow disk one sync must do as a measure: the start does not wait for more.
const PROBE_MAX: Duration = Duration::from_millis(1);

/// How long a sync takes here: the middle one of a few, of a page that is already there.
fn measure_sync(disk: &dyn Disk, clock: &dyn Clock, dir: &Path) -> Result<Duration, Error> {
    let path = dir.join("probe");
    let io = |source| Error::io("measure the disk with", &path, source);
    let file = disk.open(&path, OpenMode::Replace).map_err(io)?;
    file.write_at(&[0; 4096], 0).map_err(io)?;
    file.sync().map_err(io)?;
    let mut times = Vec::new();
    for _ in 0..3 {
        let before = clock.monotonic();
        file.write_at(&[1; 4096], 0).map_err(io)?;
        file.sync().map_err(io)?;
        times.push(clock.monotonic() - before);
        if times.iter().sum::<Duration>() > PROBE_MAX {
            break;
        }
    }
    disk.remove(&path).map_err(io)?;
    times.sort();
    Ok(times[times.len() / 2])
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
