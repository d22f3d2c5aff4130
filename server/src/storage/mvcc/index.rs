//! The ordered, counted map of all keys: a B+ tree whose inner nodes know how many live keys are below each child.
//!
//! Invariants: entries are in key order; every leaf but an empty root has an entry; a child's `low` is at or below its
//! first key and above all keys of the child before; a child's `live` is the number of live entries below it. So a count
//! over a range, or the step to its first key, costs O(log n), whatever the range holds.

use std::ops::ControlFlow;

use super::key_index::KeyEntry;
use crate::storage::{KeyRange, RangeEnd};

/// Entries of a leaf: 64 of 80 bytes move in one or two microseconds, and 16,000 leaves hold a million keys.
const LEAF_MAX: usize = 64;
/// Children of an inner node.
const INNER_MAX: usize = 64;
/// A node below this many is joined with a neighbour if both fit.
const JOIN_BELOW: usize = 16;

/// All keys with their versions.
#[derive(Debug)]
pub struct Index {
    root: Node,
    len: usize,
    live: usize,
}

#[derive(Debug)]
enum Node {
    Leaf(Vec<KeyEntry>),
    Inner(Vec<Child>),
}

#[derive(Debug)]
struct Child {
    low: Box<[u8]>,
    live: usize,
    node: Box<Node>,
}

/// A new right neighbour of a node that was full.
struct Split {
    low: Box<[u8]>,
    live: usize,
    node: Node,
}

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// No keys.
    pub fn new() -> Self {
        Self { root: Node::Leaf(Vec::new()), len: 0, live: 0 }
    }

    /// How many keys there are, dead ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key, not even a dead one.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many keys are alive.
    pub fn live(&self) -> usize {
        self.live
    }

    /// The entry of a key.
    pub fn get(&self, key: &[u8]) -> Option<&KeyEntry> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(entries) => return search(entries, key).ok().map(|index| &entries[index]),
                Node::Inner(children) => node = &children[child_for(children, key)].node,
            }
        }
    }

    /// Changes a key's entry, or puts in the one that `make` gives. `change` may turn it from alive to dead and back.
    pub fn upsert<C>(
        &mut self,
        key: &[u8],
        context: C,
        change: impl FnOnce(&mut KeyEntry, C),
        make: impl FnOnce(C) -> KeyEntry,
    ) {
        let mut grown = Growth::default();
        let split = self.root.upsert(key, context, change, make, &mut grown);
        if let Some(split) = split {
            let live_below = self.live.checked_add_signed(grown.live).expect("a count is not negative") - split.live;
            let left = std::mem::replace(&mut self.root, Node::Inner(Vec::with_capacity(INNER_MAX)));
            let Node::Inner(children) = &mut self.root else { unreachable!("just made") };
            children.push(Child { low: Box::default(), live: live_below, node: Box::new(left) });
            children.push(Child { low: split.low, live: split.live, node: Box::new(split.node) });
        }
        self.len += usize::from(grown.inserted);
        self.live = self.live.checked_add_signed(grown.live).expect("a count is not negative");
    }

    /// Changes an entry in place if it is there; it must stay alive or dead as it was.
    pub fn update<T>(&mut self, key: &[u8], change: impl FnOnce(&mut KeyEntry) -> T) -> Option<T> {
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let index = search(entries, key).ok()?;
                    let was = entries[index].is_live();
                    let answer = change(&mut entries[index]);
                    assert_eq!(was, entries[index].is_live(), "an update keeps a key alive or dead");
                    return Some(answer);
                }
                Node::Inner(children) => {
                    let index = child_for(children, key);
                    node = &mut children[index].node;
                }
            }
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &[u8]) -> Option<KeyEntry> {
        let removed = self.root.remove(key)?;
        self.len -= 1;
        self.live -= usize::from(removed.is_live());
        while let Node::Inner(children) = &mut self.root {
            if children.len() != 1 {
                break;
            }
            let only = children.pop().expect("there is one");
            self.root = *only.node;
        }
        Some(removed)
    }

    /// How many live keys a range holds.
    pub fn count(&self, range: &KeyRange) -> usize {
        match &range.end {
            RangeEnd::Single => usize::from(self.get(&range.key).is_some_and(KeyEntry::is_live)),
            RangeEnd::Before(end) => self.rank(end).saturating_sub(self.rank(&range.key)),
            RangeEnd::Unbounded => self.live - self.rank(&range.key),
        }
    }

    /// How many live keys are below a key.
    pub fn rank(&self, key: &[u8]) -> usize {
        let mut below = 0;
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(entries) => {
                    let index = search(entries, key).unwrap_or_else(|index| index);
                    return below + entries[..index].iter().filter(|entry| entry.is_live()).count();
                }
                Node::Inner(children) => {
                    let index = child_for(children, key);
                    below += children[..index].iter().map(|child| child.live).sum::<usize>();
                    node = &children[index].node;
                }
            }
        }
    }

    /// Shows entries in key order, dead ones too, until told to stop or the range ends.
    pub fn visit(&self, range: &KeyRange, see: &mut dyn FnMut(&KeyEntry) -> ControlFlow<()>) {
        if range.is_single() {
            if let Some(entry) = self.get(&range.key) {
                let _ = see(entry);
            }
            return;
        }
        let _ = self.root.visit(&range.key, &mut |entry| {
            if range.contains(&entry.key) { see(entry) } else { ControlFlow::Break(()) }
        });
    }

    /// Shows entries from a key on for changing what does not decide whether they are alive.
    pub fn visit_mut(&mut self, from: &[u8], see: &mut dyn FnMut(&mut KeyEntry) -> ControlFlow<()>) {
        let _ = self.root.visit_mut(from, see);
    }
}

