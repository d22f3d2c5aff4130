//! The engine as a whole, on the lying disk and on the real one.

mod basics;
mod checkpoints;
mod folder;
mod harness;
mod leases;
mod lost;
mod model;
mod power;
mod watching;
