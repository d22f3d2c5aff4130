//! Files in memory that can lie the way disks do.
//!
//! Invariant: after [`SimDisk::crash`] a file holds what was synced, plus any part of what was not: whole writes, none
//! of them, or torn ones, in sectors of 512 bytes. Names not yet synced with their folder may be there or not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{Disk, DiskFile, DiskLock, LockRefused, OpenMode};

/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// A call that is made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The n-th write from now (1 = the next), which leaves no trace.
    Write(u64),
    /// The n-th sync of a file from now.
    Sync(u64),
    /// From now on there is room for no new file, or there is again.
    Full(bool),
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Whether unsynced data is tracked, so that a crash can lose it.
    lying: bool,
    /// Moves with each crash; files opened before it answer with errors.
    epoch: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    names: BTreeMap<PathBuf, Arc<Mutex<Content>>>,
    durable_names: BTreeMap<PathBuf, Arc<Mutex<Content>>>,
    locks: BTreeSet<PathBuf>,
    writes_left: Option<u64>,
    syncs_left: Option<u64>,
    syncs: u64,
    full: bool,
}

#[derive(Debug, Default)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    SetLen(usize),
}

impl SimDisk {
    /// A disk that can crash.
    pub fn lying() -> Self {
        Self::with(true)
    }

    /// A disk that only keeps files in memory, for a store that is not to outlive its process.
    pub fn honest() -> Self {
        Self::with(false)
    }

    fn with(lying: bool) -> Self {
        Self { shared: Arc::new(Shared { lying, epoch: AtomicU64::new(0), state: Mutex::default() }) }
    }

    /// Cuts the power: what was not synced is lost, kept or torn, as the seed decides. Open files and locks are gone.
    pub fn crash(&self, seed: u64) {
        assert!(self.shared.lying, "an honest disk does not crash");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut state = self.shared.state.lock();
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        let mut survivors = state.durable_names.clone();
        let changed: BTreeSet<PathBuf> = state
            .names
            .keys()
            .chain(state.durable_names.keys())
            .filter(|path| match (state.names.get(*path), state.durable_names.get(*path)) {
                (Some(now), Some(then)) => !Arc::ptr_eq(now, then),
                _ => true,
            })
            .cloned()
            .collect();
        for path in changed {
            if rng.random_bool(0.5) {
                match state.names.get(&path) {
                    Some(content) => survivors.insert(path, content.clone()),
                    None => survivors.remove(&path),
                };
            }
        }
        for content in survivors.values() {
            content.lock().crash(&mut rng);
        }
        state.names = survivors.clone();
        state.durable_names = survivors;
        state.locks.clear();
        state.writes_left = None;
        state.syncs_left = None;
    }

    /// Makes a later call fail.
    pub fn inject(&self, fault: Fault) {
        let mut state = self.shared.state.lock();
        match fault {
            Fault::Write(nth) => state.writes_left = Some(nth),
            Fault::Sync(nth) => state.syncs_left = Some(nth),
            Fault::Full(full) => state.full = full,
        }
    }

    /// How many syncs of files there were.
    pub fn syncs(&self) -> u64 {
        self.shared.state.lock().syncs
    }

    /// Flips one bit of a file, in what is durable too.
    pub fn flip(&self, path: &Path, offset: usize, bit: u8) {
        let state = self.shared.state.lock();
        let mut content = state.names.get(path).expect("the file to damage exists").lock();
        content.live[offset] ^= 1 << bit;
        if let Some(byte) = content.durable.get_mut(offset) {
            *byte ^= 1 << bit;
        }
    }

    /// A copy of a file's bytes.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.shared.state.lock().names.get(path).map(|content| content.lock().live.clone())
    }

    fn count_down(left: &mut Option<u64>) -> io::Result<()> {
        if let Some(n) = left {
            *n = n.saturating_sub(1);
            if *n == 0 {
                *left = None;
                return Err(io::Error::other("injected fault"));
            }
        }
        Ok(())
    }
}

impl Content {
    fn apply(bytes: &mut Vec<u8>, change: &Change) {
        match change {
            Change::SetLen(len) => bytes.resize(*len, 0),
            Change::Write { offset, bytes: written } => {
                let end = offset + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(written);
            }
        }
    }

    fn crash(&mut self, rng: &mut StdRng) {
        let mut bytes = std::mem::take(&mut self.durable);
        // One fate for the whole file in most cases: all lost, all kept; else each write has its own.
        let common = rng.random_range(0..4);
        for change in std::mem::take(&mut self.pending) {
            let fate = if common < 2 { common } else { rng.random_range(0..3) };
            match (fate, &change) {
                (0, _) => {}
                (1, _) => Self::apply(&mut bytes, &change),
                (_, Change::SetLen(_)) => Self::apply(&mut bytes, &change),
                (_, Change::Write { offset, bytes: written }) => {
                    let mut at = *offset;
                    let end = offset + written.len();
                    while at < end {
                        let next = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                        if rng.random_bool(0.5) {
                            let part = written[at - offset..next - offset].to_vec();
                            Self::apply(&mut bytes, &Change::Write { offset: at, bytes: part });
                        }
                        at = next;
                    }
                }
            }
        }
        self.live = bytes.clone();
        self.durable = bytes;
    }
}

