//! A cluster on this machine: where it lives, how it is found, and how its supervisor is spoken to.
//!
//! * [`layout`]: the data folder and what lies where in it
//! * [`locate`]: which cluster a command means
//! * [`control`]: the language of the supervisor's socket

pub(crate) mod control;
pub(crate) mod layout;
pub(crate) mod locate;

pub(crate) use layout::{Layout, replace_file};
