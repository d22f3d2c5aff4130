//! A crash at any writing call of a checkpoint or a floor advance, then a start and the log played again.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::*;
use super::model::{Model, Step, step};

/// Runs `steps` on a store whose `calls`-th writing call fails, then reopens what a crash left, with `kept` unsynced
/// batches, and goes on.
fn crash(steps: &[Step], calls: u64, kept: usize) -> bool {
    let memory = MemoryState::new();
    let mut model = Model::open(Arc::new(memory.clone()));
    memory.fail_in(calls);
    let failed = steps.iter().position(|step| model.step(step).is_err());
    let after = memory.crash(kept);
    model = model.reopen(|| Arc::new(after.clone()));
    model.check();
    for step in &steps[failed.unwrap_or(steps.len())..] {
        model.step(step).unwrap();
    }
    model.checkpoint().unwrap();
    model.check();
    failed.is_some()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_between_any_two_steps_does_no_harm(
        steps in proptest::collection::vec(step(), 1..60), calls in 1u64..40, kept in 0usize..2,
    ) {
        crash(&steps, calls, kept);
    }
}

/// Every single point of one long checkpoint and floor advance, not only those that chance finds.
#[test]
fn every_point_of_a_checkpoint_may_be_the_last() {
    let mut steps = Vec::new();
    for round in 0..3 {
        steps.extend((0..6).map(|key| Step::Write(key, Some(400_000 + round))));
        steps.push(Step::Checkpoint);
        steps.push(Step::Write(round as u8, None));
        steps.push(Step::Floor(80));
    }
    let mut calls = 1;
    while crash(&steps, calls, 0) {
        assert!(crash(&steps, calls, 1));
        calls += 1;
    }
    assert!(calls > 20, "only {calls} writing calls");
}

#[test]
fn after_a_failed_write_nothing_more_is_written() {
    let memory = MemoryState::new();
    let mut model = Model::open(Arc::new(memory.clone()));
    model.write_at(2, b"k", Some(b"v"));
    memory.fail_in(2);
    assert!(matches!(model.checkpoint(), Err(StateError::Failed { .. })));
    memory.fail_in(u64::MAX);
    assert!(matches!(model.checkpoint(), Err(StateError::Failed { .. })));
    assert_eq!(model.writer.meta().applied.seq, 0);
}
