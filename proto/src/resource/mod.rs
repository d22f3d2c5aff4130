//! The resource model: what a kind is, how an object is read and changed, and how failures are told.
//!
//! Objects are JSON; this module gives typed access to the parts that everybody needs and leaves the rest as it came.

mod kind;
pub mod learned;
mod node_affinity;
mod object;
mod quantity;
pub mod quota;
pub mod requests;
mod rows;
mod selector;
mod status;
mod time;
pub mod toleration;

pub use kind::{Kind, KindName, Storage};
pub use learned::{Extension, LearnedKind};
pub use node_affinity::{
    NodeAffinity, NodeLabels, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm,
    node_matches,
};
pub use object::{Object, ObjectKey, OwnerReference};
pub use quantity::{Quantity, QuantityError, QuantityFormat};
pub use requests::{PodResources, QosClass, ResourceRequirements, Resources};
pub use rows::KINDS;
pub use selector::{FieldSelector, LabelSelector, SelectorError};
pub use status::{Cause, Reason, STATUS_TYPE_URL, Status};
pub use time::{micro_time, parse_time, time};
pub use toleration::{Taint, Toleration};
