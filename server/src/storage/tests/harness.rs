//! Engines for tests.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::ManualClock;
use crate::storage::state::MemoryState;
use crate::storage::{
    Durability, Engine, EngineOptions, Error, Event, EventKind, KeyRange, LogSizes, Op, Origin, PutOp, RangeOp, Seams,
    SimDisk, Txn, TxnResult, WatchError, WatchMessage, WatchOptions, Watcher,
};

/// How long a test waits for what must happen.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// What survives an engine: the disk, the state and the time.
#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) disk: SimDisk,
    pub(super) state: MemoryState,
    pub(super) clock: Arc<ManualClock>,
    pub(super) options: EngineOptions,
}

impl World {
    /// A world whose log has small segments, so that tests meet many.
    pub(super) fn new() -> Self {
        let mut options = EngineOptions::new("/store");
        options.durability = Durability::Sync;
        options.log = LogSizes { first_segment_bytes: 4 << 10, segment_bytes: 16 << 10 };
        options.background = false;
        let clock = ManualClock::new(1_700_000_000_000);
        Self { disk: SimDisk::lying(), state: MemoryState::new(), clock, options }
    }

    pub(super) fn try_open(&self) -> Result<Engine, Error> {
        let seams =
            Seams { disk: Arc::new(self.disk.clone()), state: Arc::new(self.state.clone()), clock: self.clock.clone() };
        Engine::open(self.options.clone(), seams)
    }

    pub(super) fn open(&self) -> Engine {
        self.try_open().expect("the store opens")
    }

    /// Cuts the power and opens again.
    pub(super) fn crash(&mut self, seed: u64) -> Result<Engine, Error> {
        self.disk.crash(seed);
        self.state = self.state.crash((seed % 7) as usize);
        self.try_open()
    }
}

pub(super) fn put(engine: &Engine, key: &str, value: &str) -> i64 {
    commit(engine, Txn::put(key.to_owned(), value.to_owned())).revision
}

pub(super) fn put_leased(engine: &Engine, key: &str, lease: i64) -> Result<i64, Error> {
    let op = PutOp { lease, ..PutOp::new(key.to_owned(), "leased") };
    engine.commit(Txn::of(Op::Put(op)), &Origin::default()).map(|result| result.revision)
}

pub(super) fn delete(engine: &Engine, key: &str) -> i64 {
    commit(engine, Txn::delete(KeyRange::single(key.to_owned()))).revision
}

pub(super) fn commit(engine: &Engine, txn: Txn) -> TxnResult {
    engine.commit(txn, &Origin::anonymous()).expect("the transaction is done")
}

/// The value of a key; revision 0 = now.
pub(super) fn get(engine: &Engine, key: &str, revision: i64) -> Option<String> {
    let op = RangeOp { revision, ..RangeOp::get(key.to_owned()) };
    let result = engine.range(&op).expect("the read is answered");
    result.kvs.first().map(|kv| String::from_utf8(kv.value.to_vec()).expect("values are text"))
}

/// One line for each event, for short comparisons: `+key=value@revision` or `-key@revision`, with `<old` before.
pub(super) fn line(event: &Event) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let prev = event.prev.as_ref().map(|prev| format!("<{}", text(&prev.value))).unwrap_or_default();
    match event.kind {
        EventKind::Put => {
            format!("+{}={}@{}{prev}", text(&event.kv.key), text(&event.kv.value), event.kv.mod_revision)
        }
        EventKind::Delete => format!("-{}@{}{prev}", text(&event.kv.key), event.kv.mod_revision),
    }
}

pub(super) fn watch(engine: &Engine, range: KeyRange, start: i64) -> Watcher {
    engine.watch(WatchOptions::new(range, start)).expect("the watch begins")
}

/// The next message's events as lines.
pub(super) async fn next(watcher: &mut Watcher) -> Result<(i64, Vec<String>), WatchError> {
    let next = tokio::time::timeout(PATIENCE, watcher.next()).await.expect("an event comes in time");
    let WatchMessage::Events { revision, events } = next?;
    Ok((revision, events.iter().map(|event| line(event)).collect()))
}

/// So many events as lines, over as many messages as it takes.
pub(super) async fn take(watcher: &mut Watcher, count: usize) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.len() < count {
        lines.extend(next(watcher).await.expect("the watch goes on").1);
    }
    lines
}
