//! Readers that stand still: they cost nobody else anything, and lose nothing or are told.

use listwatch_components::client::{Client, ClientConfig};
use listwatch_integration_tests::{Server, eventually};
use listwatch_proto::resource::Reason;
use listwatch_proto::v1::{self, WatchRequest};
use serde_json::json;

use crate::door::{Door, LIMIT, Watching, admin, config, lease, leases, object};

/// Writes and bytes of each: together far more than any buffer on the way holds.
const WRITES: usize = 60;
const BYTES: usize = 1_000_000;

/// What a reader that stands still may cost, beside what the writes cost a server without one. What was written is 60 MB;
/// the reader has a queue of 4 MiB, a message on its way, and the windows of its connection.
const COST_MAX_KB: u64 = 24_000;

/// The server with a reader that stands still, and the revisions it has not read.
async fn stopped(server: &Server) -> (Door, Watching, Vec<i64>) {
    let door = Door::admin(server);
    let created = door.create("leases", &lease("a", json!({}))).await.expect("created");
    let still = Client::new(&ClientConfig { client_name: "test-still".into(), ..config(server) }).expect("a client");
    let request = WatchRequest { start_revision: object(&created).revision, ..leases() };
    let watch = Door::of(&still).watch(request).await.expect("a watch");
    let written = write(&door).await;
    (door, watch, written)
}

async fn write(door: &Door) -> Vec<i64> {
    let padding = "x".repeat(BYTES);
    let mut written = Vec::new();
    for round in 0..WRITES {
        let patch = json!({"spec": {"holderIdentity": format!("{round}-{padding}")}});
        written.push(object(&door.change("a", patch).await).revision);
    }
    written
}

pub(crate) fn resident_kb(server: &mut Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process().pid())).expect("a process");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a resident size");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stands_still_gets_all_and_costs_little() -> anyhow::Result<()> {
    // What the writes cost anyway: the latest values and the window of recent events are kept in memory.
    let mut unwatched = Server::start(&[])?;
    let door = Door::admin(&unwatched);
    door.create("leases", &lease("a", json!({}))).await.expect("created");
    write(&door).await;
    let before = resident_kb(&mut unwatched);

    let mut server = Server::start(&[])?;
    let (_, mut watch, written) = stopped(&server).await;
    let lagging = eventually(LIMIT, "the reader is told as behind", async || {
        let watchers = admin(&server).admin().watchers(v1::WatchersRequest {}).await.expect("watchers").into_inner();
        let watcher = watchers.watchers.into_iter().find(|w| w.client == "test-still");
        watcher.filter(|w| w.lag > 10 && w.state == "catching up").ok_or("in step")
    })
    .await;
    assert!(lagging.sent_revision < *written.last().expect("written"), "{lagging:?}");
    let cost = resident_kb(&mut server).saturating_sub(before);
    assert!(cost < COST_MAX_KB, "{cost} kB for a reader that is {} revisions behind", lagging.lag);
    let seen = watch.until(*written.last().expect("written")).await;
    let seen: Vec<_> = seen.iter().filter(|event| event.object.is_some()).map(|event| event.revision).collect();
    assert_eq!(seen, written);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_history_has_passed_is_told_in_its_stream() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let (door, mut watch, written) = stopped(&server).await;
    admin(&server).admin().expire(v1::ExpireRequest { revision: 0 }).await.expect("expired");
    let now = door.revision().await;
    let mut seen = Vec::new();
    let error = loop {
        match watch.next().await {
            Ok(message) => seen.extend(message.expect("no clean end").events.into_iter().map(|event| event.revision)),
            Err(error) => break error,
        }
    };
    assert_eq!((error.reason, error.code), (Reason::Expired, 410), "{}", error.message);
    assert_eq!((error.oldest_revision, error.current_revision), (now, now));
    assert!(seen.len() < written.len(), "what is gone cannot have been read");
    assert_eq!(seen, written[..seen.len()], "what was read before has no hole");
    Ok(())
}
