//! The state under kill -9: this test program starts itself again as a writer and kills it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::super::*;
use super::model::identity;

const CHILD_DIR: &str = "LISTWATCH_TEST_STATE_DIR";
const ROUNDS: u64 = 12;
const KEYS: u64 = 900;

fn record(key: u64, revision: i64) -> StateRecord {
    let len = if key.is_multiple_of(97) { 100_000 } else { 200 };
    StateRecord {
        key: format!("key{key:05}").into(),
        kind: RecordKind::Live,
        mod_revision: revision,
        sub: 0,
        create_revision: 2,
        version: revision,
        lease: 0,
        prev_revision: 0,
        author: Arc::from("test"),
        client: None,
        cause: 0,
        value: vec![revision as u8; len].into(),
    }
}

/// Writes checkpoints for ever, each with every key, and says which are finished. Does nothing unless started by the
/// test below.
#[test]
fn writer_process() {
    let Ok(dir) = std::env::var(CHILD_DIR) else { return };
    let state = SledOptions::new(dir).open().unwrap();
    let (reader, mut writer) = open_store(state, identity).unwrap();
    reader.scan_current(&mut |_| {}).unwrap();
    loop {
        let revision = writer.meta().applied.revision + 1;
        let mut checkpoint = writer.checkpoint().unwrap();
        for key in 0..KEYS {
            checkpoint.put(record(key, revision).as_ref()).unwrap();
        }
        checkpoint.finish(Applied { seq: revision as u64, revision }, Compactions::default()).unwrap();
        println!("finished {revision}");
    }
}

#[test]
fn a_killed_writer_leaves_whole_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state");
    let mut last = 1;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "storage::state::tests::process::writer_process", "--nocapture", "--test-threads=1"])
            .env(CHILD_DIR, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let finished = lines.filter_map(|line| line.split_once("finished ")?.1.trim().parse::<i64>().ok());
        // The next checkpoint is under way when the line arrives; the kill meets it somewhere.
        let seen = finished.take(1 + round as usize % 3).last().expect("the writer ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen > last, "round {round}");
        let (reader, writer) = open_store(SledOptions::new(&path).open().unwrap(), identity).unwrap();
        let applied = writer.meta().applied.revision;
        assert!(applied >= seen, "round {round}: applied {applied}, yet {seen} was finished");
        let mut keys = 0;
        reader
            .scan_current(&mut |found| {
                assert!(found.mod_revision >= applied && found.mod_revision <= applied + 1);
                assert_eq!(found.to_record(), record(keys, found.mod_revision));
                keys += 1;
            })
            .unwrap();
        assert_eq!(keys, KEYS);
        last = applied;
    }
}
