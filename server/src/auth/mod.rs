//! Who asks, and whether they may.
//!
//! A connection shows a certificate or a request shows a token; the [`Gate`] in front of a router turns that, and what a
//! client says of itself, into a [`RequestContext`](crate::registry::RequestContext) in the extensions of each request.
//! Invariants: a user comes from proof alone, never from what a client claims; a request with a proof that does not
//! hold is refused, it never falls back to being anonymous; nobody anonymous gets past the public paths.

mod authenticator;
mod claims;
mod gate;
mod token;

pub use authenticator::{ANONYMOUS, Authenticator};
pub use claims::{CLIENT_BYTES_MAX, context};
pub use gate::{Gate, PublicPaths, guard};
pub use token::{TokenFileError, Tokens};
