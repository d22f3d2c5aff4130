//! Whole clusters of ours, measured from outside through the commands a person types.
//!
//! * [`cold`]: from nothing to Running pods, and what each process weighs
//! * [`many`]: many Deployments at once
//! * [`recovery`]: from a kill to work done again, for each component
//! * [`up`]: a cluster under measurement

mod cold;
mod many;
mod recovery;
mod up;

pub(crate) use cold::ClusterArgs;
pub(crate) use many::DeploymentsArgs;
pub(crate) use recovery::RecoveryArgs;
