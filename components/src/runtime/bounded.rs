//! A map that stays small: what was put in long ago is forgotten.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// How many Events and their like are remembered (upstream's cache size). Older ones begin anew, which costs an Event too
/// many.
const REMEMBERED_MAX: usize = 4096;

/// A map of so many entries at most, which forgets its oldest.
#[derive(Debug)]
pub(crate) struct Bounded<K, V, const MAX: usize = REMEMBERED_MAX> {
    map: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V, const MAX: usize> Default for Bounded<K, V, MAX> {
    fn default() -> Self {
        Bounded { map: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Eq + Hash + Clone, V, const MAX: usize> Bounded<K, V, MAX> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.map.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// Puts an entry in, or another value into one that is there, which keeps its age.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.map.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.map.remove(&oldest);
            }
        }
    }

    /// Forgets those of which `keep` says no.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.map.retain(|key, value| keep(key, value));
        self.order.retain(|key| self.map.contains_key(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let mut map = Bounded::<usize, usize>::default();
        for key in 0..=REMEMBERED_MAX {
            map.insert(key, key);
        }
        assert!(map.get_mut(&0).is_none() && map.get_mut(&1).is_some());
        map.retain(|key, _| *key > 1);
        assert!(map.get_mut(&1).is_none());
        assert_eq!(map.order.len(), REMEMBERED_MAX - 1);
    }
}
