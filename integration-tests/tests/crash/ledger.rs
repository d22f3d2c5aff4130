//! What was acknowledged, kept outside the store, and the checks after each restart.
//!
//! 1. The revision is never lower than one that was answered.
//! 2. The history from the last verified revision on has no hole, and each revision is either exactly an acknowledged
//!    write at exactly its revision, or exactly a write that was not answered, each of those at most once. So nothing
//!    acknowledged is missing, no revision is used twice, and a transaction is there whole or not at all.
//! 3. The current content is what the history adds up to, with create and mod revisions and versions.
//! 4. Each lease lives as long as its key, with the time it was granted.
//! 5. An acknowledged compaction holds, and reads at every kept snapshot above it give what was read then.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use listwatch_proto::etcd::mvccpb::KeyValue;

use crate::client::{Changes, Client};
use crate::writers::{Compactions, Report};

/// Snapshots of earlier rounds that are read again.
const SNAPSHOTS_MAX: usize = 4;

type Content = BTreeMap<Bytes, KeyValue>;

/// The outside ledger.
pub(crate) struct Ledger {
    /// Numbers given to each writer's writes so far.
    numbers: Vec<u64>,
    /// Not yet verified.
    acknowledged: BTreeMap<i64, Changes>,
    unanswered: Vec<Changes>,
    /// Everything at or below this revision was verified.
    verified: i64,
    content: Content,
    /// The lease of each key that ever hung on one.
    leases: BTreeMap<Bytes, i64>,
    /// The keys whose leases are to be looked at: those put or deleted since the last time.
    touched: BTreeSet<Bytes>,
    snapshots: BTreeMap<i64, Content>,
    compacted: i64,
    compacting: Option<i64>,
    compactions: usize,
    writes: usize,
    late: usize,
}

impl Ledger {
    pub(crate) fn new(writers: usize) -> Ledger {
        Ledger {
            numbers: vec![0; writers],
            acknowledged: BTreeMap::new(),
            unanswered: Vec::new(),
            verified: 1,
            content: Content::new(),
            leases: BTreeMap::new(),
            touched: BTreeSet::new(),
            snapshots: BTreeMap::new(),
            compacted: 0,
            compacting: None,
            compactions: 0,
            writes: 0,
            late: 0,
        }
    }

    pub(crate) fn writers(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn next_number(&self, writer: usize) -> u64 {
        self.numbers[writer]
    }

    /// The leases that a writer may end: those whose key is there.
    pub(crate) fn leases_of(&self, writer: usize) -> Vec<(i64, Bytes)> {
        let prefix = format!("leased/{writer}/");
        let alive = self.leases.iter().filter(|(key, _)| key.starts_with(prefix.as_bytes()) && self.is_alive(key));
        alive.map(|(key, id)| (*id, key.clone())).collect()
    }

    pub(crate) fn is_alive(&self, key: &Bytes) -> bool {
        self.content.contains_key(key)
    }

    pub(crate) fn verified(&self) -> i64 {
        self.verified
    }

    pub(crate) fn compacted(&self) -> i64 {
        self.compacted
    }

    pub(crate) fn compactions(&self) -> usize {
        self.compactions
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "{} acknowledged writes, {} unanswered ones that had happened, {} compactions, up to revision {}",
            self.writes, self.late, self.compactions, self.verified,
        )
    }

    /// Takes what a writer knows.
    pub(crate) fn take(&mut self, report: Report) {
        self.numbers[report.writer] += report.acknowledged.len() as u64 + 1;
        for (revision, changes) in report.acknowledged {
            let other = self.acknowledged.insert(revision, changes);
            assert!(other.is_none(), "revision {revision} was given to two writes");
            assert!(revision > self.verified, "revision {revision} was used before {}", self.verified);
            self.writes += 1;
        }
        self.unanswered.extend(report.unanswered);
        self.touched.extend(report.leased.iter().map(|(_, key)| key.clone()));
        self.leases.extend(report.leased.into_iter().map(|(id, key)| (key, id)));
    }

    /// Takes what the compactor knows.
    pub(crate) fn take_compactions(&mut self, report: Compactions) {
        self.compactions += report.acknowledged.len();
        self.compacted = report.acknowledged.into_iter().max().unwrap_or_default().max(self.compacted);
        self.compacting = report.unanswered;
    }

    /// As [`Ledger::verify`], with every lease there is.
    pub(crate) async fn verify_all(&mut self, client: &Client) -> anyhow::Result<()> {
        self.touched.extend(self.leases.keys().cloned());
        self.verify(client).await
    }

    /// Holds the store against the ledger; afterwards everything up to its revision is verified.
    pub(crate) async fn verify(&mut self, client: &Client) -> anyhow::Result<()> {
        let now = client.read_all(0).await?;
        let highest = self.acknowledged.last_key_value().map_or(0, |(&revision, _)| revision).max(self.verified);
        anyhow::ensure!(now.revision >= highest, "revision {} after {highest} was answered", now.revision);
        let history = client.history(self.verified + 1, now.revision).await?;
        self.check_history(&history, now.revision)?;
        for (revision, changes) in history {
            self.apply(revision, changes);
        }
        self.verified = now.revision;
        compare("now", &now.kvs, &self.content)?;
        self.check_leases(client).await?;
        self.check_floor(client).await?;
        self.snapshots.insert(self.verified, self.content.clone());
        while self.snapshots.len() > SNAPSHOTS_MAX {
            self.snapshots.pop_first();
        }
        Ok(())
    }

