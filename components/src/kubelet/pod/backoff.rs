//! Pauses between tries of one thing, as upstream's: the first try after a failure is made at once, then after 10 s,
//! 20 s, … up to 300 s; after twice the longest pause without a failure all begins anew.

use std::{collections::HashMap, time::Duration};

use jiff::{SignedDuration, Timestamp};

/// How long the pauses are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffLimits {
    /// The first pause.
    pub first: Duration,
    /// The longest.
    pub longest: Duration,
    /// After so long without a failure all begins anew; `None`: after twice the longest pause.
    pub reset: Option<Duration>,
}

/// The pauses of many things, by name. Bounded by the number of containers and images of a pod.
#[derive(Debug)]
pub struct Backoffs {
    limits: BackoffLimits,
    entries: HashMap<String, Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    pause: Duration,
    last: Timestamp,
}

impl Default for BackoffLimits {
    fn default() -> Self {
        BackoffLimits { first: Duration::from_secs(10), longest: Duration::from_secs(300), reset: None }
    }
}

impl Backoffs {
    /// None has failed yet.
    pub fn new(limits: BackoffLimits) -> Self {
        Backoffs { limits, entries: HashMap::new() }
    }

    /// The pause that follows the failure at `failed`, and what is left of it; `None` if it may be tried now.
    pub fn wait(&self, name: &str, failed: Timestamp, now: Timestamp) -> Option<Pause> {
        let entry = self.entries.get(name).filter(|entry| !self.is_over(entry, failed))?;
        let waited = Duration::try_from(now.duration_since(failed)).unwrap_or_default();
        let left = entry.pause.checked_sub(waited).filter(|left| !left.is_zero())?;
        Some(Pause { whole: entry.pause, left })
    }

    /// A try is made after the failure at `failed`: the next pause is twice as long.
    pub fn tried(&mut self, name: &str, failed: Timestamp, now: Timestamp) {
        let pause = match self.entries.get(name).filter(|entry| !self.is_over(entry, failed)) {
            Some(entry) => (entry.pause * 2).min(self.limits.longest),
            None => self.limits.first,
        };
        self.entries.insert(name.to_owned(), Entry { pause, last: now });
    }

    fn is_over(&self, entry: &Entry, failed: Timestamp) -> bool {
        let quiet = self.limits.reset.unwrap_or(self.limits.longest * 2);
        let quiet = SignedDuration::try_from(quiet).unwrap_or(SignedDuration::MAX);
        failed.duration_since(entry.last) > quiet
    }
}

/// A pause that is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// All of it.
    pub whole: Duration,
    /// What is left.
    pub left: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
    }

    #[test]
    fn pauses_double_from_ten_seconds_to_five_minutes() {
        let mut backoffs = Backoffs::new(BackoffLimits::default());
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            // It fails at once after each try.
            let pause = backoffs.wait("c", at(now), at(now)).map_or(0, |pause| pause.whole.as_secs());
            pauses.push(pause);
            let failed = now;
            now += i64::try_from(pause).expect("small");
            assert_eq!(backoffs.wait("c", at(failed), at(now)), None, "the pause is over");
            backoffs.tried("c", at(failed), at(now));
        }
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn what_is_left_counts_from_the_failure() {
        let mut backoffs = Backoffs::new(BackoffLimits::default());
        backoffs.tried("c", at(0), at(0));
        let pause = backoffs.wait("c", at(100), at(104)).expect("a pause");
        assert_eq!((pause.whole.as_secs(), pause.left.as_secs()), (10, 6));
        assert_eq!(backoffs.wait("d", at(100), at(100)), None, "another thing has its own");
    }

    #[test]
    fn ten_quiet_minutes_make_the_next_failure_the_first() {
        let mut backoffs = Backoffs::new(BackoffLimits::default());
        for _ in 0..3 {
            backoffs.tried("c", at(0), at(0));
        }
        assert!(backoffs.wait("c", at(600), at(600)).is_some());
        assert_eq!(backoffs.wait("c", at(601), at(601)), None);
        backoffs.tried("c", at(601), at(601));
        assert_eq!(backoffs.wait("c", at(602), at(602)).map(|pause| pause.whole.as_secs()), Some(10));
    }

    #[test]
    fn the_quiet_time_can_be_told() {
        let limits = BackoffLimits { reset: Some(Duration::from_secs(5)), ..BackoffLimits::default() };
        let mut backoffs = Backoffs::new(limits);
        backoffs.tried("c", at(0), at(0));
        assert!(backoffs.wait("c", at(5), at(5)).is_some());
        assert_eq!(backoffs.wait("c", at(6), at(6)), None);
    }
}
