//! What can go wrong with the state.

use std::io;
use std::path::PathBuf;

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
        StateError::Damaged { place: place.into(), reason: reason.into() }
    }

    pub(crate) fn io(action: impl Into<String>, source: io::Error) -> Self {
        StateError::Io { action: action.into(), source }
    }
}
