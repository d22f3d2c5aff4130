//! The lessor against a hand-moved clock.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::clock::ManualClock;

const WALL: i64 = 1_700_000_000_000;

fn at(ms: u64) -> Moment {
    Moment { monotonic: Duration::from_millis(ms), wall_ms: WALL + ms as i64 }
}

fn lessor() -> Lessor {
    Lessor::new(7, at(0))
}

fn grant(lessor: &mut Lessor, id: i64, ttl: i64, now: Moment) -> LeaseRecord {
    let record = lessor.plan_grant(id, ttl, now).unwrap();
    lessor.granted(record, now);
    record
}

/// Ticks twice a second from `from` to `to` milliseconds and returns when which lease was first named.
fn run(lessor: &mut Lessor, from: u64, to: u64) -> Vec<(u64, i64)> {
    let mut named = Vec::new();
    for ms in (from..=to).step_by(500) {
        for id in lessor.tick(at(ms), usize::MAX) {
            named.push((ms, id));
            lessor.revoked(id);
        }
    }
    named
}

fn key(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn a_grant_checks_id_and_time() {
    let mut l = lessor();
    assert_eq!(grant(&mut l, -4, 10, at(0)).id, -4);
    assert!(matches!(l.plan_grant(-4, 10, at(0)), Err(Error::LeaseExists(-4))));
    assert!(matches!(l.plan_grant(1, TTL_SECS_MAX + 1, at(0)), Err(Error::LeaseTtlTooLarge(_))));
    assert_eq!(l.plan_grant(1, TTL_SECS_MAX, at(0)).unwrap().ttl_secs, TTL_SECS_MAX);
    for small in [1, 0, -7, i64::MIN] {
        assert_eq!(l.plan_grant(1, small, at(0)).unwrap().ttl_secs, TTL_SECS_MIN, "{small}");
    }
    let drawn: Vec<i64> = (0..100).map(|_| grant(&mut l, 0, 10, at(0)).id).collect();
    assert!(drawn.iter().all(|&id| id > 0));
    assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), 100);
    assert_eq!(Lessor::new(7, at(0)).plan_grant(0, 9, at(0)).unwrap().id, drawn[0], "the seed decides");
}

#[test]
fn a_lease_ends_when_due_and_not_before() {
    let mut l = lessor();
    grant(&mut l, 1, 10, at(0));
    grant(&mut l, 2, 3, at(0));
    assert_eq!(l.ids(), [2, 1]);
    assert_eq!(l.next_deadline(), Some(Duration::from_secs(3)));
    run(&mut l, 0, 2_500);
    assert_eq!(l.tick(at(2_999), 10), [0i64; 0]);
    assert_eq!(l.tick(at(3_000), 10), [2]);
    assert_eq!(l.tick(at(3_500), 10), [2], "named until it is revoked");
    l.revoked(2);
    assert_eq!(run(&mut l, 3_500, 11_000), [(10_000, 1)]);
    assert!(l.is_empty());
}

#[test]
fn due_leases_are_named_in_bounded_lots() {
    let mut l = lessor();
    for id in 1..=10 {
        grant(&mut l, id, 2, at(id as u64));
    }
    l.tick(at(1_500), 4);
    assert_eq!(l.tick(at(3_000), 4), [1, 2, 3, 4]);
}

#[test]
fn a_renewal_sets_the_granted_time_again() {
    let mut l = lessor();
    grant(&mut l, 1, 10, at(0));
    run(&mut l, 0, 7_000);
    assert_eq!(l.time_to_live(1, false, at(7_001)).unwrap().ttl, 2);
    assert_eq!(l.keep_alive(1, at(7_001)).unwrap().ttl_secs, 10);
    assert_eq!(l.time_to_live(1, false, at(7_001)).unwrap().ttl, 10);
    assert_eq!(run(&mut l, 7_500, 20_000), [(17_500, 1)]);
    assert_eq!(l.keep_alive(1, at(20_001)), None);
    assert_eq!(l.time_to_live(1, true, at(20_001)), None);
}

