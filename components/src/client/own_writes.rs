//! What the current task has written: so that nobody decides on a cache older than the own last write.
//!
//! A controller runs each reconcile inside [`record`]. Every write that an [`super::Api`] does within notes the kind
//! and the revision it made, and the next reconcile of the same key waits until the cache of that kind has come so far
//! (upstream's KEP-5647). Writes made by tasks spawned inside are not noted: a reconcile awaits its writes.

use std::cell::RefCell;
use std::future::Future;

use listwatch_proto::resource::Kind;

tokio::task_local! {
    static WRITES: RefCell<Vec<OwnWrite>>;
}

/// The last write of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnWrite {
    /// What was written.
    pub kind: &'static Kind,
    /// The revision that holds the write.
    pub revision: i64,
}

/// Runs a future and tells what it has written: the highest revision for each kind.
pub async fn record<F: Future>(future: F) -> (F::Output, Vec<OwnWrite>) {
    WRITES
        .scope(RefCell::new(Vec::new()), async {
            let output = future.await;
            (output, WRITES.with(RefCell::take))
        })
        .await
}

/// Notes a write; without effect outside [`record`].
pub fn note(kind: &'static Kind, revision: i64) {
    // An error means that nobody records, which is the normal case outside a controller.
    let _ = WRITES.try_with(|writes| {
        let mut writes = writes.borrow_mut();
        match writes.iter_mut().find(|w| w.kind == kind) {
            Some(write) => write.revision = write.revision.max(revision),
            None => writes.push(OwnWrite { kind, revision }),
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_writes_inside_are_noted_and_the_highest_wins() {
        let pod = Kind::by_name("pod").expect("known");
        let node = Kind::by_name("node").expect("known");
        note(pod, 1);
        let ((), writes) = record(async {
            note(pod, 7);
            tokio::task::yield_now().await;
            note(node, 5);
            note(pod, 6);
        })
        .await;
        assert_eq!(writes, [OwnWrite { kind: pod, revision: 7 }, OwnWrite { kind: node, revision: 5 }]);
    }
}
