//! Revisions, reads and transactions, and the same after a restart.

use super::harness::*;
use crate::storage::{
    Compare, CompareResult, CompareTarget, DeleteOp, Disk, Error, KeyRange, Op, OpResult, Origin, PutOp, RangeOp, Txn,
};

fn compare(key: &str, target: CompareTarget, result: CompareResult) -> Compare {
    Compare { range: KeyRange::single(key.to_owned()), target, result }
}

fn keys(engine: &crate::storage::Engine, op: RangeOp) -> (Vec<String>, i64, bool) {
    let result = engine.range(&op).expect("the read is answered");
    let keys = result.kvs.iter().map(|kv| String::from_utf8_lossy(&kv.key).into_owned()).collect();
    (keys, result.count, result.more)
}

#[test]
fn revisions_move_by_one_with_each_change_only() {
    let world = World::new();
    let engine = world.open();
    assert_eq!(engine.revision(), 1);
    assert_eq!(put(&engine, "a", "1"), 2);
    assert_eq!(put(&engine, "a", "1"), 3);
    assert_eq!(delete(&engine, "nothing"), 3);
    assert_eq!(commit(&engine, Txn::default()).revision, 3);
    assert_eq!(delete(&engine, "a"), 4);
    assert_eq!(put(&engine, "a", "2"), 5);
    let kv = &engine.range(&RangeOp::get("a")).expect("read").kvs[0];
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (5, 5, 1));
    assert_eq!(get(&engine, "a", 3).as_deref(), Some("1"));
    assert_eq!(get(&engine, "a", 4), None);
    drop(engine);
    let engine = world.open();
    assert_eq!(engine.revision(), 5);
    assert_eq!(get(&engine, "a", 0).as_deref(), Some("2"));
    assert_eq!(get(&engine, "a", 2).as_deref(), Some("1"));
    assert!(matches!(
        engine.range(&RangeOp { revision: 6, ..RangeOp::get("a") }),
        Err(Error::FutureRevision { requested: 6, current: 5 })
    ));
}

#[test]
fn a_transaction_decides_first_and_then_sees_its_own_writes() {
    let world = World::new();
    let engine = world.open();
    put(&engine, "a", "old");
    let inner = Txn {
        compares: vec![compare("a", CompareTarget::Value("old".into()), CompareResult::Equal)],
        success: vec![Op::Put(PutOp::new("b", "inner saw the old state"))],
        failure: vec![Op::Put(PutOp::new("b", "inner saw the outer put"))],
    };
    let outer = Txn {
        compares: vec![compare("a", CompareTarget::Version(1), CompareResult::Equal)],
        success: vec![
            Op::Put(PutOp::new("a", "new")),
            Op::Range(RangeOp::get("a")),
            Op::Txn(inner),
            Op::Range(RangeOp { limit: 1, ..RangeOp::new(KeyRange::all()) }),
        ],
        failure: vec![],
    };
    let result = commit(&engine, outer);
    assert!(result.succeeded);
    assert_eq!(result.revision, 3);
    let OpResult::Range(read) = &result.results[1] else { panic!("a read is answered as one") };
    assert_eq!((&read.kvs[0].value[..], read.revision), (&b"new"[..], 3));
    let OpResult::Range(read) = &result.results[3] else { panic!("a read is answered as one") };
    assert_eq!((read.count, read.more, read.kvs.len()), (2, true, 1));
    assert_eq!(get(&engine, "b", 0).as_deref(), Some("inner saw the old state"));
    let subs = engine.range(&RangeOp::new(KeyRange::all())).expect("read");
    assert!(subs.kvs.iter().all(|kv| kv.mod_revision == 3));
}

#[test]
fn guards_on_missing_keys_count_as_zero_but_never_as_a_value() {
    let world = World::new();
    let engine = world.open();
    let holds =
        |compare: Compare| commit(&engine, Txn { compares: vec![compare], success: vec![], failure: vec![] }).succeeded;
    assert!(holds(compare("x", CompareTarget::Mod(0), CompareResult::Equal)));
    assert!(holds(compare("x", CompareTarget::Version(1), CompareResult::Less)));
    assert!(!holds(compare("x", CompareTarget::Value("".into()), CompareResult::Equal)));
    assert!(!holds(compare("x", CompareTarget::Value("y".into()), CompareResult::NotEqual)));
    put(&engine, "p1", "v");
    put(&engine, "p2", "v");
    let over = |prefix: &str, target, result| Compare { range: KeyRange::prefix(prefix.to_owned()), target, result };
    assert!(holds(over("p", CompareTarget::Value("v".into()), CompareResult::Equal)));
    assert!(!holds(over("p", CompareTarget::Create(2), CompareResult::Equal)));
    assert!(holds(over("q", CompareTarget::Lease(0), CompareResult::Equal)));
}

