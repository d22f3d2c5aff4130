//! The clients that run until the server dies under them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinHandle;

use crate::client::{Changes, Client};
use crate::ledger::Ledger;

/// Keys of the transaction that must be whole or absent.
const TRANSACTION_KEYS: usize = 50;

/// Keys that a writer puts and deletes one by one.
const SINGLE_KEYS: usize = 20;

/// What one writer knows when its connection breaks.
pub(crate) struct Report {
    pub(crate) writer: usize,
    /// Acknowledged writes: revision and changes.
    pub(crate) acknowledged: Vec<(i64, Changes)>,
    /// The write that was not answered: it may have happened or not.
    pub(crate) unanswered: Option<Changes>,
    /// Leases that were granted or are being put on a key, each with its one key.
    pub(crate) leased: Vec<(i64, Bytes)>,
}

/// What the compactor knows when its connection breaks.
#[derive(Default)]
pub(crate) struct Compactions {
    pub(crate) acknowledged: Vec<i64>,
    pub(crate) unanswered: Option<i64>,
}

/// Starts the writers; each counts its acknowledged writes in `acknowledged`.
pub(crate) fn start(
    client: &Client,
    ledger: &Ledger,
    seed: u64,
    acknowledged: &Arc<AtomicU64>,
) -> Vec<JoinHandle<Report>> {
    let start = |writer: usize| {
        let (client, acknowledged) = (client.clone(), Arc::clone(acknowledged));
        let mut random = StdRng::seed_from_u64(seed ^ (writer as u64) << 56);
        // A writer only deletes what is there, so that every acknowledged write has a revision of its own.
        let mut alive: Vec<bool> = (0..SINGLE_KEYS).map(|key| ledger.is_alive(&single_key(writer, key))).collect();
        let first = ledger.next_number(writer);
        let mut leased = ledger.leases_of(writer);
        tokio::spawn(async move {
            let mut report = Report { writer, acknowledged: Vec::new(), unanswered: None, leased: Vec::new() };
            let mut client = client;
            for number in first.. {
                if random.random_bool(0.1) {
                    let done = lease(&mut client, &mut random, &mut leased, &mut report, number).await;
                    if done.is_err() {
                        break;
                    }
                    continue;
                }
                let (changes, outcome) = write(&mut client, &mut random, &mut alive, writer, number).await;
                match outcome {
                    Ok(revision) => report.acknowledged.push((revision, changes)),
                    Err(_) => {
                        report.unanswered = Some(changes);
                        break;
                    }
                }
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            report
        })
    };
    (0..ledger.writers()).map(start).collect()
}

async fn write(
    client: &mut Client,
    random: &mut StdRng,
    alive: &mut [bool],
    writer: usize,
    number: u64,
) -> (Changes, Result<i64, tonic::Status>) {
    let padding = if random.random_bool(0.02) { 150_000 } else { random.random_range(0..3_000) };
    let value = Bytes::from(format!("{writer}:{number}:{}", "x".repeat(padding)));
    if random.random_bool(0.2) {
        let short = Bytes::from(format!("{writer}:{number}"));
        let key = |index| Bytes::from(format!("transaction/{writer}/{index:02}"));
        let changes: Changes = (0..TRANSACTION_KEYS).map(|index| (key(index), Some(short.clone()))).collect();
        let outcome = client.write(&changes).await;
        return (changes, outcome);
    }
    let index = random.random_range(0..SINGLE_KEYS);
    let key = single_key(writer, index);
    if alive[index] && random.random_bool(0.2) {
        alive[index] = false;
        let changes = Changes::from([(key, None)]);
        let outcome = client.write(&changes).await;
        return (changes, outcome);
    }
    alive[index] = true;
    let outcome = client.put(&key, &value).await;
    (Changes::from([(key, Some(value))]), outcome)
}

/// Puts a key on a new lease, or ends a lease of before.
async fn lease(
    client: &mut Client,
    random: &mut StdRng,
    leased: &mut Vec<(i64, Bytes)>,
    report: &mut Report,
    number: u64,
) -> Result<(), tonic::Status> {
    if !leased.is_empty() && random.random_bool(0.4) {
        let (id, key) = leased.swap_remove(random.random_range(0..leased.len()));
        report.unanswered = Some(Changes::from([(key, None)]));
        let revision = client.revoke(id).await?;
        report.acknowledged.extend(report.unanswered.take().map(|changes| (revision, changes)));
        return Ok(());
    }
    let id = client.grant().await?;
    let writer = report.writer;
    let (key, value) = (Bytes::from(format!("leased/{writer}/{number}")), Bytes::from(format!("{writer}:{number}")));
    report.leased.push((id, key.clone()));
    leased.push((id, key.clone()));
    report.unanswered = Some(Changes::from([(key.clone(), Some(value.clone()))]));
    let revision = client.put_leased(&key, &value, id).await?;
    report.acknowledged.extend(report.unanswered.take().map(|changes| (revision, changes)));
    Ok(())
}

fn single_key(writer: usize, index: usize) -> Bytes {
    Bytes::from(format!("single/{writer}/{index:02}"))
}

/// Starts the compactor: it compacts, step by step, up to what the ledger has verified.
pub(crate) fn compact(client: &Client, ledger: &Ledger, seed: u64) -> JoinHandle<Compactions> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut client = client.clone();
    let (compacted, verified) = (ledger.compacted(), ledger.verified());
    tokio::spawn(async move {
        let mut report = Compactions::default();
        let mut at = compacted;
        while at < verified {
            at = if random.random_bool(0.5) { verified } else { random.random_range(at + 1..=verified) };
            match client.compact(at, random.random_bool(0.5)).await {
                Ok(()) => report.acknowledged.push(at),
                // Compacted already: the unanswered one of an earlier round had happened.
                Err(status) if status.code() == tonic::Code::OutOfRange => continue,
                Err(_) => {
                    report.unanswered = Some(at);
                    break;
                }
            }
        }
        report
    })
}
