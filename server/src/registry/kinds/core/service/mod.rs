//! Service: a name and an address for pods, wherever they are.
//!
//! * [`strategy`]: the strategy; [`defaults`]: what is filled in and what is wiped; [`validation`]: faults;
//!   [`families`]: addresses, families and their policy; [`warnings`] and [`print`]: what is told and shown
//! * [`allocation`]: addresses and node ports that the server hands out; [`ports`]: the latter

mod allocation;
mod defaults;
mod families;
mod ports;
mod print;
mod spec;
mod strategy;
mod validation;
mod warnings;

pub(super) use strategy::ServiceStrategy;
