//! How far the state is behind the log, and who waits for what: the checkpointer for work, writers for room.
//!
//! Invariants: writers wait only while the backlog is above its limit and the checkpointer is at work; nobody waits once
//! it is stopped.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::storage::Error;

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
    /// Nobody works and nobody waits.
    stopped: bool,
    /// The store closes: what is under way is left as it is.
    closing: bool,
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

    /// The checkpointer's sleep: until there is work, or `sleep` has passed; `None` sleeps until something happens.
    /// Without `seen_dirty`, bytes in the backlog end it at once: the sleep was reckoned without them. May wake for
    /// nothing, as [`Call::Time`].
    pub fn sleep(&self, sleep: Option<Duration>, seen_dirty: bool) -> Call {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return Call::Stop;
            }
            if state.wanted > state.done || state.bytes >= self.options.log_bytes {
                return Call::Work(state.wanted);
            }
            if !seen_dirty && state.bytes > 0 {
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
        let mut state = self.state.lock();
        (state.stopped, state.closing) = (true, true);
        self.changed.notify_all();
    }

    /// Asked between two batches, so that a store closes without waiting for a long checkpoint.
    ///
    /// # Errors
    /// [`Error::Closed`] once the store closes.
    pub fn check_open(&self) -> Result<(), Error> {
        if self.state.lock().closing { Err(Error::Closed) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn backlog(bytes: u64) -> Backlog {
        let options = CheckpointOptions { log_bytes: 10, log_bytes_max: 100, ..CheckpointOptions::default() };
        Backlog::new(options, bytes, true)
    }

    #[test]
    fn writers_wait_for_room_and_no_longer() {
        let backlog = backlog(99);
        backlog.wait_for_room();
        backlog.add(1);
        thread::scope(|scope| {
            let writer = scope.spawn(|| backlog.wait_for_room());
            assert_eq!(backlog.sleep(None, false), Call::Work(0));
            assert!(!writer.is_finished());
            backlog.remove(1);
            writer.join().expect("the writer goes on");
        });
        backlog.add(50);
        thread::scope(|scope| {
            scope.spawn(|| backlog.wait_for_room());
            backlog.stop();
        });
        assert_eq!(backlog.sleep(None, false), Call::Stop);
    }

    #[test]
    fn a_round_is_done_only_if_it_began_after_it_was_wanted() {
        let backlog = backlog(0);
        let first = backlog.want();
        let Call::Work(under_way) = backlog.sleep(None, false) else { panic!("there is work") };
        let second = backlog.want();
        backlog.done(under_way);
        backlog.wait_done(first);
        assert_eq!(backlog.sleep(None, false), Call::Work(second), "the one under way does not count");
        backlog.done(second);
        backlog.wait_done(second);
        assert_eq!(backlog.sleep(Some(Duration::ZERO), false), Call::Time(second));
    }

    #[test]
    fn the_first_bytes_wake_a_sleeper_so_that_the_interval_begins() {
        let backlog = backlog(0);
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| backlog.sleep(None, false));
            backlog.add(1);
            assert_eq!(sleeper.join().expect("it wakes"), Call::Time(0));
        });
    }

    #[test]
    fn without_a_thread_nobody_waits_and_work_goes_on_until_the_end() {
        let backlog = Backlog::new(CheckpointOptions::default(), u64::MAX, false);
        backlog.wait_for_room();
        assert!(backlog.check_open().is_ok());
        backlog.stop();
        assert!(matches!(backlog.check_open(), Err(Error::Closed)));
    }
}
