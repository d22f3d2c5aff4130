//! Runtimes: what turns a pod's containers into something that runs.

pub mod process;
