//! Leader election: one works at a time, a clean stop hands over, a loss stops the work, a slot takes over its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use listwatch_components::client::{Api, Client, DeleteParams, Error, Fence};
use listwatch_components::clock;
use listwatch_components::runtime::{ElectionConfig, LeaderElection, Outcome, Recorder, SlotLock};
use listwatch_proto::resource::ObjectKey;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::scripted::{LIMIT, Server};

struct Candidate {
    shutdown: CancellationToken,
    task: JoinHandle<Outcome>,
}

/// What the candidates' work tells: who began and who ended.
type Log = mpsc::UnboundedReceiver<String>;

fn config(identity: &str) -> ElectionConfig {
    ElectionConfig {
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(700),
        retry_period: Duration::from_millis(50),
        ..ElectionConfig::new("test", identity)
    }
}

fn candidate(client: &Client, config: ElectionConfig, log: &mpsc::UnboundedSender<String>) -> Candidate {
    let identity = config.identity.clone();
    spawn(LeaderElection::new(client, config, clock::system()), identity, log)
}

fn spawn(election: LeaderElection, identity: String, log: &mpsc::UnboundedSender<String>) -> Candidate {
    let (shutdown, log) = (CancellationToken::new(), log.clone());
    let stop = shutdown.clone();
    let task = tokio::spawn(async move {
        let work = |stop: CancellationToken| async move {
            log.send(format!("{identity} begins")).expect("the test listens");
            stop.cancelled().await;
            log.send(format!("{identity} ends")).expect("the test listens");
        };
        election.run(stop, work).await.expect("a good configuration")
    });
    Candidate { shutdown, task }
}

impl Candidate {
    async fn outcome(self) -> Outcome {
        tokio::time::timeout(LIMIT, self.task).await.expect("it ends").expect("no panic")
    }
}

async fn next(log: &mut Log) -> String {
    tokio::time::timeout(LIMIT, log.recv()).await.expect("in time").expect("a candidate lives")
}

async fn lease(client: &Client) -> Lease {
    Api::<Lease>::new(client).get(&ObjectKey::new("kube-system", "test")).await.expect("the lease").object
}

fn holder(lease: &Lease) -> (&str, i32) {
    let spec = lease.spec.as_ref().expect("a spec");
    (spec.holder_identity.as_deref().unwrap_or_default(), spec.lease_transitions.unwrap_or(0))
}

#[tokio::test]
async fn one_works_at_a_time_and_a_clean_stop_hands_over() {
    let server = Server::start();
    let (sender, mut log) = mpsc::unbounded_channel();
    let a = candidate(&server.client(), config("a"), &sender);
    assert_eq!(next(&mut log).await, "a begins");
    let b = candidate(&server.client(), config("b"), &sender);
    assert_eq!(holder(&lease(&server.client()).await), ("a", 0));
    a.shutdown.cancel();
    assert_eq!(next(&mut log).await, "a ends");
    assert_eq!(a.outcome().await, Outcome::Stopped);
    assert_eq!(next(&mut log).await, "b begins");
    assert_eq!(holder(&lease(&server.client()).await), ("b", 1));
    b.shutdown.cancel();
    assert_eq!(b.outcome().await, Outcome::Stopped);
    let released = lease(&server.client()).await;
    assert_eq!(holder(&released).0, "");
    assert_eq!(released.spec.and_then(|s| s.lease_duration_seconds), Some(1));
}

#[tokio::test]
async fn a_candidate_waits_out_a_dead_leader_by_its_own_watch() {
    let server = Server::start();
    let (sender, mut log) = mpsc::unbounded_channel();
    let a = candidate(&server.client(), config("a"), &sender);
    assert_eq!(next(&mut log).await, "a begins");
    a.task.abort();
    let began = Instant::now();
    let b = candidate(&server.client(), config("b"), &sender);
    assert_eq!(next(&mut log).await, "b begins");
    assert!(began.elapsed() >= Duration::from_secs(1), "the lease lives a second from when b has seen it");
    b.shutdown.cancel();
    b.outcome().await;
}

