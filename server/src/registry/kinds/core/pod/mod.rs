//! Pod: containers that run together on a node.
//!
//! * [`strategy`]: what happens at birth and at a change; [`update`] and [`status`]: what a change may do to the spec and
//!   to the status, [`ephemeral`] and [`resize`] what their subresources may; [`print`](mod@print): the columns
//! * what a pod shares with templates of pods (defaults, faults of the spec, warnings) is in `template`

mod ephemeral;
mod print;
mod resize;
mod status;
mod strategy;
mod update;

pub(super) use strategy::PodStrategy;
