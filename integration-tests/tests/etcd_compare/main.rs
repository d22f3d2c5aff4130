//! The same seeded random operations to `lw server` and to a real etcd: the answers must be equal, errors to the letter.
//!
//! Intended differences, none of which may show here because the traffic avoids them or the comparison evens them out:
//! * ids of cluster and member and the raft term are each server's own;
//! * keys that sort equal come in key order with us, in any order with etcd;
//! * a guard or filter that names an unknown number is refused by us, ignored by etcd;
//! * a transaction that deletes all keys from one on (`range_end` of one zero byte) and puts one of them is refused by
//!   us as a duplicate, run by etcd;
//! * a negative revision within a transaction is the latest with us, as outside of one; compacted with etcd;
//! * of a write with two faults (unknown lease, nothing to keep) we always tell the lease, etcd the other one if the
//!   write is part of a transaction;
//! * answers of a watch that carry history are cut at other revisions, and their headers never run ahead of the events;
//! * remaining seconds of a lease may differ by the time between the two calls.
//!
//! The real etcd is `REAL_ETCD`, `~/real/bin/etcd36`, or `etcd` on the PATH; without one the test says so and passes.

mod real;
mod traffic;

use std::time::Duration;

use listwatch_integration_tests::etcd::{Client, WatchStream, told};
use listwatch_integration_tests::{Server, eventually, seed};
use listwatch_proto::etcd::etcdserverpb::{CompactionRequest, RangeRequest, WatchCreateRequest, watch_create_request};
use listwatch_proto::etcd::mvccpb::Event;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use real::RealEtcd;
use traffic::{Answer, Call};

/// Operations of one run.
const OPERATIONS: usize = 2000;

/// Both servers, fresh.
struct Pair {
    ours: Client,
    theirs: Client,
    server: Server,
    etcd: RealEtcd,
}

impl Pair {
    async fn start() -> Option<Pair> {
        let etcd = RealEtcd::start()?;
        let server = Server::start(&[]).expect("the server starts");
        let ours = Client::connect(&server.endpoint()).await.expect("the server answers");
        let theirs = eventually(Duration::from_secs(20), "etcd answers", || async {
            let client = Client::connect(&etcd.endpoint).await?;
            client.revision().await?;
            anyhow::Ok(client)
        })
        .await;
        Some(Pair { ours, theirs, server, etcd })
    }

    /// A second connection to each.
    async fn connect_again(&self) -> (Client, Client) {
        let ours = Client::connect(&self.server.endpoint()).await.expect("the server answers");
        let theirs = Client::connect(&self.etcd.endpoint).await.expect("etcd answers");
        (ours, theirs)
    }

    /// Gives a call to both; the answers must be equal.
    async fn ask(&self, at: usize, call: &Call) -> Answer {
        let ours = call.ask(&self.ours).await;
        let theirs = call.ask(&self.theirs).await;
        assert_eq!(ours, theirs, "operation {at}: {call:#?}\nleft is ours, right is etcd");
        ours
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_operations_are_answered_alike() {
    let Some(pair) = Pair::start().await else { return };
    let mut random = StdRng::seed_from_u64(seed("random_operations_are_answered_alike"));
    let mut state = traffic::State::new();
    let mut refusals = 0;
    for at in 0..OPERATIONS {
        let call = state.next(&mut random);
        let answer = pair.ask(at, &call).await;
        refusals += usize::from(answer.is_refusal());
        state.learn(answer.revision());
    }
    assert!(
        refusals > OPERATIONS / 50 && refusals < OPERATIONS / 2,
        "{refusals} refusals: the traffic tests too little"
    );
    let everything = RangeRequest { key: "\0".into(), range_end: "\0".into(), ..RangeRequest::default() };
    pair.ask(OPERATIONS, &Call::Range(everything)).await;
}

/// Reads events until one of the last revision has come.
async fn collect(mut stream: WatchStream, last: i64) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while events.last().and_then(|event| event.kv.as_ref()).is_none_or(|kv| kv.mod_revision < last) {
        events.extend(stream.events_of_next().await.expect("events come"));
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_deliver_the_same_events() {
    let Some(pair) = Pair::start().await else { return };
    let mut random = StdRng::seed_from_u64(seed("watches_deliver_the_same_events"));
    let mut state = traffic::State::without_compaction();
    let everything = |start_revision: i64, prev_kv: bool| WatchCreateRequest {
        range_end: "\0".into(),
        start_revision,
        prev_kv,
        ..WatchCreateRequest::default()
    };
    // Connections of their own: what is not read yet fills the window of the whole connection.
    let (apart_ours, apart_theirs) = pair.connect_again().await;
    let live_ours = apart_ours.watch(everything(0, true)).await.unwrap();
    let live_theirs = apart_theirs.watch(everything(0, true)).await.unwrap();
    for at in 0..OPERATIONS / 2 {
        let call = state.next(&mut random);
        let revision = pair.ask(at, &call).await.revision();
        state.learn(revision);
    }
    // One event at the end that every watch below sees.
    let last = pair.ask(OPERATIONS, &Call::put("k0", "the end")).await.revision();
    let alike = |ours: Vec<Event>, theirs: Vec<Event>, what: &str| {
        let (mine, others): (Vec<String>, Vec<String>) =
            (ours.iter().map(told).collect(), theirs.iter().map(told).collect());
        assert_eq!(mine, others, "{what}");
        assert_eq!(ours, theirs, "{what}");
    };
    alike(collect(live_ours, last).await, collect(live_theirs, last).await, "live");
    for round in 0..20 {
        let start = random.random_range(1..=last);
        let mut request = everything(start, round % 2 == 0);
        if round % 3 == 0 {
            (request.key, request.range_end) = ("k0".into(), "k3".into());
        }
        if round % 5 == 4 {
            request.filters = vec![watch_create_request::FilterType::Nodelete.into()];
        }
        let what = format!("{request:?}");
        let ours = collect(pair.ours.watch(request.clone()).await.unwrap(), last).await;
        let theirs = collect(pair.theirs.watch(request).await.unwrap(), last).await;
        alike(ours, theirs, &what);
    }
    let half = last / 2;
    pair.ask(OPERATIONS, &Call::Compact(CompactionRequest { revision: half, physical: true })).await;
    for start in [half, half + 1] {
        let ours = collect(pair.ours.watch(everything(start, false)).await.unwrap(), last).await;
        let theirs = collect(pair.theirs.watch(everything(start, false)).await.unwrap(), last).await;
        alike(ours, theirs, "from the compacted revision");
    }
    for client in [&pair.ours, &pair.theirs] {
        let mut stream = client.watch(everything(half - 1, false)).await.unwrap();
        let canceled = stream.next().await.unwrap();
        assert!(canceled.canceled && canceled.compact_revision == half, "{canceled:?}");
    }
}
