//! Random work beside a plain model that keeps every state there ever was.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::harness::*;
use crate::storage::{
    DeleteOp, Engine, Error, KeyRange, KeyValue, Op, Origin, PutOp, RangeOp, RangeResult, SortOrder, SortTarget, Txn,
};

type State = BTreeMap<Vec<u8>, KeyValue>;

/// What the store should be: the state after each revision, from 1.
struct Model {
    states: Vec<State>,
    floor: i64,
}

impl Model {
    fn new() -> Self {
        Self { states: vec![State::new(), State::new()], floor: 0 }
    }

    fn revision(&self) -> i64 {
        self.states.len() as i64 - 1
    }

    fn latest(&self) -> &State {
        self.states.last().expect("there is always a state")
    }

    /// Applies writes as one revision, if any of them changes something.
    fn apply(&mut self, ops: &[Op]) {
        let mut state = self.latest().clone();
        let main = self.revision() + 1;
        let mut changed = false;
        for op in ops {
            match op {
                Op::Put(op) => {
                    let before = state.get(&op.key[..]);
                    let kv = KeyValue {
                        key: op.key.clone(),
                        value: op.value.clone(),
                        create_revision: before.map_or(main, |kv| kv.create_revision),
                        mod_revision: main,
                        version: before.map_or(1, |kv| kv.version + 1),
                        lease: 0,
                    };
                    state.insert(op.key.to_vec(), kv);
                    changed = true;
                }
                Op::Delete(op) => {
                    let before = state.len();
                    state.retain(|key, _| !op.range.contains(key));
                    changed |= state.len() < before;
                }
                _ => unreachable!("the model is given writes"),
            }
        }
        if changed {
            self.states.push(state);
        }
    }

    fn range(&self, op: &RangeOp) -> Result<RangeResult, ()> {
        let current = self.revision();
        let revision = if op.revision <= 0 { current } else { op.revision };
        if revision > current || revision < self.floor {
            return Err(());
        }
        let within = |value: i64, min: i64, max: i64| (min == 0 || value >= min) && (max == 0 || value <= max);
        let all = self.states[revision as usize].values().filter(|kv| op.range.contains(&kv.key));
        let count = all.clone().count() as i64;
        let mut kvs: Vec<KeyValue> = all
            .filter(|kv| {
                within(kv.mod_revision, op.min_mod_revision, op.max_mod_revision)
                    && within(kv.create_revision, op.min_create_revision, op.max_create_revision)
            })
            .cloned()
            .collect();
        if let Some((target, order)) = op.sort {
            kvs.sort_by(|a, b| {
                let ascending = match target {
                    SortTarget::Key => a.key.cmp(&b.key),
                    SortTarget::Version => a.version.cmp(&b.version),
                    SortTarget::Create => a.create_revision.cmp(&b.create_revision),
                    SortTarget::Mod => a.mod_revision.cmp(&b.mod_revision),
                    SortTarget::Value => a.value.cmp(&b.value),
                };
                if order == SortOrder::Ascend { ascending } else { ascending.reverse() }
            });
        }
        let more = op.limit > 0 && kvs.len() > op.limit;
        if op.limit > 0 {
            kvs.truncate(op.limit);
        }
        if op.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value = bytes::Bytes::new());
        }
        match op.count_only {
            true => Ok(RangeResult { kvs: Vec::new(), more: false, count, revision: current }),
            false => Ok(RangeResult { kvs, more, count, revision: current }),
        }
    }
}

fn random_key(rng: &mut StdRng) -> String {
    format!("{}/{:02}", ["a", "b", "cc"][rng.random_range(0..3)], rng.random_range(0..25))
}

fn random_range(rng: &mut StdRng) -> KeyRange {
    match rng.random_range(0..5) {
        0 => KeyRange::single(random_key(rng)),
        1 => KeyRange::all(),
        2 => KeyRange::prefix(["a", "b", "cc", "c"][rng.random_range(0..4)]),
        _ => KeyRange::between(random_key(rng), random_key(rng)),
    }
}

fn random_read(rng: &mut StdRng, current: i64) -> RangeOp {
    let mut op = RangeOp::new(random_range(rng));
    if rng.random_bool(0.6) {
        op.revision = rng.random_range(0..=current + 1);
    }
    if rng.random_bool(0.5) {
        op.limit = rng.random_range(0..12);
    }
    op.keys_only = rng.random_bool(0.2);
    op.count_only = rng.random_bool(0.2);
    if rng.random_bool(0.2) {
        op.min_mod_revision = rng.random_range(0..=current);
        op.max_create_revision = rng.random_range(0..=current);
    }
    if rng.random_bool(0.2) {
        let target = [SortTarget::Key, SortTarget::Version, SortTarget::Create, SortTarget::Mod, SortTarget::Value];
        let order = if rng.random_bool(0.5) { SortOrder::Ascend } else { SortOrder::Descend };
        op.sort = Some((target[rng.random_range(0..5)], order));
    }
    op
}

