//! What a namespace that is being deleted says about its end (Kubernetes 1.36, `status_condition_utils`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use listwatch_proto::resource::{Kind, time};
use serde_json::{Value, json};

/// What is left in a namespace after a round of deletes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Remains {
    /// Objects by kind, `pods.` and `deployments.apps`.
    objects: BTreeMap<String, usize>,
    /// Objects that each finalizer holds.
    finalizers: BTreeMap<String, usize>,
    /// Deletes that failed.
    failures: Vec<String>,
}

impl Remains {
    /// Counts an object that is still there.
    pub fn object<'a>(&mut self, kind: &Kind, finalizers: impl Iterator<Item = &'a str>) {
        *self.objects.entry(format!("{}.{}", kind.plural, kind.group)).or_default() += 1;
        for finalizer in finalizers {
            *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }

    /// Counts a kind whose objects could not be deleted.
    pub fn failure(&mut self, error: impl ToString) {
        self.failures.push(error.to_string());
    }

    /// Whether nothing is left and nothing went wrong.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.failures.is_empty()
    }
}

/// The namespace's conditions as they are to be; `None` if they are so already.
pub fn conditions(held: &[Value], remains: &Remains, now: Timestamp) -> Option<Vec<Value>> {
    let mut after = held.to_vec();
    for (kind, status, reason, message) in wanted(remains) {
        let mut new = json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": time(now)});
        match after.iter_mut().find(|condition| condition["type"] == kind) {
            None => after.push(new),
            Some(old) => {
                if old["status"] == new["status"] {
                    new["lastTransitionTime"] = old["lastTransitionTime"].clone();
                }
                *old = new;
            }
        }
    }
    (after != held).then_some(after)
}

type Wanted = (&'static str, &'static str, &'static str, String);

fn wanted(remains: &Remains) -> [Wanted; 5] {
    let list = |counts: &BTreeMap<String, usize>, words: &str| {
        counts
            .iter()
            .map(|(name, count)| format!("{name} {words} {count} resource instances"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut failures = remains.failures.clone();
    failures.sort();
    let ok = |kind, reason, message: &str| (kind, "False", reason, message.to_owned());
    [
        // The kinds are known to both sides: they are never found out, so that never fails.
        ok("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        ok(
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        if failures.is_empty() {
            ok(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            )
        } else {
            let (count, errors) = (failures.len(), failures.join(", "));
            let message = format!("Failed to delete all resource types, {count} remaining: {errors}");
            ("NamespaceDeletionContentFailure", "True", "ContentDeletionFailed", message)
        },
        if remains.objects.is_empty() {
            ok("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed")
        } else {
            let message = format!("Some resources are remaining: {}", list(&remains.objects, "has"));
            ("NamespaceContentRemaining", "True", "SomeResourcesRemain", message)
        },
        if remains.finalizers.is_empty() {
            ok("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished")
        } else {
            let held = list(&remains.finalizers, "in");
            let message = format!("Some content in the namespace has finalizers remaining: {held}");
            ("NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", message)
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn find<'a>(conditions: &'a [Value], kind: &str) -> &'a Value {
        conditions.iter().find(|c| c["type"] == kind).expect("the condition")
    }

    #[test]
    fn what_is_left_is_told_in_upstreams_words() {
        let kind = |name| Kind::by_name(name).expect("a served kind");
        let mut remains = Remains::default();
        remains.object(kind("pods"), ["example.com/hold"].into_iter());
        remains.object(kind("pods"), std::iter::empty());
        remains.object(kind("deployments"), ["example.com/hold", "a/b"].into_iter());
        assert!(!remains.is_empty());
        let stuck = conditions(&[], &remains, at(10)).expect("new");
        assert_eq!(stuck.len(), 5);
        let content = find(&stuck, "NamespaceContentRemaining");
        assert_eq!((&content["status"], &content["reason"]), (&json!("True"), &json!("SomeResourcesRemain")));
        assert_eq!(
            content["message"],
            "Some resources are remaining: deployments.apps has 1 resource instances, pods. has 2 resource instances"
        );
        assert_eq!(
            find(&stuck, "NamespaceFinalizersRemaining")["message"],
            "Some content in the namespace has finalizers remaining: a/b in 1 resource instances, example.com/hold in 2 \
             resource instances"
        );
        assert_eq!(find(&stuck, "NamespaceDeletionContentFailure")["status"], "False");
        assert_eq!(conditions(&stuck, &remains, at(20)), None, "said once");

        remains.failure("b is forbidden");
        remains.failure("a is forbidden");
        let failed = conditions(&stuck, &remains, at(30)).expect("a change");
        assert_eq!(
            find(&failed, "NamespaceDeletionContentFailure")["message"],
            "Failed to delete all resource types, 2 remaining: a is forbidden, b is forbidden"
        );
        let moved = |kind| find(&failed, kind)["lastTransitionTime"].clone();
        assert_eq!(moved("NamespaceDeletionContentFailure"), time(at(30)));
        assert_eq!(moved("NamespaceContentRemaining"), time(at(10)));
    }

    #[test]
    fn a_namespace_that_is_empty_says_so() {
        let custom = json!({"type": "Custom", "status": "True"});
        let all_well = conditions(std::slice::from_ref(&custom), &Remains::default(), at(1)).expect("new");
        assert_eq!(all_well[0], custom);
        assert!(all_well[1..].iter().all(|c| c["status"] == "False"));
        assert_eq!(find(&all_well, "NamespaceContentRemaining")["reason"], "ContentRemoved");
    }
}
