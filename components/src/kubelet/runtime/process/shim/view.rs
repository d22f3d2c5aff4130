//! What a container sees, entered by a command that runs beside it.
//!
//! Invariant: entering makes only system calls on values that were made before the fork.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    mem::MaybeUninit,
    os::fd::{AsRawFd, RawFd},
};

/// The namespaces and the root of a process, where they are not ours.
pub(super) struct View {
    user: Option<File>,
    mounts: Option<File>,
    root: Option<File>,
}

impl View {
    /// What the process of this number sees. The caller has a handle on it, and looks afterwards whether it lives.
    pub(super) fn of(pid: i32) -> io::Result<Self> {
        let other = |name: &str| -> io::Result<Option<File>> {
            let path = format!("/proc/{pid}/ns/{name}");
            if fs::read_link(&path)? == fs::read_link(format!("/proc/self/ns/{name}"))? {
                return Ok(None);
            }
            File::open(path).map(Some)
        };
        let mounts = other("mnt")?;
        let root = mounts.as_ref().map(|_| File::open(format!("/proc/{pid}/root"))).transpose()?;
        Ok(View { user: other("user")?, mounts, root })
    }

    /// Goes there, in a session of its own and with no signal blocked, to die with the parent.
    pub(super) fn enter(&self, cwd: &CString, terminal: bool, parent: i32) -> io::Result<()> {
        let check = |outcome: i32| if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
        let fd = |file: &Option<File>| -> Option<RawFd> { file.as_ref().map(AsRawFd::as_raw_fd) };
        rustix::process::setsid()?;
        let mut none = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: plain system calls on open descriptors, strings that end with a zero, and a set that is made empty first.
        unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            check(libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut()))?;
            if terminal {
                check(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
            }
            if let Some(user) = fd(&self.user) {
                check(libc::setns(user, libc::CLONE_NEWUSER))?;
            }
            if let Some(mounts) = fd(&self.mounts) {
                check(libc::setns(mounts, libc::CLONE_NEWNS))?;
            }
            if let Some(root) = fd(&self.root) {
                check(libc::fchdir(root))?;
                check(libc::chroot(c".".as_ptr()))?;
            }
            check(libc::chdir(cwd.as_ptr()))?;
            check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
            if libc::getppid() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        Ok(())
    }
}