#[tokio::test]
async fn a_leader_that_cannot_renew_stops_its_work_before_another_may_begin() {
    let server = Server::start();
    let (sender, mut log) = mpsc::unbounded_channel();
    let a = candidate(&server.client(), config("a"), &sender);
    assert_eq!(next(&mut log).await, "a begins");
    let began = Instant::now();
    *server.shared.failing.lock() = Some(tonic::Code::Unavailable);
    assert_eq!(next(&mut log).await, "a ends");
    assert!(began.elapsed() < Duration::from_secs(1));
    assert_eq!(a.outcome().await, Outcome::Lost);
}

#[tokio::test]
async fn a_leader_writes_only_while_its_lease_certainly_holds() {
    let server = Server::start();
    let fence = Fence::shut();
    let writer = Api::<Lease>::new(&server.client().fenced(fence.clone()));
    let own = || Lease {
        metadata: ObjectMeta {
            namespace: Some("kube-system".to_owned()),
            name: Some("own".to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    };
    assert!(matches!(writer.create(&own()).await, Err(Error::NotLeading)), "nobody leads yet");
    let (sender, mut log) = mpsc::unbounded_channel();
    let election = LeaderElection::new(&server.client(), config("a"), clock::system()).fence(fence.clone());
    let a = spawn(election, "a".to_owned(), &sender);
    assert_eq!(next(&mut log).await, "a begins");
    writer.create(&own()).await.expect("it leads");
    // Longer than one deadline: it is renewals that keep the fence open.
    let kept = Instant::now() + config("a").renew_deadline + config("a").retry_period;
    while Instant::now() < kept {
        assert!(fence.is_open(), "the lease is renewed");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    *server.shared.failing.lock() = Some(tonic::Code::Unavailable);
    let failing = Instant::now();
    while fence.is_open() {
        assert!(failing.elapsed() < config("a").lease_duration, "shut before another may lead");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    *server.shared.failing.lock() = None;
    assert_eq!(next(&mut log).await, "a ends");
    assert_eq!(a.outcome().await, Outcome::Lost);
    let key = ObjectKey::new("kube-system", "own");
    assert!(matches!(writer.delete(&key, &DeleteParams::any()).await, Err(Error::NotLeading)));
    writer.get(&key).await.expect("reading is allowed");
}

#[tokio::test]
async fn a_leader_whose_lease_is_taken_stops_at_once() {
    let server = Server::start();
    let (sender, mut log) = mpsc::unbounded_channel();
    let a = candidate(&server.client(), config("a"), &sender);
    assert_eq!(next(&mut log).await, "a begins");
    let mut stolen = lease(&server.client()).await;
    stolen.metadata.resource_version = None;
    stolen.spec.as_mut().expect("a spec").holder_identity = Some("thief".to_owned());
    Api::<Lease>::new(&server.client()).update(&stolen).await.expect("stolen");
    assert_eq!(next(&mut log).await, "a ends");
    assert_eq!(a.outcome().await, Outcome::Lost);
    assert_eq!(holder(&lease(&server.client()).await).0, "thief");
}

#[tokio::test]
async fn a_slot_takes_its_own_lease_over_at_once_but_only_with_its_lock() {
    let server = Server::start();
    let dir = tempfile::tempdir().expect("temp dir");
    let lock = dir.path().join("slot");
    // An hour: nobody can wait this out.
    let slot = || ElectionConfig {
        lease_duration: Duration::from_secs(3600),
        slot_lock: Some(lock.clone()),
        ..config("slot-0")
    };
    let (sender, mut log) = mpsc::unbounded_channel();
    let first = candidate(&server.client(), slot(), &sender);
    assert_eq!(next(&mut log).await, "slot-0 begins");
    // While the first lives the second does not begin, although the lease is in its name.
    let second = candidate(&server.client(), slot(), &sender);
    let calls = server.shared.calls.load(Ordering::Relaxed);
    let asked = async {
        while server.shared.calls.load(Ordering::Relaxed) < calls + 6 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, asked).await.expect("both go on asking");
    assert!(log.try_recv().is_err());
    first.task.abort();
    assert_eq!(next(&mut log).await, "slot-0 begins");
    assert_eq!(holder(&lease(&server.client()).await), ("slot-0", 0), "the same holder, no transition");
    assert!(SlotLock::try_acquire(&lock).is_err());
    second.shutdown.cancel();
    second.outcome().await;
    SlotLock::try_acquire(&lock).expect("let go at the end");
}

#[tokio::test]
async fn an_identity_alone_is_no_proof() {
    let server = Server::start();
    let (sender, mut log) = mpsc::unbounded_channel();
    let a = candidate(&server.client(), config("same"), &sender);
    assert_eq!(next(&mut log).await, "same begins");
    a.task.abort();
    let began = Instant::now();
    let b = candidate(&server.client(), config("same"), &sender);
    assert_eq!(next(&mut log).await, "same begins");
    assert!(began.elapsed() >= Duration::from_secs(1));
    b.shutdown.cancel();
    b.outcome().await;
}

#[tokio::test]
async fn work_that_does_not_end_is_cut_off_when_the_lease_is_lost() {
    struct Dropped(Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let server = Server::start();
    let dropped = Arc::new(AtomicUsize::new(0));
    let (guard, failing) = (Dropped(dropped.clone()), server.shared.clone());
    let election = LeaderElection::new(&server.client(), config("a"), clock::system());
    let work = |_stop: CancellationToken| async move {
        let _guard = guard;
        *failing.failing.lock() = Some(tonic::Code::Unavailable);
        std::future::pending::<()>().await;
    };
    let run = election.run(CancellationToken::new(), work);
    let outcome = tokio::time::timeout(LIMIT, run).await.expect("it ends").expect("a good configuration");
    assert_eq!((outcome, dropped.load(Ordering::Relaxed)), (Outcome::Lost, 1));
}

#[tokio::test]
async fn leading_is_told_by_events_that_are_counted() {
    let server = Server::start();
    let client = server.client();
    let (recorder, task) = Recorder::new(&client, "test", "host", clock::system());
    let stop = CancellationToken::new();
    let task = tokio::spawn(task.run(stop.clone()));
    for _ in 0..2 {
        let shutdown = CancellationToken::new();
        let election = LeaderElection::new(&client, config("a"), clock::system()).recorder(recorder.clone());
        let work = |_| async {};
        let outcome = election.run(shutdown, work).await.expect("a good configuration");
        assert_eq!(outcome, Outcome::Finished);
    }
    stop.cancel();
    tokio::time::timeout(LIMIT, task).await.expect("it ends").expect("no panic");
    let objects = server.shared.objects.lock();
    let mut events: Vec<_> = objects
        .map
        .values()
        .filter(|o| o.kind_name() == "Event")
        .map(|o| (o.text(&["message"]).to_owned(), o.int(&["count"]), o.text(&["involvedObject", "name"]).to_owned()))
        .collect();
    events.sort();
    let expected = |what: &str| (format!("a {what}"), Some(2), "test".to_owned());
    assert_eq!(events, [expected("became leader"), expected("stopped leading")]);
}

#[tokio::test]
async fn a_configuration_that_contradicts_itself_is_refused() {
    let server = Server::start();
    for config in [
        ElectionConfig { renew_deadline: Duration::from_secs(1), ..config("a") },
        ElectionConfig { retry_period: Duration::from_millis(600), ..config("a") },
        config(""),
        ElectionConfig { lease_duration: Duration::from_millis(1500), ..config("a") },
    ] {
        let election = LeaderElection::new(&server.client(), config, clock::system());
        assert!(election.run(CancellationToken::new(), |_| async {}).await.is_err());
    }
}
