//! Pauses that grow.

use std::time::Duration;

/// How a pause grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffPolicy {
    /// The first pause.
    pub first: Duration,
    /// By how much each pause is longer than the one before.
    pub factor: f64,
    /// No pause is longer, jitter apart.
    pub cap: Duration,
    /// Up to this part of the pause is added at random, so that many clients do not come back together.
    pub jitter: f64,
}

/// A pause that grows each time it is asked for.
#[derive(Debug, Clone)]
pub struct Backoff {
    policy: BackoffPolicy,
    next: Duration,
}

impl Backoff {
    /// Begins with the first pause.
    pub fn new(policy: BackoffPolicy) -> Self {
        Backoff { policy, next: policy.first.min(policy.cap) }
    }

    /// The pause to make now.
    pub fn next_delay(&mut self) -> Duration {
        let base = self.next;
        self.next = base.mul_f64(self.policy.factor).min(self.policy.cap);
        base.mul_f64(1.0 + self.policy.jitter * rand::random::<f64>())
    }

    /// Begins again with the first pause.
    pub fn reset(&mut self) {
        self.next = self.policy.first.min(self.policy.cap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap_and_begin_again() {
        let policy = BackoffPolicy {
            first: Duration::from_millis(10),
            factor: 2.0,
            cap: Duration::from_millis(35),
            jitter: 0.0,
        };
        let mut backoff = Backoff::new(policy);
        let pauses: Vec<_> = (0..4).map(|_| backoff.next_delay().as_millis()).collect();
        assert_eq!(pauses, [10, 20, 35, 35]);
        backoff.reset();
        assert_eq!(backoff.next_delay().as_millis(), 10);
    }

    #[test]
    fn jitter_only_adds() {
        let policy =
            BackoffPolicy { first: Duration::from_secs(1), factor: 1.0, cap: Duration::from_secs(1), jitter: 0.5 };
        let mut backoff = Backoff::new(policy);
        for _ in 0..100 {
            let pause = backoff.next_delay();
            assert!((1.0..=1.5).contains(&pause.as_secs_f64()), "{pause:?}");
        }
    }
}