#[derive(Default)]
struct Growth {
    inserted: bool,
    live: isize,
}

/// Keys that arrive in order, as those of a start do, are found behind the last one without a search.
fn search(entries: &[KeyEntry], key: &[u8]) -> Result<usize, usize> {
    if entries.last().is_none_or(|last| *last.key < *key) {
        return Err(entries.len());
    }
    entries.binary_search_by(|entry| (*entry.key).cmp(key))
}

/// The child that holds a key or would.
fn child_for(children: &[Child], key: &[u8]) -> usize {
    if children.last().is_some_and(|last| *last.low <= *key) {
        return children.len() - 1;
    }
    children.partition_point(|child| *child.low <= *key).saturating_sub(1)
}

impl Node {
    fn upsert<C>(
        &mut self,
        key: &[u8],
        context: C,
        change: impl FnOnce(&mut KeyEntry, C),
        make: impl FnOnce(C) -> KeyEntry,
        grown: &mut Growth,
    ) -> Option<Split> {
        match self {
            Node::Leaf(entries) => match search(entries, key) {
                Ok(index) => {
                    let entry = &mut entries[index];
                    let was = entry.is_live();
                    change(entry, context);
                    grown.live = isize::from(entry.is_live()) - isize::from(was);
                    None
                }
                Err(index) => {
                    let entry = make(context);
                    grown.inserted = true;
                    grown.live = isize::from(entry.is_live());
                    entries.insert(index, entry);
                    split_leaf(entries, index)
                }
            },
            Node::Inner(children) => {
                let index = child_for(children, key);
                let child = &mut children[index];
                let split = child.node.upsert(key, context, change, make, grown);
                child.live = child.live.checked_add_signed(grown.live).expect("a count is not negative");
                if let Some(split) = split {
                    child.live -= split.live;
                    let right = Child { low: split.low, live: split.live, node: Box::new(split.node) };
                    children.insert(index + 1, right);
                }
                split_inner(children)
            }
        }
    }

