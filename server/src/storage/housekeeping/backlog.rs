//! How far the state is behind the log, and who waits for what: the checkpointer for work, writers for room.
//!
//! Invariants: writers wait only while the backlog is above its limit and the checkpointer is at work; nobody waits once
//! it is stopped.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// When the state follows the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// Bytes of log that the state does not have yet, at which a checkpoint is made.
    pub log_bytes: u64,
    /// The longest time that something stays out of the state.
    pub interval: Duration,
    /// Bytes of log that the state does not have yet, at which writers wait.
    pub log_bytes_max: u64,
    /// How long history stays readable for the registry after a compaction.
    pub retention: Duration,
}

impl Default for CheckpointOptions {
    fn default() -> Self {
        Self {
            log_bytes: 32 << 20,
            interval: Duration::from_secs(10),
            log_bytes_max: 256 << 20,
            retention: Duration::from_secs(300),
        }
    }
}

/// Counts the bytes of log that the state does not have yet.
#[derive(Debug)]
pub struct Backlog {
    options: CheckpointOptions,
    // Held for a few instructions only; the innermost of all locks.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    /// Rounds asked for, and the highest that is done.
    wanted: u64,
    done: u64,
    stopped: bool,
}

/// Why the checkpointer wakes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// There is enough to do, or somebody waits for it; the number is for [`Backlog::done`].
    Work(u64),
    /// The time it wanted to sleep has passed.
    Time(u64),
    /// The store closes.
    Stop,
}

impl Backlog {
    /// A backlog of so many bytes, as found at a start.
    /// Without a checkpointer at work (`background`) nobody ever waits.
    pub fn new(options: CheckpointOptions, bytes: u64, background: bool) -> Self {
        let stopped = !background;
        let state = State { bytes, stopped, ..State::default() };
        Self { options, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// When the state follows the log.
    pub fn options(&self) -> &CheckpointOptions {
        &self.options
    }

    /// A frame of so many bytes was written.
    pub fn add(&self, bytes: u64) {
        let mut state = self.state.lock();
        let (before, enough) = (state.bytes, self.options.log_bytes);
        state.bytes += bytes;
        // The first bytes start the interval, the last ones end it early.
        if before == 0 || (before < enough && state.bytes >= enough) {
            self.changed.notify_all();
        }
    }

    /// So many bytes are in the state now.
    pub fn remove(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.bytes = state.bytes.saturating_sub(bytes);
        self.changed.notify_all();
    }

    /// Bytes of log that the state does not have yet.
    pub fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }

    /// Waits while the backlog is above its limit. Holds no lock that the checkpointer needs.
    pub fn wait_for_room(&self) {
        let mut state = self.state.lock();
        while state.bytes >= self.options.log_bytes_max && !state.stopped {
            self.changed.wait(&mut state);
        }
    }

    /// Asks for a round of work that begins after this call; answers its number.
    pub fn want(&self) -> u64 {
        let mut state = self.state.lock();
        state.wanted += 1;
        self.changed.notify_all();
        state.wanted
    }

    /// Waits until that round is done, or the checkpointer has stopped.
    pub fn wait_done(&self, round: u64) {
        let mut state = self.state.lock();
        while state.done < round && !state.stopped {
            self.changed.wait(&mut state);
        }
    }

    /// All rounds up to this one are done.
    pub fn done(&self, round: u64) {
        let mut state = self.state.lock();
        state.done = state.done.max(round);
        self.changed.notify_all();
    }

    /// The checkpointer's sleep: until there is work, or `sleep` has passed since the backlog was last empty; `None`
    /// sleeps until something happens. May wake for nothing, as [`Call::Time`].
    pub fn sleep(&self, sleep: Option<Duration>) -> Call {
        let mut state = self.state.lock();
        let was_empty = state.bytes == 0;
        loop {
            if state.stopped {
                return Call::Stop;
            }
            if state.wanted > state.done || state.bytes >= self.options.log_bytes {
                return Call::Work(state.wanted);
            }
            if was_empty && state.bytes > 0 {
                return Call::Time(state.wanted);
            }
            match sleep {
                Some(sleep) => {
                    if self.changed.wait_for(&mut state, sleep).timed_out() {
                        return Call::Time(state.wanted);
                    }
                }
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Ends the checkpointer and all waiting.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
    }
}
