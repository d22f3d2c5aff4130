//! Gives up old history, as kube-apiserver does with etcd: at each interval everything before the interval goes, so that
//! a watcher always has at least one whole interval to come back.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::storage::{Engine, Error};

/// Compacts at each interval until stopped. Zero = never.
pub(super) async fn run(engine: Engine, interval: Duration, stopping: CancellationToken) {
    if interval.is_zero() {
        return stopping.cancelled().await;
    }
    let mut before = engine.revision();
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
        let target = std::mem::replace(&mut before, engine.revision());
        if target <= engine.compacted() {
            continue;
        }
        let store = engine.clone();
        let compacted = tokio::task::spawn_blocking(move || store.compact(target, false)).await;
        match compacted {
            Ok(Ok(_)) => tracing::debug!(revision = target, "compacted"),
            // Somebody else has compacted further in the meantime.
            Ok(Err(Error::Compacted { .. })) => {}
            Ok(Err(error)) => tracing::warn!(revision = target, %error, "compaction"),
            Err(_) => tracing::error!(revision = target, "compaction panicked"),
        }
    }
}
