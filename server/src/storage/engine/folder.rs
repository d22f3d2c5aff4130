//! Whether a folder may hold a store: it has one already, or nothing of anybody else's.

use std::path::Path;

use crate::storage::log::{SegmentId, recover};
use crate::storage::{Disk, Error};

/// What a store and a server put into a folder by themselves. Only with these a folder counts as empty.
const OURS: [&str; 8] = ["lock", "log", "state", "state.mark", "state.mark.tmp", "probe", "pki", "kubeconfig"];

/// Refuses the folder of a cluster: its store is one below, and its supervisor runs it. Changes nothing.
///
/// # Errors
/// [`Error::Foreign`] with the place of the store, [`Error::Io`].
pub fn check_no_cluster(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let names = disk.list(dir).map_err(|source| Error::io("list", dir, source))?;
    if !names.iter().any(|name| matches!(name.as_str(), "cluster.json" | "up.lock")) {
        return Ok(());
    }
    let store = dir.join("server");
    let reason = format!("this is the folder of a cluster; its store is {}, and it is run by `lw up`", store.display());
    Err(Error::Foreign { path: dir.to_owned(), reason: reason.into() })
}

/// Refuses a folder that is in use by something else. Changes nothing.
///
/// # Errors
/// [`Error::Foreign`] with what was found, [`Error::Io`].
pub fn check_folder(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    check_no_cluster(disk, dir)?;
    let list = |dir: &Path| disk.list(dir).map_err(|source| Error::io("list", dir, source));
    let names = list(dir)?;
    let mark = names.iter().any(|name| name == "state.mark");
    if mark || list(&recover::log_dir(dir))?.iter().any(|name| SegmentId::from_file_name(name).is_some()) {
        return Ok(());
    }
    let Some(other) = names.iter().find(|name| !is_ours(name)) else { return Ok(()) };
    let whose = if other == "member" { " (the data of an etcd, which cannot be taken over)" } else { "" };
    let reason = format!("the folder is not empty and is not a Listwatch store: it holds {other:?}{whose}");
    Err(Error::Foreign { path: dir.to_owned(), reason: reason.into() })
}

fn is_ours(name: &str) -> bool {
    let written_aside = name.starts_with(".kubeconfig.") && name.ends_with(".tmp");
    // A file system's root has it from the start.
    let of_the_system = name == "lost+found";
    OURS.contains(&name) || written_aside || of_the_system
}
