//! The reflector: what it asks for after each kind of cut, and that its cache and handlers agree with the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use listwatch_components::client::{Backoff, BackoffPolicy, Cached};
use listwatch_components::runtime::{Change, IndexerBuilder, Informer, ReflectorConfig, Store};
use listwatch_proto::resource::{Kind, ObjectKey, Status};
use listwatch_proto::v1::EventType::{Added, Deleted, Modified};
use listwatch_proto::v1::WatchRequest;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::scripted::{Feed, LIMIT, Server, bookmark, event, message};

struct Running {
    store: Store<Pod>,
    told: Arc<Mutex<Vec<String>>>,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    fn start(server: &Server) -> Running {
        Self::with_interval(server, Duration::from_secs(5))
    }

    fn with_interval(server: &Server, progress_interval: Duration) -> Running {
        let retry =
            BackoffPolicy { first: Duration::from_millis(1), factor: 2.0, cap: Duration::from_millis(20), jitter: 0.5 };
        let config = ReflectorConfig { progress_interval, retry, ..ReflectorConfig::default() };
        let kind = Kind::by_name("pod").expect("known");
        let mut informer = Informer::<Pod>::with(&server.client(), kind, config, IndexerBuilder::new());
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = told.clone();
        informer.on_change(move |change| log.lock().push(describe(change)));
        let (store, shutdown) = (informer.store(), CancellationToken::new());
        let task = tokio::spawn(informer.run(shutdown.clone()));
        Running { store, told, shutdown, task }
    }

    async fn seen(&self, revision: i64) {
        tokio::time::timeout(LIMIT, self.store.wait_for(revision)).await.expect("in time").expect("fed");
    }

    /// Waits until the cache stands exactly there (a new history may have lower revisions).
    async fn stands_at(&self, revision: i64) {
        let reached = async {
            while self.store.seen_up_to() != revision {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, reached).await.expect("in time");
    }

    fn cached(&self) -> Vec<String> {
        let mut list: Vec<_> = self.store.list().iter().map(|p| describe_pod(p)).collect();
        list.sort();
        list
    }

    fn take_told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock())
    }

    async fn stop(self) {
        self.shutdown.cancel();
        tokio::time::timeout(LIMIT, self.task).await.expect("it stops").expect("it does not panic");
    }
}

fn describe_pod(pod: &Cached<Pod>) -> String {
    format!("{}:{}", pod.key.name, pod.revision)
}

fn describe(change: &Change<Pod>) -> String {
    match change {
        Change::Added(pod) => format!("+{}", describe_pod(pod)),
        Change::Updated { old, new } => format!("{}->{}", describe_pod(old), new.revision),
        Change::Deleted(pod) => format!("-{}", describe_pod(pod)),
    }
}

/// Accepts the first watch and gives it two pods as of revision 10.
async fn two_pods(server: &mut Server) -> Feed {
    let (request, feed) = server.accept().await;
    assert!(request.send_initial_events && request.allow_bookmarks);
    assert_eq!((request.start_revision, request.incarnation.as_str()), (0, ""));
    feed.send(message(10, "one", vec![event(Added, 3, "a"), event(Added, 7, "b")])).await;
    feed.send(message(10, "one", vec![bookmark(10, true)])).await;
    feed
}

fn expect_resume(request: &WatchRequest, revision: i64, incarnation: &str) {
    assert!(!request.send_initial_events);
    assert_eq!((request.start_revision, request.incarnation.as_str()), (revision, incarnation));
}

