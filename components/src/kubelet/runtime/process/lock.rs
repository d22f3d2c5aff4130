//! Locks on files (`flock`), the ground on which "never twice" stands.
//!
//! A lock belongs to an open file, not to a process: it is handed on by inheritance and is free when the last holder is
//! gone. A container's processes inherit it too, so a free lock proves that none of them lives.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::{
    fs::{FlockOperation, flock},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};

/// How long a fork is given to become another program, before it is looked at again.
const FORK_PAUSE: std::time::Duration = std::time::Duration::from_micros(200);

/// A held lock; dropping it frees it unless another process has inherited it.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// Takes the lock, or `None` if somebody holds it.
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_at(&file, path)? => return Ok(Some(Lock(file))),
                // A holder has removed the file between open and lock: this is a lock of nothing.
                Ok(()) => continue,
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the lock, waiting for its holder as long as need be. Blocks the thread.
    pub fn take(path: &Path) -> io::Result<Self> {
        loop {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) if is_at(&file, path)? => return Ok(Lock(file)),
                Ok(()) | Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// A lock handed on by inheritance; `None` if the file is not locked through this descriptor, or is not the one at
    /// the path.
    pub fn inherited(fd: OwnedFd, path: &Path) -> io::Result<Option<Self>> {
        let file = File::from(fd);
        if !file.metadata()?.is_file() || !is_at(&file, path)? {
            return Ok(None);
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Another descriptor of the same lock, to hand on.
    pub fn share(&self) -> io::Result<OwnedFd> {
        self.0.as_fd().try_clone_to_owned()
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.0
    }
}

/// The processes that have the file at this path open, other than the caller.
pub fn holders(path: &Path) -> io::Result<Vec<i32>> {
    let wanted = match fs::metadata(path) {
        Ok(metadata) => (metadata.dev(), metadata.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // Processes of other users cannot be looked into, and processes may end meanwhile: neither holds our locks.
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let holds = descriptors
            .flatten()
            .any(|fd| fs::metadata(fd.path()).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == wanted));
        if holds && pid != own {
            pids.push(pid);
        }
    }
    Ok(pids)
}

/// Kills every holder of a lock and takes it. For containers whose shim is gone: what still runs is without a keeper.
pub fn take_by_force(path: &Path) -> io::Result<Lock> {
    loop {
        if let Some(lock) = Lock::try_take(path)? {
            return Ok(lock);
        }
        let holders_now = holders(path)?;
        if holders_now.is_empty() {
            // Gone meanwhile, or of another user: there is nothing to kill, only to wait for.
            return Lock::take(path);
        }
        for pid in holders_now {
            if is_own_fork(pid) {
                // Between its fork and its exec a shim of another container holds everything that we hold.
                std::thread::sleep(FORK_PAUSE);
                continue;
            }
            let Some(pid) = Pid::from_raw(pid) else { continue };
            let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            // Opened first, looked at again after: the handle is on a process that holds the file.
            if holders(path)?.contains(&pid.as_raw_nonzero().get()) {
                let _ = pidfd_send_signal(&handle, Signal::KILL);
                let mut wait = [rustix::event::PollFd::new(&handle, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut wait, None)?;
            }
        }
    }
}

/// Whether the process is a child of ours that has not yet become another program.
fn is_own_fork(pid: i32) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1)?.parse().ok());
    let line = |pid: &str| fs::read(format!("/proc/{pid}/cmdline")).ok();
    parent == Some(own) && line(&pid.to_string()) == line("self")
}

fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(present) => Ok((held.dev(), held.ino()) == (present.dev(), present.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_the_last_descriptor_is_gone() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("lock");
        let lock = Lock::try_take(&path).expect("usable").expect("free");
        let shared = lock.share().expect("shareable");
        drop(lock);
        assert!(Lock::try_take(&path).expect("usable").is_none());
        let inherited = Lock::inherited(shared, &path).expect("usable").expect("locked through it");
        drop(inherited);
        assert!(Lock::try_take(&path).expect("usable").is_some());
    }

    #[test]
    fn a_lock_on_a_removed_file_is_not_one() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("lock");
        let first = Lock::try_take(&path).expect("usable").expect("free");
        fs::remove_file(&path).expect("removable");
        let second = Lock::try_take(&path).expect("usable").expect("a new file");
        assert!(Lock::inherited(first.share().expect("shareable"), &path).expect("usable").is_none());
        drop(second);
    }
}
