//! Which watchers want a key: single keys by hash, ranges by an interval tree.
//!
//! Invariant: the cost of asking follows the watchers found (times log n for ranges), not all there are. Watchers of the
//! same range share one node.
//!
//! The tree is a treap over (first key, end) whose nodes know the largest end below them; the random priorities come
//! from a small generator of its own, so that the shape does not depend on the order of arrival.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::storage::{KeyRange, RangeEnd};

/// Watchers by what they watch.
#[derive(Debug)]
pub struct Groups<W> {
    singles: HashMap<Bytes, Vec<Arc<W>>>,
    ranges: Link<W>,
    priorities: u64,
}

type Link<W> = Option<Box<RangeNode<W>>>;

#[derive(Debug)]
struct RangeNode<W> {
    low: Bytes,
    end: End,
    /// The largest `end` of this node and all below.
    furthest: End,
    priority: u64,
    members: Vec<Arc<W>>,
    left: Link<W>,
    right: Link<W>,
}

/// The end of a range; `None` is beyond every key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct End(Option<Bytes>);

impl End {
    fn is_after(&self, key: &[u8]) -> bool {
        self.0.as_ref().is_none_or(|end| &end[..] > key)
    }
}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => a.cmp(b),
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), None) => Ordering::Less,
        }
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> Default for Groups<W> {
    fn default() -> Self {
        Self { singles: HashMap::new(), ranges: None, priorities: 0x9e37_79b9_7f4a_7c15 }
    }
}

impl<W> Groups<W> {
    /// Adds a watcher.
    pub fn insert(&mut self, range: &KeyRange, watcher: Arc<W>) {
        match &range.end {
            RangeEnd::Single => self.singles.entry(range.key.clone()).or_default().push(watcher),
            _ => {
                // xorshift64: enough to keep the tree level.
                self.priorities ^= self.priorities << 13;
                self.priorities ^= self.priorities >> 7;
                self.priorities ^= self.priorities << 17;
                let root = self.ranges.take();
                self.ranges = Some(insert(root, range.key.clone(), end_of(range), self.priorities, watcher));
            }
        }
    }

    /// Takes a watcher out.
    pub fn remove(&mut self, range: &KeyRange, watcher: &Arc<W>) {
        match &range.end {
            RangeEnd::Single => {
                if let Some(members) = self.singles.get_mut(&range.key) {
                    members.retain(|member| !Arc::ptr_eq(member, watcher));
                    if members.is_empty() {
                        self.singles.remove(&range.key);
                    }
                }
            }
            _ => {
                let root = self.ranges.take();
                self.ranges = remove(root, &range.key, &end_of(range), watcher);
            }
        }
    }

    /// Shows all watchers of a key.
    pub fn interested(&self, key: &[u8], see: &mut impl FnMut(&Arc<W>)) {
        if !self.singles.is_empty()
            && let Some(members) = self.singles.get(key)
        {
            members.iter().for_each(&mut *see);
        }
        stab(&self.ranges, key, see);
    }

    /// Whether nobody watches anything.
    pub fn is_empty(&self) -> bool {
        self.singles.is_empty() && self.ranges.is_none()
    }
}

fn end_of(range: &KeyRange) -> End {
    match &range.end {
        RangeEnd::Before(end) => End(Some(end.clone())),
        RangeEnd::Single | RangeEnd::Unbounded => End(None),
    }
}

impl<W> RangeNode<W> {
    fn compare(&self, low: &Bytes, end: &End) -> Ordering {
        low.cmp(&self.low).then_with(|| end.cmp(&self.end))
    }

    fn update(&mut self) {
        let below = [&self.left, &self.right].into_iter().flatten().map(|node| &node.furthest);
        self.furthest = below.chain([&self.end]).max().expect("there is at least the own end").clone();
    }
}

fn insert<W>(link: Link<W>, low: Bytes, end: End, priority: u64, watcher: Arc<W>) -> Box<RangeNode<W>> {
    let Some(mut node) = link else {
        let furthest = end.clone();
        return Box::new(RangeNode { low, end, furthest, priority, members: vec![watcher], left: None, right: None });
    };
    match node.compare(&low, &end) {
        Ordering::Equal => node.members.push(watcher),
        Ordering::Less => {
            let left = node.left.take();
            node.left = Some(insert(left, low, end, priority, watcher));
            node = lift_left(node);
        }
        Ordering::Greater => {
            let right = node.right.take();
            node.right = Some(insert(right, low, end, priority, watcher));
            node = lift_right(node);
        }
    }
    node.update();
    node
}

