//! The store's folder: whose it may be, and who may read it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::harness::*;
use crate::storage::{Engine, EngineOptions, Error, Seams};

fn open_real(dir: &Path) -> Result<Engine, Error> {
    let mut options = EngineOptions::new(dir);
    options.background = false;
    Engine::open(options, Seams::real(dir))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Holds folders against 0700 and files against 0600, and counts the files. What sled makes later, by itself, in its
/// closed folder does not matter.
fn check_files(dir: &Path) -> usize {
    let mut files = 0;
    for entry in fs::read_dir(dir).expect("list") {
        let path = entry.expect("list").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == "blobs" || name.starts_with("snap.") {
            continue;
        }
        if path.is_dir() {
            assert_eq!(mode(&path), 0o700, "{}", path.display());
            files += check_files(&path);
        } else {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            files += 1;
        }
    }
    files
}

fn widen(dir: &Path) {
    for entry in fs::read_dir(dir).expect("list") {
        let path = entry.expect("list").path();
        if path.is_dir() {
            widen(&path);
        } else {
            fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("widen");
        }
    }
}

#[test]
fn the_files_are_their_owners_alone() {
    let parent = tempfile::tempdir().expect("make a folder");
    let made = parent.path().join("made");
    let there = parent.path().join("there");
    fs::create_dir(&there).expect("make a folder");
    fs::set_permissions(&there, Permissions::from_mode(0o755)).expect("widen");
    for dir in [&made, &there] {
        for _ in 0..2 {
            let engine = open_real(dir).expect("the store opens");
            put(&engine, "secret", "v");
            engine.checkpoint().expect("the checkpoint is made");
            engine.close();
            drop(engine);
            // lock, mark, a segment, and sled's own.
            assert!(check_files(dir) >= 5);
            // The next start takes a copy with wide modes.
            widen(dir);
        }
        open_real(dir).expect("the store opens").close();
        check_files(dir);
    }
    assert_eq!(mode(&made), 0o700);
    assert_eq!(mode(&there), 0o755, "a folder that was given is not changed");
}

#[test]
fn a_folder_of_something_else_is_refused() {
    for found in ["notes.txt", "member", "log"] {
        let dir = tempfile::tempdir().expect("make a folder");
        match found {
            "member" => fs::create_dir_all(dir.path().join("member/wal")).expect("make a folder"),
            "log" => {
                fs::create_dir(dir.path().join("log")).expect("make a folder");
                fs::write(dir.path().join("log/app.log"), "x").expect("write");
                fs::write(dir.path().join("app.conf"), "x").expect("write");
            }
            _ => fs::write(dir.path().join(found), "mine").expect("write"),
        }
        let before = fs::read_dir(dir.path()).expect("list").count();
        let named = if found == "log" { "app.conf" } else { found };
        match open_real(dir.path()) {
            Err(Error::Foreign { path, reason }) => {
                assert_eq!(path, dir.path());
                assert!(reason.contains(named), "{reason}");
                assert_eq!(reason.contains("etcd"), found == "member", "{reason}");
            }
            other => panic!("{found} was answered with {other:?}"),
        }
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), before, "{found}: something was put there");
    }
}

#[test]
fn a_folder_with_what_a_server_puts_there_is_taken() {
    let dir = tempfile::tempdir().expect("make a folder");
    for folder in ["pki", "lost+found"] {
        fs::create_dir(dir.path().join(folder)).expect("make a folder");
    }
    for file in ["kubeconfig", ".kubeconfig.17.tmp", "lock"] {
        fs::write(dir.path().join(file), "").expect("write");
    }
    let engine = open_real(dir.path()).expect("the store opens");
    put(&engine, "k", "v");
    engine.close();
    drop(engine);
    // Once it is a store, what else lies there is its owner's affair.
    fs::write(dir.path().join("notes.txt"), "mine").expect("write");
    open_real(dir.path()).expect("the store opens again").close();
}

#[test]
fn the_folder_of_a_cluster_is_refused_with_the_place_of_its_store() {
    for mark in ["cluster.json", "up.lock"] {
        let dir = tempfile::tempdir().expect("make a folder");
        fs::write(dir.path().join(mark), "").expect("write");
        let Err(Error::Foreign { reason, .. }) = open_real(dir.path()) else { panic!("{mark} was taken") };
        let store = dir.path().join("server");
        assert!(reason.contains("folder of a cluster") && reason.contains(&*store.to_string_lossy()), "{reason}");
        assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1, "nothing was put there");
    }
}
