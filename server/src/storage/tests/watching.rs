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