#[test]
fn a_due_lease_is_gone_for_renewals_before_its_keys_are() {
    let mut l = lessor();
    grant(&mut l, 1, 2, at(0));
    l.attach(&key("a"), 1);
    l.tick(at(1_500), 10);
    assert_eq!(l.keep_alive(1, at(2_000)), None);
    assert_eq!(l.time_to_live(1, true, at(2_000)), None);
    assert_eq!(l.keys_of(1).unwrap(), [key("a")]);
}

#[test]
fn a_key_hangs_on_one_lease() {
    let mut l = lessor();
    grant(&mut l, 1, 10, at(0));
    grant(&mut l, 2, 10, at(0));
    for name in ["b", "a", "c"] {
        l.attach(&key(name), 1);
    }
    l.attach(&key("b"), 2);
    l.attach(&key("c"), 0);
    assert_eq!(l.keys_of(1).unwrap(), [key("a")]);
    assert_eq!(l.time_to_live(2, true, at(1)).unwrap().keys, [key("b")]);
    l.detach(&key("a"));
    assert_eq!(l.keys_of(1).unwrap(), Vec::<Bytes>::new());
    assert_eq!(l.keys_of(3), None);
    l.revoked(2);
    l.attach(&key("b"), 1);
    assert_eq!(l.keys_of(1).unwrap(), [key("b")]);
}

#[test]
fn most_renewals_need_no_log_and_none_outruns_it() {
    let mut l = lessor();
    let mut durable = grant(&mut l, 1, 10, at(0)).deadline_wall_ms;
    assert_eq!(durable, WALL + 10_000, "a lease never renewed keeps its exact deadline");
    let mut logged = 0;
    for ms in (0..100_000).step_by(500) {
        l.tick(at(ms), 10);
        let answer = l.keep_alive(1, at(ms)).unwrap();
        if let Some(record) = answer.record {
            assert!(record.deadline_wall_ms <= WALL + ms as i64 + 20_000, "slack above the TTL");
            l.renewed(record, at(ms));
            durable = record.deadline_wall_ms;
            logged += 1;
        }
        assert!(durable >= WALL + ms as i64 + 10_000, "an acknowledged deadline is not durable at {ms}");
    }
    assert!((15..=25).contains(&logged), "{logged} records for 200 renewals");
}

#[test]
fn a_wall_clock_that_jumps_does_not_hide_a_renewal_from_the_log() {
    let clock = ManualClock::new(WALL);
    let mut l = Lessor::new(1, Moment::now(&*clock));
    let record = grant(&mut l, 1, 10, Moment::now(&*clock));
    clock.jump_wall(-3_600_000);
    clock.advance(Duration::from_secs(1));
    let renewal = l.keep_alive(1, Moment::now(&*clock)).unwrap();
    assert!(renewal.record.is_some(), "by the monotonic clock {record:?} does not cover it");
}

#[test]
fn a_stall_ends_nothing_early() {
    for first_is_renewal in [true, false] {
        let mut l = lessor();
        grant(&mut l, 1, 60, at(0));
        grant(&mut l, 2, 3, at(0));
        assert_eq!(run(&mut l, 0, 2_000), []);
        let after = 2_000 + 70_000;
        if first_is_renewal {
            assert!(l.keep_alive(1, at(after)).is_some());
        } else {
            assert_eq!(l.tick(at(after), 10), [0i64; 0]);
        }
        assert_eq!(l.time_to_live(2, false, at(after)).unwrap().ttl, 3, "min(TTL, 5 s)");
        let named = run(&mut l, after + 500, after + 70_000);
        let first = if first_is_renewal { after + 60_000 } else { after + 5_000 };
        assert_eq!(named, [(after + 3_000, 2), (first, 1)]);
    }
}

#[test]
fn a_short_delay_is_no_stall() {
    let mut l = lessor();
    grant(&mut l, 1, 2, at(0));
    l.tick(at(1_000), 10);
    assert_eq!(l.tick(at(2_400), 10), [1]);
}

