//! Amounts of resources in the form the scheduler adds up: whole numbers in fixed places.
//!
//! Invariant: cpu is in thousandths of a core, everything else in whole units, each rounded up once when it is read; so
//! adding and taking away the same pod leaves what was there.

use std::sync::Arc;

use listwatch_proto::resource::Resources;
use listwatch_proto::resource::requests::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};

/// Requests of a pod or of all pods of a node, or what a node offers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Amounts {
    /// Thousandths of a core.
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// The number of pods a node takes; not used for requests.
    pub pods: i64,
    /// Extended resources, huge pages and the like, sorted by name.
    scalars: Vec<(Arc<str>, i64)>,
}

impl Amounts {
    /// Reads amounts by name; names that the scheduler does not count are left out.
    pub fn of(resources: &Resources) -> Self {
        let mut amounts = Amounts::default();
        for (name, quantity) in resources {
            match name.as_str() {
                CPU => amounts.milli_cpu = quantity.milli_value(),
                MEMORY => amounts.memory = quantity.value(),
                EPHEMERAL_STORAGE => amounts.ephemeral_storage = quantity.value(),
                PODS => amounts.pods = quantity.value(),
                name if is_scalar(name) => amounts.scalars.push((Arc::from(name), quantity.value())),
                _ => {}
            }
        }
        amounts
    }

    /// Thousandths of a core and places for pods, and nothing else.
    #[cfg(test)]
    pub(super) fn sample(milli_cpu: i64, pods: i64) -> Self {
        Amounts { milli_cpu, pods, ..Amounts::default() }
    }

    /// The amount of an extended resource; zero if it is not there.
    pub fn scalar(&self, name: &str) -> i64 {
        self.scalars.binary_search_by(|(n, _)| (**n).cmp(name)).map_or(0, |at| self.scalars[at].1)
    }

    /// The extended resources, sorted by name.
    pub fn scalars(&self) -> impl Iterator<Item = (&str, i64)> {
        self.scalars.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// Whether nothing but a pod's place is asked for.
    pub fn is_zero(&self) -> bool {
        self.milli_cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.scalars.iter().all(|s| s.1 == 0)
    }

    /// Whether there is less of some resource here than there.
    pub fn is_less_somewhere(&self, other: &Amounts) -> bool {
        self.milli_cpu < other.milli_cpu
            || self.memory < other.memory
            || self.ephemeral_storage < other.ephemeral_storage
            || other.scalars().any(|(name, amount)| self.scalar(name) < amount)
    }

    /// Adds other amounts.
    pub fn add(&mut self, other: &Amounts) {
        self.apply(other, i64::saturating_add);
    }

    /// Takes other amounts away.
    pub fn sub(&mut self, other: &Amounts) {
        self.apply(other, i64::saturating_sub);
    }

    fn apply(&mut self, other: &Amounts, op: fn(i64, i64) -> i64) {
        self.milli_cpu = op(self.milli_cpu, other.milli_cpu);
        self.memory = op(self.memory, other.memory);
        self.ephemeral_storage = op(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.scalars {
            match self.scalars.binary_search_by(|(n, _)| n.cmp(name)) {
                Ok(at) => self.scalars[at].1 = op(self.scalars[at].1, *amount),
                Err(at) => self.scalars.insert(at, (name.clone(), op(0, *amount))),
            }
        }
    }
}

/// Whether a resource beyond the four counted in places is counted at all: extended resources (`example.com/gpu`),
/// huge pages, attachable volumes (Kubernetes 1.36, `IsScalarResourceName`).
fn is_scalar(name: &str) -> bool {
    name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains("kubernetes.io/")
        || (name.contains('/') && !name.starts_with("requests."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(pairs: &[(&str, &str)]) -> Amounts {
        Amounts::of(&pairs.iter().map(|(n, q)| ((*n).to_owned(), q.parse().expect("a quantity"))).collect())
    }

    #[test]
    fn what_is_added_can_be_taken_away() {
        let mut sum = amounts(&[("cpu", "100m"), ("example.com/gpu", "1")]);
        let before = sum.clone();
        let more = amounts(&[("cpu", "1.5"), ("memory", "1Gi"), ("example.com/fpga", "2"), ("example.com/gpu", "3")]);
        sum.add(&more);
        assert_eq!((sum.milli_cpu, sum.scalar("example.com/gpu"), sum.scalar("example.com/fpga")), (1600, 4, 2));
        sum.sub(&more);
        assert_eq!((sum.milli_cpu, sum.memory, sum.scalar("example.com/gpu")), (before.milli_cpu, 0, 1));
        assert_eq!(sum.scalar("example.com/fpga"), 0);
    }

    #[test]
    fn less_of_one_resource_is_less_somewhere() {
        let big = amounts(&[("cpu", "1"), ("memory", "1Gi"), ("example.com/gpu", "2")]);
        assert!(!big.is_less_somewhere(&big));
        assert!(amounts(&[("cpu", "2"), ("memory", "1Gi")]).is_less_somewhere(&big));
        assert!(amounts(&[("cpu", "1"), ("memory", "1Mi"), ("example.com/gpu", "2")]).is_less_somewhere(&big));
        assert!(!big.is_less_somewhere(&amounts(&[("cpu", "500m"), ("example.com/gpu", "1")])));
    }

    #[test]
    fn uncounted_names_are_left_out() {
        assert!(amounts(&[("storage", "1Gi"), ("requests.example.com/x", "1")]).is_zero());
        assert!(!amounts(&[("hugepages-2Mi", "4Mi")]).is_zero());
    }
}
