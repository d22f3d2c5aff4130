//! Whether a folder may be a cluster's: it is one already, or holds nothing of anybody else's.
//!
//! Invariant: nothing is made or changed here; a folder that is refused is left as it was found.

use std::{ffi::OsStr, fs, io::ErrorKind, path::Path};

use anyhow::{Context, bail};

use crate::cluster::Layout;

/// The marks of a cluster: what it is, and the lock that a start takes before it makes anything else.
const MARKS: [&str; 2] = ["cluster.json", "up.lock"];
/// What a bare server puts into its own folder.
const OF_A_SERVER: [&str; 4] = ["state.mark", "state", "log", "lock"];

/// Refuses a folder that is in use by something else.
///
/// # Errors
/// If the folder holds anything and is no cluster's: the text names what it holds.
pub(crate) fn check(layout: &Layout) -> anyhow::Result<()> {
    let root = &layout.root;
    let entries = match fs::read_dir(root) {
        Ok(entries) => entries,
        // Making the folders tells better what stands in the way.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(e) => {
            return Err(e).with_context(|| format!("read {}: choose another place with --data-dir", root.display()));
        }
    };
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    let holds = |wanted: &[&str]| names.iter().any(|name| wanted.iter().any(|wanted| name == wanted));
    if holds(&MARKS) {
        return Ok(());
    }
    let Some(other) = names.iter().find(|name| !is_of_an_early_death(root, name)) else { return Ok(()) };
    let place = root.display();
    if holds(&OF_A_SERVER) {
        bail!(
            "--data-dir {place}: this is the folder of a server without a cluster: run it with `lw server --data-dir \
             {place}`, and choose another folder for the cluster"
        );
    }
    bail!(
        "--data-dir {place}: the folder is not empty and is no cluster's: it holds {other:?}; choose an empty folder, or \
         that of a cluster"
    );
}

/// Whether a start that died before it had its lock may have left this; a file system's root has one from the start.
fn is_of_an_early_death(root: &Path, name: &OsStr) -> bool {
    let only = |wanted: &str| {
        let entries = fs::read_dir(root.join(name));
        entries.is_ok_and(|mut entries| entries.all(|entry| entry.is_ok_and(|e| e.file_name() == wanted)))
    };
    match name.to_str() {
        Some("lost+found") => true,
        Some("logs") => only("up.log"),
        Some("pki" | "nodes") => only(""),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(entries: &[&str]) -> Option<String> {
        let folder = tempfile::tempdir().expect("folder");
        for entry in entries {
            let path = folder.path().join(entry);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            if entry.ends_with('/') { fs::create_dir_all(&path) } else { fs::write(&path, "") }.expect("made");
        }
        let layout = Layout::new("x", Some(folder.path())).expect("valid");
        check(&layout).err().map(|e| e.to_string())
    }

    #[test]
    fn a_folder_of_ours_or_of_nobody_is_taken() {
        for entries in [
            &[][..],
            &["lost+found/"],
            &["logs/up.log", "pki/", "nodes/"],
            &["up.lock", "pki/ca.crt", "server/log/1.seg"],
            &["cluster.json", "server/log/1.seg", "notes.txt"],
        ] {
            assert_eq!(said(entries), None, "{entries:?}");
        }
        let absent = Layout::new("x", Some(Path::new("/nowhere/at/all"))).expect("valid");
        assert!(check(&absent).is_ok());
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused_by_what_it_holds() {
        for (entries, words) in [
            (&["notes.txt"][..], "\"notes.txt\""),
            (&["logs/theirs.log"], "\"logs\""),
            (&["pki/ca.key"], "\"pki\""),
            (&["pki/ca.key", "kubeconfig"], "\"kubeconfig\""),
            (&["state.mark", "state/db", "log/1.seg", "lock"], "`lw server --data-dir "),
        ] {
            let said = said(entries).expect("refused");
            assert!(said.contains(words), "{entries:?}: {said}");
        }
    }
}
