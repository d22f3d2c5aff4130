//! Who wrote, and what they had seen: stored with each record, for history and blame.

use std::sync::Arc;

/// The author of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The authenticated user, or `anonymous`.
    pub author: Arc<str>,
    /// The name the client gave itself; claimed, not proven. At most [`Origin::CLIENT_BYTES_MAX`] bytes.
    pub client: Option<Arc<str>>,
    /// The highest revision the author had seen when it wrote; 0 = unknown.
    pub cause: i64,
}

impl Origin {
    /// How long a claimed client name may be; the engine cuts longer ones at a character border.
    pub const CLIENT_BYTES_MAX: usize = 128;
    /// How long an author's name may be; the engine cuts longer ones at a character border.
    pub const AUTHOR_BYTES_MAX: usize = 255;

    /// A user without a claimed client name and without known cause.
    pub fn user(author: impl Into<Arc<str>>) -> Self {
        Self { author: author.into(), client: None, cause: 0 }
    }

    /// Nobody in particular.
    pub fn anonymous() -> Self {
        Self::user("anonymous")
    }

    /// The store itself, for example when a lease ends.
    pub fn system() -> Self {
        Self::user("system:store")
    }
}

impl Default for Origin {
    fn default() -> Self {
        Self::anonymous()
    }
}
