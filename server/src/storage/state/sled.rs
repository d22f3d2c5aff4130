//! The state on sled 0.34.7: the only code that knows sled.
//!
//! The rules it keeps, each learned from a failure: one tree, one writer, `apply_batch` only; after each batch the epoch
//! collector is helped, or memory grows without bound; `flush` alone is not durable on Linux (it calls
//! `sync_file_range`), so each sync ends with our own `fdatasync` of the `db` file; leftover `snap.*.generating` files
//! stop every open and go first; opening and reading may panic on a damaged file, so both are caught; segments are
//! 8 MiB, so that less than one is in flight between two syncs; the flusher thread stays on, since only it collects
//! half-empty segments.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::StateError;
use super::seam::{Mark, OpenState, State, StateBatch, Visit};
use crate::storage::disk::{DIR_MODE, FILE_MODE, make_private};

/// Fixed when a store is created; see the module's rules.
const SEGMENT_BYTES: usize = 8 * 1024 * 1024;

/// How often sled's own thread looks for segments to rewrite.
const COLLECT_EVERY_MS: u64 = 500;

/// sled lets go of its lock some time after the last handle is dropped: tries for it, and the pause between two. About a
/// second in all.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Epoch pins to make per so many changes of a batch: one pin collects a bounded number of retired pages.
const CHANGES_PER_PIN: usize = 16;

/// Where and how to open the state.
#[derive(Debug, Clone)]
pub struct SledOptions {
    /// The folder of the tree; created if absent. A side file stands beside it, with `.mark` appended to its name.
    pub path: PathBuf,
    /// Page cache in bytes.
    pub cache_bytes: u64,
}

impl SledOptions {
    /// The usual page cache, 64 MiB.
    pub const CACHE_BYTES: u64 = 64 * 1024 * 1024;

    /// Options for `path` with the usual cache.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SledOptions { path: path.into(), cache_bytes: Self::CACHE_BYTES }
    }
}

impl OpenState for SledOptions {
    fn open(&self) -> Result<Arc<dyn State>, StateError> {
        Ok(Arc::new(SledState::open(self)?))
    }
}

/// The state in a sled tree. Dropping it closes the tree.
pub struct SledState {
    db: sled::Db,
    /// Our own descriptor of sled's data file, to make flushes durable.
    file: File,
    folder: PathBuf,
    mark_path: PathBuf,
    /// The first failed write or sync; none follows it. Held while a batch is applied or synced.
    failed: Mutex<Option<String>>,
}

impl SledState {
    /// Opens or creates the tree. Errors: [`StateError::Locked`] if another process keeps it for more than a second,
    /// [`StateError::Damaged`] if sled refuses it or panics, [`StateError::Io`].
    pub fn open(options: &SledOptions) -> Result<Self, StateError> {
        let folder = options.path.clone();
        // sled gives its files whatever mode the process has; so nobody else may come near them.
        let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(&folder);
        made.map_err(|e| StateError::io(format!("create {}", folder.display()), e))?;
        File::open(&folder)
            .and_then(|file| make_private(&file))
            .map_err(|e| StateError::io(format!("close {} to others", folder.display()), e))?;
        remove_unfinished_snapshots(&folder)?;
        let config = sled::Config::new()
            .path(&folder)
            .cache_capacity(options.cache_bytes)
            .flush_every_ms(Some(COLLECT_EVERY_MS))
            .segment_size(SEGMENT_BYTES);
        let db = open_patiently(&config, &folder)?;
        sync_creation(&folder)?;
        let db_path = folder.join("db");
        let file = File::options().read(true).write(true).open(&db_path);
        let file = file.map_err(|e| StateError::io(format!("open {}", db_path.display()), e))?;
        let mut mark_name = folder.file_name().unwrap_or(OsStr::new("state")).to_owned();
        mark_name.push(".mark");
        let mark_path = folder.with_file_name(mark_name);
        Ok(SledState { db, file, folder, mark_path, failed: Mutex::new(None) })
    }

    /// Runs a writing step unless one failed before; a failure or panic is remembered.
    fn write_step(&self, action: &str, step: impl FnOnce() -> Result<(), StateError>) -> Result<(), StateError> {
        let mut failed = self.failed.lock();
        if let Some(reason) = &*failed {
            return Err(StateError::Failed { reason: reason.clone() });
        }
        let result = self.caught(action, step);
        if let Err(error) = &result {
            *failed = Some(format!("{action}: {error}"));
        }
        result
    }

