//! The controller manager: one process for the controllers, each in a folder of its own.
//!
//! A controller is a plan and a reconciler. The plan is a pure function: what is goes in, what is to be done comes out, so
//! it is tested as a table. The reconciler reads the shared caches, carries the plan out and writes the status last.
//! Invariants: nothing is remembered that may not be lost; ownership goes by uid; what destroys carries a precondition;
//! nobody decides on a cache older than the own last write; a leader that has lost its Lease does no harm with the writes
//! that are still under way.
//!
//! In reading order: [`pod`], [`node`], [`bare`] (what is cached), [`owned`], [`caches`], [`ownership`]; then [`replica_set`], [`deployment`],
//! [`node_lifecycle`], [`taint_eviction`], [`pod_gc`], [`disruption`], [`garbage_collector`], [`namespace`], [`resource_quota`],
//! [`service_account`], [`root_ca`], [`role_aggregation`]; `custom_kinds` follows what is defined meanwhile; [`program`] puts them together.

pub mod bare;
pub mod node;
pub mod pod;

pub mod caches;
pub mod owned;
pub mod ownership;
mod pod_status;
mod tools;

pub mod deployment;
pub mod disruption;
pub mod garbage_collector;
pub mod namespace;
pub mod node_lifecycle;
pub mod pod_gc;
pub mod replica_set;
pub mod resource_quota;
pub mod role_aggregation;
pub mod root_ca;
pub mod service_account;
pub mod taint_eviction;

mod custom_kinds;
mod program;
mod wiring;
#[cfg(test)]
mod workload_model;

pub use program::{Error, Options, run};
