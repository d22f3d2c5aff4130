//! The state against a plain model, on both implementations: reads at every kept revision, crashes between any two
//! steps, damage, and the rules of `base/`.

mod crash;
mod format;
mod model;
mod process;

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::schema::{BASE, CURRENT, chunk_key, lease_key, record_key};
use super::*;
use model::{Model, Step, dump, identity, step};

fn open_sled(dir: &tempfile::TempDir) -> Arc<dyn State> {
    SledOptions::new(dir.path().join("state")).open().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The same steps leave the same bytes in sled and in the twin, and reads agree with the model, over reopenings.
    #[test]
    fn sled_and_the_twin_hold_the_same(steps in proptest::collection::vec(step(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let memory = MemoryState::new();
        let mut on_sled = Model::open(open_sled(&dir));
        let mut in_memory = Model::open(Arc::new(memory.clone()));
        for step in steps {
            on_sled.step(&step).unwrap();
            in_memory.step(&step).unwrap();
            if matches!(step, Step::Reopen) {
                on_sled = on_sled.reopen(|| open_sled(&dir));
                in_memory = in_memory.reopen(|| Arc::new(memory.clone()));
            }
        }
        on_sled.check();
        in_memory.check();
        prop_assert_eq!(dump(&*on_sled.state), dump(&*in_memory.state));
        prop_assert_eq!(memory.unsynced(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn reads_at_every_kept_revision_agree_with_the_model(steps in proptest::collection::vec(step(), 1..120)) {
        let memory = MemoryState::new();
        let mut model = Model::open(Arc::new(memory.clone()));
        for step in steps {
            model.step(&step).unwrap();
            if matches!(step, Step::Reopen) {
                model = model.reopen(|| Arc::new(memory.clone()));
            }
            if !matches!(step, Step::Write(..)) {
                model.check();
            }
        }
        model.check();
    }
}

/// A key written once, compacted over and then overwritten must still be read between the floor and its new revision,
/// although the log of its first write is gone.
#[test]
fn a_read_between_the_floor_and_a_later_write_finds_the_base() {
    let memory = MemoryState::new();
    let mut model = Model::open(Arc::new(memory.clone()));
    model.write_at(5, b"k", Some(b"old"));
    model.write_at(10, b"other", Some(b"x"));
    model.checkpoint().unwrap();
    model.advance_floor(10).unwrap();
    assert_eq!(model.log_starts_at(), 10, "the log of revision 5 is gone");
    model.write_at(15, b"k", Some(b"new"));
    model.checkpoint().unwrap();
    let model = model.reopen(|| Arc::new(memory.clone()));
    assert_eq!(model.read_at(12, b"k").unwrap().value, "old");
    assert_eq!(model.read_at(15, b"k").unwrap().value, "new");
    model.check();
}

#[test]
fn a_base_is_never_written_over_by_a_later_record() {
    let mut model = Model::open(Arc::new(MemoryState::new()));
    model.write_at(5, b"k", Some(b"five"));
    model.write_at(10, b"x", Some(b"x"));
    model.checkpoint().unwrap();
    model.advance_floor(10).unwrap();
    for revision in [11, 12, 13] {
        model.write_at(revision, b"k", Some(b"later"));
        model.checkpoint().unwrap();
        assert_eq!(model.reader.base(b"k").unwrap().unwrap().mod_revision, 5);
    }
    model.advance_floor(12).unwrap();
    assert_eq!(model.reader.base(b"k").unwrap().unwrap().mod_revision, 12);
    model.advance_floor(13).unwrap();
    assert_eq!(model.reader.base(b"k").unwrap(), None, "cur/ serves the floor itself");
    model.check();
}

#[test]
fn a_tombstone_stays_until_the_floor_has_passed_it() {
    let mut model = Model::open(Arc::new(MemoryState::new()));
    model.write_at(5, b"k", Some(b"v"));
    model.write_at(6, b"k", None);
    model.write_at(7, b"x", Some(b"x"));
    model.checkpoint().unwrap();
    model.advance_floor(6).unwrap();
    assert_eq!(model.reader.current(b"k").unwrap().unwrap().kind, RecordKind::Tombstone, "at exactly the floor");
    assert_eq!(model.writer.meta().totals.tombstones, 1);
    model.advance_floor(7).unwrap();
    assert_eq!(model.reader.current(b"k").unwrap(), None);
    assert_eq!((model.writer.meta().totals.live, model.writer.meta().totals.tombstones), (1, 0));
    model.check();
}

#[test]
fn a_long_value_is_cut_into_chunks_and_a_shorter_one_leaves_none_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut model = Model::open(open_sled(&dir));
    let long: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let entries = |model: &Model| dump(&*model.state).into_iter().filter(|(k, _)| k.starts_with(CURRENT)).count();
    for (revision, len, chunks) in
        [(2, 1 << 20, 16), (3, CHUNK_BYTES, 1), (4, CHUNK_BYTES + 1, 2), (5, VALUE_BYTES_MAX, 24), (6, 0, 1)]
    {
        let value: Vec<u8> = long.iter().cycle().take(len).copied().collect();
        model.write_at(revision, b"k", Some(&value));
        model.checkpoint().unwrap();
        assert_eq!(entries(&model), chunks, "{len} bytes");
        assert_eq!(model.reader.current(b"k").unwrap().unwrap().value, value);
        model = model.reopen(|| open_sled(&dir));
        model.check();
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let mut model = Model::open(Arc::new(MemoryState::new()));
    let big = vec![0; VALUE_BYTES_MAX + 1];
    model.write_at(2, b"k", Some(&big));
    assert!(matches!(model.checkpoint(), Err(StateError::TooLarge { what: "value", .. })));
    model.write_at(3, &vec![1; KEY_BYTES_MAX + 1], Some(b""));
    model.write_at(4, b"k", Some(b"small"));
    assert!(matches!(model.checkpoint(), Err(StateError::TooLarge { what: "key", .. })));
}

#[test]
fn leases_are_kept_in_order_and_counted() {
    let memory = MemoryState::new();
    let (_, mut writer) = open_store(Arc::new(memory.clone()), identity).unwrap();
    let lease = |id, deadline_wall_ms| LeaseRecord { id, ttl_secs: 60, deadline_wall_ms };
    let mut checkpoint = writer.checkpoint().unwrap();
    for id in [5, -3, 9, i64::MIN] {
        checkpoint.put_lease(lease(id, 1)).unwrap();
    }
    checkpoint.finish(Applied { seq: 1, revision: 1 }, Compactions::default()).unwrap();
    let mut checkpoint = writer.checkpoint().unwrap();
    checkpoint.put_lease(lease(5, 2)).unwrap();
    checkpoint.remove_lease(9).unwrap();
    checkpoint.remove_lease(77).unwrap();
    checkpoint.finish(Applied { seq: 2, revision: 1 }, Compactions::default()).unwrap();
    drop(writer);
    let (reader, _) = open_store(Arc::new(memory), identity).unwrap();
    assert_eq!(reader.leases().unwrap(), [lease(i64::MIN, 1), lease(-3, 1), lease(5, 2)]);
}

#[test]
fn meta_survives_a_reopening_and_the_identity_is_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut writer) = open_store(open_sled(&dir), identity).unwrap();
    let compactions = Compactions {
        compacted: 7,
        pending: vec![PendingFloor { revision: 6, wall_ms: -1 }, PendingFloor { revision: 7, wall_ms: 99 }],
    };
    let applied = Applied { seq: 40, revision: 9 };
    writer.checkpoint().unwrap().finish(applied, compactions.clone()).unwrap();
    assert!(writer.checkpoint().unwrap().finish(Applied { seq: 39, revision: 9 }, compactions.clone()).is_err());
    let restored = Identity { incarnation: "restored".to_owned(), term: 3, ..identity() };
    writer.set_identity(restored.clone()).unwrap();
    assert!(writer.advance_floor(10).is_err(), "beyond applied");
    writer.advance_floor(8).unwrap().finish().unwrap();
    assert!(writer.advance_floor(7).is_err(), "backwards");
    drop(writer);
    let (reader, writer) = open_store(open_sled(&dir), || panic!("the store has an identity")).unwrap();
    assert_eq!(reader.meta().unwrap(), *writer.meta());
    assert_eq!(writer.meta().identity, restored);
    assert_eq!((writer.meta().applied, &writer.meta().compactions), (applied, &compactions));
    assert_eq!(writer.meta().floor, Floor { retained: 8, settled: 8 });
}

/// A store with something under every prefix, and a base.
fn furnished(state: Arc<dyn State>) {
    let mut model = Model::open(state);
    let long = vec![7; 3 * CHUNK_BYTES];
    for revision in 2..40 {
        let key = format!("k{}", revision % 20);
        model.write_at(revision, key.as_bytes(), Some(if revision % 7 == 0 { &long } else { b"short" }));
    }
    model.write_at(40, b"k1", None);
    model.checkpoint().unwrap();
    model.advance_floor(20).unwrap();
    let mut checkpoint = model.writer.checkpoint().unwrap();
    checkpoint.put_lease(LeaseRecord { id: 4, ttl_secs: 9, deadline_wall_ms: 1 }).unwrap();
    checkpoint.finish(Applied { seq: 500, revision: 40 }, Compactions::default()).unwrap();
    assert!(model.writer.meta().totals.bases > 0);
}

fn start(state: Arc<dyn State>) -> Result<(), StateError> {
    let (reader, _) = open_store(state, identity)?;
    reader.scan_current(&mut |_| {})?;
    reader.scan_base(&mut |_| {})?;
    reader.leases().map(drop)
}

/// Changes one entry behind the store's back and expects the next start to name `place`.
fn damage(state: &Arc<dyn State>, place: &str, key: Vec<u8>, value: Option<Vec<u8>>) {
    let before = state.get(&key).unwrap();
    let raw = |value: Option<Vec<u8>>| {
        let mut batch = StateBatch::default();
        batch.changes.push((key.clone(), value));
        state.apply(batch).unwrap();
    };
    raw(value);
    match start(Arc::clone(state)) {
        Err(StateError::Damaged { place: named, .. }) => assert!(named.contains(place), "{named} instead of {place}"),
        other => panic!("damage at {place} gave {other:?}"),
    }
    raw(before.map(|value| value.to_vec()));
    start(Arc::clone(state)).unwrap();
}

#[test]
fn a_hole_or_a_mix_up_is_named_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let memory: Arc<dyn State> = Arc::new(MemoryState::new());
    for state in [memory, open_sled(&dir)] {
        furnished(Arc::clone(&state));
        start(Arc::clone(&state)).unwrap();
        let k14 = record_key(CURRENT, b"k14");
        let entry = state.get(&k14).unwrap().unwrap();
        damage(&state, "cur/", k14.clone(), None);
        damage(&state, "cur/", record_key(CURRENT, b"k3"), None);
        damage(&state, "cur/", record_key(CURRENT, b"k1"), None);
        damage(
            &state,
            "cur/k3",
            record_key(CURRENT, b"k3"),
            state.get(&record_key(CURRENT, b"k4")).unwrap().map(|v| v.to_vec()),
        );
        damage(&state, "cur/k8", chunk_key(&record_key(CURRENT, b"k8"), 2), None);
        damage(&state, "cur/k8", chunk_key(&record_key(CURRENT, b"k8"), 3), Some(vec![1, 2, 3, 4, 5]));
        let mut flipped = entry.to_vec();
        *flipped.last_mut().unwrap() ^= 1;
        damage(&state, "cur/k14", k14, Some(flipped));
        let base = dump(&*state).into_iter().find(|(key, _)| key.starts_with(BASE)).unwrap().0;
        damage(&state, "base/", base, None);
        damage(&state, "lease/", lease_key(4), None);
        damage(&state, "meta/totals", b"meta/totals".to_vec(), None);
        damage(&state, "meta/format", b"meta/format".to_vec(), None);
    }
}

#[test]
fn an_older_version_of_a_record_in_its_place_is_noticed() {
    let memory = MemoryState::new();
    let mut model = Model::open(Arc::new(memory.clone()));
    model.write_at(2, b"k", Some(b"one"));
    model.checkpoint().unwrap();
    let key = record_key(CURRENT, b"k");
    let old = memory.get(&key).unwrap().unwrap();
    model.write_at(3, b"k", Some(b"two"));
    model.checkpoint().unwrap();
    damage(&model.state, "cur/", key, Some(old.to_vec()));
}

#[test]
fn an_emptied_store_is_told_from_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    furnished(open_sled(&dir));
    std::fs::remove_dir_all(dir.path().join("state")).unwrap();
    assert!(matches!(start(open_sled(&dir)), Err(StateError::Damaged { .. })));
    std::fs::remove_file(dir.path().join("state.mark")).unwrap();
    start(open_sled(&dir)).unwrap();
}

#[test]
fn a_rolled_back_store_is_noticed() {
    let state = MemoryState::new();
    furnished(Arc::new(state.clone()));
    state.mark(Mark { applied: 501, log_begun: true }).unwrap();
    assert!(matches!(start(Arc::new(state)), Err(StateError::Damaged { .. })));
}

#[test]
fn a_newer_format_is_refused() {
    let memory = MemoryState::new();
    furnished(Arc::new(memory.clone()));
    let mut format = wire::Encoder(Vec::new());
    format.u32_fixed(schema::FORMAT + 1);
    let mut batch = StateBatch::default();
    batch.put(b"meta/format".to_vec(), format.seal(b"meta/format"));
    memory.apply(batch).unwrap();
    assert!(matches!(start(Arc::new(memory)), Err(StateError::Format { found: 2, supported: 1 })));
}

/// Cutting or flipping sled's own files gives a named error or the whole content, never silence about a loss.
#[test]
fn damaged_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    furnished(open_sled(&dir));
    let path = dir.path().join("state/db");
    let whole = std::fs::read(&path).unwrap();
    let expected = dump(&*open_sled(&dir));
    let used = whole.iter().rposition(|&b| b != 0).unwrap();
    let mut named = 0;
    for at in (0..used).step_by(used / 24 + 1) {
        for cut in [true, false] {
            let copy = tempfile::tempdir().unwrap();
            copy_files(dir.path(), copy.path());
            let mut bytes = whole.clone();
            if cut {
                bytes.truncate(at)
            } else {
                bytes[at] ^= 4
            }
            std::fs::write(copy.path().join("state/db"), bytes).unwrap();
            let opened = SledOptions::new(copy.path().join("state")).open();
            match opened.and_then(|state| start(Arc::clone(&state)).map(|()| state)) {
                Ok(state) => assert_eq!(dump(&*state), expected, "a silent loss at {at}, cut: {cut}"),
                Err(StateError::Damaged { .. } | StateError::Io { .. }) => named += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(named > 0);
}

fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_files(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A reader that meets the writer between two versions gets one of them, whole.
#[test]
fn readers_beside_the_writer_see_whole_records() {
    let memory = MemoryState::new();
    let mut model = Model::open(Arc::new(memory));
    let reader = model.reader.clone();
    model.write_at(2, b"k", Some(&[0; 3 * CHUNK_BYTES]));
    model.checkpoint().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let record = reader.current(b"k").unwrap().unwrap();
                let byte = (record.mod_revision - 2) as u8;
                assert!(record.value.iter().all(|&b| b == byte));
            }
        });
        for i in 1..200u8 {
            model.write_at(2 + i64::from(i), b"k", Some(&vec![i; (usize::from(i) % 3 + 1) * CHUNK_BYTES]));
            model.checkpoint().unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn scans_stop_where_they_are_told() {
    let memory = MemoryState::new();
    furnished(Arc::new(memory.clone()));
    let mut seen = 0;
    memory
        .scan(CURRENT, &mut |_, _| {
            seen += 1;
            Ok(if seen == 3 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })
        .unwrap();
    assert_eq!(seen, 3);
    let keys: Vec<Bytes> = {
        let mut keys = Vec::new();
        let (reader, _) = open_store(Arc::new(memory), identity).unwrap();
        reader.scan_current(&mut |record| keys.push(Bytes::copy_from_slice(record.key))).unwrap();
        keys
    };
    assert!(keys.is_sorted() && keys.len() == 20);
}
