//! The lifeline: every process of a cluster holds the far end of one socket, the supervisor alone the near end.
//!
//! When the near end is shut or its holder dies, every far end reads its end: the cluster is gone. When every far end is
//! closed, the near end reads its own: every process is gone, the shims of the pods included. A pipe would tell the
//! first but not the second.
//!
//! Invariant: the near end is close-on-exec and in no child.

use std::{
    io::{ErrorKind, Read},
    net::Shutdown,
    os::{
        fd::{AsRawFd, RawFd},
        unix::net::UnixStream,
    },
    time::{Duration, Instant},
};

use anyhow::Context;

/// Both ends, as the supervisor holds them while it still starts processes.
#[derive(Debug)]
pub(crate) struct Lifeline {
    near: UnixStream,
    far: UnixStream,
}

impl Lifeline {
    /// A fresh pair, both ends close-on-exec.
    pub(crate) fn new() -> anyhow::Result<Lifeline> {
        let (near, far) = UnixStream::pair().context("make the cluster's lifeline")?;
        Ok(Lifeline { near, far })
    }

    /// The far end, to be kept open over the start of a process.
    pub(crate) fn far_fd(&self) -> RawFd {
        self.far.as_raw_fd()
    }

    /// Tells every process that the cluster is gone, and waits until none is left.
    ///
    /// Returns whether all are gone within the limit.
    pub(crate) fn cut_and_wait(self, limit: Duration) -> bool {
        let Lifeline { mut near, far } = self;
        drop(far);
        let _ = near.shutdown(Shutdown::Write);
        let _ = near.set_read_timeout(Some(limit));
        let deadline = Instant::now() + limit;
        loop {
            // Nobody writes into a far end: a read returns when the last of them is closed, when the limit has passed, or
            // when a signal came, which changes nothing about what is waited for.
            match near.read(&mut [0u8; 1]) {
                Ok(0) => return true,
                Err(error) if error.kind() == ErrorKind::Interrupted && Instant::now() < deadline => {}
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn both_sides_hear_of_the_end_of_the_other() {
        let line = Lifeline::new().expect("a pair");
        let mut child = line.far.try_clone().expect("a copy, as a child has one");
        let waiting = std::thread::spawn(move || {
            // The child reads the end, does what it must, and goes.
            assert_eq!(child.read(&mut [0u8; 1]).expect("readable"), 0);
        });
        assert!(line.cut_and_wait(Duration::from_secs(10)));
        waiting.join().expect("the child saw the end");
    }

    #[test]
    fn a_process_that_stays_is_noticed() {
        let line = Lifeline::new().expect("a pair");
        let _child = line.far.try_clone().expect("a copy");
        assert!(!line.cut_and_wait(Duration::from_millis(20)));
    }
}
