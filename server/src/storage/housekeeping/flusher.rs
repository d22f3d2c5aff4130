//! Syncs buffered writes at the interval that was asked for.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::bell::Bell;
use crate::storage::commit::Committer;

/// A thread that syncs what was answered before it was synced, until the bell is stopped.
pub fn spawn(committer: Arc<Committer>, bell: Arc<Bell>, every: Duration) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("log-flusher".into()).spawn(move || {
        while bell.wait(Some(every)) {
            // A failure has poisoned the store and was told there.
            if committer.flush().is_err() {
                return;
            }
        }
    })
}
