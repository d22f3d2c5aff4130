//! The scheduler without wires: what the watches say goes in by hand, decisions come out, time is moved by hand.

mod bench;
mod cures;
mod cycles;
mod preemption;
mod races;
mod sampling;
