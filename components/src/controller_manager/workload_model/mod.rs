//! The plans of deployments and replica sets together, against chance (tests only).
//!
//! * [`world`]: the server (a list of states), views that lag, kubelets
//! * [`controllers`]: what the reconcilers do with a plan, on that world; they may die between any two writes
//! * [`runs`]: random sequences of edits, and what must hold in them
//!
//! Invariants of the model are those of the real thing: a write is refused if the object is not as it was read; nobody
//! decides on a view older than the own last write; who starts anew first sees everything that was written before. What
//! was on its way when a process died may be carried out later.

mod controllers;
mod runs;
mod world;
