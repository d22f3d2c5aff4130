//! The lock of a slot: a file that one process holds for its life.
//!
//! A process that holds the lock of its slot knows that no other process of that slot lives, so a Lease in the slot's
//! own name is its to take. The kernel lets go of the lock when the process ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// A held lock. Dropping it lets go.
#[derive(Debug)]
pub struct SlotLock {
    path: PathBuf,
    _file: File,
}

/// Why a lock is not held.
#[derive(Debug, thiserror::Error)]
pub enum SlotLockError {
    /// Another process holds it.
    #[error("{path} is held by another process", path = path.display())]
    Held {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be made, opened or locked.
    #[error("lock {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl SlotLock {
    /// Takes the lock if nobody holds it. The file is made if it is not there; it is never removed.
    pub fn try_acquire(path: &Path) -> Result<Self, SlotLockError> {
        let failed = |source| SlotLockError::Io { path: path.to_owned(), source };
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).map_err(failed)?;
        match flock(file.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(SlotLock { path: path.to_owned(), _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(SlotLockError::Held { path: path.to_owned() }),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holds_the_lock_and_its_end_frees_it() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("slot");
        let held = SlotLock::try_acquire(&path).expect("free");
        assert!(matches!(SlotLock::try_acquire(&path), Err(SlotLockError::Held { .. })));
        drop(held);
        SlotLock::try_acquire(&path).expect("free again");
    }
}