fn lift_left<W>(mut node: Box<RangeNode<W>>) -> Box<RangeNode<W>> {
    match node.left.take() {
        Some(mut left) if left.priority > node.priority => {
            node.left = left.right.take();
            node.update();
            left.right = Some(node);
            left
        }
        left => {
            node.left = left;
            node
        }
    }
}

fn lift_right<W>(mut node: Box<RangeNode<W>>) -> Box<RangeNode<W>> {
    match node.right.take() {
        Some(mut right) if right.priority > node.priority => {
            node.right = right.left.take();
            node.update();
            right.left = Some(node);
            right
        }
        right => {
            node.right = right;
            node
        }
    }
}

fn remove<W>(link: Link<W>, low: &Bytes, end: &End, watcher: &Arc<W>) -> Link<W> {
    let mut node = link?;
    match node.compare(low, end) {
        Ordering::Less => {
            let left = node.left.take();
            node.left = remove(left, low, end, watcher);
        }
        Ordering::Greater => {
            let right = node.right.take();
            node.right = remove(right, low, end, watcher);
        }
        Ordering::Equal => {
            node.members.retain(|member| !Arc::ptr_eq(member, watcher));
            if node.members.is_empty() {
                let RangeNode { left, right, .. } = *node;
                return merge(left, right);
            }
        }
    }
    node.update();
    Some(node)
}

fn merge<W>(left: Link<W>, right: Link<W>) -> Link<W> {
    match (left, right) {
        (None, link) | (link, None) => link,
        (Some(mut left), Some(right)) if left.priority > right.priority => {
            let inner = left.right.take();
            left.right = merge(inner, Some(right));
            left.update();
            Some(left)
        }
        (left, Some(mut right)) => {
            let inner = right.left.take();
            right.left = merge(left, inner);
            right.update();
            Some(right)
        }
    }
}

fn stab<W>(link: &Link<W>, key: &[u8], see: &mut impl FnMut(&Arc<W>)) {
    let Some(node) = link else { return };
    if !node.furthest.is_after(key) {
        return;
    }
    stab(&node.left, key, see);
    if *node.low <= *key {
        if node.end.is_after(key) {
            node.members.iter().for_each(&mut *see);
        }
        stab(&node.right, key, see);
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn random_range(rng: &mut StdRng) -> KeyRange {
        let key = |rng: &mut StdRng| Bytes::from(format!("{:03}", rng.random_range(0..300)));
        let low = key(rng);
        match rng.random_range(0..4) {
            0 => KeyRange::single(low),
            1 => KeyRange { key: low, end: RangeEnd::Unbounded },
            2 => KeyRange::prefix(low.slice(..2)),
            _ => KeyRange::between(low, key(rng)),
        }
    }

    #[test]
    fn exactly_the_watchers_of_a_key_are_found() {
        for seed in 0..20 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut groups = Groups::default();
            let mut all: Vec<(KeyRange, Arc<usize>)> = Vec::new();
            for step in 0..400 {
                if !all.is_empty() && rng.random_bool(0.35) {
                    let (range, watcher) = all.swap_remove(rng.random_range(0..all.len()));
                    groups.remove(&range, &watcher);
                } else {
                    let range = random_range(&mut rng);
                    let watcher = Arc::new(step);
                    groups.insert(&range, watcher.clone());
                    all.push((range, watcher));
                }
                let key = format!("{:03}", rng.random_range(0..300));
                let mut found = Vec::new();
                groups.interested(key.as_bytes(), &mut |watcher: &Arc<usize>| found.push(**watcher));
                let wanted = all.iter().filter(|(range, _)| range.contains(key.as_bytes()));
                let mut expected: Vec<usize> = wanted.map(|(_, watcher)| **watcher).collect();
                found.sort_unstable();
                expected.sort_unstable();
                assert_eq!(found, expected, "seed {seed}, key {key}");
            }
            for (range, watcher) in all {
                groups.remove(&range, &watcher);
            }
            assert!(groups.is_empty());
        }
    }
}