#[test]
fn what_can_fail_fails_before_anything_is_written() {
    let world = World::new();
    let engine = world.open();
    let refuse = |op: Op| {
        let txn = Txn { compares: vec![], success: vec![Op::Put(PutOp::new("w", "1")), op], failure: vec![] };
        engine.commit(txn, &Origin::default()).expect_err("the transaction is refused")
    };
    let put_op = |change: fn(&mut PutOp)| {
        let mut op = PutOp::new("k", "v");
        change(&mut op);
        Op::Put(op)
    };
    assert!(matches!(refuse(put_op(|op| op.lease = 77)), Error::LeaseNotFound(77)));
    assert!(matches!(refuse(put_op(|op| op.ignore_value = true)), Error::KeyNotFound));
    assert!(matches!(refuse(put_op(|op| op.key = "".into())), Error::EmptyKey));
    assert!(matches!(refuse(put_op(|op| op.key = "w".into())), Error::DuplicateKey));
    let read = RangeOp { revision: 2, ..RangeOp::get("w") };
    assert!(matches!(refuse(Op::Range(read)), Error::FutureRevision { .. }));
    assert_eq!(engine.revision(), 1);
    assert_eq!(put(&engine, "w", "2"), 2);
    drop(engine);
    assert_eq!(world.open().revision(), 2);
}

#[test]
fn ranges_are_cut_sorted_and_filtered() {
    let world = World::new();
    let engine = world.open();
    for key in ["c", "a", "e", "b", "d"] {
        put(&engine, key, key);
    }
    let deleted = commit(&engine, Txn::of(Op::Delete(DeleteOp { range: KeyRange::between("b", "d"), prev_kv: true })));
    let OpResult::Delete(deleted) = &deleted.results[0] else { panic!("a deletion is answered as one") };
    assert_eq!(
        (deleted.deleted, deleted.prevs[0].key.clone(), deleted.prevs[1].key.clone()),
        (2, "b".into(), "c".into())
    );
    let all = || RangeOp::new(KeyRange::all());
    assert_eq!(keys(&engine, all()), (vec!["a".into(), "d".into(), "e".into()], 3, false));
    assert_eq!(keys(&engine, RangeOp { limit: 2, ..all() }), (vec!["a".into(), "d".into()], 3, true));
    let past = RangeOp { revision: 6, limit: 2, ..all() };
    assert_eq!(keys(&engine, past), (vec!["a".into(), "b".into()], 5, true));
    let sort = Some((crate::storage::SortTarget::Mod, crate::storage::SortOrder::Descend));
    assert_eq!(keys(&engine, RangeOp { sort, limit: 1, ..all() }), (vec!["d".into()], 3, true));
    let filtered = RangeOp { min_mod_revision: 4, ..all() };
    assert_eq!(keys(&engine, filtered), (vec!["d".into(), "e".into()], 3, false));
    assert_eq!(keys(&engine, RangeOp { count_only: true, ..all() }), (vec![], 3, false));
    let bare = engine.range(&RangeOp { keys_only: true, ..all() }).expect("read");
    assert!(bare.kvs.iter().all(|kv| kv.value.is_empty() && kv.mod_revision > 0));
}

#[test]
fn a_store_in_use_is_refused_by_name() {
    let world = World::new();
    let engine = world.open();
    assert!(matches!(world.try_open(), Err(Error::Locked { .. })));
    engine.close();
    assert!(matches!(engine.commit(Txn::put("a", "1"), &Origin::default()), Err(Error::Closed)));
    world.open();
}

