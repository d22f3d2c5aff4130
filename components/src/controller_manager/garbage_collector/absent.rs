//! Owners that the server has said do not exist: a thousand objects of one owner ask once.
//!
//! Invariant: an absence is never taken back, since a uid is given once; the cache is bounded, the oldest go first.

use listwatch_proto::resource::{ObjectKey, OwnerReference};
use parking_lot::Mutex;

use crate::runtime::Bounded;

/// How many are remembered (upstream's number).
const ABSENT_MAX: usize = 500;

/// How an owner is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Absence {
    /// There is none of that uid, as far as is known.
    Gone,
    /// There is one, but not where the reference must be looked for.
    Misplaced,
}

/// Kind, place and uid of a reference.
type Reference = (String, String, ObjectKey, String);

/// What is remembered.
#[derive(Debug, Default)]
pub struct Absent(Mutex<Bounded<Reference, Absence, ABSENT_MAX>>);

fn reference(at: &ObjectKey, owner: &OwnerReference) -> Reference {
    (owner.api_version.clone(), owner.kind.clone(), at.clone(), owner.uid.clone())
}

impl Absent {
    /// Whether the server has said that the owner is not there.
    pub(super) fn get(&self, at: &ObjectKey, owner: &OwnerReference) -> Option<Absence> {
        self.0.lock().get(&reference(at, owner)).copied()
    }

    /// The server has said so.
    pub(super) fn note(&self, at: &ObjectKey, owner: &OwnerReference, absence: Absence) {
        self.0.lock().insert(reference(at, owner), absence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let absent = Absent::default();
        let owner = |uid: usize| OwnerReference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: "p".into(),
            uid: uid.to_string(),
            controller: None,
            block_owner_deletion: None,
        };
        let at = ObjectKey::new("a", "p");
        (0..=ABSENT_MAX).for_each(|uid| absent.note(&at, &owner(uid), Absence::Gone));
        absent.note(&at, &owner(7), Absence::Misplaced);
        assert_eq!(absent.get(&at, &owner(0)), None);
        assert_eq!(absent.get(&at, &owner(1)), Some(Absence::Gone));
        assert_eq!(absent.get(&at, &owner(7)), Some(Absence::Misplaced));
        assert_eq!(absent.get(&ObjectKey::new("b", "p"), &owner(7)), None, "another place is another reference");
    }
}
