//! The watch contract.

use super::harness::*;
use crate::storage::{KeyRange, Op, PutOp, Txn};

#[tokio::test(flavor = "multi_thread")]
async fn live_events_are_ordered_unique_and_carry_the_state_before() {
    let world = World::new();
    let engine = world.open();
    let mut watcher = watch(&engine, KeyRange::prefix("k"), 0);
    put(&engine, "k1", "a");
    put(&engine, "other", "x");
    put(&engine, "k1", "b");
    delete(&engine, "k1");
    assert_eq!(take(&mut watcher, 3).await, ["+k1=a@2", "+k1=b@4<a", "-k1@5<b"]);
    assert_eq!(watcher.progress(), 5);
    put(&engine, "other", "y");
    assert_eq!(watcher.progress(), 6);
    assert!(watcher.synced());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_the_past_gets_all_then_goes_live() {
    let world = World::new();
    let engine = world.open();
    let expected: Vec<String> = (2..502).map(|revision| format!("+k{}=v@{revision}", revision - 2)).collect();
    for i in 0..500 {
        put(&engine, &format!("k{i}"), "v");
    }
    let mut watcher = watch(&engine, KeyRange::prefix("k"), 2);
    assert_eq!(take(&mut watcher, 500).await, expected);
    drop((watcher, engine));
    let engine = world.open();
    let mut watcher = watch(&engine, KeyRange::prefix("k"), 2);
    assert_eq!(watcher.progress(), 1);
    assert_eq!(take(&mut watcher, 500).await, expected);
    put(&engine, "k0", "w");
    assert_eq!(take(&mut watcher, 1).await, ["+k0=w@502<v"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_future_start_waits_in_silence() {
    let world = World::new();
    let engine = world.open();
    let mut watcher = watch(&engine, KeyRange::all(), 4);
    for value in ["a", "b", "c", "d"] {
        put(&engine, "k", value);
    }
    assert_eq!(take(&mut watcher, 2).await, ["+k=c@4<b", "+k=d@5<c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_is_never_split() {
    let world = World::new();
    let engine = world.open();
    let wide = |value: &str| Txn {
        compares: vec![],
        success: (0..100).map(|i| Op::Put(PutOp::new(format!("k{i:03}"), value.repeat(300)))).collect(),
        failure: vec![],
    };
    let mut live = watch(&engine, KeyRange::all(), 0);
    for value in ["a", "b", "c"] {
        commit(&engine, wide(value));
    }
    let mut past = watch(&engine, KeyRange::all(), 2);
    for watcher in [&mut live, &mut past] {
        let mut total = 0;
        while total < 300 {
            let events = next(watcher).await.expect("the watch goes on").1;
            assert_eq!(events.len() % 100, 0, "a message has whole revisions");
            total += events.len();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stops_gets_everything_later() {
    let world = World::new();
    let engine = world.open();
    let mut slow = watch(&engine, KeyRange::prefix("k"), 0);
    let value = "x".repeat(100);
    for i in 0..6000 {
        put(&engine, &format!("k{}", i % 10), &value);
    }
    assert!(!slow.synced());
    let mut revision = 1;
    while revision < 6001 {
        let (last, events) = next(&mut slow).await.expect("the watch goes on");
        for event in events {
            revision += 1;
            assert!(event.contains(&format!("@{revision}")), "{event} is not revision {revision}");
        }
        assert_eq!(last, revision);
        assert!(slow.progress() >= revision);
    }
    put(&engine, "k", "live");
    assert_eq!(take(&mut slow, 1).await, ["+k=live@6002"]);
    assert!(slow.synced());
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_ends_watches_with_a_reason() {
    let world = World::new();
    let engine = world.open();
    let mut watcher = watch(&engine, KeyRange::all(), 0);
    engine.close();
    assert!(matches!(next(&mut watcher).await, Err(crate::storage::WatchError::Closed)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_the_past_catches_up_while_others_write() {
    let mut world = World::new();
    // No value in memory: each state before is read from the log.
    world.options.value_cache_bytes = 0;
    let engine = world.open();
    for i in 0..1000 {
        put(&engine, "k", &i.to_string());
    }
    drop(engine);
    let engine = world.open();
    let writer = {
        let engine = engine.clone();
        std::thread::spawn(move || {
            for i in 1000..3000 {
                put(&engine, "k", &i.to_string());
            }
        })
    };
    let mut watcher = watch(&engine, KeyRange::single("k"), 2);
    let lines = take(&mut watcher, 3000).await;
    writer.join().expect("the writer ends");
    for (i, line) in lines.iter().enumerate() {
        let before = if i == 0 { String::new() } else { format!("<{}", i - 1) };
        assert_eq!(*line, format!("+k={i}@{}{before}", i + 2));
    }
    assert_eq!(lines.len(), 3000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_compaction_passes_is_told_where_history_begins() {
    let world = World::new();
    let engine = world.open();
    // More than one message holds.
    let value = "x".repeat(1000);
    for _ in 0..3000 {
        put(&engine, "k", &value);
    }
    drop(engine);
    let engine = world.open();
    let mut behind = watch(&engine, KeyRange::all(), 2);
    next(&mut behind).await.expect("history is there");
    let mut idle = watch(&engine, KeyRange::single("other"), 0);
    engine.compact(2900, false).expect("compacted");
    engine.expire(2900).expect("expired");
    engine.checkpoint().expect("the floor is moved");
    loop {
        match next(&mut behind).await {
            Ok(_) => {}
            Err(crate::storage::WatchError::Compacted { compacted, current }) => {
                assert_eq!((compacted, current), (2900, 3001));
                break;
            }
            Err(other) => panic!("the watch ended with {other}"),
        }
    }
    // One in step is not touched, and can come back where it was.
    put(&engine, "other", "x");
    assert_eq!(take(&mut idle, 1).await, ["+other=x@3002"]);
    let from = idle.progress() + 1;
    drop(idle);
    put(&engine, "other", "y");
    assert_eq!(take(&mut watch(&engine, KeyRange::single("other"), from), 1).await, ["+other=y@3003<x"]);
    let refused = engine.watch(crate::storage::WatchOptions::new(KeyRange::all(), 2899));
    assert!(matches!(refused, Err(crate::storage::Error::Compacted { requested: 2899, compacted: 2900 })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_is_given_up_loses_nothing() {
    let world = World::new();
    let engine = world.open();
    let mut watcher = watch(&engine, KeyRange::all(), 0);
    let writer = {
        let engine = engine.clone();
        std::thread::spawn(move || {
            for i in 0..500 {
                put(&engine, "k", &i.to_string());
            }
        })
    };
    let mut revision = 1;
    while revision < 501 {
        // Polled once and given up, over and over.
        let polled = futures::FutureExt::now_or_never(watcher.next());
        if let Some(message) = polled {
            let crate::storage::WatchMessage::Events { events, .. } = message.expect("the watch goes on");
            for event in events {
                revision += 1;
                assert_eq!(event.revision(), revision);
            }
        }
        assert!(watcher.progress() >= revision);
    }
    writer.join().expect("the writer ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_leave_out_what_they_name() {
    let world = World::new();
    let engine = world.open();
    let options = crate::storage::WatchOptions::new(KeyRange::all(), 0);
    let mut puts = engine.watch(crate::storage::WatchOptions { no_delete: true, ..options.clone() }).expect("begins");
    let mut deletes = engine.watch(crate::storage::WatchOptions { no_put: true, ..options }).expect("begins");
    put(&engine, "a", "1");
    delete(&engine, "a");
    put(&engine, "b", "2");
    assert_eq!(take(&mut puts, 2).await, ["+a=1@2", "+b=2@4"]);
    assert_eq!(take(&mut deletes, 1).await, ["-a@3<1"]);
    assert_eq!((puts.progress(), deletes.progress()), (4, 4));
    let infos = engine.watchers();
    assert_eq!(infos.len(), 2);
    assert!(infos.iter().all(|info| info.synced && info.lag == 0));
}