#[tokio::test]
async fn state_mark_and_live_events_come_by_one_call() {
    let mut server = Server::start();
    let running = Running::start(&server);
    let (_, feed) = server.accept().await;
    feed.send(message(10, "one", vec![event(Added, 3, "a")])).await;
    feed.send(message(10, "one", vec![event(Added, 7, "b")])).await;
    // Nothing is visible before the state is complete; what follows the mark in the same message is live.
    assert!(!running.store.progress().synced);
    feed.send(message(11, "one", vec![bookmark(10, true), event(Modified, 11, "a")])).await;
    running.seen(11).await;
    assert_eq!(running.cached(), ["a:11", "b:7"]);
    feed.send(message(12, "one", vec![event(Deleted, 12, "b")])).await;
    running.seen(12).await;
    assert_eq!(running.cached(), ["a:11"]);
    let told = running.take_told();
    assert_eq!(told.iter().cloned().collect::<BTreeSet<_>>().len(), told.len());
    assert_eq!(told[2..], ["a:3->11", "-b:12"]);
    running.stop().await;
    feed.closed().await;
}

#[tokio::test]
async fn after_a_cut_it_resumes_from_what_it_has_seen_and_takes_nothing_twice() {
    let mut server = Server::start();
    let running = Running::start(&server);
    let feed = two_pods(&mut server).await;
    // Two events of one revision, as a transaction makes them, then a cut.
    feed.send(message(11, "one", vec![event(Modified, 11, "a"), event(Modified, 11, "b")])).await;
    running.seen(11).await;
    feed.fail(tonic::Status::unavailable("cut")).await;
    let (request, feed) = server.accept().await;
    expect_resume(&request, 11, "one");
    running.take_told();
    // A server that repeats is not believed.
    feed.send(message(12, "one", vec![event(Modified, 11, "a"), event(Modified, 12, "b")])).await;
    running.seen(12).await;
    assert_eq!(running.take_told(), ["b:11->12"]);
    running.stop().await;
}

#[tokio::test]
async fn a_clean_end_and_a_broken_connection_are_cuts_too() {
    let mut server = Server::start();
    let running = Running::start(&server);
    drop(two_pods(&mut server).await);
    let (request, feed) = server.accept().await;
    expect_resume(&request, 10, "one");
    feed.send(message(15, "one", vec![])).await;
    running.seen(15).await;
    let address = server.address.to_string();
    drop((feed, server));
    let mut server = Server::start_at(&address);
    let (request, feed) = server.accept().await;
    expect_resume(&request, 15, "one");
    feed.send(message(16, "one", vec![event(Modified, 16, "a")])).await;
    running.seen(16).await;
    assert_eq!(running.cached(), ["a:16", "b:7"]);
    running.stop().await;
}

#[tokio::test]
async fn a_bookmark_moves_the_place_to_resume_from() {
    let mut server = Server::start();
    let running = Running::start(&server);
    let feed = two_pods(&mut server).await;
    feed.send(message(500, "one", vec![bookmark(500, false)])).await;
    running.seen(500).await;
    drop(feed);
    let (request, _feed) = server.accept().await;
    expect_resume(&request, 500, "one");
    running.stop().await;
}

#[tokio::test]
async fn expired_history_means_the_whole_state_anew_with_deletes_noticed() {
    for in_stream in [false, true] {
        let mut server = Server::start();
        let running = Running::start(&server);
        let feed = two_pods(&mut server).await;
        running.seen(10).await;
        running.take_told();
        if in_stream {
            feed.fail(Status::expired(10, 20, 30)).await;
        } else {
            drop(feed);
            let request = server.next_watch().await.refuse(Status::expired(10, 20, 30));
            expect_resume(&request, 10, "one");
        }
        let (request, feed) = server.accept().await;
        assert!(request.send_initial_events);
        feed.send(message(30, "one", vec![event(Added, 3, "a")])).await;
        // The old cache stays readable until the new state is complete.
        assert_eq!(running.cached(), ["a:3", "b:7"]);
        feed.send(message(30, "one", vec![event(Added, 25, "c"), bookmark(30, true)])).await;
        running.seen(30).await;
        assert_eq!(running.cached(), ["a:3", "c:25"]);
        // What has not changed is not told again.
        assert_eq!(running.take_told(), ["+c:25", "-b:7"], "in stream: {in_stream}");
        running.stop().await;
    }
}