    fn check_history(&mut self, history: &BTreeMap<i64, Changes>, last: i64) -> anyhow::Result<()> {
        let mut unanswered = std::mem::take(&mut self.unanswered);
        for revision in self.verified + 1..=last {
            let told = history.get(&revision).ok_or_else(|| anyhow::anyhow!("revision {revision} is missing"))?;
            if let Some(expected) = self.acknowledged.remove(&revision) {
                anyhow::ensure!(*told == expected, "revision {revision} is not what was acknowledged: {}", show(told));
                continue;
            }
            let known = unanswered.iter().position(|changes| changes == told);
            let known = known.ok_or_else(|| anyhow::anyhow!("revision {revision} is nobody's: {}", show(told)))?;
            unanswered.swap_remove(known);
            self.late += 1;
        }
        let lost: Vec<_> = self.acknowledged.keys().collect();
        anyhow::ensure!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        Ok(())
    }

    fn apply(&mut self, revision: i64, changes: Changes) {
        for (key, value) in changes {
            if self.leases.contains_key(&key) {
                self.touched.insert(key.clone());
            }
            let Some(value) = value else {
                self.content.remove(&key);
                continue;
            };
            let lease = self.leases.get(&key).copied().unwrap_or_default();
            let kv = self.content.entry(key.clone()).or_insert_with(|| KeyValue {
                key,
                create_revision: revision,
                lease,
                ..KeyValue::default()
            });
            kv.value = value;
            kv.mod_revision = revision;
            kv.version += 1;
        }
    }

    /// A lease lives exactly as long as its key, once that was put; a grant whose put was not reached has no key.
    async fn check_leases(&mut self, client: &Client) -> anyhow::Result<()> {
        let mut gone = Vec::new();
        let looked_at = std::mem::take(&mut self.touched);
        for (key, &id) in self.leases.iter().filter(|(key, _)| looked_at.contains(*key)) {
            let keys = client.lease_keys(id).await?;
            let alive = self.content.contains_key(key);
            match keys {
                Some(keys) if alive => anyhow::ensure!(keys == [key], "lease {id} has {keys:?} instead of {key:?}"),
                Some(keys) => anyhow::ensure!(keys.is_empty(), "lease {id} has {keys:?}, which are not there"),
                None => {
                    anyhow::ensure!(!alive, "lease {id} of {key:?} is lost");
                    gone.push(key.clone());
                }
            }
        }
        for key in &gone {
            self.leases.remove(key);
        }
        Ok(())
    }

    async fn check_floor(&mut self, client: &Client) -> anyhow::Result<()> {
        let compacted = |status: &tonic::Status| status.code() == tonic::Code::OutOfRange;
        let mut floor = self.compacted;
        // Whether the unanswered compaction has happened shows in a read just below it.
        if let Some(asked) = self.compacting.take().filter(|&asked| asked > floor) {
            let below = client.read_all((asked - 1).max(1)).await;
            if below.is_err_and(|status| compacted(&status)) {
                floor = asked;
            }
        }
        if floor > 1 {
            let below = client.read_all(floor - 1).await;
            anyhow::ensure!(below.is_err_and(|status| compacted(&status)), "{} can be read below {floor}", floor - 1);
        }
        self.compacted = floor;
        for (&revision, content) in self.snapshots.range(floor..) {
            compare(&format!("at {revision}, floor {floor}"), &client.read_all(revision).await?.kvs, content)?;
        }
        Ok(())
    }
}

fn compare(when: &str, found: &Content, expected: &Content) -> anyhow::Result<()> {
    for (key, kv) in expected {
        let found = found.get(key).ok_or_else(|| anyhow::anyhow!("{key:?} is missing {when}"))?;
        anyhow::ensure!(
            found == kv,
            "{key:?} {when} is of {} (created {}, version {}), expected of {} ({}, {}); values equal: {}",
            found.mod_revision,
            found.create_revision,
            found.version,
            kv.mod_revision,
            kv.create_revision,
            kv.version,
            found.value == kv.value,
        );
    }
    let extra = found.keys().find(|key| !expected.contains_key(*key));
    anyhow::ensure!(extra.is_none(), "{extra:?} is there {when} and should not be");
    Ok(())
}

fn show(changes: &Changes) -> String {
    let names = changes.iter().map(|(key, value)| {
        let value = value
            .as_ref()
            .map_or("deleted".to_owned(), |value| String::from_utf8_lossy(&value[..value.len().min(20)]).into_owned());
        format!("{}={value}", String::from_utf8_lossy(key))
    });
    names.take(4).collect::<Vec<_>>().join(" ")
}
