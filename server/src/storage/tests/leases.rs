//! Leases through the engine: their ends, their keys, and what a restart leaves of them.

use std::sync::Arc;
use std::time::Duration;

use super::harness::*;
use crate::clock::SystemClock;
use crate::storage::{Engine, EngineOptions, Error, KeyRange, RangeOp, Seams, SimDisk};

fn keys(engine: &Engine) -> Vec<String> {
    let result = engine.range(&RangeOp::new(KeyRange::all())).expect("the read is answered");
    result.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect()
}

/// Moves the time in steps short enough that the store does not take them for a stall.
fn pass(world: &World, engine: &Engine, secs: u64) {
    for _ in 0..secs * 4 {
        world.clock.advance(Duration::from_millis(250));
        engine.end_due_leases();
    }
}

#[test]
fn a_lease_ends_with_its_keys_in_one_revision() {
    let world = World::new();
    let engine = world.open();
    assert_eq!(engine.lease_grant(9, 5).expect("granted"), (9, 5));
    assert!(matches!(engine.lease_grant(9, 5), Err(Error::LeaseExists(9))));
    put_leased(&engine, "b", 9).expect("the lease is there");
    put_leased(&engine, "a", 9).expect("the lease is there");
    put(&engine, "free", "x");
    let before = engine.revision();
    pass(&world, &engine, 4);
    assert_eq!(keys(&engine), ["a", "b", "free"]);
    assert_eq!(engine.lease_time_to_live(9, true).expect("it lives").keys, ["a", "b"]);
    pass(&world, &engine, 2);
    assert_eq!(keys(&engine), ["free"]);
    assert_eq!(engine.revision(), before + 1);
    assert!(engine.lease_time_to_live(9, false).is_none());
    assert!(matches!(put_leased(&engine, "a", 9), Err(Error::LeaseNotFound(9))));
    assert!(matches!(engine.lease_revoke(9), Err(Error::LeaseNotFound(9))));
}

#[test]
fn a_lease_without_keys_moves_no_revision_and_a_small_ttl_is_raised() {
    let world = World::new();
    let engine = world.open();
    let (id, ttl) = engine.lease_grant(0, 1).expect("granted");
    assert!(id > 0);
    assert_eq!(ttl, 2);
    assert!(matches!(engine.lease_grant(0, 9_000_000_001), Err(Error::LeaseTtlTooLarge(_))));
    assert_eq!(engine.lease_revoke(id).expect("revoked"), 1);
    assert_eq!(engine.revision(), 1);
}

#[test]
fn a_renewed_lease_lives_and_a_detached_key_stays() {
    let world = World::new();
    let engine = world.open();
    engine.lease_grant(1, 4).expect("granted");
    put_leased(&engine, "bound", 1).expect("the lease is there");
    put_leased(&engine, "loose", 1).expect("the lease is there");
    put(&engine, "loose", "without a lease");
    for _ in 0..5 {
        pass(&world, &engine, 3);
        assert_eq!(engine.lease_keep_alive(1).expect("answered"), Some(4));
    }
    assert_eq!(keys(&engine), ["bound", "loose"]);
    pass(&world, &engine, 5);
    assert_eq!(keys(&engine), ["loose"]);
    assert_eq!(engine.lease_keep_alive(1).expect("answered"), None);
}

#[test]
fn a_restart_leaves_the_rest_of_the_time() {
    let world = World::new();
    let engine = world.open();
    engine.lease_grant(1, 30).expect("granted");
    engine.lease_grant(2, 30).expect("granted");
    put_leased(&engine, "a", 1).expect("the lease is there");
    put_leased(&engine, "b", 2).expect("the lease is there");
    pass(&world, &engine, 10);
    engine.lease_keep_alive(2).expect("answered");
    drop(engine);
    let engine = world.open();
    let left = |id| engine.lease_time_to_live(id, false).expect("it lives").ttl;
    assert!(left(1) <= 20, "{}", left(1));
    assert!(left(2) >= 30 - 1, "{}", left(2));
    pass(&world, &engine, 21);
    assert_eq!(keys(&engine), ["b"]);
    pass(&world, &engine, 30);
    assert!(keys(&engine).is_empty());
}

#[test]
fn a_power_cut_takes_no_answered_renewal() {
    for seed in 0..20 {
        let mut world = World::new();
        let engine = world.open();
        engine.lease_grant(1, 10).expect("granted");
        put_leased(&engine, "a", 1).expect("the lease is there");
        for _ in 0..4 {
            pass(&world, &engine, 8);
            assert_eq!(engine.lease_keep_alive(1).expect("answered"), Some(10));
        }
        drop(engine);
        let engine = world.crash(seed).expect("the store opens");
        assert!(engine.lease_time_to_live(1, false).expect("it lives").ttl >= 9, "seed {seed}");
        assert_eq!(keys(&engine), ["a"], "seed {seed}");
    }
}

#[test]
fn many_leases_end_in_bounded_steps() {
    let world = World::new();
    let engine = world.open();
    for id in 1..=1000 {
        engine.lease_grant(id, 5).expect("granted");
        put_leased(&engine, &format!("k{id}"), id).expect("the lease is there");
    }
    for _ in 0..20 {
        world.clock.advance(Duration::from_millis(300));
        engine.end_due_leases();
    }
    // What is still due is asked for at once.
    while engine.end_due_leases() == Some(Duration::ZERO) {}
    assert!(keys(&engine).is_empty());
    assert_eq!(engine.revision(), 1 + 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_thread_ends_leases_on_time() {
    let world = World::new();
    let mut options = EngineOptions::new("/store");
    options.log = world.options.log.clone();
    let clock = SystemClock::shared();
    let seams = Seams { disk: Arc::new(SimDisk::lying()), state: Arc::new(world.state.clone()), clock: clock.clone() };
    let engine = Engine::open(options, seams).expect("the store opens");
    let mut watcher = watch(&engine, KeyRange::all(), 0);
    engine.lease_grant(7, 2).expect("granted");
    put_leased(&engine, "a", 7).expect("the lease is there");
    let granted = clock.monotonic();
    assert_eq!(take(&mut watcher, 1).await, ["+a=leased@2"]);
    assert_eq!(take(&mut watcher, 1).await, ["-a@3<leased"]);
    let took = clock.monotonic() - granted;
    assert!((Duration::from_millis(1900)..Duration::from_millis(2500)).contains(&took), "{took:?}");
}

#[test]
fn the_first_seconds_after_a_long_outage_belong_to_renewals() {
    let world = World::new();
    let engine = world.open();
    engine.lease_grant(1, 60).expect("granted");
    engine.lease_grant(2, 3).expect("granted");
    engine.checkpoint().expect("the state follows");
    engine.close();
    world.clock.advance(Duration::from_secs(1_000));
    let engine = world.open();
    pass(&world, &engine, 2);
    assert_eq!(engine.leases(), [2, 1]);
    pass(&world, &engine, 2);
    assert_eq!(engine.leases(), [1]);
    pass(&world, &engine, 2);
    assert!(engine.leases().is_empty());
}

#[test]
fn a_stalled_process_ends_no_lease_before_a_renewal_can_come() {
    let world = World::new();
    let engine = world.open();
    engine.lease_grant(1, 20).expect("granted");
    pass(&world, &engine, 1);
    world.clock.advance(Duration::from_secs(100));
    engine.end_due_leases();
    assert_eq!(engine.lease_keep_alive(1).expect("answered"), Some(20));
    pass(&world, &engine, 19);
    assert_eq!(engine.leases(), [1]);
}
