//! The end of one container that has a hook to run before it (`preStop`).
//!
//! Invariants: hook and SIGTERM share one grace; however long the hook takes, the container then has a moment to end;
//! the time is only ever shortened.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::pod::probe::Action,
    Context,
    actions::{Done, Target, act},
};
use crate::{
    clock::timer_now,
    runtime::{Backoff, BackoffPolicy},
};

/// What a container has after its hook, even if that has used up the grace (Kubernetes 1.36).
const GRACE_LEAST: Duration = Duration::from_secs(2);

/// Pauses while the runtime does not take the request.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(20), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };

/// Runs the hook, then stops the container. Dropping it ends both efforts.
#[derive(Debug)]
pub(super) struct Stopper {
    until: watch::Sender<Instant>,
    _task: AbortOnDropHandle<()>,
}

impl Stopper {
    /// Begins. `failed` is called if the hook fails.
    pub(super) fn start(
        context: Arc<Context>,
        target: Target,
        hook: Action,
        grace: Duration,
        failed: impl FnOnce(String) + Send + 'static,
    ) -> Self {
        let (until, wanted) = watch::channel(timer_now() + grace);
        let task = tokio::spawn(run(context, target, hook, wanted, failed));
        Stopper { until, _task: AbortOnDropHandle::new(task) }
    }

    /// There is less time now.
    pub(super) fn shorten(&self, grace: Duration) {
        let new = timer_now() + grace;
        self.until.send_if_modified(|until| {
            let less = new < *until;
            *until = new.min(*until);
            less
        });
    }
}

async fn run(
    context: Arc<Context>,
    target: Target,
    hook: Action,
    mut until: watch::Receiver<Instant>,
    failed: impl FnOnce(String),
) {
    let limit = until.borrow().saturating_duration_since(timer_now());
    tokio::select! {
        done = act(&context, &target, &hook, limit) => match done {
            Done::Good => {}
            // What the page says does not matter, only whether it could be asked for.
            Done::Bad(why) if why.starts_with("HTTP probe failed") => {}
            Done::Bad(why) | Done::Unknown(why) => failed(why),
        },
        () = over(until.clone()) => failed("the grace is over".to_owned()),
    }
    let mut backoff = Backoff::new(RETRY);
    loop {
        let left = until.borrow_and_update().saturating_duration_since(timer_now());
        match context.runtime.stop(&target.uid, &target.container, left.max(GRACE_LEAST)).await {
            Ok(()) => {
                if until.changed().await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, container = target.container, "the container is not asked to stop yet");
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }
}

/// Waits until the time is up, however it is shortened meanwhile.
async fn over(mut until: watch::Receiver<Instant>) {
    loop {
        let at = *until.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(at) => return,
            changed = until.changed() => if changed.is_err() { std::future::pending().await },
        }
    }
}
