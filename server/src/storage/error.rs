//! What can go wrong in the store, with the numbers a caller needs. The doors map these to their own codes, once each.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::storage::state::StateError;

/// An error of the store. Cheap to clone, since one failed flush answers many requests.
#[derive(Clone, Debug, Error)]
pub enum Error {
    /// The revision asked for is below the floor of what is promised.
    #[error("revision {requested} has been compacted; the oldest readable one is {compacted}")]
    Compacted {
        /// What was asked for.
        requested: i64,
        /// The oldest revision that can be read.
        compacted: i64,
    },
    /// The revision asked for has not happened yet.
    #[error("revision {requested} is in the future; the store is at {current}")]
    FutureRevision {
        /// What was asked for.
        requested: i64,
        /// Where the store stands.
        current: i64,
    },
    /// `ignore_value` or `ignore_lease` on a key that does not exist.
    #[error("key not found")]
    KeyNotFound,
    /// A key without a byte.
    #[error("the key is empty")]
    EmptyKey,
    /// The lease is unknown or has ended.
    #[error("lease {0} not found")]
    LeaseNotFound(i64),
    /// The lease id is taken.
    #[error("lease {0} already exists")]
    LeaseExists(i64),
    /// The time to live is above what a lease may have.
    #[error("a time to live of {0} s is too large")]
    LeaseTtlTooLarge(i64),
    /// One transaction writes a key twice.
    #[error("a transaction may write a key only once")]
    DuplicateKey,
    /// The request does not fit into one frame of the log.
    #[error("the request of {size} bytes is above the limit of {limit}")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// More requests are waiting than the queue holds; try again.
    #[error("too many requests are waiting")]
    Busy,
    /// A flush failed earlier, so nothing more is written; reads go on. A restart is the cure.
    #[error("the store takes no more writes: {reason}")]
    Poisoned {
        /// What failed.
        reason: Arc<str>,
    },
    /// What was once durable cannot be read back.
    #[error("segment {segment} of the log is damaged near revision {revision}: {reason}")]
    Damaged {
        /// The segment's number.
        segment: u64,
        /// The last revision known good before the damage.
        revision: i64,
        /// What is wrong.
        reason: Arc<str>,
    },
    /// The state beside the log cannot be used.
    #[error("the state is unusable: {reason}")]
    State {
        /// What is wrong.
        reason: Arc<str>,
    },
    /// The files were written by a format this build does not know.
    #[error("{path}: format version {found} is not supported (this build reads up to {supported})")]
    FormatVersion {
        /// The file.
        path: PathBuf,
        /// What it says.
        found: u16,
        /// What this build knows.
        supported: u16,
    },
    /// The folder holds something that is not this store.
    #[error("{path}: {reason}")]
    Foreign {
        /// The file or folder.
        path: PathBuf,
        /// Why it is refused.
        reason: Arc<str>,
    },
    /// Another process has the store open.
    #[error("{path} is in use by process {pid}")]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds it; 0 if it cannot be told.
        pid: u32,
    },
    /// The operating system refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What it answered.
        source: Arc<io::Error>,
    },
    /// The disk is full. Nothing is lost by it, and writes go on when there is room; without the place, which is nobody's
    /// business but the operator's.
    #[error("no space left on the disk")]
    NoSpace {
        /// What was being done, to which file, and what the system said.
        doing: Arc<str>,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// An input or output error, with what was being done to which file.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        if is_full(&source) {
            return Self::NoSpace { doing: format!("{action} {}: {source}", path.display()).into() };
        }
        Self::Io { action, path, source: Arc::new(source) }
    }

    /// What a client may be told: no places on the server's disk.
    pub fn told(&self) -> String {
        match self {
            Error::Io { source, .. } => format!("the server's disk failed: {source}"),
            Error::State { .. } => "the server's state is unusable".to_owned(),
            Error::FormatVersion { .. } | Error::Foreign { .. } | Error::Locked { .. } => {
                "the server's store is unusable".to_owned()
            }
            other => other.to_string(),
        }
    }

    /// What the operator is told in the log.
    pub fn detail(&self) -> String {
        match self {
            Error::NoSpace { doing } => format!("{self} ({doing})"),
            other => other.to_string(),
        }
    }
}

/// Whether the system says that there is no room, or none for this user.
pub(in crate::storage) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<StateError> for Error {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Locked { path } => Error::Locked { path, pid: 0 },
            StateError::TooLarge { len, limit, .. } => Error::TooLarge { size: len, limit },
            StateError::NoSpace { doing } => Error::NoSpace { doing: doing.into() },
            other => Error::State { reason: other.to_string().into() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_and_clients_learn_no_places() {
        let full = Error::io("make", "/data/log/7.seg", io::Error::from_raw_os_error(28));
        assert!(matches!(full, Error::NoSpace { .. }));
        assert_eq!(
            (full.to_string().as_str(), full.told().as_str()),
            ("no space left on the disk", "no space left on the disk")
        );
        assert!(full.detail().contains("make /data/log/7.seg"));
        let state: Error = StateError::io("write /data/state", io::Error::from_raw_os_error(28)).into();
        assert!(matches!(state, Error::NoSpace { .. }), "{state}");
        let opening: Error =
            StateError::damaged("/data/state", "open the state: Io(Os { code: 28, kind: StorageFull })").into();
        assert!(matches!(opening, Error::NoSpace { .. }), "{opening}");
        let broken = Error::io("sync", "/data/log/7.seg", io::Error::from_raw_os_error(5));
        assert!(!broken.told().contains("/data") && broken.to_string().contains("/data"));
    }
}
