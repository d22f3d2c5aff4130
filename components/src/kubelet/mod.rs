//! The kubelet: runs the pods of one node and tells the API how they fare.

pub mod runtime;