#[test]
fn a_restart_keeps_what_was_left() {
    let check = |left_ms: i64, ttl_secs: i64, expected_ms: u64| {
        let mut l = Lessor::new(1, at(0));
        l.restored(LeaseRecord { id: 1, ttl_secs, deadline_wall_ms: WALL + left_ms }, at(0));
        assert_eq!(l.next_deadline(), Some(Duration::from_millis(expected_ms)), "{left_ms} of {ttl_secs}");
    };
    check(23_000, 30, 23_000);
    check(45_000, 30, 30_000);
    check(1_000, 30, 5_000);
    check(-100_000, 30, 5_000);
    check(-100_000, 2, 2_000);
}

#[test]
fn dirty_leases_are_told_once() {
    let mut l = lessor();
    l.restored(LeaseRecord { id: 9, ttl_secs: 5, deadline_wall_ms: WALL }, at(0));
    assert!(!l.is_dirty());
    let granted = grant(&mut l, 1, 10, at(0));
    assert_eq!(l.take_dirty(), [(1, Some(granted))]);
    let renewal = l.keep_alive(1, at(100)).unwrap().record.unwrap();
    assert!(!l.is_dirty(), "nothing durable has changed yet");
    l.renewed(renewal, at(100));
    assert_eq!(l.take_dirty(), [(1, Some(renewal))]);
    l.revoked(1);
    assert_eq!(l.take_dirty(), [(1, None)]);
    assert_eq!(l.take_dirty(), []);
}

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Stall(u64),
    Grant(i64, i64),
    KeepAlive(i64),
    Restart(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u64..4_000).prop_map(Step::Pass),
        1 => (4_000u64..30_000).prop_map(Step::Stall),
        2 => (1i64..5, 2i64..20).prop_map(|(id, ttl)| Step::Grant(id, ttl)),
        5 => (1i64..5).prop_map(Step::KeepAlive),
        1 => (0u64..30_000).prop_map(Step::Restart),
    ]
}

proptest! {
    /// Over any course of renewals, stalls and restarts no lease is named before what was acknowledged, and each is
    /// named once what was acknowledged, the grace and the slack have passed.
    #[test]
    fn no_lease_ends_before_what_was_acknowledged(steps in proptest::collection::vec(step(), 1..60)) {
        let mut l = lessor();
        let mut now = 0u64;
        // What a log would hold, and the acknowledged deadlines in milliseconds of the wall clock.
        let mut log: HashMap<i64, LeaseRecord> = HashMap::new();
        let mut promised: HashMap<i64, u64> = HashMap::new();
        for step in steps {
            match step {
                Step::Pass(ms) => {
                    let end = now + ms;
                    while now < end {
                        now = end.min(now + 500);
                        for id in l.tick(at(now), 10) {
                            prop_assert!(promised[&id] <= now, "lease {} ended at {} before {}", id, now, promised[&id]);
                            l.revoked(id);
                            log.remove(&id);
                        }
                    }
                }
                Step::Stall(ms) => now += ms,
                Step::Grant(id, ttl) => if let Ok(record) = l.plan_grant(id, ttl, at(now)) {
                    l.granted(record, at(now));
                    log.insert(id, record);
                    promised.insert(id, now + ttl as u64 * 1000);
                },
                Step::KeepAlive(id) => if let Some(answer) = l.keep_alive(id, at(now)) {
                    if let Some(record) = answer.record {
                        log.insert(id, record);
                        l.renewed(record, at(now));
                    }
                    promised.insert(id, now + answer.ttl_secs as u64 * 1000);
                },
                Step::Restart(ms) => {
                    now += ms;
                    l = Lessor::new(7, at(now));
                    for record in log.values() {
                        l.restored(*record, at(now));
                        prop_assert!(l.time_to_live(record.id, false, at(now)).unwrap().ttl <= record.ttl_secs);
                    }
                }
            }
        }
        prop_assert_eq!(l.len(), log.len());
        run(&mut l, now, now + 60_000);
        prop_assert!(l.is_empty(), "a lease outlived every promise");
    }
}
