//! `lw set`: changes one thing of a pod template.
//!
//! * [`command`]: which things there are
//! * [`image`]: the images of containers

mod command;
mod image;

pub(crate) use command::{SetArgs, run};
