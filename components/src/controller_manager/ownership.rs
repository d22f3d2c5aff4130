//! Whose an object is: claiming, adopting, releasing (Kubernetes 1.36, `controller_ref_manager`).
//!
//! Invariants: ownership is by uid, never by name; an object has one controller at most; nobody adopts for an owner that is
//! going, and nothing that is going is adopted.

use listwatch_proto::resource::{LabelSelector, Object, OwnerReference};
use serde_json::{Value, json};

/// What an owner is to do with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// It is the owner's and stays so.
    Keep,
    /// It is nobody's and fits: make it the owner's.
    Adopt,
    /// It is the owner's and no longer fits: let it go.
    Release,
    /// It is none of the owner's business.
    Ignore,
}

/// An object that may be claimed.
#[derive(Debug, Clone, Copy)]
pub struct Claimable<'a> {
    /// Its controller.
    pub controller: Option<&'a OwnerReference>,
    /// Whether its labels fit the owner's selector.
    pub fits: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
}

/// Judges one object for an owner.
pub fn claim(owner_uid: &str, owner_terminating: bool, object: Claimable<'_>) -> Claim {
    match object.controller {
        Some(controller) if controller.uid != owner_uid => Claim::Ignore,
        Some(_) if object.fits => Claim::Keep,
        // An owner that is going leaves its things to the garbage collector.
        Some(_) if owner_terminating => Claim::Ignore,
        Some(_) => Claim::Release,
        None if object.fits && !owner_terminating && !object.terminating => Claim::Adopt,
        None => Claim::Ignore,
    }
}

/// The reference by which an object is known to be managed by this owner.
pub fn controller_reference(owner: &Object) -> OwnerReference {
    OwnerReference {
        api_version: owner.api_version().to_owned(),
        kind: owner.kind_name().to_owned(),
        name: owner.name().to_owned(),
        uid: owner.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The patch that makes an object the owner's; refused if the object is another one or has changed since it was read.
pub fn adoption(uid: &str, revision: i64, owners: &[OwnerReference], owner: OwnerReference) -> Value {
    let owners: Vec<_> = owners.iter().cloned().chain([owner]).collect();
    json!({"metadata": {"uid": uid, "resourceVersion": revision.to_string(), "ownerReferences": owners}})
}

/// The patch that takes an owner away; refused if the object is another one or has changed since it was read.
pub fn release(uid: &str, revision: i64, owners: &[OwnerReference], owner_uid: &str) -> Value {
    let owners: Vec<_> = owners.iter().filter(|o| o.uid != owner_uid).cloned().collect();
    let owners = if owners.is_empty() { Value::Null } else { json!(owners) };
    json!({"metadata": {"uid": uid, "resourceVersion": revision.to_string(), "ownerReferences": owners}})
}

/// The selector of a workload; `None` if it is missing, broken or selects everything, which a workload must not.
pub fn selector(workload: &Object) -> Option<LabelSelector> {
    let selector = LabelSelector::from_json(workload.at(&["spec", "selector"])?).ok()?;
    (!selector.is_empty()).then_some(selector)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(controller: Option<&str>, fits: bool, terminating: bool, owner_terminating: bool, expected: Claim) {
        let reference = controller.map(|uid| OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "r".into(),
            uid: uid.into(),
            controller: Some(true),
            block_owner_deletion: None,
        });
        let object = Claimable { controller: reference.as_ref(), fits, terminating };
        assert_eq!(claim("me", owner_terminating, object), expected, "{object:?}, owner going: {owner_terminating}");
    }

    #[test]
    fn claims_go_by_uid_and_labels() {
        check(Some("me"), true, false, false, Claim::Keep);
        check(Some("me"), true, true, true, Claim::Keep);
        check(Some("me"), false, false, false, Claim::Release);
        check(Some("me"), false, false, true, Claim::Ignore);
        check(Some("other"), true, false, false, Claim::Ignore);
        check(None, true, false, false, Claim::Adopt);
        check(None, true, true, false, Claim::Ignore);
        check(None, true, false, true, Claim::Ignore);
        check(None, false, false, false, Claim::Ignore);
    }
}
