//! Checkpoints, floors and segments that go: over restarts and power cuts every kept revision reads as it did.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::harness::{World, delete, get, next, put, put_leased, take, watch};
use crate::storage::{Disk, Engine, Error, KeyRange, RangeOp};

/// Everything at a revision: key, value, create revision, version.
type Content = BTreeMap<String, (String, i64, i64)>;

fn content(engine: &Engine, revision: i64) -> Result<Content, Error> {
    let op = RangeOp { revision, ..RangeOp::new(KeyRange::all()) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let result = engine.range_retained(&op)?;
    let entries = result.kvs.iter().map(|kv| (text(&kv.key), (text(&kv.value), kv.create_revision, kv.version)));
    let content: Content = entries.collect();
    assert_eq!(result.count as usize, content.len());
    Ok(content)
}

fn segments(world: &World) -> Vec<String> {
    let names = world.disk.list(std::path::Path::new("/store/log")).unwrap();
    names.into_iter().filter(|name| name.ends_with(".seg")).collect()
}

#[test]
fn a_start_reads_the_state_and_only_the_rest_of_the_log() {
    let world = World::new();
    let engine = world.open();
    for number in 0..300 {
        put(&engine, &format!("k{}", number % 50), &format!("v{number}"));
    }
    delete(&engine, "k7");
    engine.checkpoint().unwrap();
    put(&engine, "k8", "after");
    let (revision, before) = (engine.revision(), content(&engine, 0).unwrap());
    let old = content(&engine, 100).unwrap();
    engine.close();
    let engine = world.open();
    assert_eq!(engine.revision(), revision);
    assert_eq!(content(&engine, 0).unwrap(), before);
    assert_eq!(content(&engine, 100).unwrap(), old, "history is still in the log");
    assert_eq!(put(&engine, "k7", "again"), revision + 1);
}

#[test]
fn segments_below_the_floor_go_and_reads_at_the_floor_stay() {
    let world = World::new();
    let engine = world.open();
    put(&engine, "quiet", "never changed");
    put(&engine, "late", "old");
    for number in 0..600 {
        put(&engine, &format!("k{}", number % 40), &format!("value {number}"));
    }
    delete(&engine, "k1");
    let floor = engine.revision();
    engine.checkpoint().unwrap();
    let before = (segments(&world), content(&engine, 0).unwrap());
    engine.compact(floor, false).unwrap();
    engine.expire(floor).unwrap();
    engine.checkpoint().unwrap();
    assert!(segments(&world).len() <= 2, "{:?} of {:?} are left", segments(&world), before.0);
    assert_eq!(engine.retained(), floor);
    assert_eq!(content(&engine, floor).unwrap(), before.1);
    assert!(matches!(content(&engine, floor - 1), Err(Error::Compacted { .. })));
    put(&engine, "late", "new");
    engine.checkpoint().unwrap();
    assert_eq!(get(&engine, "late", floor).as_deref(), Some("old"));
    engine.close();
    let engine = world.open();
    assert_eq!(content(&engine, floor).unwrap(), before.1, "after a restart");
    assert_eq!(get(&engine, "late", 0).as_deref(), Some("new"));
    assert_eq!((engine.compacted(), engine.retained()), (floor, floor));
    assert!(matches!(engine.compact(floor, false), Err(Error::Compacted { .. })));
}

/// A key that rests below the floor, then changes when its log is long gone, is still read at the floor as it was.
#[test]
fn put_at_5_compact_10_segments_gone_put_at_15_restart_read_at_12() {
    let world = World::new();
    let engine = world.open();
    let fill_to = |engine: &Engine, revision: i64| {
        // Large fillers, so that every few revisions fill a segment.
        while engine.revision() < revision {
            put(engine, "filler", &"x".repeat(5000));
        }
    };
    fill_to(&engine, 4);
    assert_eq!(put(&engine, "k", "as of 5"), 5);
    fill_to(&engine, 14);
    engine.compact(10, false).unwrap();
    engine.checkpoint().unwrap();
    let before = segments(&world);
    world.clock.advance(world.options.checkpoint.retention);
    engine.checkpoint().unwrap();
    assert_eq!(engine.retained(), 10);
    assert!(!segments(&world).contains(&before[0]), "the segment of revision 5 is still there");
    assert_eq!(put(&engine, "k", "as of 15"), 15);
    engine.checkpoint().unwrap();
    assert_eq!(get(&engine, "k", 12).as_deref(), Some("as of 5"));
    engine.close();
    let engine = world.open();
    assert_eq!(get(&engine, "k", 12).as_deref(), Some("as of 5"));
    assert_eq!(get(&engine, "k", 0).as_deref(), Some("as of 15"));
    assert!(matches!(content(&engine, 9), Err(Error::Compacted { .. })));
}

/// A delete exactly at the floor is seen by a watch from it, also when the log around it is gone from the index.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_from_the_floor_sees_a_delete_at_it() {
    let world = World::new();
    let mut engine = world.open();
    for number in 0..200 {
        put(&engine, "filler", &format!("{number}"));
    }
    put(&engine, "k", "v");
    let floor = delete(&engine, "k");
    put(&engine, "after", "x");
    engine.compact(floor, false).unwrap();
    engine.expire(floor).unwrap();
    engine.checkpoint().unwrap();
    for _ in 0..2 {
        let mut watcher = watch(&engine, KeyRange::all(), floor);
        let lines = take(&mut watcher, 2).await;
        assert!(lines[0].starts_with(&format!("-k@{floor}")), "{lines:?}");
        assert!(lines[1].starts_with("+after=x"), "{lines:?}");
        engine.close();
        engine = world.open();
    }
}

