//! Why a server does not start, each with the cure.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::auth::service_account::ServiceAccountError;
use crate::auth::{AuditError, TokenFileError};
use crate::config::ConfigError;
use crate::pki;
use crate::storage;
use crate::transport::{BindError, TlsError};

/// Why a server does not start.
#[derive(Debug, Error)]
pub enum ServerError {
    /// A setting cannot be honoured.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A port cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A bound port does not tell its address.
    #[error("read the address of a bound port: {0}")]
    LocalAddress(io::Error),
    /// The store cannot be opened.
    #[error("--data-dir {}: {source}{}", .dir.display(), cure(.source))]
    Store {
        /// The folder.
        dir: PathBuf,
        /// What is wrong with it.
        source: storage::Error,
    },
    /// The server's own certificates cannot be used.
    #[error(transparent)]
    Pki(#[from] pki::Error),
    /// Certificates given by flags cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    /// The keys of service accounts' tokens cannot be used.
    #[error(transparent)]
    ServiceAccounts(#[from] ServiceAccountError),
    /// The audit log cannot be opened.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// A fault of the server itself.
    #[error("{0}")]
    Internal(&'static str),
}

/// What a person can do about a store that does not open.
fn cure(error: &storage::Error) -> &'static str {
    use storage::Error;
    match error {
        Error::Locked { .. } => "; stop that process, or choose another folder",
        Error::Damaged { .. } => {
            "; nothing was changed: restore the folder from a copy, or move it away to begin with an empty store"
        }
        Error::NoSpace { .. } => "; nothing is lost: make room on the disk, then start again",
        Error::State { .. } => "; nothing was changed: restore the folder from a copy",
        Error::FormatVersion { .. } => "; use the release that wrote it, or a newer one",
        Error::Foreign { .. } => "; choose an empty folder, or the one that the store is in",
        Error::Io { source, .. } => match source.kind() {
            io::ErrorKind::PermissionDenied => "; let this user write there, or choose another folder",
            io::ErrorKind::ReadOnlyFilesystem => "; choose a folder that can be written",
            _ => "",
        },
        _ => "",
    }
}
