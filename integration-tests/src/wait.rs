//! Waiting for conditions instead of for time, and the seeds of random tests.

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// Asks again until the condition gives a value; fails the test with `what` after the limit.
///
/// # Panics
/// When the limit has passed; the last refusal is part of the message.
pub async fn eventually<T, E, F>(limit: Duration, what: &str, mut condition: impl FnMut() -> F) -> T
where
    E: std::fmt::Debug,
    F: Future<Output = Result<T, E>>,
{
    let deadline = Instant::now() + limit;
    loop {
        match condition().await {
            Ok(value) => return value,
            Err(refusal) if Instant::now() > deadline => panic!("not within {limit:?}: {what}: {refusal:?}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// The seed of a random test: `SEED` if set, else a fresh one; printed either way, with the command that replays.
pub fn seed(test: &str) -> u64 {
    let seed = std::env::var("SEED").ok().and_then(|text| text.parse().ok()).unwrap_or_else(rand::random);
    println!("seed {seed}: replay with SEED={seed} cargo test -p listwatch-integration-tests {test} -- --nocapture");
    seed
}
