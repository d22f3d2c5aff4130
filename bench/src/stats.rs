//! What a load measured.

use std::fmt;
use std::time::Duration;

/// One measured stretch of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Operations done.
    pub(crate) operations: u64,
    /// How long it took.
    pub(crate) elapsed: Duration,
    /// Each operation's latency in microseconds, sorted.
    pub(crate) latencies_us: Vec<u32>,
    /// What the server spent meanwhile, if it is known.
    pub(crate) server_cpu: Option<Duration>,
    /// What the client spent meanwhile, if it is known.
    pub(crate) client_cpu: Option<Duration>,
    /// The server's resident memory at the end in bytes, if it is known.
    pub(crate) server_bytes: Option<u64>,
}

impl Measured {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// The latency in milliseconds that this share of the operations stayed below.
    pub(crate) fn latency_ms(&self, share: f64) -> f64 {
        quantile(&self.latencies_us, share) / 1000.0
    }

    /// Microseconds of the server's CPU per operation.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        self.each(self.server_cpu?)
    }

    /// Microseconds of a time per operation.
    fn each(&self, time: Duration) -> Option<f64> {
        (self.operations > 0).then(|| time.as_secs_f64() * 1e6 / self.operations as f64)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0}/s", self.rate())?;
        write!(f, ", {} in {:.2} s", self.operations, self.elapsed.as_secs_f64())?;
        write!(f, ", p50 {:.2} ms, p99 {:.2} ms", self.latency_ms(0.5), self.latency_ms(0.99))?;
        if let Some(cpu) = self.cpu_us() {
            write!(f, ", server CPU {cpu:.0} µs each")?;
        }
        if let Some(cpu) = self.client_cpu.and_then(|time| self.each(time)) {
            write!(f, ", client CPU {cpu:.0} µs")?;
        }
        if let Some(bytes) = self.server_bytes {
            write!(f, ", server holds {} MiB", bytes >> 20)?;
        }
        Ok(())
    }
}

/// The value below which this share of sorted values lies; 0 of none.
fn quantile(sorted: &[u32], share: f64) -> f64 {
    if sorted.is_empty() {
        return 0.0;
    }
    let at = ((sorted.len() - 1) as f64 * share).round() as usize;
    f64::from(sorted[at])
}

/// The middle one of some figures; 0 of none.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => figures[odd / 2],
        even => (figures[even / 2 - 1] + figures[even / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        let measured = Measured { latencies_us: (0..=100).map(|n| n * 1000).collect(), ..Measured::default() };
        assert_eq!((measured.latency_ms(0.5), measured.latency_ms(0.99)), (50.0, 99.0));
    }
}
