//! What the runs of a controller have written and its caches do not show yet, by key.
//!
//! Invariants: a key's writes stay until the next run of the key takes them, or until the caches show them: then nobody has
//! to wait for them. So the map has no more keys than wait for a cache, and as many again between two looks at it, however
//! many objects come and go.

use std::collections::HashMap;

use listwatch_proto::resource::{Kind, ObjectKey};

use crate::client::own_writes::OwnWrite;

/// Keys that are held before what the caches show is looked for the first time.
const FIRST_LOOK: usize = 256;

/// Writes that a run may have to wait for.
#[derive(Debug)]
pub(super) struct Unseen {
    writes: HashMap<ObjectKey, Vec<OwnWrite>>,
    /// How many keys there may be before those are dropped that are shown by now.
    look_at: usize,
}

impl Default for Unseen {
    fn default() -> Self {
        Unseen { writes: HashMap::new(), look_at: FIRST_LOOK }
    }
}

impl Unseen {
    /// The last run of the key has written this. `shown`: the revision that every cache of the kind has come to; `None` = no
    /// run reads the kind.
    pub(super) fn note(
        &mut self,
        key: &ObjectKey,
        mut writes: Vec<OwnWrite>,
        shown: impl Fn(&'static Kind) -> Option<i64>,
    ) {
        let is_unseen = |write: &OwnWrite| shown(write.kind).is_some_and(|revision| revision < write.revision);
        writes.retain(is_unseen);
        if writes.is_empty() {
            return;
        }
        self.writes.insert(key.clone(), writes);
        if self.writes.len() > self.look_at {
            self.writes.retain(|_, writes| writes.iter().any(is_unseen));
            self.look_at = FIRST_LOOK.max(self.writes.len() * 2);
        }
    }

    /// What the key's next run has to wait for.
    pub(super) fn take(&mut self, key: &ObjectKey) -> Vec<OwnWrite> {
        self.writes.remove(key).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caches_show_is_not_held() {
        let (pod, node) = (Kind::by_name("pod").expect("known"), Kind::by_name("node").expect("known"));
        let mut unseen = Unseen::default();
        let key = ObjectKey::new("a", "b");
        let shown = |kind: &'static Kind| (kind == pod).then_some(5);
        let writes = [(pod, 5), (pod, 6), (node, 9)].map(|(kind, revision)| OwnWrite { kind, revision });
        unseen.note(&key, writes.to_vec(), shown);
        assert_eq!(unseen.take(&key), [OwnWrite { kind: pod, revision: 6 }]);
        assert_eq!(unseen.take(&key), []);
    }

    #[test]
    fn keys_that_never_run_again_are_dropped_once_they_are_shown() {
        let pod = Kind::by_name("pod").expect("known");
        let mut unseen = Unseen::default();
        for n in 1..=10_000 {
            let write = OwnWrite { kind: pod, revision: n };
            // The cache is ten writes behind.
            unseen.note(&ObjectKey::new("a", n.to_string()), vec![write], |_| Some(n - 10));
            assert!(unseen.writes.len() <= FIRST_LOOK, "{}", unseen.writes.len());
        }
        let last = OwnWrite { kind: pod, revision: 10_000 };
        assert_eq!(unseen.take(&ObjectKey::new("a", "10000")), [last], "what is not shown yet stays");
    }
}