    /// Turns a panic of sled (which it does on damaged pages) into an error.
    fn caught<T>(&self, action: &str, step: impl FnOnce() -> Result<T, StateError>) -> Result<T, StateError> {
        catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|panic| {
            Err(StateError::damaged(self.folder.display().to_string(), panic_reason(action, &*panic)))
        })
    }

    fn error(&self, action: &str, error: sled::Error) -> StateError {
        translate(&self.folder, action, error)
    }
}

impl fmt::Debug for SledState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledState").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl State for SledState {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StateError> {
        self.caught("read the state", || {
            let value = self.db.get(key).map_err(|e| self.error("read the state", e))?;
            // Copied, since sled's value may keep a whole page in memory.
            Ok(value.map(|value| Bytes::copy_from_slice(&value)))
        })
    }

    fn scan(&self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StateError> {
        let mut entries = self.db.scan_prefix(prefix);
        loop {
            let next = self
                .caught("scan the state", || entries.next().transpose().map_err(|e| self.error("scan the state", e)))?;
            let Some((key, value)) = next else { return Ok(()) };
            if let ControlFlow::Break(()) = visit(&key, &value)? {
                return Ok(());
            }
        }
    }

    fn apply(&self, batch: StateBatch) -> Result<(), StateError> {
        self.write_step("apply a batch to the state", || {
            let changes = batch.changes.len();
            let mut sled_batch = sled::Batch::default();
            for (key, value) in batch.changes {
                match value {
                    Some(value) => sled_batch.insert(key, value),
                    None => sled_batch.remove(key),
                }
            }
            self.db.apply_batch(sled_batch).map_err(|e| self.error("apply a batch to the state", e))?;
            for _ in 0..changes / CHANGES_PER_PIN + 1 {
                crossbeam_epoch::pin().flush();
            }
            Ok(())
        })
    }

    fn sync(&self) -> Result<(), StateError> {
        self.write_step("sync the state", || {
            self.db.flush().map_err(|e| self.error("flush the state", e))?;
            // Durability: this call, not sled's flush, is what makes the batches durable.
            self.file.sync_data().map_err(|e| StateError::io("sync the state", e))
        })
    }

    fn mark(&self, mark: Mark) -> Result<(), StateError> {
        self.write_step("mark the state", || {
            write_mark(&self.mark_path, mark)
                .map_err(|e| StateError::io(format!("write {}", self.mark_path.display()), e))
        })
    }

    fn marked(&self) -> Result<Option<Mark>, StateError> {
        let place = self.mark_path.display().to_string();
        match read_mark(&self.mark_path) {
            Ok(text) => match parse_mark(&text) {
                Some(mark) => Ok(Some(mark)),
                None => Err(StateError::damaged(place, "the side file of the state cannot be read")),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => Err(StateError::damaged(place, "not a text")),
            Err(e) => Err(StateError::io(format!("read {place}"), e)),
        }
    }

    fn size_on_disk(&self) -> Result<u64, StateError> {
        self.db.size_on_disk().map_err(|e| self.error("measure the state", e))
    }
}

/// A snapshot that a killed open left half-written is what sled would read next time, and fail.
fn remove_unfinished_snapshots(folder: &Path) -> Result<(), StateError> {
    let failed = |e| StateError::io(format!("clean {}", folder.display()), e);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

fn open_patiently(config: &sled::Config, folder: &Path) -> Result<sled::Db, StateError> {
    for _ in 1..LOCK_TRIES {
        match open_caught(config.clone(), folder) {
            Err(StateError::Locked { .. }) => thread::sleep(LOCK_PAUSE),
            result => return result,
        }
    }
    open_caught(config.clone(), folder)
}

/// Opens on a thread of its own: a damaged file makes sled panic, sometimes deep in recursion.
fn open_caught(config: sled::Config, folder: &Path) -> Result<sled::Db, StateError> {
    let opening = thread::Builder::new().name("state-open".to_owned()).spawn(move || config.open());
    let opening = opening.map_err(|e| StateError::io("start a thread to open the state", e))?;
    match opening.join() {
        Ok(Ok(db)) => Ok(db),
        Ok(Err(error)) => Err(translate(folder, "open the state", error)),
        Err(panic) => Err(StateError::damaged(folder.display().to_string(), panic_reason("open the state", &*panic))),
    }
}

/// sled syncs neither its settings file nor its folder; done at every open, since a crash may have come between
/// creation and the first of these calls.
fn sync_creation(folder: &Path) -> Result<(), StateError> {
    let failed = |e| StateError::io(format!("sync {}", folder.display()), e);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_file() {
            File::open(entry.path())
                .and_then(|file| make_private(&file).and_then(|()| file.sync_all()))
                .map_err(failed)?;
        }
    }
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    sync_parent(folder).map_err(failed)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

fn translate(folder: &Path, action: &str, error: sled::Error) -> StateError {
    match error {
        // sled says "Other" when its lock is taken and keeps the operating system's error only as text.
        sled::Error::Io(e)
            if e.kind() == io::ErrorKind::WouldBlock || e.to_string().contains("could not acquire lock") =>
        {
            StateError::Locked { path: folder.to_owned() }
        }
        sled::Error::Io(e) => StateError::io(action, e),
        other => StateError::damaged(folder.display().to_string(), format!("{action}: {other}")),
    }
}

fn panic_reason(action: &str, panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    format!("{action}: panic: {text}")
}

const MARK_HEAD: &str = "listwatch state mark 1";

/// The line that says that the log has begun; absent before.
const MARK_LOG: &str = "log begun";

/// Written beside and renamed, so that it is the old or the new one after any crash.
fn write_mark(path: &Path, mark: Mark) -> io::Result<()> {
    let mut body = format!("{MARK_HEAD}\napplied {}\n", mark.applied);
    if mark.log_begun {
        body.push_str(MARK_LOG);
        body.push('\n');
    }
    let text = format!("{body}crc32c {:08x}\n", crc32c::crc32c(body.as_bytes()));
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = PathBuf::from(temporary);
    let mut file = File::options().write(true).create(true).truncate(true).mode(FILE_MODE).open(&temporary)?;
    make_private(&file)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_parent(path)
}

fn read_mark(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    make_private(&file)?;
    io::read_to_string(file)
}

fn parse_mark(text: &str) -> Option<Mark> {
    let (body, crc) = text.split_at_checked(text.find("crc32c ")?)?;
    let crc = u32::from_str_radix(crc.strip_prefix("crc32c ")?.trim_end(), 16).ok()?;
    if crc32c::crc32c(body.as_bytes()) != crc {
        return None;
    }
    let mut lines = body.strip_prefix(MARK_HEAD)?.trim().lines();
    let applied = lines.next()?.strip_prefix("applied ")?.parse().ok()?;
    let log_begun = match lines.next() {
        None => false,
        Some(MARK_LOG) => true,
        Some(_) => return None,
    };
    if lines.next().is_none() { Some(Mark { applied, log_begun }) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_survives_the_round_trip_and_damage_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.mark");
        write_mark(&path, Mark { applied: 17, log_begun: false }).unwrap();
        for log_begun in [false, true] {
            let mark = Mark { applied: 18, log_begun };
            write_mark(&path, mark).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(parse_mark(&text), Some(mark));
            assert_eq!(parse_mark(&text.replace("18", "19")), None);
            assert_eq!(parse_mark(&text.replace("log begun\n", "")).is_none(), log_begun);
            for end in 0..text.len() - 1 {
                assert_eq!(parse_mark(&text[..end]), None, "cut at {end}");
            }
        }
    }

    #[test]
    fn a_held_lock_is_named_and_a_released_one_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let options = SledOptions::new(dir.path().join("state"));
        let held = SledState::open(&options).unwrap();
        assert!(matches!(SledState::open(&options), Err(StateError::Locked { .. })));
        drop(held);
        SledState::open(&options).unwrap();
    }

    #[test]
    fn an_unfinished_snapshot_does_not_stop_the_open() {
        let dir = tempfile::tempdir().unwrap();
        let options = SledOptions::new(dir.path().join("state"));
        let state = SledState::open(&options).unwrap();
        let mut batch = StateBatch::default();
        batch.put(b"k".to_vec(), b"v".to_vec());
        state.apply(batch).unwrap();
        state.sync().unwrap();
        drop(state);
        let leftover = options.path.join("snap.FFFFFFFFFFFFFF.generating");
        fs::write(&leftover, b"half").unwrap();
        let state = SledState::open(&options).unwrap();
        assert!(!leftover.exists());
        assert_eq!(state.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    }
}
