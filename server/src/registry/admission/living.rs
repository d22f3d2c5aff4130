//! Which namespaces are known to live, so that the namespace of every new object need not be read and decoded.
//!
//! A namespace is known at a revision, and what was said of that revision stays true: whether it still stands there is
//! asked of the store each time. It is a cache; what is not in it is read.

use std::collections::HashMap;

use parking_lot::RwLock;

/// Namespaces that are kept. Beyond it all are forgotten: a cluster has fewer, or they come and go.
const NAMESPACES_MAX: usize = 4096;

/// The cache.
#[derive(Debug, Default)]
pub(in crate::registry) struct Living {
    known: RwLock<HashMap<Box<str>, i64>>,
}

impl Living {
    /// The revision at which the namespace lived.
    pub(in crate::registry) fn at(&self, namespace: &str) -> Option<i64> {
        self.known.read().get(namespace).copied()
    }

    /// Notes that it lived at a revision.
    pub(in crate::registry) fn note(&self, namespace: &str, revision: i64) {
        let mut known = self.known.write();
        if known.len() >= NAMESPACES_MAX {
            known.clear();
        }
        known.insert(namespace.into(), revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_known_at_their_revision_and_not_without_bound() {
        let living = Living::default();
        assert_eq!(living.at("a"), None);
        living.note("a", 5);
        living.note("a", 7);
        assert_eq!(living.at("a"), Some(7));
        for number in 0..NAMESPACES_MAX {
            living.note(&number.to_string(), 9);
        }
        assert!(living.known.read().len() <= NAMESPACES_MAX);
        assert_eq!(living.at(&(NAMESPACES_MAX - 1).to_string()), Some(9));
    }
}