    fn remove(&mut self, key: &[u8]) -> Option<KeyEntry> {
        match self {
            Node::Leaf(entries) => search(entries, key).ok().map(|index| entries.remove(index)),
            Node::Inner(children) => {
                let index = child_for(children, key);
                let removed = children[index].node.remove(key)?;
                children[index].live -= usize::from(removed.is_live());
                if children[index].node.len() == 0 {
                    children.remove(index);
                } else if children[index].node.len() < JOIN_BELOW {
                    join(children, index);
                }
                Some(removed)
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner(children) => children.len(),
        }
    }

    fn visit(&self, from: &[u8], see: &mut dyn FnMut(&KeyEntry) -> ControlFlow<()>) -> ControlFlow<()> {
        match self {
            Node::Leaf(entries) => {
                let first = search(entries, from).unwrap_or_else(|index| index);
                entries[first..].iter().try_for_each(see)
            }
            Node::Inner(children) => {
                children[child_for(children, from)..].iter().try_for_each(|child| child.node.visit(from, see))
            }
        }
    }

    fn visit_mut(&mut self, from: &[u8], see: &mut dyn FnMut(&mut KeyEntry) -> ControlFlow<()>) -> ControlFlow<()> {
        match self {
            Node::Leaf(entries) => {
                let first = search(entries, from).unwrap_or_else(|index| index);
                for entry in &mut entries[first..] {
                    let was = entry.is_live();
                    let flow = see(entry);
                    assert_eq!(was, entry.is_live(), "a visit keeps a key alive or dead");
                    flow?;
                }
                ControlFlow::Continue(())
            }
            Node::Inner(children) => {
                let first = child_for(children, from);
                children[first..].iter_mut().try_for_each(|child| child.node.visit_mut(from, see))
            }
        }
    }
}

fn split_leaf(entries: &mut Vec<KeyEntry>, inserted: usize) -> Option<Split> {
    if entries.len() <= LEAF_MAX {
        return None;
    }
    // Keys that arrive in order leave full leaves behind, others half-full ones.
    let right = entries.split_off(if inserted == entries.len() - 1 { inserted } else { LEAF_MAX / 2 });
    let low = right[0].key.clone();
    let live = right.iter().filter(|entry| entry.is_live()).count();
    Some(Split { low, live, node: Node::Leaf(right) })
}

fn split_inner(children: &mut Vec<Child>) -> Option<Split> {
    if children.len() <= INNER_MAX {
        return None;
    }
    let mut right = children.split_off(INNER_MAX / 2);
    let low = std::mem::take(&mut right[0].low);
    let live = right.iter().map(|child| child.live).sum();
    Some(Split { low, live, node: Node::Inner(right) })
}

/// Joins a small node with a neighbour, if both fit into one.
fn join(children: &mut Vec<Child>, index: usize) {
    let left = if index > 0 { index - 1 } else { index };
    if left + 1 >= children.len() {
        return;
    }
    let fits = match (&*children[left].node, &*children[left + 1].node) {
        (Node::Leaf(a), Node::Leaf(b)) => a.len() + b.len() <= LEAF_MAX,
        (Node::Inner(a), Node::Inner(b)) => a.len() + b.len() <= INNER_MAX,
        _ => false,
    };
    if !fits {
        return;
    }
    let Child { low, live, node } = children.remove(left + 1);
    let target = &mut children[left];
    target.live += live;
    match (&mut *target.node, *node) {
        (Node::Leaf(entries), Node::Leaf(more)) => entries.extend(more),
        (Node::Inner(nodes), Node::Inner(mut more)) => {
            // The first child of an inner node has no need of a low key of its own, until it is no longer the first.
            more[0].low = low;
            nodes.extend(more);
        }
        _ => unreachable!("both kinds were compared above"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::super::key_index::Version;
    use super::*;
    use crate::storage::log::Location;
    use crate::storage::revision::Place;

    fn version(main: i64, tombstone: bool) -> Version {
        Version::new(Place { main, sub: 0 }, tombstone, Location { segment: 1, offset: 64, len: 80 })
    }

    fn write(index: &mut Index, key: &[u8], main: i64, tombstone: bool) {
        index.upsert(
            key,
            (),
            |entry, ()| entry.push(version(main, tombstone)),
            |()| KeyEntry {
                key: key.into(),
                head: version(main, tombstone),
                create_revision: main,
                version: 1,
                lease: 0,
                cached: None,
                older: None,
            },
        );
    }

    fn random_key(rng: &mut StdRng) -> Vec<u8> {
        format!("{:04}", rng.random_range(0..3000)).into_bytes()
    }

    #[test]
    fn counts_order_and_removal_agree_with_a_plain_map() {
        for seed in 0..8 {
            let mut rng = StdRng::seed_from_u64(seed);
            let mut index = Index::new();
            let mut model: BTreeMap<Vec<u8>, bool> = BTreeMap::new();
            for main in 1..20_000 {
                let key = random_key(&mut rng);
                // Later rounds mostly remove, so that nodes shrink and join.
                if rng.random_bool(if main < 12_000 { 0.2 } else { 0.7 }) {
                    assert_eq!(index.remove(&key).is_some(), model.remove(&key).is_some(), "seed {seed}");
                } else {
                    let tombstone = rng.random_bool(0.3);
                    write(&mut index, &key, main, tombstone);
                    model.insert(key, !tombstone);
                }
                if main % 500 == 0 {
                    compare(&index, &model, &mut rng, seed);
                }
            }
        }
    }

    fn compare(index: &Index, model: &BTreeMap<Vec<u8>, bool>, rng: &mut StdRng, seed: u64) {
        assert_eq!(index.len(), model.len(), "seed {seed}");
        assert_eq!(index.live(), model.values().filter(|live| **live).count(), "seed {seed}");
        let mut seen = Vec::new();
        index.visit(&KeyRange::all(), &mut |entry| {
            seen.push((entry.key.to_vec(), entry.is_live()));
            ControlFlow::Continue(())
        });
        assert!(seen.iter().map(|(key, live)| (key, live)).eq(model.iter()), "seed {seed}");
        for _ in 0..20 {
            let (a, b) = (random_key(rng), random_key(rng));
            let range = KeyRange::between(a.clone(), b.clone());
            let expected = if a < b { model.range(a..b).filter(|(_, live)| **live).count() } else { 0 };
            assert_eq!(index.count(&range), expected, "seed {seed}, {range:?}");
        }
    }

    #[test]
    fn ascending_keys_fill_their_leaves() {
        let mut index = Index::new();
        for main in 1..=10_000_i64 {
            write(&mut index, &main.to_be_bytes(), main, false);
        }
        let mut leaves = 0;
        fn count(node: &Node, leaves: &mut usize) {
            match node {
                Node::Leaf(_) => *leaves += 1,
                Node::Inner(children) => children.iter().for_each(|child| count(&child.node, leaves)),
            }
        }
        count(&index.root, &mut leaves);
        assert!(leaves < 10_000 / 50, "{leaves} leaves for 10,000 ascending keys");
    }
}
