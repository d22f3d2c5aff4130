//! How a housekeeping thread is woken and ended.

use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Rung when there may be something to do. A ring before the wait is not lost.
#[derive(Debug, Default)]
pub struct Bell {
    state: Mutex<State>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct State {
    rings: bool,
    stopped: bool,
}

impl Bell {
    /// Wakes the thread.
    pub fn ring(&self) {
        self.state.lock().rings = true;
        self.rung.notify_all();
    }

    /// Tells the thread to end.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.rung.notify_all();
    }

    /// Waits for a ring, at most so long; false if the thread is to end.
    pub fn wait(&self, at_most: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        if !state.rings && !state.stopped {
            match at_most {
                Some(at_most) => drop(self.rung.wait_for(&mut state, at_most)),
                None => self.rung.wait(&mut state),
            }
        }
        state.rings = false;
        !state.stopped
    }
}

/// Ends threads: tells them, then joins them.
pub(in crate::storage) fn join(name: &str, thread: JoinHandle<()>) {
    // A thread that drops the last handle of its engine cannot wait for itself.
    if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
        tracing::error!(name, "a housekeeping thread panicked");
    }
}