#[tokio::test]
async fn another_history_is_taken_anew_even_at_lower_revisions() {
    let mut server = Server::start();
    let running = Running::start(&server);
    drop(two_pods(&mut server).await);
    server.next_watch().await.refuse(Status::expired(10, 1, 4));
    let (request, feed) = server.accept().await;
    assert!(request.send_initial_events && request.incarnation.is_empty());
    feed.send(message(4, "two", vec![event(Added, 3, "a@other"), bookmark(4, true)])).await;
    running.stands_at(4).await;
    assert_eq!(running.store.progress().incarnation, "two");
    assert_eq!(running.cached(), ["a:3"]);
    assert_eq!(running.take_told()[2..], ["-a:3", "+a:3", "-b:7"], "a new uid is another object");
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_shows_an_older_state_is_not_believed() {
    let mut server = Server::start();
    let running = Running::start(&server);
    let feed = two_pods(&mut server).await;
    running.seen(10).await;
    feed.fail(Status::expired(10, 20, 30)).await;
    let (_, feed) = server.accept().await;
    feed.send(message(9, "one", vec![bookmark(9, true)])).await;
    feed.closed().await;
    assert_eq!(running.cached(), ["a:3", "b:7"]);
    let (request, feed) = server.accept().await;
    assert!(request.send_initial_events);
    feed.send(message(31, "one", vec![event(Added, 7, "b"), bookmark(31, true)])).await;
    running.seen(31).await;
    assert_eq!(running.cached(), ["b:7"]);
    running.stop().await;
}

#[tokio::test]
async fn half_a_state_is_never_seen() {
    let mut server = Server::start();
    let running = Running::start(&server);
    let (_, feed) = server.accept().await;
    feed.send(message(10, "one", vec![event(Added, 3, "a")])).await;
    feed.fail(tonic::Status::unavailable("cut")).await;
    drop(two_pods(&mut server).await);
    running.seen(10).await;
    assert_eq!(running.cached(), ["a:3", "b:7"]);
    running.stop().await;
}

#[tokio::test]
async fn silence_is_a_cut() {
    let mut server = Server::start();
    let running = Running::with_interval(&server, Duration::from_millis(100));
    let feed = two_pods(&mut server).await;
    running.seen(10).await;
    // The connection lives, the stream says nothing.
    feed.closed().await;
    let (request, _feed) = server.accept().await;
    expect_resume(&request, 10, "one");
    assert_eq!(request.progress_interval_ms, 100);
    running.stop().await;
}

#[tokio::test]
async fn one_unreadable_object_does_not_hold_up_the_others() {
    let mut server = Server::start();
    let running = Running::start(&server);
    let feed = two_pods(&mut server).await;
    let mut broken = event(Modified, 11, "a");
    broken.object.as_mut().expect("an object").json = b"{\"spec\": 3}".as_slice().into();
    feed.send(message(12, "one", vec![broken, event(Modified, 12, "b")])).await;
    running.seen(12).await;
    assert_eq!(running.cached(), ["a:3", "b:12"]);
    running.stop().await;
}

/// A history of events, and a server that cuts, repeats and expires at random; whatever it does, the cache ends equal
/// to the history's state and handlers have heard every change exactly once.
#[tokio::test]
async fn random_cuts_repeats_and_expiries_lose_nothing() {
    let seed = rand::random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut server = Server::start();
    let running = Running::start(&server);
    let history = History::random(&mut random, 400);
    let end = history.events.len() as i64;
    let mut reached = 0;
    while reached < end {
        let opened = server.next_watch().await;
        let from = opened.request.start_revision;
        if !opened.request.send_initial_events && random.random_bool(0.2) {
            opened.refuse(Status::expired(from, from + 1, end));
            continue;
        }
        let (request, feed) = opened.accept();
        let mut at = request.start_revision;
        if request.send_initial_events {
            at = random.random_range(reached..=end);
            let mut events: Vec<_> = history.state(at).iter().map(|(pod, r)| event(Added, *r, pod)).collect();
            events.push(bookmark(at, true));
            feed.send(message(at, "one", events)).await;
        } else if at > 0 && random.random_bool(0.5) {
            at -= random.random_range(0..at.min(5));
        }
        for _ in 0..random.random_range(0..20) {
            if at == end {
                break;
            }
            at += 1;
            let (kind, pod) = &history.events[(at - 1) as usize];
            feed.send(message(at, "one", vec![event(*kind, at, pod)])).await;
        }
        reached = reached.max(at);
        if random.random_bool(0.5) {
            running.seen(reached).await;
        }
        if reached < end {
            feed.fail(tonic::Status::unavailable("cut")).await;
        } else {
            running.seen(end).await;
        }
    }
    let expected: BTreeSet<_> = history.state(end).iter().map(|(pod, r)| format!("{pod}:{r}")).collect();
    assert_eq!(running.cached().into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(replay(&running.take_told()), expected);
    running.stop().await;
}

/// The state that a handler would have built from what it was told; panics on a change that does not follow.
fn replay(told: &[String]) -> BTreeSet<String> {
    let mut state = BTreeMap::new();
    for line in told {
        if let Some(added) = line.strip_prefix('+') {
            let (pod, revision) = added.split_once(':').expect("a pod");
            assert_eq!(state.insert(pod.to_owned(), revision.to_owned()), None, "{line}");
        } else if let Some(deleted) = line.strip_prefix('-') {
            let (pod, _) = deleted.split_once(':').expect("a pod");
            assert!(state.remove(pod).is_some(), "{line}");
        } else {
            let (old, new) = line.split_once("->").expect("an update");
            let (pod, revision) = old.split_once(':').expect("a pod");
            assert_eq!(state.insert(pod.to_owned(), new.to_owned()).as_deref(), Some(revision), "{line}");
        }
    }
    state.into_iter().map(|(pod, revision)| format!("{pod}:{revision}")).collect()
}

struct History {
    events: Vec<(listwatch_proto::v1::EventType, String)>,
}

impl History {
    fn random(random: &mut StdRng, length: usize) -> History {
        let mut living = BTreeSet::new();
        let events = (0..length)
            .map(|_| {
                let pod = format!("p{}", random.random_range(0..12));
                if living.insert(pod.clone()) {
                    (Added, pod)
                } else if random.random_bool(0.3) {
                    living.remove(&pod);
                    (Deleted, pod)
                } else {
                    (Modified, pod)
                }
            })
            .collect();
        History { events }
    }

    fn state(&self, at: i64) -> BTreeMap<String, i64> {
        let mut state = BTreeMap::new();
        for (revision, (kind, pod)) in (1..=at).zip(&self.events) {
            if *kind == Deleted {
                state.remove(pod);
            } else {
                state.insert(pod.clone(), revision);
            }
        }
        state
    }
}

#[tokio::test]
async fn readers_wait_for_a_revision_and_learn_when_it_cannot_come() {
    let mut server = Server::start();
    let running = Running::start(&server);
    let store = running.store.clone();
    let waiter = tokio::spawn(async move { store.wait_for(12).await });
    let feed = two_pods(&mut server).await;
    running.seen(10).await;
    assert!(!waiter.is_finished());
    feed.send(message(12, "one", vec![bookmark(12, false)])).await;
    waiter.await.expect("no panic").expect("reached");
    assert!(running.store.get(&ObjectKey::new("default", "a")).is_some());
    let store = running.store.clone();
    running.stop().await;
    assert!(store.wait_for(13).await.is_err());
}

#[test]
fn pauses_of_many_clients_are_not_in_step() {
    let policy = ReflectorConfig::default().retry;
    let pauses: BTreeSet<_> = (0..20).map(|_| Backoff::new(policy).next_delay()).collect();
    assert!(pauses.len() > 10, "{pauses:?}");
}
