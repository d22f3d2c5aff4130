//! What can be wrong with the certificates, each with its file and the cure.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// An error of the certificate folder.
#[derive(Debug, Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{action} {}: {source}", .path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What it answered.
        source: io::Error,
    },
    /// The file does not hold what it should.
    #[error("{}: {reason}; restore the file, or remove it and {} to have both made anew", .path.display(), .pair.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The other half: the key of a certificate, the certificate of a key.
        pair: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The authority's file does not hold what it should; every certificate hangs on it.
    #[error("{}: {reason}; restore the file, or remove the whole folder {} to begin with a new authority \
             (every kubeconfig must then be given out again)", .path.display(), .dir.display())]
    DamagedAuthority {
        /// The file.
        path: PathBuf,
        /// The folder of all certificates.
        dir: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The certificate's time has passed, or has not come.
    #[error("{}: valid from {not_before} to {not_after}, and the clock says {now}; set the clock right, or remove it \
             and {} to have both made anew", .path.display(), .pair.display())]
    NotValidNow {
        /// The file.
        path: PathBuf,
        /// Its key.
        pair: PathBuf,
        /// Begin of its time.
        not_before: String,
        /// End of its time.
        not_after: String,
        /// What the clock says.
        now: String,
    },
    /// The certificate does not carry a name that the server is reached by.
    #[error("{}: does not name {name}; remove it and {} to have both made anew with that name", .path.display(), .pair.display())]
    MissingName {
        /// The file.
        path: PathBuf,
        /// Its key.
        pair: PathBuf,
        /// The name or address that is missing.
        name: String,
    },
    /// An identity whose name cannot stand in a certificate or a file name.
    #[error("{name:?} cannot be the name of a node: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A certificate or key could not be made.
    #[error("make a certificate for {subject}: {source}")]
    Make {
        /// For whom.
        subject: String,
        /// What failed.
        source: rcgen::Error,
    },
    /// A kubeconfig could not be written as YAML.
    #[error("write kubeconfig {}: {source}", .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: serde_norway::Error,
    },
}

impl Error {
    pub(super) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::Io { action, path: path.into(), source }
    }
}
