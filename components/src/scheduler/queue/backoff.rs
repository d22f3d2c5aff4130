//! How long a pod waits after a failed attempt.

use std::time::Duration;

/// Doubling from a first length to a longest one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub initial: Duration,
    /// However many there were.
    pub max: Duration,
}

impl Default for Backoff {
    /// One second, doubling to ten (Kubernetes 1.36).
    fn default() -> Self {
        Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(10) }
    }
}

impl Backoff {
    /// The wait after so many failures; none before the first.
    pub fn after(&self, failures: u32) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.initial.checked_mul(factor).unwrap_or(self.max).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_to_the_longest() {
        let seconds: Vec<u64> = (0..8).map(|n| Backoff::default().after(n).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 10, 10, 10]);
        assert_eq!(Backoff::default().after(u32::MAX).as_secs(), 10);
    }
}
