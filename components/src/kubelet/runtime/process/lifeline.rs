//! The kubelet's own look at the cluster's pipe, which it hands on to its shims.

use std::{
    env,
    os::fd::{BorrowedFd, RawFd},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::shim::CLUSTER_PIPE_ENV;

/// The descriptor, if this process was given one.
pub(super) fn fd() -> Option<RawFd> {
    env::var(CLUSTER_PIPE_ENV).ok()?.parse().ok().filter(|fd| *fd > 2)
}

/// Whether the cluster that this process belongs to is gone. A process without the pipe belongs to none.
pub fn has_ended() -> bool {
    let Some(fd) = fd() else { return false };
    // SAFETY: borrowed for one call; the descriptor is open for the life of the process, and if it were not, poll would
    // say so.
    let pipe = unsafe { BorrowedFd::borrow_raw(fd) };
    // Nobody ever writes into it: readable means its end.
    let mut fds = [PollFd::from_borrowed_fd(pipe, PollFlags::IN | PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut fds, Some(&now)), Ok(1..)) && !fds[0].revents().contains(PollFlags::NVAL)
}
