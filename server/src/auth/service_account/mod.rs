//! Service accounts' tokens: signed claims of who a pod is, for whom, and how long (Kubernetes 1.36).
//!
//! * [`accounts`]: how they are issued and believed, and with which keys; [`key`]: keys that sign and keys that are believed; [`jwt`]: the form of a token
//! * [`issue`]: a token is made (`serviceaccounts/token`); [`verify`]: a token is believed, as long as what it is bound to
//!   is there; [`discovery`]: what others need to believe it
//!
//! Invariants: a token is believed only while its account, and the pod, secret or node it is bound to, are there with the
//! same uid; private keys never leave this room.

mod accounts;
mod discovery;
mod issue;
mod jwt;
mod key;
mod verify;

pub use accounts::{DEFAULT_ISSUER, ServiceAccountError, ServiceAccountOptions, ServiceAccounts};
pub use discovery::routes;
pub(super) use issue::issue;
pub use key::KeyError;
pub(super) use verify::Believed;
