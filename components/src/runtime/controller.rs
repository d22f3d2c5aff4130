//! Takes keys from a queue and reconciles them.
//!
//! Level-triggered by type: a [`Reconciler`] gets a name, reads what is, and acts on that alone. Invariants: no key
//! runs twice at once; nothing runs before every cache it reads has synced; a key whose last run has written something
//! runs again only when the caches of the written kinds have come to those writes; a panic in a run is a failure of
//! that run.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use listwatch_proto::resource::{Kind, ObjectKey};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::unseen::Unseen;
use super::{RateLimitedQueue, Stopped, Store};
use crate::client::own_writes;
use crate::client::{Error, Resource};

/// Runs that may be under way or wait for a cache at the same time, beyond the workers: keys that wait for their own
/// writes to show must not keep others from running.
const WAITING_MAX: usize = 256;
/// A key fails at most so long apart while the cause is a server that is away: it comes back soon, and then at once.
const TRANSIENT_CAP: Duration = Duration::from_secs(1);
/// And so long apart while the server refuses what is asked: a quota that is full has room again at any time, and nobody
/// tells.
const REFUSED_CAP: Duration = Duration::from_secs(30);
/// How long runs that are under way are let finish at the end. A server that is well answers within milliseconds; what waits
/// for one that stands still is dropped, as a kill would: whoever leads next looks at what is.
const LET_FINISH: Duration = Duration::from_secs(3);
/// Runs at once unless told otherwise (upstream's number for Deployments and ReplicaSets).
const WORKERS: usize = 5;

/// What a run failed with.
pub type ReconcileError = Box<dyn std::error::Error + Send + Sync>;

/// When to come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// When something changes.
    Done,
    /// After this time, if nothing changes before.
    RequeueAfter(Duration),
}

/// Makes what is equal to what is wanted, for one object.
#[async_trait]
pub trait Reconciler: Send + Sync + 'static {
    /// Reads the stores, compares, acts. An error brings the key back after a pause that grows.
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError>;
}

#[async_trait]
impl<R: Reconciler> Reconciler for Arc<R> {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        (**self).reconcile(key).await
    }
}

/// A queue, its workers and a reconciler.
pub struct Controller<R> {
    name: &'static str,
    reconciler: Arc<R>,
    queue: RateLimitedQueue<ObjectKey>,
    workers: usize,
    caches: Vec<Cache>,
}

/// A cache that runs read, seen as a clock.
struct Cache {
    kind: &'static Kind,
    wait: Box<dyn Fn(Wanted) -> Wait + Send + Sync>,
    /// The revision that it has come to.
    shown: Box<dyn Fn() -> i64 + Send + Sync>,
}

type Wait = Pin<Box<dyn Future<Output = Result<(), Stopped>> + Send>>;

#[derive(Clone, Copy)]
enum Wanted {
    Synced,
    Revision(i64),
}

/// What all runs share.
struct Shared<R> {
    name: &'static str,
    reconciler: Arc<R>,
    queue: RateLimitedQueue<ObjectKey>,
    caches: Vec<Cache>,
    permits: Semaphore,
    /// What the last run of each key has written and no run has waited for yet.
    unseen: Mutex<Unseen>,
}

impl<R: Reconciler> Controller<R> {
    /// A controller of this name (for logs), with five workers.
    pub fn new(name: &'static str, reconciler: R) -> Self {
        let reconciler = Arc::new(reconciler);
        Controller { name, reconciler, queue: RateLimitedQueue::new(), workers: WORKERS, caches: Vec::new() }
    }

