//! Deployment: replaces one set of pods by another, step by step (Kubernetes 1.36).
//!
//! * [`view`]: a deployment and its sets as the plan sees them
//! * [`template`]: when two templates are the same, and the hash in a set's name
//! * [`revision`]: numbers of revisions and the annotations that travel
//! * [`fenceposts`], [`rolling`], [`scale`]: how many pods each set may have
//! * [`status`]: what is said of the deployment
//! * [`plan`]: state in, steps out; pure
//! * [`reconciler`]: carries out the steps, writes the status last
//!
//! # Where a process may die
//!
//! Everything that is remembered stands in objects: a set's template, size and annotations, the deployment's revision,
//! conditions and `collisionCount`. So a new leader makes the plan anew from what is, and finds every step that was taken.
//!
//! | It dies | What is | The next leader |
//! |---|---|---|
//! | before a set is made | no set of the template | makes it |
//! | after, before the answer | a set whose name follows from the template | finds it among its sets; should its cache not show it yet, the server refuses a second one of that name, and a look at it tells our own from a collision |
//! | between the steps of a scaling in proportion | some sets with the new size noted, some with the old | goes on: the ones with an old note are still due, and the whole is still bounded by the size and the surge |
//! | before the revision is written on the deployment | it is one behind its set | writes it: it follows from the sets |
//! | before the status | counts and conditions of before | writes it; progress that was made meanwhile is seen as progress |
//! | between a collision and the writing of its count | the old count | meets the same collision and counts it |
//!
//! A stale leader does no harm: each change of a set and of the deployment names the version that was read, a delete names
//! uid and version, and a set is only made under the one name that its template gives it.

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