impl Disk for SimDisk {
    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.shared.state.lock();
        let names = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(names.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.shared.state.lock();
        let content = match (state.names.get(path).cloned(), mode) {
            (Some(_), OpenMode::CreateNew) => return Err(ErrorKind::AlreadyExists.into()),
            (None, OpenMode::Existing) => return Err(ErrorKind::NotFound.into()),
            (Some(content), OpenMode::Existing) => content,
            (Some(content), OpenMode::Replace) => {
                let mut emptied = content.lock();
                emptied.live.clear();
                if self.shared.lying {
                    emptied.pending.push(Change::SetLen(0));
                }
                drop(emptied);
                content
            }
            (None, _) if state.full => return Err(ErrorKind::StorageFull.into()),
            (None, OpenMode::CreateNew | OpenMode::Replace) => {
                let content = Arc::<Mutex<Content>>::default();
                state.names.insert(path.to_owned(), content.clone());
                content
            }
        };
        let epoch = self.shared.epoch.load(Ordering::SeqCst);
        Ok(Arc::new(SimFile { shared: self.shared.clone(), epoch, content }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let content = state.names.remove(from).ok_or(ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.shared.state.lock().names.remove(path).map(|_| ()).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.shared.state.lock();
        let state = &mut *state;
        state.durable_names.retain(|path, _| path.parent() != Some(dir));
        for (path, content) in &state.names {
            if path.parent() == Some(dir) {
                state.durable_names.insert(path.clone(), content.clone());
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockRefused> {
        if !self.shared.state.lock().locks.insert(path.to_owned()) {
            return Err(LockRefused::Held { pid: std::process::id() });
        }
        let epoch = self.shared.epoch.load(Ordering::SeqCst);
        Ok(Box::new(SimLock { shared: self.shared.clone(), epoch, path: path.to_owned() }))
    }
}

#[derive(Debug)]
struct SimFile {
    shared: Arc<Shared>,
    epoch: u64,
    content: Arc<Mutex<Content>>,
}

impl SimFile {
    fn check(&self) -> io::Result<()> {
        if self.epoch == self.shared.epoch.load(Ordering::SeqCst) {
            Ok(())
        } else {
            Err(io::Error::other("the power was cut"))
        }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        self.check()?;
        SimDisk::count_down(&mut self.shared.state.lock().writes_left)?;
        let mut content = self.content.lock();
        Content::apply(&mut content.live, &change);
        if self.shared.lying {
            content.pending.push(change);
        }
        Ok(())
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.check()?;
        let content = self.content.lock();
        let from = (offset as usize).min(content.live.len());
        let read = buffer.len().min(content.live.len() - from);
        buffer[..read].copy_from_slice(&content.live[from..from + read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.shared.lying {
            return self.change(Change::Write { offset: offset as usize, bytes: bytes.to_vec() });
        }
        let mut content = self.content.lock();
        let (offset, end) = (offset as usize, offset as usize + bytes.len());
        if content.live.len() < end {
            content.live.resize(end, 0);
        }
        content.live[offset..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check()?;
        if !self.shared.lying {
            return Ok(());
        }
        let mut state = self.shared.state.lock();
        SimDisk::count_down(&mut state.syncs_left)?;
        state.syncs += 1;
        let mut content = self.content.lock();
        let content = &mut *content;
        for change in content.pending.drain(..) {
            Content::apply(&mut content.durable, &change);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::SetLen(len as usize))
    }

    fn len(&self) -> io::Result<u64> {
        self.check()?;
        Ok(self.content.lock().live.len() as u64)
    }
}

#[derive(Debug)]
struct SimLock {
    shared: Arc<Shared>,
    epoch: u64,
    path: PathBuf,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        if self.epoch == self.shared.epoch.load(Ordering::SeqCst) {
            state.locks.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(disk: &SimDisk, name: &str, bytes: &[u8], sync: bool) {
        let file = disk.open(Path::new(name), OpenMode::Replace).expect("open");
        file.write_at(bytes, 0).expect("write");
        if sync {
            file.sync().expect("sync");
            disk.sync_dir(Path::new("/d")).expect("sync the folder");
        }
    }

    #[test]
    fn synced_bytes_survive_every_crash_and_others_need_not() {
        let mut lost = 0;
        for seed in 0..50 {
            let disk = SimDisk::lying();
            write(&disk, "/d/safe", b"safe", true);
            write(&disk, "/d/risky", b"risky", false);
            disk.crash(seed);
            assert_eq!(disk.content(Path::new("/d/safe")).as_deref(), Some(&b"safe"[..]), "seed {seed}");
            lost += usize::from(disk.content(Path::new("/d/risky")).as_deref() != Some(b"risky"));
        }
        assert!(lost > 10, "a lying disk lost only {lost} of 50");
    }

    #[test]
    fn files_opened_before_a_crash_are_dead() {
        let disk = SimDisk::lying();
        let file = disk.open(Path::new("/d/f"), OpenMode::CreateNew).expect("open");
        disk.crash(1);
        assert!(file.write_at(b"x", 0).is_err());
    }

    #[test]
    fn the_nth_sync_fails() {
        let disk = SimDisk::lying();
        let file = disk.open(Path::new("/d/f"), OpenMode::CreateNew).expect("open");
        disk.inject(Fault::Sync(2));
        file.sync().expect("the first works");
        assert!(file.sync().is_err());
        file.sync().expect("the third works");
    }
}
