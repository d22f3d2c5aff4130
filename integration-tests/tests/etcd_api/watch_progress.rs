//! Watches over time: progress, compaction, readers that stop.

use std::time::Duration;

use listwatch_integration_tests::etcd::{Client, LIMIT, revision, told, watch_prefix};
use listwatch_integration_tests::eventually;
use listwatch_proto::etcd::etcdserverpb::WatchCreateRequest;

use crate::Target;

#[tokio::test(flavor = "multi_thread")]
async fn progress_on_request_is_told_to_the_whole_stream_at_once() {
    let target = Target::start("idle").await;
    let mut stream = target.client.watch(watch_prefix(&target.prefix, 0)).await.unwrap();
    let put = target.client.put_at("somewhere else", "v").await.unwrap();
    // etcd is silent while it has not noticed that the watch is in step, and must be asked again.
    let answer = loop {
        stream.ask_progress().await.unwrap();
        if let Ok(answer) = tokio::time::timeout(Duration::from_secs(1), stream.next()).await {
            break answer.unwrap();
        }
        assert!(!target.is_ours(), "our server answers the first time");
    };
    assert!(answer.events.is_empty() && !answer.created && !answer.canceled, "{answer:?}");
    assert_eq!(answer.watch_id, -1);
    assert!(revision(&answer.header) >= put);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_never_overtakes_events() {
    let target = Target::start("overtake").await;
    let first = target.client.put_at(target.key("0"), "").await.unwrap();
    for number in 1..3000 {
        target.client.put(target.key(&format!("{}", number % 10)), vec![b'x'; 100]).await.unwrap();
    }
    // History is still to be sent while progress is asked for again and again and writes go on.
    let mut stream = target.client.watch(watch_prefix(&target.prefix, first)).await.unwrap();
    let writer = tokio::spawn({
        let (client, key) = (target.client.clone(), target.key("0"));
        async move {
            for _ in 0..500 {
                client.put(key.clone(), "").await.unwrap();
            }
        }
    });
    let mut expected = first;
    let mut told_progress = 0;
    let last = first + 3499;
    for _ in 0..5 {
        stream.ask_progress().await.unwrap();
    }
    while expected <= last || told_progress == 0 {
        let answer = stream.next().await.unwrap();
        assert!(!answer.canceled, "{answer:?}");
        if answer.events.is_empty() {
            let promised = revision(&answer.header);
            assert!(promised < expected, "progress {promised} came before event {expected}");
            told_progress += 1;
        }
        for event in &answer.events {
            assert_eq!(event.kv.as_ref().map(|kv| kv.mod_revision), Some(expected), "ordered, unique, no gap");
            expected += 1;
        }
        assert!(revision(&answer.header) < expected || !target.is_ours(), "the header ran ahead of the events");
        if answer.events.len() != 1 || expected % 50 == 0 || expected > last {
            stream.ask_progress().await.unwrap();
        }
    }
    writer.await.unwrap();
    assert_eq!(expected, last + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_watch_that_wished_for_it_hears_progress_by_itself() {
    let target = Target::start("notify").await;
    if !target.is_ours() {
        return println!("skipped: etcd's default interval is ten minutes");
    }
    let wished = WatchCreateRequest { progress_notify: true, ..watch_prefix(&target.prefix, 0) };
    let mut stream = target.client.watch(wished).await.unwrap();
    let put = target.client.put_at("somewhere else", "v").await.unwrap();
    let answer = stream.next().await.unwrap();
    assert!(answer.events.is_empty() && answer.watch_id == 0, "{answer:?}");
    assert!(revision(&answer.header) >= put);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_exactly_at_the_compacted_revision_is_seen_by_a_watch_from_it() {
    let mut target = Target::start("tombstone").await;
    target.client.put(target.key("k"), "v").await.unwrap();
    let deleted = revision(&target.client.delete(target.key("k"), "").await.unwrap().header);
    target.client.put("later", "v").await.unwrap();
    target.client.compact(deleted).await.unwrap();
    let expected = format!("DELETE {}@{deleted}", target.key("k"));
    let check = |client: Client, prefix: String| async move {
        let mut stream = client.watch(watch_prefix(&prefix, deleted)).await.unwrap();
        told(&stream.events(1).await.unwrap()[0])
    };
    assert_eq!(check(target.client.clone(), target.prefix.clone()).await, expected);
    let Some(server) = &mut target.server else { return };
    server.kill_and_restart().unwrap();
    let client = Client::connect(&server.endpoint()).await.unwrap();
    assert_eq!(check(client, target.prefix.clone()).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_before_the_compacted_revision_is_created_and_cancelled() {
    let target = Target::start("compacted").await;
    let first = target.client.put_at(target.key("k"), "1").await.unwrap();
    target.client.put(target.key("k"), "2").await.unwrap();
    target.client.compact(first + 1).await.unwrap();
    let mut stream = target.client.watch_stream();
    let created = stream.create(watch_prefix(&target.prefix, first)).await.unwrap();
    assert!(created.created && !created.canceled, "{created:?}");
    let canceled = stream.next().await.unwrap();
    assert!(canceled.canceled && canceled.events.is_empty() && canceled.cancel_reason.is_empty(), "{canceled:?}");
    assert_eq!((canceled.watch_id, canceled.compact_revision), (created.watch_id, first + 1));
    assert_eq!(revision(&canceled.header), 0);
    let mut from_it = target.client.watch(watch_prefix(&target.prefix, first + 1)).await.unwrap();
    assert_eq!(from_it.events(1).await.unwrap().len(), 1, "the compacted revision itself can be watched");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_watch_survives_compaction_and_resumes_from_its_progress() {
    let target = Target::start("survive").await;
    let wished = WatchCreateRequest { progress_notify: true, ..watch_prefix(&target.prefix, 0) };
    let mut stream = target.client.watch(wished.clone()).await.unwrap();
    let mut last = 0;
    for _ in 0..100 {
        last = target.client.put_at("somewhere else", "v").await.unwrap();
    }
    target.client.compact(last).await.unwrap();
    if target.is_ours() {
        let answer = stream.next().await.unwrap();
        assert!(answer.events.is_empty() && !answer.canceled, "{answer:?}");
        let resume = revision(&answer.header) + 1;
        assert_eq!(resume, last + 1, "compaction first tells where the watch is");
        let put = target.client.put_at(target.key("k"), "v").await.unwrap();
        let mut resumed = target.client.watch(WatchCreateRequest { start_revision: resume, ..wished }).await.unwrap();
        let events = resumed.events(1).await.unwrap();
        assert_eq!(told(&events[0]), format!("PUT {}=v@{put}", target.key("k")));
    } else {
        target.client.put(target.key("k"), "v").await.unwrap();
    }
    assert_eq!(stream.events(1).await.unwrap().len(), 1, "the first one goes on");
}

/// Writes 12,000 events of 4 kB while the watch is not read; compacts below the last if asked.
async fn with_stopped_reader(compact: bool) {
    let target = Target::start(if compact { "stopped-compact" } else { "stopped" }).await;
    let wished = WatchCreateRequest { prev_kv: true, ..watch_prefix(&target.prefix, 0) };
    // A connection of its own, so that only this reader's window fills.
    let reader = Client::connect(&target.endpoint).await.unwrap();
    let mut stream = reader.watch(wished).await.unwrap();
    let first = target.client.revision().await.unwrap() + 1;
    const EVENTS: i64 = 12_000;
    const WRITERS: i64 = 16;
    let writers = (0..WRITERS).map(|writer| {
        let client = target.client.clone();
        let key = target.key(&format!("{writer}"));
        tokio::spawn(async move {
            for _ in 0..EVENTS / WRITERS {
                client.put(key.clone(), vec![b'x'; 4096]).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let last = first + EVENTS - 1;
    if compact {
        target.client.compact(last).await.unwrap();
    }
    let mut expected = first;
    let end = loop {
        let answer = stream.next().await.unwrap();
        if answer.canceled {
            break Some(answer);
        }
        for event in &answer.events {
            assert_eq!(event.kv.as_ref().map(|kv| kv.mod_revision), Some(expected), "ordered, unique, no gap");
            let is_create = event.kv.as_ref().is_some_and(|kv| kv.create_revision == kv.mod_revision);
            // etcd leaves out what compaction has taken.
            let as_it_was = event.prev_kv.is_none() == is_create || !target.is_ours();
            assert!(as_it_was, "prev_kv is never silently missing: {event:?}");
            expected += 1;
        }
        if expected > last {
            break None;
        }
    };
    match end {
        None => assert_eq!(expected, last + 1),
        Some(cancel) => {
            assert!(compact, "cancelled without a compaction: {cancel:?}");
            assert_eq!(cancel.compact_revision, last, "the cancel says from where a new watch may begin");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stopped_gets_everything() {
    with_stopped_reader(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stopped_gets_everything_or_a_typed_cancel_when_compaction_passed_it() {
    with_stopped_reader(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_ends_its_watches_with_a_reason_and_a_client_resumes() {
    let mut target = Target::start("stop").await;
    let Some(server) = &mut target.server else { return println!("skipped: needs a server of its own") };
    let mut stream = target.client.watch(watch_prefix("k", 0)).await.unwrap();
    let put = target.client.put_at("k", "1").await.unwrap();
    assert_eq!(stream.events(1).await.unwrap().len(), 1);
    server.stop_and_restart().expect("an open watch does not hold the server up");
    assert!(stream.next().await.is_err());
    let endpoint = server.endpoint();
    let client = eventually(LIMIT, "the server is back", || Client::connect(&endpoint)).await;
    let mut resumed = client.watch(watch_prefix("k", put + 1)).await.unwrap();
    let next = client.put_at("k", "2").await.unwrap();
    assert_eq!(told(&resumed.events(1).await.unwrap()[0]), format!("PUT k=2@{next}"));
}
