//! Deployment: replaces one set of pods by another, step by step (Kubernetes 1.36).
//!
//! * [`view`]: a deployment and its sets as the plan sees them
//! * [`template`]: when two templates are the same, and the hash in a set's name
//! * [`revision`]: numbers of revisions and the annotations that travel
//! * [`fenceposts`], [`rolling`], [`scale`]: how many pods each set may have
//! * [`status`]: what is said of the deployment
//! * [`plan`]: state in, steps out; pure
//! * [`reconciler`]: carries out the steps, writes the status last

pub mod fenceposts;
mod plan;
mod reconciler;
pub mod revision;
pub mod rolling;
pub mod scale;
pub mod status;
pub mod template;
mod view;

pub use plan::{NewSet, Plan, Step, plan};
pub use reconciler::{DeploymentReconciler, deployments_of};
pub use view::{Deployment, Set, Strategy};