#[test]
fn a_failed_flush_ends_writing_but_not_reading() {
    let world = World::new();
    let engine = world.open();
    put(&engine, "a", "1");
    world.disk.inject(crate::storage::disk::Fault::Sync(1));
    assert!(matches!(engine.commit(Txn::put("a", "2"), &Origin::default()), Err(Error::Io { .. })));
    assert!(matches!(engine.commit(Txn::put("a", "3"), &Origin::default()), Err(Error::Poisoned { .. })));
    assert_eq!(get(&engine, "a", 0).as_deref(), Some("1"));
    assert!(engine.status().poisoned.is_some());
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let world = World::new();
    let engine = world.open();
    world.disk.inject(crate::storage::disk::Fault::Full(true));
    let mut kept = 0;
    let refused = loop {
        match engine.commit(Txn::put(format!("k{kept}"), "v".repeat(1000)), &Origin::default()) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::NoSpace { .. }), "{refused}");
    let status = engine.status();
    assert!(status.no_room && status.poisoned.is_none());
    world.disk.inject(crate::storage::disk::Fault::Full(false));
    put(&engine, "after", "1");
    assert!(!engine.status().no_room);
    engine.close();
    let again = world.open();
    assert!((0..kept).all(|n| get(&again, &format!("k{n}"), 0).is_some()), "nothing that was acknowledged is lost");
    assert_eq!(get(&again, "after", 0).as_deref(), Some("1"));
}

#[test]
fn many_threads_share_syncs_and_every_answer_is_right() {
    let world = World::new();
    let engine = world.open();
    let before = world.disk.syncs();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let engine = &engine;
            scope.spawn(move || {
                for i in 0..50 {
                    let key = format!("{thread}/{i}");
                    let revision = put(engine, &key, &key);
                    assert_eq!(get(engine, &key, revision).as_deref(), Some(&*key));
                }
            });
        }
    });
    assert_eq!(engine.revision(), 401);
    assert!(world.disk.syncs() - before <= 400 + 60);
    drop(engine);
    let engine = world.open();
    assert_eq!(keys(&engine, RangeOp { count_only: true, ..RangeOp::new(KeyRange::all()) }).1, 400);
}

#[test]
fn a_store_in_memory_does_all_but_stay() {
    let mut world = World::new();
    world.options.durability = crate::storage::Durability::Memory;
    world.options.value_cache_bytes = 0;
    let engine = world.open();
    for i in 0..500 {
        put(&engine, &format!("k{}", i % 20), &"v".repeat(i));
    }
    let whole = |engine: &crate::storage::Engine, revision| {
        let op = RangeOp { revision, ..RangeOp::new(KeyRange::all()) };
        engine.range(&op).expect("the read is answered").kvs
    };
    let before = whole(&engine, 300);
    engine.compact(300, false).expect("compacted");
    engine.expire(300).expect("expired");
    engine.checkpoint().expect("a checkpoint is made");
    assert_eq!(whole(&engine, 300), before);
    assert_eq!(get(&engine, "k7", 0).map(|value| value.len()), Some(487));
    assert!(world.disk.list(std::path::Path::new("/store/log")).expect("listed").is_empty());
    drop(engine);
    assert_eq!(world.open().revision(), 1);
}

#[test]
fn equal_histories_have_equal_hashes_wherever_they_lie() {
    let build = |checkpoints: bool| {
        let world = World::new();
        let engine = world.open();
        for i in 0..300 {
            match i % 7 {
                0 => delete(&engine, &format!("k{}", i % 5)),
                _ => put(&engine, &format!("k{}", i % 11), &i.to_string()),
            };
        }
        engine.compact(150, false).expect("compacted");
        if checkpoints {
            engine.expire(120).expect("expired");
            engine.checkpoint().expect("a checkpoint is made");
        }
        (world, engine)
    };
    let ((_a, plain), (_b, moved)) = (build(false), build(true));
    let revision = plain.revision();
    assert_eq!(moved.revision(), revision);
    for at in [0, 150, 200, revision] {
        assert_eq!(plain.hash_kv(at).expect("hashed").hash, moved.hash_kv(at).expect("hashed").hash, "at {at}");
    }
    assert_ne!(plain.hash_kv(200).expect("hashed").hash, plain.hash_kv(201).expect("hashed").hash);
    put(&moved, "one", "more");
    assert_ne!(plain.hash().expect("hashed"), moved.hash().expect("hashed"));
}
