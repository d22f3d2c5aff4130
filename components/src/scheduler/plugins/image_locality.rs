//! ImageLocality: nodes that hold the pod's images already are liked better, the more so the larger the images are and the
//! more nodes hold them (so that one node with an image does not draw all pods).

use crate::scheduler::framework::{CycleState, Plugin, Score};
use crate::scheduler::{NodeInfo, Pod, Snapshot};

const MIB: i64 = 1024 * 1024;
/// Images smaller than this together count for nothing.
const LEAST: i64 = 23 * MIB;
/// What counts of each image at most.
const MOST: i64 = 1000 * MIB;

/// See the module.
pub struct ImageLocality;

/// The part of the nodes that hold each of the pod's images.
struct Spread(Vec<f64>);

impl Plugin for ImageLocality {
    fn name(&self) -> &'static str {
        "ImageLocality"
    }
}

impl Score for ImageLocality {
    fn pre_score(&self, state: &mut CycleState, pod: &Pod, nodes: &Snapshot, _feasible: &[usize]) -> bool {
        let holders = pod.asks().images.iter().map(|name| nodes.nodes_with_image(name));
        let spread: Vec<f64> = holders.map(|count| count as f64 / nodes.len().max(1) as f64).collect();
        let any = spread.iter().any(|part| *part > 0.0);
        state.write(Spread(spread));
        any
    }

    fn score(&self, state: &CycleState, pod: &Pod, node: &NodeInfo) -> i64 {
        let Some(Spread(spread)) = state.read() else { return 0 };
        let (images, held) = (&pod.asks().images, &node.object().images);
        let sum: i64 = images
            .iter()
            .zip(spread)
            .filter(|(_, part)| **part > 0.0)
            .filter_map(|(name, part)| {
                let image = held.iter().find(|image| image.names.iter().any(|n| **n == **name))?;
                Some((image.size as f64 * part) as i64)
            })
            .sum();
        let most = MOST.saturating_mul(images.len() as i64);
        100 * (sum.clamp(LEAST, most) - LEAST) / (most - LEAST)
    }
}
