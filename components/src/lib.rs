//! The components of a control plane: everything that is a client of the server.
//!
//! Invariants: this crate stands on `proto` alone and meets the server on the wire; all memory here is cache, so that
//! any program may die at any time and lose only time. In reading order:
//!
//! * [`clock`]: the only reader of wall time
//! * [`client`]: connection, identity and typed access to objects
//! * [`runtime`]: what every controller is made of: reflector, indexer, informer, work queue, controller, leader
//!   election, event recorder
//! * [`kubelet`]: runs the pods of one node
//! * [`controller_manager`]: makes what is equal to what is wanted
//! * [`scheduler`]: gives each waiting pod a node

pub mod client;
pub mod clock;
pub mod controller_manager;
pub mod kubelet;
pub mod runtime;
pub mod scheduler;
