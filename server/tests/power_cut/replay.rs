//! Builds a folder as a power cut could have left it.
//!
//! A file's content: what its last sync covers is there; of later writes none, some 4 KiB pages, or all, and any of the
//! later lengths. A name: durable once the file or its folder was synced after the name was given; later names and
//! renames as the loss says, in order.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rand::Rng;
use rand::rngs::StdRng;

use crate::record::Call;

const PAGE: usize = 4096;

/// What became of calls that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// All lost.
    All,
    /// Each page and each later length by chance.
    Some,
    /// Nothing lost, as after kill -9.
    None,
}

impl Loss {
    pub(crate) const ALL: [Loss; 5] = [Loss::All, Loss::Some, Loss::Some, Loss::Some, Loss::None];
}

/// Builds `to` from the calls recorded below `from`.
pub(crate) fn build(calls: &[Call], loss: Loss, random: &mut StdRng, from: &Path, to: &Path) {
    std::fs::create_dir_all(to.join("state")).expect("a temporary folder can be written");
    for (path, file) in names(calls, loss, random) {
        let target = to.join(path.strip_prefix(from).expect("only calls below the folder are recorded"));
        std::fs::write(target, content(calls, file, loss, random)).expect("a temporary folder can be written");
    }
}

/// The calls before this index that concern the file are durable.
fn covered(calls: &[Call], wanted: u64) -> usize {
    let covers = calls.iter().filter_map(|call| match call {
        Call::Sync { file, covers, .. } if *file == wanted => Some(*covers),
        _ => None,
    });
    covers.max().unwrap_or(0)
}

fn names(calls: &[Call], loss: Loss, random: &mut StdRng) -> BTreeMap<PathBuf, u64> {
    let folder_covered = |path: &Path| {
        let covers = calls.iter().filter_map(|call| match call {
            Call::SyncFolder { path: folder, covers } if path.parent() == Some(folder) => Some(*covers),
            _ => None,
        });
        covers.max().unwrap_or(0)
    };
    let (mut names, mut lost) = (BTreeMap::new(), false);
    for (at, call) in calls.iter().enumerate() {
        let (path, synced) = match call {
            Call::Create { file, path } => (path, at < covered(calls, *file)),
            Call::Rename { to, .. } => (to, false),
            Call::Remove { path } => (path, false),
            _ => continue,
        };
        let durable = synced || at < folder_covered(path);
        // Names are journaled in order: once one is lost, so are all after it that were not made durable.
        lost |= !durable && loss != Loss::None && (loss == Loss::All || random.random_bool(0.3));
        if lost && !durable {
            continue;
        }
        match call {
            Call::Create { file, path } => {
                names.insert(path.clone(), *file);
            }
            Call::Rename { from, to } => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Call::Remove { path } => {
                names.remove(path);
            }
            _ => {}
        }
    }
    names
}

fn content(calls: &[Call], wanted: u64, loss: Loss, random: &mut StdRng) -> Vec<u8> {
    let durable_until = covered(calls, wanted);
    let mut bytes: Vec<u8> = Vec::new();
    let mut lens = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        let durable = at < durable_until || loss == Loss::None;
        match call {
            Call::Write { file, offset, data } if *file == wanted => {
                let offset = *offset as usize;
                if durable {
                    put(&mut bytes, offset, data);
                } else if loss == Loss::Some {
                    let before = bytes.len();
                    put_some_pages(&mut bytes, offset, data, random);
                    lens.push(before.max(offset + data.len()));
                }
            }
            Call::Truncate { file, len } if *file == wanted => {
                if durable {
                    bytes.resize(*len as usize, 0);
                } else if loss == Loss::Some {
                    lens.push(*len as usize);
                }
            }
            _ => continue,
        }
        if durable {
            lens = vec![bytes.len()];
        }
    }
    if loss == Loss::Some && !lens.is_empty() {
        bytes.resize(lens[random.random_range(0..lens.len())], 0);
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[offset..end].copy_from_slice(data);
}

fn put_some_pages(bytes: &mut Vec<u8>, offset: usize, data: &[u8], random: &mut StdRng) {
    let mut at = 0;
    while at < data.len() {
        let len = (PAGE - (offset + at) % PAGE).min(data.len() - at);
        if random.random_bool(0.5) {
            put(bytes, offset + at, &data[at..at + len]);
        }
        at += len;
    }
}
