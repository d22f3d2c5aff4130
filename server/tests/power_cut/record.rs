//! Takes the place of the C library's file calls in this program, and records those below one folder.
//!
//! A file is known by a number given at its creation (the system uses inodes again). A sync covers the calls that were
//! recorded before it began, no more: a write that ends beside it counts as lost.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use libc::{mode_t, off64_t, size_t, ssize_t};

/// One recorded call that succeeded.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// The file got this name, by creation.
    Create {
        file: u64,
        path: PathBuf,
    },
    Write {
        file: u64,
        offset: u64,
        data: Vec<u8>,
    },
    Truncate {
        file: u64,
        len: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
    /// fsync of a file, or with `data_only` fdatasync; covers the calls before index `covers`.
    Sync {
        file: u64,
        covers: usize,
        data_only: bool,
    },
    /// fsync of a folder: names made before index `covers` are durable.
    SyncFolder {
        path: PathBuf,
        covers: usize,
    },
}

impl Call {
    /// The same call, but fdatasync covers nothing.
    pub(crate) fn without_data_sync(self) -> Call {
        match self {
            Call::Sync { file, data_only: true, .. } => Call::Sync { file, covers: 0, data_only: true },
            other => other,
        }
    }
}

struct Recording {
    folder: PathBuf,
    calls: Vec<Call>,
    /// The number of the file that has an inode now.
    files: HashMap<u64, u64>,
}

static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);

pub(crate) fn begin(folder: &Path) {
    *lock() = Some(Recording { folder: folder.to_owned(), calls: Vec::new(), files: HashMap::new() });
}

pub(crate) fn count() -> usize {
    lock().as_ref().map_or(0, |recording| recording.calls.len())
}

pub(crate) fn end() -> Vec<Call> {
    lock().take().map_or_else(Vec::new, |recording| recording.calls)
}

fn lock() -> std::sync::MutexGuard<'static, Option<Recording>> {
    RECORDING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn is_below(path: &Path) -> bool {
    lock().as_ref().is_some_and(|recording| path.starts_with(&recording.folder))
}

fn push(call: Call) {
    if let Some(recording) = lock().as_mut() {
        recording.calls.push(call);
    }
}

/// The path and inode behind a descriptor, if it is below the recorded folder.
fn known(fd: c_int) -> Option<(PathBuf, u64, bool)> {
    lock().as_ref()?;
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    // SAFETY: an all-zero stat is a valid place for fstat to write to.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` outlives the call; a bad descriptor gives an error.
    if !is_below(&path) || unsafe { libc::fstat64(fd, &raw mut stat) } != 0 {
        return None;
    }
    Some((path, stat.st_ino, stat.st_mode & libc::S_IFMT == libc::S_IFDIR))
}

/// The number of the file with that inode; a new file gets a new one.
fn number(inode: u64, new: bool) -> u64 {
    let mut recording = lock();
    let Some(recording) = recording.as_mut() else { return 0 };
    let next = recording.calls.len() as u64;
    if new {
        *recording.files.entry(inode).insert_entry(next).get()
    } else {
        *recording.files.entry(inode).or_insert(next)
    }
}

fn path_of(path: *const c_char) -> PathBuf {
    // SAFETY: the callers of the C library pass terminated strings.
    PathBuf::from(std::ffi::OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()))
}

/// The C library's own function of that name.
macro_rules! real {
    ($name:literal, $kind:ty) => {{
        // SAFETY: the name is terminated, and the C library's function has this signature.
        unsafe {
            let found = libc::dlsym(libc::RTLD_NEXT, concat!($name, "\0").as_ptr().cast());
            assert!(!found.is_null(), concat!($name, " is in the C library"));
            transmute::<*mut c_void, $kind>(found)
        }
    }};
}