fn random_writes(rng: &mut StdRng) -> Vec<Op> {
    let put = |rng: &mut StdRng, key: String| {
        let value = "v".repeat(rng.random_range(0..40)) + &rng.random_range(0..1000).to_string();
        Op::Put(PutOp::new(key, value))
    };
    match rng.random_range(0..10) {
        0 => vec![Op::Delete(DeleteOp { range: random_range(rng), prev_kv: false })],
        1 => {
            let mut keys: Vec<String> = (0..rng.random_range(2..12)).map(|_| random_key(rng)).collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().map(|key| put(rng, key)).collect()
        }
        2 => {
            let mut ops = vec![Op::Delete(DeleteOp { range: KeyRange::prefix("b"), prev_kv: false })];
            let key = random_key(rng).replace('b', "a");
            ops.push(put(rng, key));
            ops
        }
        _ => {
            let key = random_key(rng);
            vec![put(rng, key)]
        }
    }
}

fn check_reads(engine: &Engine, model: &Model, rng: &mut StdRng, times: usize, seed: u64) {
    for _ in 0..times {
        let op = random_read(rng, model.revision());
        match (engine.range(&op), model.range(&op)) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected, "seed {seed}: {op:?}"),
            (Err(Error::FutureRevision { .. }), Err(())) if op.revision > model.revision() => {}
            (Err(Error::Compacted { .. }), Err(())) if op.revision < model.floor => {}
            (found, expected) => panic!("seed {seed}: {op:?} gave {found:?}, the model says {expected:?}"),
        }
    }
}

/// All events from a revision on, as the model has them.
fn expected_events(model: &Model, range: &KeyRange, start: i64) -> Vec<(i64, Vec<u8>, bool, Option<KeyValue>)> {
    let mut events = Vec::new();
    for revision in start.max(2)..=model.revision() {
        let (before, after) = (&model.states[revision as usize - 1], &model.states[revision as usize]);
        let mut of_revision = Vec::new();
        for (key, _) in after.iter().filter(|(_, kv)| kv.mod_revision == revision) {
            of_revision.push((revision, key.clone(), true, before.get(key).cloned()));
        }
        for (key, kv) in before.iter().filter(|(key, _)| !after.contains_key(*key)) {
            of_revision.push((revision, key.clone(), false, Some(kv.clone())));
        }
        of_revision.sort_by(|a, b| a.1.cmp(&b.1));
        events.extend(of_revision.into_iter().filter(|(_, key, _, _)| range.contains(key)));
    }
    events
}

async fn check_watch(engine: &Engine, model: &Model, rng: &mut StdRng, seed: u64) {
    let range = random_range(rng);
    let start = rng.random_range(model.floor.max(1) + 1..=model.revision() + 1);
    let expected = expected_events(model, &range, start);
    let mut watcher = watch(engine, range.clone(), start);
    let mut found = Vec::new();
    while found.len() < expected.len() {
        let message = tokio::time::timeout(PATIENCE, watcher.next()).await;
        let message = message.unwrap_or_else(|_| panic!("seed {seed}: {range:?} from {start} stands still"));
        let crate::storage::WatchMessage::Events { revision, events } = message.expect("the watch goes on");
        assert_eq!(events.last().map(|event| event.revision()), Some(revision));
        found.extend(events);
    }
    let mut found: Vec<_> = found
        .iter()
        .map(|event| {
            let put = event.kind == crate::storage::EventKind::Put;
            (event.revision(), event.kv.key.to_vec(), put, event.prev.as_deref().cloned())
        })
        .collect();
    assert!(found.is_sorted_by_key(|event| event.0), "seed {seed}: events are out of order");
    found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    assert_eq!(found, expected, "seed {seed}: {range:?} from {start}");
    assert!(watcher.progress() <= model.revision());
}

async fn round(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut world = World::new();
    // Some rounds keep no values in memory at all.
    world.options.value_cache_bytes = [0, 2000, 1 << 20][seed as usize % 3];
    let mut engine = world.open();
    let mut model = Model::new();
    for _ in 0..rng.random_range(100..400) {
        let ops = random_writes(&mut rng);
        model.apply(&ops);
        let txn = Txn { compares: vec![], success: ops, failure: vec![] };
        let result = engine.commit(txn, &Origin::default()).expect("the transaction is done");
        assert_eq!(result.revision, model.revision(), "seed {seed}");
        match rng.random_range(0..60) {
            0 => {
                drop(engine);
                engine = world.open();
                assert_eq!(engine.revision(), model.revision(), "seed {seed}");
            }
            1 => check_watch(&engine, &model, &mut rng, seed).await,
            2 if model.revision() > 10 => compact(&engine, &mut model, &world, &mut rng),
            3 => engine.checkpoint().expect("a checkpoint is made"),
            _ => {}
        }
        check_reads(&engine, &model, &mut rng, 2, seed);
    }
    drop(engine);
    let engine = world.open();
    check_reads(&engine, &model, &mut rng, 200, seed);
    check_watch(&engine, &model, &mut rng, seed).await;
}

/// Compacts somewhere above the floor, and half of the time lets the physical floor follow.
fn compact(engine: &Engine, model: &mut Model, world: &World, rng: &mut StdRng) {
    let floor = rng.random_range(model.floor + 1..=model.revision());
    engine.compact(floor, false).expect("a compaction is answered");
    model.floor = floor;
    if rng.random_bool(0.5) {
        world.clock.advance(std::time::Duration::from_secs(400));
        engine.checkpoint().expect("a checkpoint is made");
    }
    if rng.random_bool(0.2) {
        engine.expire(floor).expect("the floor is moved");
        engine.checkpoint().expect("a checkpoint is made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_work_agrees_with_the_model() {
    for seed in 0..40 {
        round(seed).await;
    }
}
