//! The state at a power cut, on the real file system calls of sled.
//!
//! This program stands between sled and the C library: it records every write, truncation, rename, removal and sync below
//! one folder ([`record`]). Then it builds that folder as a power cut at some instant could have left it ([`replay`]):
//! what was not synced is lost, torn by pages, or there; `sync_file_range`, on which sled relies, counts for nothing. In
//! each such folder the state must open, add up, and hold everything that a finished checkpoint had acknowledged.
//!
//! Alone in its program, since it takes the place of the C library's calls.
#![cfg(target_os = "linux")]

mod record;
mod replay;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use listwatch_server::storage::state::{
    Applied, Compactions, Identity, OpenState, RecordKind, RecordRef, SledOptions, StateError, StateWriter, open_store,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const KEYS: u64 = 400;

/// Crash states looked at by default; more with `LW_POWER_CUTS`.
const CUTS: u64 = 40;

fn identity() -> Identity {
    Identity { incarnation: "power".to_owned(), cluster_id: 1, member_id: 1, term: 1 }
}

/// What a checkpoint had acknowledged when it was finished: the revision of each key.
type Promise = BTreeMap<Vec<u8>, i64>;

fn value(key: u64, revision: i64) -> Vec<u8> {
    let len = match (key + revision as u64) % 50 {
        0 => 200_000,
        1..6 => 9_000,
        _ => 300,
    };
    // Not compressible, and different for each version, so that a torn page shows.
    let mut word = key << 32 | revision as u64 | 1;
    let mut value = Vec::with_capacity(len + 8);
    while value.len() < len {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.extend_from_slice(&(word ^ word >> 29).to_le_bytes());
    }
    value.truncate(len);
    value
}

fn key_of(key: u64) -> Vec<u8> {
    format!("key{key:04}").into_bytes()
}

fn checkpoint(writer: &mut StateWriter, random: &mut StdRng, promise: &mut Promise) -> Result<(), StateError> {
    let revision = writer.meta().applied.revision + 1;
    let changed = random.random_range(1..KEYS);
    let mut checkpoint = writer.checkpoint()?;
    for _ in 0..changed {
        let key = random.random_range(0..KEYS);
        let (name, value) = (key_of(key), value(key, revision));
        let record = RecordRef {
            key: &name,
            kind: RecordKind::Live,
            mod_revision: revision,
            sub: 0,
            create_revision: revision,
            version: 1,
            lease: 0,
            prev_revision: 0,
            author: "test",
            client: None,
            cause: 0,
            value: &value,
        };
        checkpoint.put(record)?;
        promise.insert(name, revision);
    }
    checkpoint.finish(Applied { seq: revision as u64, revision }, Compactions::default())?;
    Ok(())
}

/// What a run did.
struct Recorded {
    calls: Vec<record::Call>,
    /// For each finished checkpoint how many calls there were then, and what it promised.
    promises: Vec<(usize, Promise)>,
}

/// Runs checkpoints, a floor advance and reopenings, recording.
fn record_a_run(folder: &Path, random: &mut StdRng) -> Result<Recorded, StateError> {
    record::begin(folder);
    let mut promise = Promise::new();
    let mut promises = Vec::new();
    for session in 0..3 {
        let state = SledOptions::new(folder.join("state")).open()?;
        let (reader, mut writer) = open_store(state, identity)?;
        reader.scan_current(&mut |_| {})?;
        promises.push((record::count(), promise.clone()));
        for _ in 0..6 {
            checkpoint(&mut writer, random, &mut promise)?;
            promises.push((record::count(), promise.clone()));
        }
        let floor = writer.meta().applied.revision - 2;
        let mut advance = writer.advance_floor(floor)?;
        for key in (session..KEYS).step_by(3) {
            advance.drop_base(&key_of(key))?;
        }
        advance.finish()?;
    }
    Ok(Recorded { calls: record::end(), promises })
}

/// Opens what a power cut left and compares it with what was promised; says what is wrong.
fn check(folder: &Path, promise: &Promise) -> Result<(), String> {
    let state = SledOptions::new(folder.join("state")).open().map_err(|e| e.to_string())?;
    let (reader, writer) = open_store(Arc::clone(&state), identity).map_err(|e| e.to_string())?;
    let applied = writer.meta().applied.revision;
    let promised = promise.values().max().copied().unwrap_or(1);
    if applied < promised {
        return Err(format!("applied {applied}, promised {promised}"));
    }
    let mut found = Promise::new();
    let mut wrong = None;
    let mut visit = |record: RecordRef<'_>| {
        let key = record.key[3..].iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        if record.value != value(key, record.mod_revision) {
            wrong = Some(format!("the value of key {key} is not that of revision {}", record.mod_revision));
        }
        found.insert(record.key.to_vec(), record.mod_revision);
    };
    reader.scan_current(&mut visit).map_err(|e| e.to_string())?;
    reader.scan_base(&mut |_| {}).map_err(|e| e.to_string())?;
    for (key, revision) in promise {
        if found.get(key).is_none_or(|found| found < revision) {
            wrong = Some(format!("{key:?} is at {:?}, promised {revision}", found.get(key)));
        }
    }
    wrong.map_or(Ok(()), Err)
}

#[test]
fn a_power_cut_takes_nothing_that_a_checkpoint_had_finished() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand::random);
    let cuts: u64 = std::env::var("LW_POWER_CUTS").ok().and_then(|cuts| cuts.parse().ok()).unwrap_or(CUTS);
    println!("seed {seed}: replay with SEED={seed} cargo test -p listwatch-server --test power_cut -- --nocapture");
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let Recorded { calls, promises } = record_a_run(folder.path(), &mut random).unwrap();
    let first = promises[0].0;
    assert!(calls.len() > first + 100, "only {} calls were recorded", calls.len());
    let cut_somewhere = |calls: &[record::Call], loss, random: &mut StdRng| {
        let at = random.random_range(first..=calls.len());
        let after = tempfile::tempdir().unwrap();
        replay::build(&calls[..at], loss, random, folder.path(), after.path());
        let promise = &promises.iter().rfind(|(count, _)| *count <= at).expect("the first is at the start").1;
        check(after.path(), promise).map_err(|wrong| format!("call {at} of {}, {loss:?}: {wrong}", calls.len()))
    };
    for cut in 0..cuts {
        let loss = replay::Loss::ALL[cut as usize % replay::Loss::ALL.len()];
        let result = cut_somewhere(&calls, loss, &mut random);
        assert_eq!(result, Ok(()), "cut {cut}");
    }
    // The control: were sled's own calls all there is, the same cuts would lose what was promised.
    let without: Vec<_> = calls.into_iter().map(record::Call::without_data_sync).collect();
    let lost = (0..8).filter(|_| cut_somewhere(&without, replay::Loss::All, &mut random).is_err()).count();
    assert!(lost > 0, "the test finds no loss even without syncs");
}
