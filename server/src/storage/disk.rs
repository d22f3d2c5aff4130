//! The seam to files.

/// Files as the log and the side files need them.
pub trait Disk: Send + Sync + std::fmt::Debug {}
