//! Lease (coordination.k8s.io).

use listwatch_proto::resource::Object;

use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct LeaseStrategy;

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Holder",
        "string",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
        0,
    ),
    AGE,
];

impl Strategy for LeaseStrategy {
    fn schema(&self) -> &'static str {
        "coordination/v1.Lease"
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        uncoordinated(object);
        Ok(())
    }

    fn prepare_update(&self, _part: Part, new: &mut Object, _old: &Object) {
        uncoordinated(new);
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = Path::new("spec");
        if let Some(seconds) = object.int(&["spec", "leaseDurationSeconds"])
            && seconds <= 0
        {
            faults.invalid(&spec.child("leaseDurationSeconds"), seconds, "must be greater than 0");
        }
        if let Some(transitions) = object.int(&["spec", "leaseTransitions"])
            && transitions < 0
        {
            faults.invalid(&spec.child("leaseTransitions"), transitions, "must be greater than or equal to 0");
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            own_metadata: OwnMetadata::Plain,
            has_generation: false,
            allows_unconditional_update: false,
            allows_create_on_update: true,
            ..Habits::USUAL
        }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), text(object.text(&["spec", "holderIdentity"])), age(object, now)]
    }
}

/// Coordinated leader election is behind a gate that is off (Kubernetes 1.36): its fields are dropped.
fn uncoordinated(lease: &mut Object) {
    for key in ["strategy", "preferredHolder"] {
        lease.remove(&["spec", key]);
    }
}
