//! The cluster's own certificates: one authority, one certificate for each identity, and the kubeconfigs that carry
//! them.
//!
//! Invariants: a file that is there and good is never rewritten; one that is there and bad is an error that names the
//! file and the cure, never silently replaced. A key is on the disk before its certificate, so that a certificate
//! without its key means damage and a key without a certificate means an interrupted start. Files have mode 0600,
//! folders 0700, and every write is a rename of a synced file.
//!
//! * [`ensure`] opens or makes the authority, [`Pki::issue`] a certificate for an [`Identity`]
//! * [`kubeconfig`] writes what clients start from

mod authority;
mod check;
mod error;
mod file;
mod identity;
pub mod kubeconfig;

pub use authority::{Credentials, Pki, ensure};
pub use error::Error;
pub use identity::Identity;

#[cfg(test)]
mod tests;
