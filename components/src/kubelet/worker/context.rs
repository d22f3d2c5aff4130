//! What all workers of a kubelet share.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use listwatch_proto::resource::Resources;

use super::{
    super::{pod::backoff::BackoffLimits, runtime::seam::Runtime},
    ConfigMaps, Ledger, Tokens,
};
use crate::{
    client::Api,
    clock::SharedClock,
    runtime::{Recorder, Store},
};

/// Handed to every worker; holds no state of any pod.
#[derive(Clone)]
pub(in crate::kubelet) struct Context {
    /// The node's name.
    pub(in crate::kubelet) node_name: String,
    /// The node's address.
    pub(in crate::kubelet) host_ip: String,
    /// Pods of the API.
    pub(in crate::kubelet) pods: Api<Pod>,
    /// Nodes of the API.
    pub(in crate::kubelet) nodes: Api<Node>,
    /// The pods bound to this node, as last seen.
    pub(in crate::kubelet) pod_store: Store<Pod>,
    /// This node, as last seen.
    pub(in crate::kubelet) node_store: Store<Node>,
    /// What runs the containers.
    pub(in crate::kubelet) runtime: Arc<dyn Runtime>,
    /// Tells Events.
    pub(in crate::kubelet) recorder: Recorder,
    /// Tells the time.
    pub(in crate::kubelet) clock: SharedClock,
    /// Whether the cluster that this kubelet belongs to is gone.
    pub(in crate::kubelet) cluster_has_ended: fn() -> bool,
    /// Pauses after failures.
    pub(in crate::kubelet) backoff: BackoffLimits,
    /// What the node offers.
    pub(in crate::kubelet) allocatable: Resources,
    /// The ConfigMaps that its pods name.
    pub(in crate::kubelet) config_maps: Arc<ConfigMaps>,
    /// The tokens that their volumes ask for.
    pub(in crate::kubelet) tokens: Arc<Tokens>,
    /// What admitted pods have taken of the node.
    pub(in crate::kubelet) ledger: Arc<Ledger>,
}
