//! The queue and the passing on of the lead, under threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::storage::{Origin, Txn, TxnResult};

/// A leader whose groups take until it is let go; answers each request with its number.
#[derive(Default)]
struct Gated {
    groups: AtomicU64,
    answered: AtomicU64,
    gate: Mutex<()>,
    panics: bool,
}

impl Lead for Gated {
    fn lead(&self, queue: &Queue) {
        self.groups.fetch_add(1, Ordering::SeqCst);
        let _open = self.gate.lock();
        let mut next = queue.pop(None);
        assert!(!self.panics, "as the test wants it");
        while let Some(taken) = next {
            drop(taken.take());
            let revision = self.answered.fetch_add(1, Ordering::SeqCst) as i64 + 1;
            taken.complete(Ok(Reply::Txn(TxnResult { revision, ..TxnResult::default() })));
            next = queue.pop(Some(Class::Txn));
        }
    }

    fn panicked(&self) {
        self.groups.fetch_add(1000, Ordering::SeqCst);
    }
}

fn request() -> Request {
    Request::Txn { txn: Txn::put("k", "v"), origin: Origin::default() }
}

async fn until(mut condition: impl FnMut() -> bool) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(tokio::time::Instant::now() < limit, "the condition never came");
        tokio::task::yield_now().await;
    }
}

/// Keeps the gate shut until the answer is dropped.
fn hold(leader: &Arc<Gated>) -> std::sync::mpsc::Sender<()> {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let (shut, is_shut) = std::sync::mpsc::channel();
    let leader = leader.clone();
    std::thread::spawn(move || {
        let _shut = leader.gate.lock();
        shut.send(()).expect("the test waits for it");
        let _end = receiver.recv();
    });
    is_shut.recv().expect("the gate is shut");
    sender
}

/// Starts a task that submits one request and waits for it.
fn spawn(queue: &Arc<Queue>, leader: &Arc<Gated>) -> tokio::task::JoinHandle<Result<Reply, Error>> {
    let (queue, leader) = (queue.clone(), leader.clone());
    tokio::spawn(async move { queue.submit(request())?.wait_async(&queue, &*leader).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn followers_share_the_next_group() {
    let (queue, leader) = (Arc::new(Queue::default()), Arc::new(Gated::default()));
    let gate = hold(&leader);
    let first = spawn(&queue, &leader);
    until(|| leader.groups.load(Ordering::SeqCst) == 1).await;
    let rest: Vec<_> = (0..9).map(|_| spawn(&queue, &leader)).collect();
    until(|| queue.len() == 10).await;
    drop(gate);
    first.await.expect("no panic").expect("answered");
    for task in rest {
        task.await.expect("no panic").expect("answered");
    }
    assert_eq!(leader.answered.load(Ordering::SeqCst), 10);
    assert!(leader.groups.load(Ordering::SeqCst) <= 2);
    assert!(queue.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_caller_that_goes_leaves_its_request_and_passes_the_lead_on() {
    for round in 0..50 {
        let (queue, leader) = (Arc::new(Queue::default()), Arc::new(Gated::default()));
        let gate = hold(&leader);
        let first = spawn(&queue, &leader);
        until(|| leader.groups.load(Ordering::SeqCst) == 1).await;
        let gone: Vec<_> = (0..5).map(|_| spawn(&queue, &leader)).collect();
        until(|| queue.len() == 6).await;
        // Some go before the lead is passed on, some after; one of them may just have been told to lead.
        gone.iter().take(round % 6).for_each(|task| task.abort());
        drop(gate);
        gone.iter().for_each(|task| task.abort());
        first.await.expect("no panic").expect("answered");
        until(|| leader.answered.load(Ordering::SeqCst) == 6).await;
        spawn(&queue, &leader).await.expect("no panic").expect("the queue goes on");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn in_a_lively_queue_others_come_first() {
    let (queue, leader) = (Arc::new(Queue::default()), Arc::new(Gated::default()));
    queue.last_group.store(2, Ordering::Relaxed);
    let all = {
        let (queue, leader) = (queue.clone(), leader.clone());
        // On the only worker, so that none of them runs before all are there.
        tokio::spawn(async move {
            let tasks: Vec<_> = (0..5).map(|_| spawn(&queue, &leader)).collect();
            for task in tasks {
                task.await.expect("no panic").expect("answered");
            }
        })
    };
    all.await.expect("no panic");
    assert_eq!(leader.groups.load(Ordering::SeqCst), 1, "the first has waited for the others");
    spawn(&queue, &leader).await.expect("no panic").expect("answered");
    assert!(!queue.is_lively(), "one that comes alone is alone again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_goes_before_it_leads_leads_on_its_way() {
    let (queue, leader) = (Queue::default(), Gated::default());
    queue.last_group.store(2, Ordering::Relaxed);
    let mut waiting = Box::pin(queue.submit(request()).expect("there is room").wait_async(&queue, &leader));
    assert!(futures::poll!(waiting.as_mut()).is_pending(), "it lets others come first");
    drop(waiting);
    assert_eq!(leader.answered.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_the_leader_is_an_answer_to_all() {
    let (queue, leader) = (Arc::new(Queue::default()), Arc::new(Gated { panics: true, ..Gated::default() }));
    let tasks: Vec<_> = (0..4).map(|_| spawn(&queue, &leader)).collect();
    for task in tasks {
        let answer = task.await.expect("the panic stays where it was");
        assert!(matches!(answer, Err(Error::Poisoned { .. })), "{answer:?}");
    }
    assert!(leader.groups.load(Ordering::SeqCst) >= 1000);
}

#[test]
fn threads_wait_without_a_runtime() {
    let (queue, leader) = (Queue::default(), Gated::default());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    queue.submit(request()).expect("there is room").wait(&queue, &leader).expect("answered");
                }
            });
        }
    });
    assert_eq!(leader.answered.load(Ordering::SeqCst), 800);
}
