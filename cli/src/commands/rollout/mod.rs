//! `lw rollout`: how a Deployment, a DaemonSet or a StatefulSet goes from one template to the next.
//!
//! * [`command`]: the subcommands and their flags
//! * [`status`]: waits until a rollout is done
//! * [`history`]: the revisions there are
//! * [`undo`]: back to one of them
//! * [`controlled`]: revisions of DaemonSets and StatefulSets
//! * [`change`]: restart, pause, resume

mod change;
mod command;
mod controlled;
mod history;
mod status;
mod undo;

pub(crate) use command::{RolloutArgs, run};
