//! The one door to the store.

mod folder;

mod leases;

mod open;

mod options;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::clock::Clock;
use crate::storage::commit::{Committer, Queue, Reply, Request};
use crate::storage::disk::DiskLock;
use crate::storage::housekeeping::checkpointer::Checkpointer;
use crate::storage::housekeeping::{Bell, bell, expirer, flusher};
use crate::storage::lease::Lessor;
use crate::storage::mvcc::{Reader, Store, hash};
use crate::storage::state::Identity;
use crate::storage::watch::watcher::Past;
use crate::storage::watch::{Floor, Hub, WatchOptions, Watcher, WatcherInfo};
use crate::storage::{Error, Origin, RangeOp, RangeResult, Txn, TxnResult};

pub use folder::{check_folder, check_no_cluster};
pub use options::{Durability, EngineOptions, EngineStatus, HashKv, LogSizes, Seams};

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

/// Whether the disk has room for so many bytes more; where that cannot be told, the next write tells.
fn has_room(dir: &std::path::Path, bytes: u64) -> bool {
    rustix::fs::statvfs(dir).is_ok_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= bytes)
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

    /// The revision of a key's last write, without what it holds; `None` = there is no such key.
    pub fn mod_revision(&self, key: &[u8]) -> Option<i64> {
        let store = self.inner.store.read();
        store.index.get(key).filter(|entry| entry.is_live()).map(|entry| entry.head.main)
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
            no_room: inner.committer.lacking().is_some_and(|bytes| !has_room(&inner.options.dir, bytes)),
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

    /// Ends all watches and background work, refuses further writes, and lets go of the lock.
    pub fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
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
