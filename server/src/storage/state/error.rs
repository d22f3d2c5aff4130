//! What can go wrong with the state.

use std::io;
use std::path::PathBuf;

use crate::storage::error::is_full;

/// How a full disk reads where a library has made text, or a panic, of the system's error.
const NO_SPACE: &[&str] = &["No space left on device", "code: 28", "os error 28", "StorageFull", "QuotaExceeded"];

/// An error of the state. Only [`StateError::TooLarge`] and [`StateError::Locked`] leave it usable.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The content is not what was written: a failed checksum, a missing record, totals that do not add up, an
    /// emptied store. Nothing is repaired silently.
    #[error("the state is damaged at {place}: {reason}")]
    Damaged {
        /// The record or file, as a printable name.
        place: String,
        /// What was expected and what was found.
        reason: String,
    },
    /// Another process (or another handle of this one) holds the state.
    #[error("the state at {path} is in use by another process")]
    Locked {
        /// The folder of the state.
        path: PathBuf,
    },
    /// A key or value beyond what a batch may carry (see `KEY_BYTES_MAX` and `VALUE_BYTES_MAX`).
    #[error("a {what} of {len} bytes is above the limit of {limit}")]
    TooLarge {
        /// `key` or `value`.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The state was written by a newer format.
    #[error("the state has format {found}, this program reads up to {supported}")]
    Format {
        /// The version found.
        found: u32,
        /// The newest version this program reads.
        supported: u32,
    },
    /// A write or sync failed before; nothing is written any more.
    #[error("the state takes no more writes: {reason}")]
    Failed {
        /// The first failure.
        reason: String,
    },
    /// The disk is full; nothing is damaged by it.
    #[error("{doing}")]
    NoSpace {
        /// What was being done, and what the system said.
        doing: String,
    },
    /// The operating system refused.
    #[error("{action}: {source}")]
    Io {
        /// Verb and object, as in "sync the state".
        action: String,
        /// The error as it came.
        source: io::Error,
    },
}

impl StateError {
    pub(crate) fn damaged(place: impl Into<String>, reason: impl Into<String>) -> Self {
        let (place, reason) = (place.into(), reason.into());
        if NO_SPACE.iter().any(|words| reason.contains(words)) {
            return StateError::NoSpace { doing: format!("{place}: {reason}") };
        }
        StateError::Damaged { place, reason }
    }

    pub(crate) fn io(action: impl Into<String>, source: io::Error) -> Self {
        let action = action.into();
        if is_full(&source) || NO_SPACE.iter().any(|words| source.to_string().contains(words)) {
            return StateError::NoSpace { doing: format!("{action}: {source}") };
        }
        StateError::Io { action, source }
    }
}
