//! The lying disk: power cuts with lost and torn unsynced data, failed writes and syncs. No acknowledged write is lost,
//! none comes back half.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::harness::*;
use crate::storage::disk::Fault;
use crate::storage::{Engine, KeyRange, Op, Origin, PutOp, RangeOp, Txn};

/// Power cuts in all.
const ROUNDS: u64 = 1000;
/// Keys of the wide transactions.
const WIDE: usize = 50;

/// What was answered, and what was asked last and not answered.
#[derive(Default)]
struct Ledger {
    keys: BTreeMap<String, String>,
    open: Vec<(String, String)>,
    revision: i64,
}

impl Ledger {
    fn wide(value: u64) -> Vec<(String, String)> {
        (0..WIDE).map(|i| (format!("wide/{i:02}"), value.to_string())).collect()
    }

    fn write(&mut self, engine: &Engine, writes: Vec<(String, String)>, seed: u64) -> bool {
        let ops = writes.iter().map(|(key, value)| Op::Put(PutOp::new(key.clone(), value.clone())));
        let txn = Txn { compares: vec![], success: ops.collect(), failure: vec![] };
        match engine.commit(txn, &Origin::default()) {
            Ok(result) => {
                assert!(result.revision > self.revision, "seed {seed}: a revision was used twice");
                self.revision = result.revision;
                self.keys.extend(writes);
                true
            }
            Err(_) => {
                self.open = writes;
                false
            }
        }
    }

    /// After a cut: what was answered is there; what was not is there whole or not at all.
    fn check(&mut self, engine: &Engine, seed: u64) {
        assert!(engine.revision() >= self.revision, "seed {seed}: the revision went back");
        let found = engine.range(&RangeOp::new(KeyRange::all())).expect("the read is answered");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found: BTreeMap<String, String> = found.kvs.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect();
        let mut with_open = self.keys.clone();
        with_open.extend(std::mem::take(&mut self.open));
        if found != with_open {
            assert_eq!(found, self.keys, "seed {seed}: an answered write is lost, or an open one came back half");
        }
        self.keys = found;
        self.revision = engine.revision();
    }
}

fn life(engine: &Engine, world: &World, ledger: &mut Ledger, rng: &mut StdRng, seed: u64) {
    let fault_after = rng.random_range(1..30);
    match rng.random_range(0..3) {
        0 => world.disk.inject(Fault::Sync(fault_after)),
        1 => world.disk.inject(Fault::Write(fault_after)),
        _ => {}
    }
    for step in 0..rng.random_range(1..40) {
        let value = seed * 1000 + step;
        let writes = match rng.random_range(0..6) {
            0 => Ledger::wide(value),
            1 => vec![("big".to_owned(), format!("{value}").repeat(rng.random_range(1..900)))],
            _ => vec![(format!("k{}", rng.random_range(0..8)), value.to_string())],
        };
        if !ledger.write(engine, writes, seed) {
            return;
        }
        match rng.random_range(0..40) {
            0 => drop(engine.checkpoint()),
            1 => {
                world.clock.advance(std::time::Duration::from_secs(200));
                drop(engine.compact(engine.revision(), false));
            }
            _ => {}
        }
    }
}

#[test]
fn no_answered_write_is_lost_to_a_power_cut() {
    let mut seed = 0;
    while seed < ROUNDS {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = World::new();
        world.options.log.segment_bytes = [6 << 10, 16 << 10, 200 << 10][seed as usize % 3];
        let mut ledger = Ledger::default();
        let mut engine = world.open();
        // Several lives on the same disk, so that cuts meet what earlier cuts left.
        for _ in 0..10 {
            life(&engine, &world, &mut ledger, &mut rng, seed);
            drop(engine);
            engine = world.crash(seed).unwrap_or_else(|error| panic!("seed {seed}: the store does not open: {error}"));
            ledger.check(&engine, seed);
            seed += 1;
        }
    }
}

#[test]
fn damage_before_durable_frames_is_named() {
    let world = World::new();
    let engine = world.open();
    for i in 0..20 {
        put(&engine, "k", &i.to_string());
    }
    drop(engine);
    let path = std::path::Path::new("/store/log/0000000000000001.seg");
    // Somewhere in the middle of the frames, and in the segment's header.
    for offset in [1000, 40] {
        world.disk.flip(path, offset, 3);
        match world.try_open() {
            Err(crate::storage::Error::Damaged { segment: 1, .. }) => {}
            other => panic!("damage at {offset} was answered with {other:?}"),
        }
        world.disk.flip(path, offset, 3);
    }
    assert_eq!(get(&world.open(), "k", 0).as_deref(), Some("19"));
}

/// Buffered writes may be lost to a power cut, but only from the end: what is left is what was there after some write,
/// and never a later one without an earlier one, not even one that an earlier cut had taken away.
#[test]
fn buffered_writes_are_lost_only_from_the_end() {
    for seed in 0..150 {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = World::new();
        world.options.durability = crate::storage::Durability::Buffered(std::time::Duration::from_secs(1));
        let mut engine = world.open();
        let mut written: Vec<String> = Vec::new();
        for life in 0..6 {
            let mut safe = written.len();
            for step in 0..rng.random_range(1..20) {
                // All frames have one length, so that what one cut leaves lies just behind what is written after it.
                let value = format!("{life}{step:02}");
                put(&engine, &format!("k{:04}", written.len()), &value);
                written.push(value);
                if rng.random_bool(0.05) {
                    engine.checkpoint().expect("a checkpoint is made");
                    safe = written.len();
                }
            }
            drop_without_sync(engine, &world);
            engine = world.crash(seed * 10 + life).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            let found = engine.range(&RangeOp::new(KeyRange::all())).expect("the read is answered");
            let values = found.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.value).into_owned());
            let values: Vec<String> = values.collect();
            assert!(values.len() >= safe, "seed {seed}: a synced write is lost");
            assert_eq!(values, written[..values.len()], "seed {seed}: not what was there after any write");
            written = values;
        }
    }
}

/// Ends an engine so that its last sync fails: a power cut does not wait for it.
fn drop_without_sync(engine: Engine, world: &World) {
    world.disk.inject(Fault::Sync(1));
    drop(engine);
}
