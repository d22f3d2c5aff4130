//! The controller: one run of a key at a time, no run on a cache older than the own last write, failures come back.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use listwatch_components::client::{Cached, own_writes};
use listwatch_components::runtime::{
    Action, Controller, IndexerBuilder, RateLimitedQueue, ReconcileError, Reconciler, Store, Writer,
};
use listwatch_proto::resource::{Kind, ObjectKey};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::scripted::LIMIT;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

fn pod_kind() -> &'static Kind {
    Kind::by_name("pod").expect("known")
}

struct Running {
    queue: RateLimitedQueue<ObjectKey>,
    writer: Writer<Pod>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

fn start<R: Reconciler>(workers: usize, reconciler: impl FnOnce(Store<Pod>) -> R) -> Running {
    let (writer, store) = IndexerBuilder::new().build();
    let controller = Controller::new("test", reconciler(store.clone())).workers(workers).reads(&store);
    let (queue, shutdown) = (controller.queue(), CancellationToken::new());
    let task = tokio::spawn(controller.run(shutdown.clone()));
    Running { queue, writer, shutdown, task }
}

impl Running {
    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(LIMIT, self.task).await.expect("it stops").expect("no panic");
    }
}

/// Tells of each run what the cache showed, and writes once.
struct Writing {
    store: Store<Pod>,
    runs: mpsc::UnboundedSender<i64>,
    writes: AtomicUsize,
}

#[async_trait]
impl Reconciler for Writing {
    async fn reconcile(&self, _key: &ObjectKey) -> Result<Action, ReconcileError> {
        self.runs.send(self.store.seen_up_to())?;
        if self.writes.fetch_add(1, Ordering::Relaxed) == 0 {
            own_writes::note(pod_kind(), 20);
        }
        Ok(Action::Done)
    }
}

async fn next<T>(runs: &mut mpsc::UnboundedReceiver<T>) -> T {
    tokio::time::timeout(LIMIT, runs.recv()).await.expect("a run").expect("the reconciler lives")
}

#[tokio::test]
async fn nothing_runs_before_the_sync_nor_on_a_cache_older_than_the_own_write() {
    let (sender, mut runs) = mpsc::unbounded_channel();
    let mut running = start(1, |store| Writing { store, runs: sender, writes: AtomicUsize::new(0) });
    running.queue.add(key("a"));
    tokio::task::yield_now().await;
    assert!(runs.try_recv().is_err());
    running.writer.advance(10, "one");
    assert_eq!(next(&mut runs).await, 10);
    // The write is at 20: this key waits, another runs meanwhile although there is one worker.
    running.queue.add(key("a"));
    running.queue.add(key("b"));
    assert_eq!(next(&mut runs).await, 10);
    running.writer.advance(19, "one");
    tokio::task::yield_now().await;
    assert!(runs.try_recv().is_err());
    running.writer.advance(20, "one");
    assert_eq!(next(&mut runs).await, 20);
    running.stop().await;
}

/// Fails, panics, or asks to be called again, as told.
struct Moody {
    runs: mpsc::UnboundedSender<usize>,
    count: AtomicUsize,
}

#[async_trait]
impl Reconciler for Moody {
    async fn reconcile(&self, _key: &ObjectKey) -> Result<Action, ReconcileError> {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        self.runs.send(count)?;
        match count {
            0 => Err("fails at first".into()),
            1 => panic!("panics then"),
            2 => Ok(Action::RequeueAfter(Duration::from_millis(1))),
            _ => Ok(Action::Done),
        }
    }
}

#[tokio::test]
async fn failures_panics_and_wishes_bring_a_key_back() {
    let (sender, mut runs) = mpsc::unbounded_channel();
    let mut running = start(2, |_| Moody { runs: sender, count: AtomicUsize::new(0) });
    running.writer.advance(1, "one");
    running.queue.add(key("a"));
    for count in 0..4 {
        assert_eq!(next(&mut runs).await, count);
    }
    let forgotten = async {
        while running.queue.failures(&key("a")) > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, forgotten).await.expect("success forgets failures");
    running.stop().await;
}

