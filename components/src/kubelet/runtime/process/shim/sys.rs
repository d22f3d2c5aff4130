//! The system calls that have no safe form.

use std::{
    fs::File,
    io::{self, Read},
    mem::MaybeUninit,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd},
};

use rustix::process::{Signal, WaitOptions, WaitStatus};

/// The signals a shim listens to, delivered as reads.
#[derive(Debug)]
pub(super) struct Signals(File);

impl Signals {
    /// Blocks the signals for this thread, and so for the program, which has no other, and opens the descriptor.
    pub(super) fn open() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initialises the set before it is read.
        let fd = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut()) != 0 {
                return Err(io::Error::last_os_error());
            }
            libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made above and belongs to nobody else.
        Ok(Signals(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The signals that have come since the last call.
    pub(super) fn take(&mut self) -> io::Result<Vec<i32>> {
        const SIZE: usize = size_of::<libc::signalfd_siginfo>();
        let mut signals = Vec::new();
        let mut buffer = [0u8; SIZE * 8];
        loop {
            match self.0.read(&mut buffer) {
                // The first four bytes of each record are the number (`ssi_signo`).
                Ok(n) => signals.extend(
                    buffer[..n]
                        .chunks_exact(SIZE)
                        .map(|record| i32::from_ne_bytes([record[0], record[1], record[2], record[3]])),
                ),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(signals),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// For poll.
    pub(super) fn as_file(&self) -> &File {
        &self.0
    }
}

/// What a child does between fork and exec: a session of its own, death with its parent, a clean signal mask, and the
/// container's lock kept open. Only calls that are safe after a fork.
pub(super) fn before_exec(lock: RawFd, parent: i32) -> io::Result<()> {
    rustix::process::setsid()?;
    // SAFETY: plain system calls on values of this frame.
    unsafe {
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut());
        if libc::fcntl(lock, libc::F_SETFD, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Orphans among the descendants become children of this process, so that they can be found and reaped.
pub(super) fn adopt_orphans() -> io::Result<()> {
    // SAFETY: a plain system call.
    match unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The name that process lists show.
pub(super) fn set_process_name(name: &std::ffi::CStr) {
    // SAFETY: the text ends with a zero and is only read. A failure costs a nicer name.
    unsafe {
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
    }
}

/// An inherited descriptor, by its number in the environment; `None` if there is no open one.
pub(super) fn inherited(fd: RawFd) -> io::Result<Option<OwnedFd>> {
    if fd <= 2 {
        return Ok(None);
    }
    // SAFETY: borrowed only for the duration of the duplicate, which fails if the number is not open.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    match borrowed.try_clone_to_owned() {
        Ok(copy) => {
            // SAFETY: the number was inherited for this use; nothing else in the program owns it.
            drop(unsafe { OwnedFd::from_raw_fd(fd) });
            Ok(Some(copy))
        }
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts `/dev/null` in the place of a standard descriptor and gives back what was there.
pub(super) fn take_standard(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: standard descriptors are open for the life of the program; std sees to that at start.
    let taken = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    // SAFETY: plain system call on open descriptors.
    if unsafe { libc::dup2(null.as_raw_fd(), fd) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(taken)
}

/// The next child that has ended.
#[derive(Debug)]
pub(super) enum Reaped {
    /// This one, so.
    Child(i32, WaitStatus),
    /// None at the moment, but there are children.
    NoneYet,
    /// There are no children.
    NoChildren,
}

/// Reaps one child if one has ended.
pub(super) fn reap() -> io::Result<Reaped> {
    match rustix::process::wait(WaitOptions::NOHANG) {
        Ok(Some((pid, status))) => Ok(Reaped::Child(pid.as_raw_nonzero().get(), status)),
        Ok(None) => Ok(Reaped::NoneYet),
        Err(rustix::io::Errno::CHILD) => Ok(Reaped::NoChildren),
        Err(error) => Err(error.into()),
    }
}

/// Kills all children that are still there. The caller reaps, and no number is used again before that.
pub(super) fn kill_children() -> io::Result<()> {
    let pid = std::process::id();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    for child in list.split_ascii_whitespace().filter_map(|word| word.parse().ok()) {
        if let Some(child) = rustix::process::Pid::from_raw(child) {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
    }
    Ok(())
}
