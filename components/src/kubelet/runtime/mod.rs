//! Runtimes: what turns a pod's containers into something that runs.
//!
//! * [`seam`]: what a kubelet asks of one
//! * [`process`]: containers as processes of this machine
//! * [`simulated`]: containers that are only said to run
//! * [`kept`]: what both keep of a pod in its file

mod kept;
pub mod process;
pub mod seam;
pub mod simulated;
