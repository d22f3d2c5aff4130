//! Runtimes: what turns a pod's containers into something that runs.
//!
//! * [`seam`]: what a kubelet asks of one
//! * [`process`]: containers as processes of this machine

pub mod process;
pub mod seam;
