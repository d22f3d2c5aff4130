//! The operating system's files. They hold secrets, so folders and files are their owner's alone.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use super::{Disk, DiskFile, DiskLock, LockRefused, OpenMode};

/// What a file of the store may be: its owner's alone.
pub(in crate::storage) const FILE_MODE: u32 = 0o600;
/// The same for a folder that the store makes.
pub(in crate::storage) const DIR_MODE: u32 = 0o700;

/// The operating system's files.
#[derive(Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The same, shared.
    pub fn shared() -> Arc<dyn Disk> {
        Arc::new(Self)
    }
}

impl Disk for RealDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(path)?;
        match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.sync_dir(parent),
            _ => Ok(()),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(FILE_MODE);
        match mode {
            OpenMode::Existing => &mut options,
            OpenMode::CreateNew => options.create_new(true),
            OpenMode::Replace => options.create(true).truncate(true),
        };
        let file = options.open(path)?;
        make_private(&file)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn DiskLock>, LockRefused> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(FILE_MODE)
            .open(path)
            .map_err(LockRefused::Io)?;
        make_private(&file).map_err(LockRefused::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let pid = match file.read_to_string(&mut holder) {
                    Ok(_) => holder.trim().parse().unwrap_or(0),
                    Err(_) => 0,
                };
                return Err(LockRefused::Held { pid });
            }
            Err(fs::TryLockError::Error(error)) => return Err(LockRefused::Io(error)),
        }
        let write_pid = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write_pid(&mut file).map_err(LockRefused::Io)?;
        Ok(Box::new(RealLock { _file: file }))
    }
}

/// Takes away what others may do with a file that was there before, say copied in with a wide mode.
pub(in crate::storage) fn make_private(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode & 0o700))
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.0.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

/// The lock goes with the descriptor, so also when the process is killed.
#[derive(Debug)]
struct RealLock {
    _file: File,
}

impl DiskLock for RealLock {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_names_its_holder() {
        let dir = tempfile::tempdir().expect("make a folder");
        let path = dir.path().join("lock");
        let held = RealDisk.lock(&path).expect("take the lock");
        match RealDisk.lock(&path) {
            Err(LockRefused::Held { pid }) => assert_eq!(pid, std::process::id()),
            other => panic!("a second lock was answered with {other:?}"),
        }
        drop(held);
        RealDisk.lock(&path).expect("take it again");
    }
}
