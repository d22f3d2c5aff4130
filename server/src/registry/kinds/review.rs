//! The kinds that are answered and not kept: reviews (authentication.k8s.io, authorization.k8s.io). What they ask is
//! judged where it is answered, behind [`Security`](crate::registry::Security).

use listwatch_proto::resource::Object;

use super::strategy::{Habits, Part, Strategy};
use super::vocabulary::faults::Faults;
use super::vocabulary::print::{AGE, NAME, age, text};
use crate::registry::table::{Cell, Column};

/// A kind of review, by its schema.
pub(super) struct ReviewStrategy(&'static str);

const COLUMNS: &[Column] = &[NAME, AGE];

static SELF_SUBJECT: ReviewStrategy = ReviewStrategy("authentication/v1.SelfSubjectReview");
static TOKEN: ReviewStrategy = ReviewStrategy("authentication/v1.TokenReview");
static LOCAL_ACCESS: ReviewStrategy = ReviewStrategy("authorization/v1.LocalSubjectAccessReview");
static SELF_ACCESS: ReviewStrategy = ReviewStrategy("authorization/v1.SelfSubjectAccessReview");
static SELF_RULES: ReviewStrategy = ReviewStrategy("authorization/v1.SelfSubjectRulesReview");
static ACCESS: ReviewStrategy = ReviewStrategy("authorization/v1.SubjectAccessReview");

/// The rules of a kind of these groups.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    let found: &'static ReviewStrategy = match kind {
        "SelfSubjectReview" => &SELF_SUBJECT,
        "TokenReview" => &TOKEN,
        "LocalSubjectAccessReview" => &LOCAL_ACCESS,
        "SelfSubjectAccessReview" => &SELF_ACCESS,
        "SelfSubjectRulesReview" => &SELF_RULES,
        "SubjectAccessReview" => &ACCESS,
        _ => return None,
    };
    Some(found)
}

impl Strategy for ReviewStrategy {
    fn schema(&self) -> &'static str {
        self.0
    }

    fn validate_create(&self, _object: &Object, _faults: &mut Faults) {}

    fn validate_update(&self, _part: Part, _new: &Object, _old: &Object, _faults: &mut Faults) {}

    fn habits(&self) -> Habits {
        Habits { has_generation: false, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        vec![text(object.name()), age(object, now)]
    }
}
