//! `lw rollout`: how a Deployment goes from one template to the next.
//!
//! * [`command`]: the subcommands and their flags
//! * [`status`]: waits until a rollout is done
//! * [`history`]: the revisions there are
//! * [`undo`]: back to one of them
//! * [`change`]: restart, pause, resume

mod change;
mod command;
mod history;
mod status;
mod undo;

pub(crate) use command::{RolloutArgs, run};
