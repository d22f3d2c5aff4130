//! Pod workers: one task for each pod, which moves it strictly forward: run, stop, gone.
//!
//! * [`context`]: what all workers share
//! * [`ledger`]: what admitted pods have taken of the node
//! * [`writer`]: tells the API the status of one pod, until it has it
//! * [`config_maps`]: the ConfigMaps that pods name; [`volumes`], [`volume_files`]: what is made of them on disk
//! * [`tokens`]: the service account tokens that volumes ask for
//! * [`actions`]: what probes and hooks do; [`probes`]: who asks; [`stopper`]: hooks before an end
//! * [`start`]: one container from image to process, with its Events
//! * [`pod`]: the worker itself; [`sync`]: while its pod runs; [`stop`]: when it ends
//! * [`workers`]: which pods have a worker

mod actions;
mod config_maps;
mod context;
mod ledger;
mod pod;
mod probes;
mod start;
mod stop;
mod stopper;
mod sync;
mod tokens;
mod volume_files;
mod volumes;
mod workers;
mod writer;

pub(super) use config_maps::ConfigMaps;
pub(super) use context::Context;
pub(super) use ledger::Ledger;
pub(super) use tokens::Tokens;
pub(super) use workers::Workers;
