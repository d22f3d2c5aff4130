//! What the engine does with the state, in its plainest form: a log of records, checkpoints, floors, and reads that may
//! use nothing but `cur/`, `base/` and what is left of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::*;

pub(super) fn identity() -> Identity {
    Identity { incarnation: "first".to_owned(), cluster_id: 1, member_id: 2, term: 1 }
}

pub(super) fn dump(state: &dyn State) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    state
        .scan(b"", &mut |key, value| {
            all.insert(key.to_vec(), value.to_vec());
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    all
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Key number, value length; no length deletes.
    Write(u8, Option<usize>),
    Checkpoint,
    /// Moves the floor this many percent of the way to the applied revision.
    Floor(u8),
    Reopen,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        6 => (0usize..40).prop_map(Some),
        1 => (300_000usize..900_000).prop_map(Some),
        3 => Just(None)
    ];
    prop_oneof![
        12 => (0u8..6, len).prop_map(|(key, len)| Step::Write(key, len)),
        3 => Just(Step::Checkpoint),
        2 => (0u8..=100).prop_map(Step::Floor),
        1 => Just(Step::Reopen),
    ]
}

pub(super) struct Model {
    pub(super) state: Arc<dyn State>,
    pub(super) reader: StateReader,
    pub(super) writer: StateWriter,
    /// Every record ever, by revision (one record a revision).
    history: BTreeMap<i64, StateRecord>,
}

impl Model {
    pub(super) fn open(state: Arc<dyn State>) -> Self {
        let (reader, writer) = open_store(Arc::clone(&state), identity).unwrap();
        Model { state, reader, writer, history: BTreeMap::new() }
    }

    /// Closes, opens what `open` gives, checks it as a start does, and finishes a floor advance that was cut.
    pub(super) fn reopen(self, open: impl FnOnce() -> Arc<dyn State>) -> Self {
        let history = self.history;
        drop((self.state, self.reader, self.writer));
        let mut model = Model { history, ..Model::open(open()) };
        model.reader.scan_current(&mut |_| {}).unwrap();
        model.reader.scan_base(&mut |_| {}).unwrap();
        let floor = model.writer.meta().floor;
        if floor.settled < floor.retained {
            model.advance_floor(floor.retained).unwrap();
        }
        model
    }

    pub(super) fn revision(&self) -> i64 {
        self.history.last_key_value().map_or(1, |(&revision, _)| revision)
    }

    pub(super) fn log_starts_at(&self) -> i64 {
        self.writer.meta().floor.settled
    }

    pub(super) fn write_at(&mut self, revision: i64, key: &[u8], value: Option<&[u8]>) {
        let prev = self.newest(key, revision - 1);
        let alive = prev.as_ref().filter(|prev| prev.kind == RecordKind::Live);
        let live = value.is_some();
        let record = StateRecord {
            key: Bytes::copy_from_slice(key),
            kind: if live { RecordKind::Live } else { RecordKind::Tombstone },
            mod_revision: revision,
            sub: 0,
            create_revision: if live { alive.map_or(revision, |prev| prev.create_revision) } else { 0 },
            version: if live { alive.map_or(1, |prev| prev.version + 1) } else { 0 },
            lease: if revision % 5 == 0 { -revision } else { 0 },
            prev_revision: prev.as_ref().map_or(0, |prev| prev.mod_revision),
            author: Arc::from(format!("user{}", revision % 3)),
            client: (revision % 2 == 0).then(|| Arc::from("client")),
            cause: revision - 1,
            value: Bytes::copy_from_slice(value.unwrap_or_default()),
        };
        self.history.insert(revision, record);
    }

    fn newest(&self, key: &[u8], at: i64) -> Option<StateRecord> {
        self.history.range(..=at).rev().map(|(_, record)| record).find(|record| record.key == key).cloned()
    }

    pub(super) fn checkpoint(&mut self) -> Result<CheckpointReport, StateError> {
        let (applied, revision) = (self.writer.meta().applied, self.revision());
        let changed: BTreeSet<Bytes> =
            self.history.range(applied.revision + 1..).map(|(_, record)| record.key.clone()).collect();
        let records: Vec<StateRecord> = changed.iter().filter_map(|key| self.newest(key, revision)).collect();
        let mut checkpoint = self.writer.checkpoint()?;
        for record in &records {
            checkpoint.put(record.as_ref())?;
        }
        checkpoint.finish(Applied { seq: revision as u64, revision }, Compactions::default())
    }

    pub(super) fn advance_floor(&mut self, retained: i64) -> Result<(), StateError> {
        let settled = self.writer.meta().floor.settled;
        let keys: BTreeSet<Bytes> =
            self.history.range(settled..=retained).map(|(_, record)| record.key.clone()).collect();
        let last = self.revision();
        let plan: Vec<_> = keys
            .into_iter()
            .map(|key| {
                let newest = self.newest(&key, last).expect("the key has a revision");
                let at_floor = self.newest(&key, retained).filter(|_| newest.mod_revision > retained);
                (key, at_floor)
            })
            .collect();
        let mut advance = self.writer.advance_floor(retained)?;
        for (key, at_floor) in &plan {
            match at_floor {
                Some(record) => advance.set_base(record.as_ref())?,
                None => advance.drop_base(key)?,
            }
        }
        advance.finish()
    }

    pub(super) fn step(&mut self, step: &Step) -> Result<(), StateError> {
        match step {
            Step::Write(key, len) => {
                let revision = self.revision() + 1;
                let value = len.map(|len| vec![revision as u8; len]);
                self.write_at(revision, &[b'k', *key, 0, *key], value.as_deref());
                Ok(())
            }
            Step::Checkpoint => self.checkpoint().map(drop),
            Step::Floor(percent) => {
                let meta = self.writer.meta();
                let (from, to) = (meta.floor.retained.max(1), meta.applied.revision);
                self.advance_floor(from + (to - from) * i64::from(*percent) / 100)
            }
            Step::Reopen => Ok(()),
        }
    }

    /// The newest live record at or before `revision`, by what a start would have: `cur/`, `base/`, the kept log.
    pub(super) fn read_at(&self, revision: i64, key: &[u8]) -> Option<StateRecord> {
        let kept = self.history.range(self.log_starts_at()..).map(|(_, record)| record.clone());
        let stored = [self.reader.current(key).unwrap(), self.reader.base(key).unwrap()];
        let candidates = kept.filter(|record| record.key == key).chain(stored.into_iter().flatten());
        let newest = candidates.filter(|record| record.mod_revision <= revision).max_by_key(StateRecord::at);
        newest.filter(|record| record.kind == RecordKind::Live)
    }

    /// Compares reads of every key at every revision from the floor on, and the scans.
    pub(super) fn check(&self) {
        let meta = self.writer.meta();
        let keys: BTreeSet<&Bytes> = self.history.values().map(|record| &record.key).collect();
        for revision in meta.floor.retained..=self.revision() {
            for key in &keys {
                let expected = self.newest(key, revision).filter(|record| record.kind == RecordKind::Live);
                assert_eq!(self.read_at(revision, key), expected, "{key:?} at {revision}, floor {:?}", meta.floor);
            }
        }
        let mut live = 0;
        let visit = &mut |record: RecordRef<'_>| live += u64::from(record.kind == RecordKind::Live);
        self.reader.scan_current(visit).unwrap();
        assert_eq!(live, meta.totals.live);
        self.reader.scan_base(&mut |base| assert_eq!(base.kind, RecordKind::Live)).unwrap();
    }
}
