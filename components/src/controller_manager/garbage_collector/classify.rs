//! What an object's owners mean for it.

use listwatch_proto::resource::OwnerReference;

/// How an owner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    /// It is there.
    Solid,
    /// It is not, or another has its name.
    Dangling,
    /// It goes, after the object if the object blocks it.
    Waiting,
    /// Nobody can say.
    Unresolvable,
}

/// What is to become of the object.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It stays as it is.
    Keep,
    /// It stays, with these owners only.
    Strip(Vec<OwnerReference>),
    /// It goes; after what it owns, if an owner waits for it.
    Delete {
        /// An owner waits.
        waiting: bool,
    },
}

/// Judges an object by its owners.
pub fn verdict(owners: &[(OwnerReference, OwnerState)]) -> Verdict {
    let any = |state: OwnerState| owners.iter().any(|(_, held)| *held == state);
    if owners.is_empty() {
        return Verdict::Keep;
    }
    let without = |gone: &[OwnerState]| {
        owners.iter().filter(|(_, state)| !gone.contains(state)).map(|(owner, _)| owner.clone()).collect::<Vec<_>>()
    };
    // What cannot be resolved may be there and keeps the object. Who waits for it need not wait for ever (upstream's does).
    if any(OwnerState::Unresolvable) {
        let waits = any(OwnerState::Waiting);
        return if waits { Verdict::Strip(without(&[OwnerState::Waiting])) } else { Verdict::Keep };
    }
    if any(OwnerState::Solid) {
        if !(any(OwnerState::Dangling) || any(OwnerState::Waiting)) {
            return Verdict::Keep;
        }
        return Verdict::Strip(without(&[OwnerState::Dangling, OwnerState::Waiting]));
    }
    Verdict::Delete { waiting: any(OwnerState::Waiting) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use OwnerState::{Dangling, Solid, Unresolvable, Waiting};

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: uid.into(),
            uid: uid.into(),
            controller: None,
            block_owner_deletion: None,
        }
    }

    fn check(states: &[OwnerState], expected: Verdict) {
        let owners: Vec<_> = states.iter().enumerate().map(|(at, state)| (owner(&at.to_string()), *state)).collect();
        assert_eq!(verdict(&owners), expected, "{states:?}");
    }

    #[test]
    fn one_owner_that_is_there_is_enough() {
        check(&[], Verdict::Keep);
        check(&[Solid], Verdict::Keep);
        check(&[Dangling, Solid], Verdict::Strip(vec![owner("1")]));
        check(&[Solid, Waiting], Verdict::Strip(vec![owner("0")]));
        check(&[Solid, Waiting, Unresolvable], Verdict::Strip(vec![owner("0"), owner("2")]));
        check(&[Dangling, Waiting, Unresolvable], Verdict::Strip(vec![owner("0"), owner("2")]));
        check(&[Solid, Dangling, Unresolvable], Verdict::Keep);
        check(&[Dangling], Verdict::Delete { waiting: false });
        check(&[Dangling, Waiting], Verdict::Delete { waiting: true });
        check(&[Unresolvable], Verdict::Keep);
        check(&[Unresolvable, Dangling], Verdict::Keep);
    }
}
