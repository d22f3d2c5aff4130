//! Files that are whole or not there: written aside, synced, renamed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Error;

/// What a private file and folder may be: the owner's alone.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// The text of a file, `None` if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

/// Makes a folder, and those above it, for the owner alone.
pub(super) fn make_dir(path: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(DIR_MODE).create(path).map_err(|e| Error::io("make folder", path, e))
}

/// Takes the folder for this process until the guard is dropped, waiting for another that has it.
pub(super) fn lock_dir(path: &Path) -> Result<File, Error> {
    let dir = File::open(path).map_err(|e| Error::io("open folder", path, e))?;
    rustix::fs::flock(&dir, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|e| Error::io("lock folder", path, e.into()))?;
    Ok(dir)
}

/// Writes files so that each is whole or not there, and they appear in the order given; all are durable at the end.
///
/// The syncs run side by side: they are the cost of a first start, and the file system joins them.
pub(super) fn write_all(files: &[(PathBuf, String)]) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = files.iter().map(|(path, text)| scope.spawn(|| write_aside(path, text))).collect();
        workers.into_iter().try_for_each(|w| w.join().expect("writing a file does not panic"))
    })?;
    let mut dirs: Vec<&Path> = Vec::new();
    for (path, _) in files {
        fs::rename(aside(path), path).map_err(|e| Error::io("put in place", path, e))?;
        let dir = parent(path);
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    for dir in dirs {
        File::open(dir).and_then(|d| d.sync_all()).map_err(|e| Error::io("sync folder", dir, e))?;
    }
    Ok(())
}

fn write_aside(path: &Path, text: &str) -> Result<(), Error> {
    let aside = aside(path);
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&aside)?;
        // A file left over by a killed process keeps the mode it had.
        file.set_permissions(fs::Permissions::from_mode(FILE_MODE))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|e| Error::io("write", &aside, e))
}

fn aside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    path.with_file_name(name)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}