    /// Runs so many keys at once.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers.max(1);
        self
    }

    /// Names a cache that runs read: nothing runs before it has synced, and a key that wrote objects of this kind waits
    /// until the cache shows them. A kind that is written but not read need not be named.
    #[must_use]
    pub fn reads<T: Resource>(self, store: &Store<T>) -> Self {
        self.reads_kind(T::kind(), store)
    }

    /// As [`Controller::reads`], for a cached type of the program's own.
    #[must_use]
    pub fn reads_kind<T: Send + Sync + 'static>(mut self, kind: &'static Kind, store: &Store<T>) -> Self {
        let (store, seen) = (store.clone(), store.clone());
        let shown = Box::new(move || seen.seen_up_to());
        let wait = Box::new(move |wanted| {
            let store = store.clone();
            async move {
                match wanted {
                    Wanted::Synced => store.wait_synced().await,
                    Wanted::Revision(revision) => store.wait_for(revision).await,
                }
            }
            .boxed()
        });
        self.caches.push(Cache { kind, wait, shown });
        self
    }

    /// The queue, for handlers to put keys in.
    pub fn queue(&self) -> RateLimitedQueue<ObjectKey> {
        self.queue.clone()
    }

    /// The reconciler.
    pub fn reconciler(&self) -> &Arc<R> {
        &self.reconciler
    }

    /// Runs until told to stop (then the runs under way are let finish, for a moment), or until the future is dropped (then
    /// they are dropped too), or until a cache it reads is no longer fed.
    pub async fn run(self, shutdown: CancellationToken) {
        let shared = Arc::new(Shared {
            name: self.name,
            reconciler: self.reconciler,
            queue: self.queue,
            caches: self.caches,
            permits: Semaphore::new(self.workers),
            unseen: Mutex::default(),
        });
        tokio::select! {
            () = shutdown.cancelled() => return,
            synced = shared.wait_synced() => if synced.is_err() { return },
        }
        tracing::debug!(controller = self.name, workers = self.workers, "caches have synced");
        let mut runs = JoinSet::new();
        loop {
            tokio::select! {
                // The end: no more keys.
                () = shutdown.cancelled() => break,
                // A run has ended.
                Some(_) = runs.join_next() => {}
                // A key is to run, and there is room.
                key = shared.queue.get(), if runs.len() < self.workers + WAITING_MAX => match key {
                    Some(key) => drop(runs.spawn(shared.clone().run_key(key, shutdown.clone()))),
                    None => break,
                },
            }
        }
        shared.queue.close();
        let finish = async { while runs.join_next().await.is_some() {} };
        if timeout(LET_FINISH, finish).await.is_err() {
            tracing::debug!(
                controller = self.name,
                runs = runs.len(),
                "runs that the server keeps waiting are dropped"
            );
        }
    }
}

impl<R: Reconciler> Shared<R> {
    async fn wait_synced(&self) -> Result<(), Stopped> {
        for cache in &self.caches {
            (cache.wait)(Wanted::Synced).await?;
        }
        Ok(())
    }

    /// Waits until the caches show what this key's last run wrote.
    async fn wait_own_writes(&self, key: &ObjectKey) -> Result<(), Stopped> {
        let writes = self.unseen.lock().take(key);
        for write in writes {
            for cache in self.caches.iter().filter(|c| c.kind == write.kind) {
                (cache.wait)(Wanted::Revision(write.revision)).await?;
            }
        }
        Ok(())
    }

    /// One key from the queue to its end. Cancelled between runs only: a run under way is let finish, for a moment.
    async fn run_key(self: Arc<Self>, key: ObjectKey, shutdown: CancellationToken) {
        let ready = async {
            self.wait_own_writes(&key).await.ok()?;
            self.permits.acquire().await.ok()
        };
        let permit = tokio::select! {
            () = shutdown.cancelled() => return,
            permit = ready => permit,
        };
        if permit.is_none() {
            return;
        }
        let run = std::panic::AssertUnwindSafe(self.reconciler.reconcile(&key)).catch_unwind();
        let (outcome, writes) = own_writes::record(run).await;
        if !writes.is_empty() {
            let shown = |kind| self.caches.iter().filter(|c| c.kind == kind).map(|c| (c.shown)()).min();
            self.unseen.lock().note(&key, writes, shown);
        }
        let outcome = outcome.unwrap_or_else(|panic| Err(panic_text(&*panic).into()));
        self.conclude(&key, outcome);
        self.queue.done(&key);
    }

    fn conclude(&self, key: &ObjectKey, outcome: Result<Action, ReconcileError>) {
        match outcome {
            Ok(Action::Done) => self.queue.forget(key),
            Ok(Action::RequeueAfter(delay)) => {
                self.queue.forget(key);
                self.queue.add_after(key.clone(), delay);
            }
            Err(error) => match severity(&*error) {
                Severity::Expected => {
                    let wait = self.queue.add_failed(key.clone(), TRANSIENT_CAP);
                    tracing::debug!(controller = self.name, %key, %error, ?wait, "reconcile will be tried again");
                }
                Severity::Refused => {
                    let wait = self.queue.add_failed(key.clone(), REFUSED_CAP);
                    tracing::warn!(controller = self.name, %key, %error, ?wait, "reconcile refused");
                }
                Severity::Failure => {
                    let wait = self.queue.add_rate_limited(key.clone());
                    tracing::warn!(controller = self.name, %key, %error, ?wait, "reconcile failed");
                }
            },
        }
    }
}

enum Severity {
    /// Part of life: a conflict, a server that is away, the end of leading.
    Expected,
    /// The server does not allow it as things are.
    Refused,
    /// Anything else.
    Failure,
}

fn severity(error: &(dyn std::error::Error + 'static)) -> Severity {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<Error>() {
            if error.is_conflict() || error.is_transient() || error.is_not_leading() {
                return Severity::Expected;
            }
            if error.is_forbidden() {
                return Severity::Refused;
            }
        }
        next = error.source();
    }
    Severity::Failure
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("reconcile panicked: {}", text.unwrap_or("no message"))
}
