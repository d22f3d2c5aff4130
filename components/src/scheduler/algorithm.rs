//! One scheduling cycle: a pod and a snapshot in, a node or a diagnosis out.
//!
//! Invariant: reads nothing but its arguments; the only state kept between cycles is where the search begins and the
//! generator that breaks ties, both given at the start.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::framework::{CycleState, Diagnosis, NodeNames, Profile, Rejection};
use super::{Pod, Snapshot};

/// Below this number of nodes all are looked at; at least so many that fit are wanted above it (Kubernetes 1.36).
const FEASIBLE_MIN: usize = 100;

/// Finds nodes for pods.
#[derive(Debug)]
pub struct Algorithm {
    /// How many of the nodes must fit before the search ends, in percent; 0: fewer the more nodes there are.
    percentage: u8,
    next_start: usize,
    ties: StdRng,
}

/// Where a pod goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: Arc<str>,
    /// The scores that decided; empty if only one node fitted.
    pub scores: Scores,
}

/// The scores of the nodes that fitted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scores {
    /// Places of the nodes in the snapshot.
    pub places: Vec<usize>,
    /// Weighted scores by plugin, in the order of `places`.
    pub plugins: Vec<(&'static str, Vec<i64>)>,
    /// Their sums.
    pub totals: Vec<i64>,
}

impl Algorithm {
    /// A search that begins at the first node; ties are broken by a generator with this seed.
    pub fn new(percentage: u8, seed: u64) -> Self {
        Algorithm { percentage: percentage.min(100), next_start: 0, ties: StdRng::seed_from_u64(seed) }
    }

    /// Finds the best node for the pod, or says why there is none.
    pub fn schedule(&mut self, profile: &Profile, nodes: &Snapshot, pod: &Pod) -> Result<Placement, Box<Diagnosis>> {
        if nodes.is_empty() {
            return Err(Box::default());
        }
        let mut state = CycleState::default();
        let narrowed = pre_filter(profile, &mut state, pod, nodes)
            .map_err(|refusal| Box::new(refused_by_pre_filter(nodes.len(), refusal)))?;
        // A node that was promised is not compared with others.
        if let Some(node) = self.promised(profile, &state, pod, nodes) {
            return Ok(Placement { node, scores: Scores::default() });
        }
        let (feasible, rejections) = self.filter(profile, &state, pod, nodes, narrowed.as_ref().map(|n| &n.names));
        match feasible.as_slice() {
            [] => {
                let others = narrowed.map(|n| n.left_out());
                let mut diagnosis = Diagnosis { nodes: nodes.len(), rejections, others, ..Diagnosis::default() };
                let turn = self.ties.random_range(0..nodes.len());
                for plugin in &profile.post_filters {
                    let outcome = plugin.post_filter(profile, &state, pod, nodes, &diagnosis, turn);
                    (diagnosis.post_filter, diagnosis.nomination) = (outcome.message, outcome.nomination);
                }
                Err(Box::new(diagnosis))
            }
            [only] => Ok(Placement { node: name(nodes, *only), scores: Scores::default() }),
            _ => {
                let scores = score(profile, &mut state, pod, nodes, feasible);
                let best = self.pick(&scores.totals);
                Ok(Placement { node: name(nodes, scores.places[best]), scores })
            }
        }
    }

    /// The node that the pod was promised, if it fits there now.
    fn promised(&self, profile: &Profile, state: &CycleState, pod: &Pod, nodes: &Snapshot) -> Option<Arc<str>> {
        let name = nodes.nominations().of(&pod.key)?;
        let node = nodes.node(nodes.place(name)?);
        profile.fits(state, pod, node, nodes.nominations().on(name)).is_ok().then(|| node.object().name.clone())
    }

    /// Filters nodes until enough fit, beginning where the last search ended.
    fn filter(
        &mut self,
        profile: &Profile,
        state: &CycleState,
        pod: &Pod,
        nodes: &Snapshot,
        names: Option<&NodeNames>,
    ) -> (Vec<usize>, Vec<(usize, Rejection)>) {
        let (mut feasible, mut rejections) = (Vec::new(), Vec::new());
        let mut judge = |place: usize, feasible: &mut Vec<usize>| {
            let node = nodes.node(place);
            match profile.fits(state, pod, node, nodes.nominations().on(&node.object().name)) {
                Ok(()) => feasible.push(place),
                Err(refusal) => rejections.push((place, refusal)),
            };
        };
        if let Some(names) = names {
            names.iter().filter_map(|n| nodes.place(n)).for_each(|place| judge(place, &mut feasible));
            return (feasible, rejections);
        }
        let wanted = self.wanted(nodes.len());
        let start = self.next_start % nodes.len();
        let mut examined = 0;
        while examined < nodes.len() && feasible.len() < wanted {
            judge((start + examined) % nodes.len(), &mut feasible);
            examined += 1;
        }
        self.next_start = (start + examined) % nodes.len();
        (feasible, rejections)
    }

