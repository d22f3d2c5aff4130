//! The seam to files: all that the log and the side files ask of the operating system.
//!
//! Two forms: [`RealDisk`], and [`SimDisk`], which keeps files in memory and can lie the way disks do: lose what was
//! not synced, tear a write, fail the n-th call.
//!
//! Durability: bytes written are safe after [`DiskFile::sync`], names after [`Disk::sync_dir`]; nothing else is.

mod real;
mod sim;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub use real::RealDisk;
pub(in crate::storage) use real::{DIR_MODE, FILE_MODE, make_private};
pub use sim::{Fault, SimDisk};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// It must exist.
    Existing,
    /// It must not exist.
    CreateNew,
    /// It is emptied if it exists.
    Replace,
}

/// Files by path.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Makes a folder and those above it.
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// The names of the files in a folder, sorted; none if there is no such folder.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Opens a file for reading and writing.
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// Gives a file another name, replacing what had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Takes a name away; open files stay readable.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes the lock file, for as long as the answer lives.
    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockRefused>;
}

/// One open file.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads from a place until the buffer is full or the file ends; answers how much was read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of it at a place.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes written bytes and the length durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Cuts or lengthens the file; what is new reads as zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// The file's length.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// A held lock; let go when dropped.
pub trait DiskLock: Send + Sync + fmt::Debug {}

/// Why a lock was not given.
#[derive(Debug)]
pub enum LockRefused {
    /// This process has it (0 = unknown).
    Held {
        /// The holder's process id.
        pid: u32,
    },
    /// The file could not be opened or locked.
    Io(io::Error),
}

/// Reads a whole small file.
pub fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0; file.len()? as usize];
    let read = file.read_at(&mut buffer, 0)?;
    buffer.truncate(read);
    Ok(buffer)
}

/// Writes a small file so that after any crash either the old or the new content is there: a temporary name, synced,
/// renamed, the folder synced.
pub fn replace_durably(disk: &dyn Disk, path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let file = disk.open(&temporary, OpenMode::Replace)?;
    file.write_at(content, 0)?;
    file.sync()?;
    disk.rename(&temporary, path)?;
    match path.parent() {
        Some(dir) => disk.sync_dir(dir),
        None => Ok(()),
    }
}
