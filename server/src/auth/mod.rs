//! Who asks, and whether they may.
//!
//! A connection shows a certificate or a request shows a token: [`Authenticator`] turns that into a user, who may ask to
//! act as another (`impersonation`). What is asked is read from the request (`asked`) and judged by the [`Authorizer`]:
//! kubelets by what belongs to their node (`node`), everybody by roles and bindings (`rbac`). The [`Gate`] in front of a
//! router does all that and leaves a [`RequestContext`](crate::registry::RequestContext) in the extensions of the
//! request; a call whose object only its message names is left [`Unjudged`] for its service.
//!
//! What was asked and how it went is told to the audit log (`audit`). Service accounts' tokens are issued and believed in
//! [`service_account`]; `review` answers who somebody is and what he may do.
//!
//! Invariants: a user comes from proof alone, never from what a client claims; a request with a proof that does not
//! hold is refused, it never falls back to being anonymous; nothing gets past the gate that is not judged, or must be
//! judged to be used at all.

mod asked;
mod audit;
mod authenticator;
mod authorizer;
mod certificates;
mod claims;
mod gate;
mod impersonation;
mod node;
mod rbac;
mod review;
pub mod service_account;
mod token;

pub use audit::{AuditError, AuditLog, AuditPath};
use authenticator::AUTHENTICATED;
pub use authenticator::{ANONYMOUS, Authenticator};
pub use authorizer::{AuthorizationMode, Authorizer};
pub use claims::{CLIENT_BYTES_MAX, context};
pub use gate::{Gate, Unjudged, guard};
pub use token::{TokenFileError, Tokens};