    /// How many nodes that fit are enough.
    fn wanted(&self, nodes: usize) -> usize {
        if nodes < FEASIBLE_MIN || self.percentage == 100 {
            return nodes;
        }
        let percent = match self.percentage {
            0 => 50_usize.saturating_sub(nodes / 125).max(5),
            given => usize::from(given),
        };
        (nodes * percent / 100).max(FEASIBLE_MIN)
    }

    /// One of the best, each as likely as the others.
    fn pick(&mut self, totals: &[i64]) -> usize {
        let (mut best, mut equal) = (0, 0_u32);
        for (at, total) in totals.iter().enumerate() {
            match total.cmp(&totals[best]) {
                std::cmp::Ordering::Greater => (best, equal) = (at, 1),
                std::cmp::Ordering::Equal => {
                    equal += 1;
                    if self.ties.random_range(0..equal) == 0 {
                        best = at;
                    }
                }
                std::cmp::Ordering::Less => {}
            }
        }
        best
    }
}

/// The only nodes worth looking at, and who says so.
struct Narrowed {
    names: NodeNames,
    by: Vec<&'static str>,
}

impl Narrowed {
    /// What is said of the nodes that were not looked at.
    fn left_out(&self) -> Rejection {
        let reason = format!("node(s) didn't satisfy plugin(s) [{}]", self.by.join(" "));
        Rejection::unresolvable(self.by.first().copied().unwrap_or_default(), reason)
    }
}

fn pre_filter(
    profile: &Profile,
    state: &mut CycleState,
    pod: &Pod,
    nodes: &Snapshot,
) -> Result<Option<Narrowed>, Rejection> {
    let mut narrowed: Option<Narrowed> = None;
    for plugin in &profile.pre_filters {
        let Some(names) = plugin.pre_filter(state, pod, nodes)? else { continue };
        let narrowed = narrowed.get_or_insert_with(|| Narrowed { names: names.clone(), by: Vec::new() });
        narrowed.names.retain(|name| names.contains(name));
        narrowed.by.push(plugin.name());
    }
    Ok(narrowed)
}

fn refused_by_pre_filter(nodes: usize, refusal: Rejection) -> Diagnosis {
    let words = refusal.reasons.join(", ");
    // The post-filters of Kubernetes 1.36 find no state of the pre-filters that did not run; their words, as recorded.
    Diagnosis {
        nodes,
        others: Some(refusal),
        pre_filter: Some(words),
        post_filter: "not found".into(),
        ..Diagnosis::default()
    }
}

fn score(profile: &Profile, state: &mut CycleState, pod: &Pod, nodes: &Snapshot, places: Vec<usize>) -> Scores {
    let mut scores = Scores { totals: vec![0; places.len()], places, plugins: Vec::new() };
    for weighted in &profile.scores {
        if !weighted.plugin.pre_score(state, pod, nodes, &scores.places) {
            continue;
        }
        let places = scores.places.iter();
        let mut of: Vec<i64> = places.map(|place| weighted.plugin.score(state, pod, nodes.node(*place))).collect();
        weighted.plugin.normalize(&mut of);
        for (total, score) in scores.totals.iter_mut().zip(&mut of) {
            *score *= weighted.weight;
            *total += *score;
        }
        scores.plugins.push((weighted.plugin.name(), of));
    }
    scores
}

fn name(nodes: &Snapshot, place: usize) -> Arc<str> {
    nodes.node(place).object().name.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_nodes_are_fewer_the_more_there_are() {
        let wanted = |nodes| Algorithm::new(0, 1).wanted(nodes);
        assert_eq!([wanted(99), wanted(100), wanted(1000), wanted(5000), wanted(10_000)], [99, 100, 420, 500, 500]);
        assert_eq!(Algorithm::new(100, 1).wanted(5000), 5000);
        assert_eq!(Algorithm::new(30, 1).wanted(5000), 1500);
    }

    #[test]
    fn ties_are_broken_evenly() {
        let mut algorithm = Algorithm::new(0, 7);
        let mut counts = [0; 4];
        for _ in 0..3000 {
            counts[algorithm.pick(&[5, 9, 9, 9])] += 1;
        }
        assert_eq!(counts[0], 0);
        assert!(counts[1..].iter().all(|c| (850..1150).contains(c)), "{counts:?}");
    }
}
