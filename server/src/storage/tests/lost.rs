//! Files that were taken away from a closed store: it says so, and changes nothing; a store that was being made when the
//! power went opens.

use std::fs;
use std::path::Path;

use super::harness::*;
use crate::storage::disk::{Disk, Fault, OpenMode};
use crate::storage::{Engine, EngineOptions, Error, Seams};

fn open_real(dir: &Path) -> Result<Engine, Error> {
    let mut options = EngineOptions::new(dir);
    options.background = false;
    Engine::open(options, Seams::real(dir))
}

/// A closed store in a folder; with or without a state that has followed the log.
fn furnish(dir: &Path, checkpointed: bool) {
    let engine = open_real(dir).expect("the store opens");
    for i in 0..50 {
        put(&engine, &format!("k{i}"), "v");
    }
    if checkpointed {
        engine.checkpoint().expect("the checkpoint is made");
    }
    engine.close();
}

fn refused(dir: &Path, what: &str) {
    for _ in 0..2 {
        match open_real(dir) {
            Err(Error::Damaged { reason, .. }) => {
                let named = dir.join("log").display().to_string();
                assert!(reason.contains(&named), "{what}: {reason} does not name {named}");
            }
            Err(other) => panic!("{what}: {other}"),
            Ok(engine) => panic!("{what}: opened at revision {}", engine.revision()),
        }
    }
}

#[test]
fn a_store_whose_log_is_gone_is_refused() {
    for checkpointed in [false, true] {
        let dir = tempfile::tempdir().expect("make a folder");
        let store = dir.path().join("store");
        furnish(&store, checkpointed);
        let (log, aside) = (store.join("log"), dir.path().join("aside"));
        let segment = log.join("0000000000000001.seg");
        let whole = fs::read(&segment).expect("read the segment");

        fs::rename(&log, &aside).expect("take the folder away");
        refused(&store, "no folder");
        assert!(!log.exists(), "a refused start made the folder");

        fs::create_dir(&log).expect("make the folder");
        refused(&store, "no segment");
        assert_eq!(fs::read_dir(&log).expect("list").count(), 0, "a refused start made a segment");

        fs::write(&segment, b"").expect("empty the segment");
        refused(&store, "an empty segment");
        assert_eq!(fs::read(&segment).expect("it is still there").len(), 0);

        fs::write(&segment, &whole).expect("bring it back");
        let engine = open_real(&store).expect("the store opens again");
        assert_eq!(engine.revision(), 51);
        engine.close();
    }
}

#[test]
fn a_log_that_ends_before_the_state_is_refused() {
    let mut world = World::new();
    world.options.log.first_segment_bytes = 1 << 20;
    let engine = world.open();
    put(&engine, "k", "1");
    let path = Path::new("/store/log/0000000000000001.seg");
    let early = world.disk.content(path).expect("the segment is there");
    for i in 2..20 {
        put(&engine, "k", &i.to_string());
    }
    engine.checkpoint().expect("the checkpoint is made");
    engine.close();
    drop(engine);
    let file = world.disk.open(path, OpenMode::Existing).expect("open the segment");
    file.write_at(&early, 0).expect("put the early content back");
    match world.try_open() {
        Err(Error::Damaged { segment: 1, reason, .. }) => assert!(reason.contains("ends at frame 1"), "{reason}"),
        other => panic!("answered with {other:?}"),
    }
}

#[test]
fn a_store_being_made_when_the_power_goes_opens() {
    for seed in 0..200 {
        let mut world = World::new();
        world.disk.inject(if seed % 2 == 0 { Fault::Write(1 + seed / 2 % 8) } else { Fault::Sync(1 + seed / 2 % 8) });
        if seed % 3 == 0 {
            world.state.fail_in(seed % 5 + 1);
        }
        drop(world.try_open());
        let engine = world.crash(seed).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        assert_eq!(put(&engine, "k", "v"), 2, "seed {seed}");
    }
}

#[test]
fn a_mark_of_before_the_log_was_noted_still_opens() {
    let dir = tempfile::tempdir().expect("make a folder");
    furnish(dir.path(), false);
    let path = dir.path().join("state.mark");
    let body = "listwatch state mark 1\napplied 0\n";
    fs::write(&path, format!("{body}crc32c {:08x}\n", crc32c::crc32c(body.as_bytes()))).expect("write the old mark");
    open_real(dir.path()).expect("the store opens").close();
    assert!(fs::read_to_string(&path).expect("read the mark").contains("\nlog begun\n"));
    fs::remove_dir_all(dir.path().join("log")).expect("take the log away");
    refused(dir.path(), "no folder");
}