/// Counts what runs at once, for each key and in all.
struct Counting {
    running: Mutex<HashSet<ObjectKey>>,
    most: AtomicUsize,
    twice: AtomicBool,
    /// For each key the highest number that was put in before a run began.
    wanted: Arc<Mutex<std::collections::HashMap<ObjectKey, u64>>>,
    seen: Mutex<std::collections::HashMap<ObjectKey, u64>>,
    changed: watch::Sender<u64>,
}

#[async_trait]
impl Reconciler for Counting {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let wanted = self.wanted.lock().get(key).copied().unwrap_or(0);
        {
            let mut running = self.running.lock();
            if !running.insert(key.clone()) {
                self.twice.store(true, Ordering::Relaxed);
            }
            self.most.fetch_max(running.len(), Ordering::Relaxed);
        }
        tokio::task::yield_now().await;
        self.running.lock().remove(key);
        self.seen.lock().insert(key.clone(), wanted);
        self.changed.send_modify(|n| *n += 1);
        Ok(Action::Done)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_key_runs_twice_at_once_and_every_wish_is_seen_by_a_later_run() {
    let (changed, mut changes) = watch::channel(0);
    let counting = Arc::new(Counting {
        running: Mutex::default(),
        most: AtomicUsize::new(0),
        twice: AtomicBool::new(false),
        wanted: Arc::default(),
        seen: Mutex::default(),
        changed,
    });
    let mut running = start(3, |_| counting.clone());
    running.writer.advance(1, "one");
    let producers: Vec<_> = (0..4_u64)
        .map(|producer| {
            let (queue, wanted) = (running.queue.clone(), counting.wanted.clone());
            tokio::spawn(async move {
                for i in 0..500_u64 {
                    let key = key(&format!("k{}", (i * 7 + producer) % 10));
                    *wanted.lock().entry(key.clone()).or_insert(0) += 1;
                    queue.add(key);
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for producer in producers {
        producer.await.expect("no panic");
    }
    let all_seen = changes.wait_for(|_| *counting.seen.lock() == *counting.wanted.lock());
    tokio::time::timeout(LIMIT, all_seen).await.expect("every wish is seen").expect("running");
    assert!(!counting.twice.load(Ordering::Relaxed));
    assert!((1..=3).contains(&counting.most.load(Ordering::Relaxed)));
    running.stop().await;
}

#[tokio::test]
async fn the_cache_that_ends_ends_the_controller() {
    let (sender, mut runs) = mpsc::unbounded_channel();
    let Running { queue, writer, shutdown: _shutdown, task } =
        start(1, |store| Writing { store, runs: sender, writes: AtomicUsize::new(0) });
    queue.add(key("a"));
    drop(writer);
    tokio::time::timeout(LIMIT, task).await.expect("it ends").expect("no panic");
    assert!(runs.try_recv().is_err());
}

#[test]
fn a_cached_pod_reads_as_a_pod() {
    let pod: Cached<Pod> = Cached::from_wire(crate::scripted::wire_pod(3, "a")).expect("a pod");
    assert_eq!((pod.key.name.as_str(), pod.metadata.uid.as_deref()), ("a", Some("uid-a")));
}

/// Waits for an answer that never comes.
struct Waiting {
    begun: mpsc::UnboundedSender<()>,
}

#[async_trait]
impl Reconciler for Waiting {
    async fn reconcile(&self, _key: &ObjectKey) -> Result<Action, ReconcileError> {
        self.begun.send(())?;
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_run_that_never_ends_does_not_hold_up_the_end() {
    let (begun, mut runs) = mpsc::unbounded_channel();
    let mut running = start(1, |_| Waiting { begun });
    running.writer.advance(1, "one");
    running.queue.add(key("a"));
    next(&mut runs).await;
    let told = std::time::Instant::now();
    running.stop().await;
    assert!(told.elapsed() < Duration::from_secs(8), "{:?}", told.elapsed());
}