#[test]
fn the_retained_floor_follows_after_its_time() {
    let world = World::new();
    let engine = world.open();
    for number in 0..10 {
        put(&engine, "k", &format!("{number}"));
    }
    engine.compact(8, false).unwrap();
    engine.checkpoint().unwrap();
    assert_eq!((engine.compacted(), engine.retained()), (8, 0));
    engine.close();
    world.clock.advance(world.options.checkpoint.retention / 2);
    let engine = world.open();
    engine.checkpoint().unwrap();
    assert_eq!((engine.compacted(), engine.retained()), (8, 0));
    world.clock.advance(world.options.checkpoint.retention / 2);
    engine.checkpoint().unwrap();
    assert_eq!((engine.compacted(), engine.retained()), (8, 8));
    assert_eq!(get(&engine, "k", 8).as_deref(), Some("6"));
}

#[test]
fn leases_and_their_keys_survive_in_the_state() {
    let world = World::new();
    let engine = world.open();
    engine.lease_grant(7, 100).unwrap();
    engine.lease_grant(8, 100).unwrap();
    put_leased(&engine, "a", 7).unwrap();
    put_leased(&engine, "b", 8).unwrap();
    engine.checkpoint().unwrap();
    engine.lease_revoke(8).unwrap();
    let floor = engine.revision();
    engine.expire(floor).unwrap();
    engine.checkpoint().unwrap();
    engine.close();
    let engine = world.open();
    let info = engine.lease_time_to_live(7, true).unwrap();
    assert_eq!((info.granted_ttl, info.keys), (100, vec!["a".into()]));
    assert_eq!(engine.leases(), [7]);
    assert_eq!(get(&engine, "b", 0), None);
    engine.lease_revoke(7).unwrap();
    assert_eq!(get(&engine, "a", 0), None);
}

/// Any course of writes, checkpoints, floors, clean ends and power cuts, against a plain copy of every revision.
#[test]
fn no_course_of_checkpoints_and_power_cuts_changes_a_kept_revision() {
    for seed in 0..100 {
        let mut random = StdRng::seed_from_u64(seed);
        let mut world = World::new();
        if seed % 2 == 1 {
            // Every read goes to the log or the state.
            world.options.value_cache_bytes = 0;
        }
        let mut engine = world.open();
        // The content at each revision, as told by the engine right after the write.
        let mut history: BTreeMap<i64, Content> = BTreeMap::new();
        let mut floor = 0;
        for step in 0..120 {
            match random.random_range(0..100) {
                0..70 => {
                    let key = format!("k{}", random.random_range(0..12));
                    let revision = if random.random_bool(0.25) {
                        delete(&engine, &key)
                    } else {
                        put(&engine, &key, &"v".repeat(random.random_range(0..400)))
                    };
                    history.insert(revision, content(&engine, 0).unwrap());
                }
                70..84 => engine.checkpoint().unwrap(),
                84..90 => {
                    let to = random.random_range(floor..=engine.revision());
                    engine.expire(to).unwrap();
                    floor = floor.max(to);
                }
                90..93 => {
                    engine.close();
                    engine = world.open();
                }
                _ => {
                    // Half of the cuts meet a checkpoint, a floor advance or the removal of segments somewhere inside.
                    if random.random_bool(0.5) {
                        world.state.fail_in(random.random_range(1..9));
                        let _ = engine.checkpoint();
                    }
                    drop(engine);
                    engine = world.crash(random.random()).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                }
            }
            let kept = random.random_range(floor..=engine.revision());
            if let Some((_, expected)) = history.range(..=kept).next_back().filter(|_| kept >= floor) {
                let found = content(&engine, kept).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
                assert_eq!(found, *expected, "seed {seed}, step {step}, revision {kept}, floor {floor}");
            }
        }
        if let Some((last, _)) = history.last_key_value() {
            assert_eq!(engine.revision(), *last, "seed {seed}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_reads_its_history_while_floors_rise_behind_it() {
    let world = World::new();
    let engine = world.open();
    for number in 0..400 {
        put(&engine, "k", &format!("{number}"));
    }
    let mut watcher = watch(&engine, KeyRange::all(), 202);
    engine.compact(150, false).unwrap();
    engine.expire(150).unwrap();
    engine.checkpoint().unwrap();
    let lines = take(&mut watcher, 200).await;
    assert!(lines[0].starts_with("+k=200@202"), "{}", lines[0]);
    assert!(lines[199].starts_with("+k=399@401"), "{}", lines[199]);
    put(&engine, "k", "live");
    assert_eq!(next(&mut watcher).await.unwrap().1, ["+k=live@402<399"]);
}

/// A full segment that a crash left without its footer gets one at the next start, and reads as before.
#[test]
fn an_unsealed_segment_is_sealed_at_the_next_start() {
    let world = World::new();
    let engine = world.open();
    for number in 0..300 {
        put(&engine, &format!("k{}", number % 50), &format!("v{number}"));
    }
    engine.checkpoint().unwrap();
    let (before, old) = (content(&engine, 0).unwrap(), content(&engine, 100).unwrap());
    drop(engine);
    let path = std::path::Path::new("/store/log").join(&segments(&world)[0]);
    let sealed = world.disk.content(&path).unwrap();
    // The trailer goes, as if it had not been written yet.
    let file = world.disk.open(&path, crate::storage::disk::OpenMode::Existing).unwrap();
    file.set_len(sealed.len() as u64 - 32).unwrap();
    drop(world.open());
    assert!(world.disk.content(&path).unwrap() == sealed, "the segment is not sealed as it was");
    let engine = world.open();
    assert_eq!(content(&engine, 0).unwrap(), before);
    assert_eq!(content(&engine, 100).unwrap(), old);
}
