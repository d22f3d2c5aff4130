//! The store under kill -9: eight writers, a compactor, checkpoints and falling floors, and an outside ledger of what was
//! acknowledged.
//!
//! Each round lets the writers run, kills the server at a random moment, starts it on the same data (now and then killed
//! once more while it starts), and holds everything against the ledger: see [`ledger`].

mod client;
mod ledger;
mod writers;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::Client;
use ledger::Ledger;
use listwatch_integration_tests::{Server, eventually, seed};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const WRITERS: usize = 8;

/// Small numbers instead of the usual large ones, so that every round meets checkpoints, full segments and floors that
/// move.
const FLAGS: &[&str] = &[
    "--checkpoint-interval=30ms",
    "--checkpoint-log-bytes=262144",
    "--log-segment-bytes=1048576",
    "--history-retention=0s",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_kills_lose_nothing_that_was_acknowledged() -> anyhow::Result<()> {
    let rounds: u64 = std::env::var("LW_CRASH_ROUNDS").ok().map_or(Ok(100), |text| text.parse())?;
    let mut random = StdRng::seed_from_u64(seed("--test crash"));
    let mut server = Server::start(FLAGS)?;
    let mut ledger = Ledger::new(WRITERS);
    for round in 0..rounds {
        let client = Client::connect(&server.endpoint()).await?;
        let acknowledged = Arc::new(AtomicU64::new(0));
        let tasks = writers::start(&client, &ledger, random.random(), &acknowledged);
        let compactor = writers::compact(&client, &ledger, random.random());
        let enough = random.random_range(20..300);
        eventually(Duration::from_secs(30), "writes are acknowledged", async || {
            let seen = acknowledged.load(Ordering::Relaxed);
            if seen >= enough { Ok(()) } else { Err(format!("{seen} of {enough} in round {round}")) }
        })
        .await;
        server.process().kill();
        if random.random_bool(0.2) {
            server.kill_while_starting(Duration::from_millis(random.random_range(1..60)))?;
        }
        server.kill_and_restart()?;
        for task in tasks {
            ledger.take(task.await?);
        }
        ledger.take_compactions(compactor.await?);
        let client = Client::connect(&server.endpoint()).await?;
        ledger.verify(&client).await.map_err(|error| error.context(format!("round {round}")))?;
    }
    println!("{}", ledger.summary());
    assert!(ledger.compactions() as u64 * 4 >= rounds, "compactions ran");
    // The first segment goes only after checkpoints, compactions and floors have all passed it.
    let first = server.data_dir().join("log/0000000000000001.seg");
    assert!(rounds < 10 || !first.exists(), "nothing was ever checkpointed and compacted");
    server.stop_and_restart()?;
    ledger.verify_all(&Client::connect(&server.endpoint()).await?).await
}
