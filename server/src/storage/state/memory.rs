//! The in-memory twin of the state: nothing on disk, and a crash that drops what was not synced.
//!
//! It serves the `memory` durability mode and the crash tests. Like sled it keeps, after a crash, a prefix of the
//! batches applied since the last sync, each whole.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::StateError;
use super::seam::{Mark, OpenState, State, StateBatch, Visit};

type Tree = BTreeMap<Vec<u8>, Bytes>;

/// An ordered map in memory. Clones share the content, as handles of one open store do.
#[derive(Clone, Default)]
pub struct MemoryState {
    // Guards everything; never held while a caller's closure runs.
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    visible: Tree,
    durable: Tree,
    unsynced: Vec<StateBatch>,
    mark: Option<Mark>,
    /// Calls of apply, sync and mark until one fails.
    fail_in: Option<u64>,
    failed: bool,
}

impl MemoryState {
    /// An empty state.
    pub fn new() -> Self {
        MemoryState::default()
    }

    /// The state another process would find after this one was killed, if the first `kept` of the batches that were
    /// not synced reached the disk. This handle is left as it is.
    pub fn crash(&self, kept: usize) -> MemoryState {
        let inner = self.inner.lock();
        let mut durable = inner.durable.clone();
        for batch in inner.unsynced.iter().take(kept) {
            change(&mut durable, batch);
        }
        let after = Inner { visible: durable.clone(), durable, mark: inner.mark, ..Inner::default() };
        MemoryState { inner: Arc::new(Mutex::new(after)) }
    }

    /// How many batches a crash may drop.
    pub fn unsynced(&self) -> usize {
        self.inner.lock().unsynced.len()
    }

    /// Lets the `calls`-th writing call from now (1 = the next) fail, and every later one.
    pub fn fail_in(&self, calls: u64) {
        self.inner.lock().fail_in = Some(calls);
    }
}

impl Inner {
    fn count_call(&mut self) -> Result<(), StateError> {
        if let Some(left) = self.fail_in {
            self.fail_in = Some(left.saturating_sub(1));
            self.failed |= left <= 1;
        }
        if self.failed { Err(StateError::Failed { reason: "a fault was injected".to_owned() }) } else { Ok(()) }
    }
}

impl fmt::Debug for MemoryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner.lock();
        f.debug_struct("MemoryState")
            .field("entries", &inner.visible.len())
            .field("unsynced", &inner.unsynced.len())
            .field("mark", &inner.mark)
            .finish()
    }
}

impl State for MemoryState {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StateError> {
        Ok(self.inner.lock().visible.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], visit: &mut Visit<'_>) -> Result<(), StateError> {
        /// Entries copied under the lock at a time.
        const STEP: usize = 1024;
        let mut from = prefix.to_vec();
        loop {
            let step: Vec<(Vec<u8>, Bytes)> = {
                let inner = self.inner.lock();
                let entries = inner.visible.range(from.clone()..).take_while(|(key, _)| key.starts_with(prefix));
                entries.take(STEP).map(|(key, value)| (key.clone(), value.clone())).collect()
            };
            for (key, value) in &step {
                if let ControlFlow::Break(()) = visit(key, value)? {
                    return Ok(());
                }
            }
            let Some((last, _)) = step.into_iter().nth(STEP - 1) else { return Ok(()) };
            from = last;
            from.push(0);
        }
    }

    fn apply(&self, batch: StateBatch) -> Result<(), StateError> {
        let mut inner = self.inner.lock();
        inner.count_call()?;
        change(&mut inner.visible, &batch);
        inner.unsynced.push(batch);
        Ok(())
    }

    fn sync(&self) -> Result<(), StateError> {
        let mut inner = self.inner.lock();
        inner.count_call()?;
        let batches = std::mem::take(&mut inner.unsynced);
        for batch in &batches {
            change(&mut inner.durable, batch);
        }
        Ok(())
    }

    fn mark(&self, mark: Mark) -> Result<(), StateError> {
        let mut inner = self.inner.lock();
        inner.count_call()?;
        inner.mark = Some(mark);
        Ok(())
    }

    fn marked(&self) -> Result<Option<Mark>, StateError> {
        Ok(self.inner.lock().mark)
    }

    fn size_on_disk(&self) -> Result<u64, StateError> {
        Ok(0)
    }
}

impl OpenState for MemoryState {
    fn open(&self) -> Result<Arc<dyn State>, StateError> {
        Ok(Arc::new(self.clone()))
    }
}

fn change(tree: &mut Tree, batch: &StateBatch) {
    for (key, value) in &batch.changes {
        match value {
            Some(value) => tree.insert(key.clone(), Bytes::copy_from_slice(value)),
            None => tree.remove(key),
        };
    }
}