/// # Safety
/// As open(2); the mode is always passed, as the Rust library does.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    let real = real!("open64", unsafe extern "C" fn(*const c_char, c_int, mode_t) -> c_int);
    let new = flags & libc::O_CREAT != 0 && !path_of(path).exists();
    // SAFETY: the caller's arguments, as they came.
    let fd = unsafe { real(path, flags, mode) };
    if fd >= 0
        && (new || flags & libc::O_TRUNC != 0)
        && let Some((path, inode, false)) = known(fd)
    {
        let file = number(inode, new);
        push(if new { Call::Create { file, path } } else { Call::Truncate { file, len: 0 } });
    }
    fd
}

/// # Safety
/// As write(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn write(fd: c_int, data: *const c_void, len: size_t) -> ssize_t {
    let real = real!("write", unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t);
    let file = known(fd);
    // SAFETY: asks for a number.
    let offset = if file.is_some() { unsafe { libc::lseek64(fd, 0, libc::SEEK_CUR) } } else { 0 };
    // SAFETY: the caller's arguments, as they came.
    let written = unsafe { real(fd, data, len) };
    record_write(file, offset, data, written);
    written
}

/// # Safety
/// As pwrite(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pwrite64(fd: c_int, data: *const c_void, len: size_t, offset: off64_t) -> ssize_t {
    let real = real!("pwrite64", unsafe extern "C" fn(c_int, *const c_void, size_t, off64_t) -> ssize_t);
    let file = known(fd);
    // SAFETY: the caller's arguments, as they came.
    let written = unsafe { real(fd, data, len, offset) };
    record_write(file, offset, data, written);
    written
}

fn record_write(file: Option<(PathBuf, u64, bool)>, offset: off64_t, data: *const c_void, written: ssize_t) {
    if let (Some((_, inode, _)), Ok(len)) = (file, usize::try_from(written)) {
        let file = number(inode, false);
        // SAFETY: so many bytes at the pointer were just written by the C library.
        let data = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len) }.to_vec();
        push(Call::Write { file, offset: offset as u64, data });
    }
}

/// # Safety
/// As ftruncate(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ftruncate64(fd: c_int, len: off64_t) -> c_int {
    let real = real!("ftruncate64", unsafe extern "C" fn(c_int, off64_t) -> c_int);
    let file = known(fd);
    // SAFETY: the caller's arguments, as they came.
    let result = unsafe { real(fd, len) };
    if let (Some((_, inode, _)), 0) = (file, result) {
        let file = number(inode, false);
        push(Call::Truncate { file, len: len as u64 });
    }
    result
}

/// # Safety
/// As rename(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let real = real!("rename", unsafe extern "C" fn(*const c_char, *const c_char) -> c_int);
    // SAFETY: the caller's arguments, as they came.
    let result = unsafe { real(from, to) };
    let (from, to) = (path_of(from), path_of(to));
    if result == 0 && is_below(&to) {
        push(Call::Rename { from, to });
    }
    result
}

/// # Safety
/// As unlink(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    let real = real!("unlink", unsafe extern "C" fn(*const c_char) -> c_int);
    // SAFETY: the caller's arguments, as they came.
    let result = unsafe { real(path) };
    let path = path_of(path);
    if result == 0 && is_below(&path) {
        push(Call::Remove { path });
    }
    result
}

/// # Safety
/// As fsync(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    let real = real!("fsync", unsafe extern "C" fn(c_int) -> c_int);
    // SAFETY: the caller's arguments, as they came.
    record_sync(fd, false, || unsafe { real(fd) })
}

/// # Safety
/// As fdatasync(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    let real = real!("fdatasync", unsafe extern "C" fn(c_int) -> c_int);
    // SAFETY: the caller's arguments, as they came.
    record_sync(fd, true, || unsafe { real(fd) })
}

fn record_sync(fd: c_int, data_only: bool, real: impl FnOnce() -> c_int) -> c_int {
    let (file, covers) = (known(fd), count());
    let result = real();
    if let (Some((path, inode, is_folder)), 0) = (file, result) {
        let file = number(inode, false);
        push(if is_folder { Call::SyncFolder { path, covers } } else { Call::Sync { file, covers, data_only } });
    }
    result
}
