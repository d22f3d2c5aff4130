//! How tokens of service accounts are issued and believed, and the keys for it.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::key::{KeyError, SigningKey, VerifyingKey};

/// The issuer of a cluster that names none: kubeadm's.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// How tokens are issued and believed: kube-apiserver's flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountOptions {
    /// `--service-account-issuer`: the first issues, all are believed.
    pub issuers: Vec<String>,
    /// `--api-audiences`: for whom a token must be to be taken here; empty = the issuers.
    pub audiences: Vec<String>,
    /// `--service-account-signing-key-file`; `None` = made under the data folder, or no tokens are issued.
    pub signing_key: Option<PathBuf>,
    /// `--service-account-key-file`: keys that are believed beside it.
    pub keys: Vec<PathBuf>,
    /// `--service-account-jwks-uri`; `None` = below the server's own address.
    pub jwks_uri: Option<String>,
    /// `--service-account-max-token-expiration`; zero = no limit.
    pub max_expiration: Duration,
    /// `--service-account-extend-token-expiration`: the tokens of pods live a year, though they are renewed each hour.
    pub extend_expiration: bool,
}

impl Default for ServiceAccountOptions {
    fn default() -> Self {
        ServiceAccountOptions {
            issuers: vec![DEFAULT_ISSUER.to_owned()],
            audiences: Vec::new(),
            signing_key: None,
            keys: Vec::new(),
            jwks_uri: None,
            max_expiration: Duration::ZERO,
            extend_expiration: true,
        }
    }
}

/// Keys that cannot be used.
#[derive(Debug, Error)]
pub enum ServiceAccountError {
    /// The key that signs.
    #[error("--service-account-signing-key-file: {0}")]
    Signing(KeyError),
    /// A key that is believed.
    #[error("--service-account-key-file: {0}")]
    Verifying(KeyError),
}

/// Issues tokens and believes them.
#[derive(Debug)]
pub struct ServiceAccounts {
    pub(super) options: ServiceAccountOptions,
    pub(super) signing: Option<SigningKey>,
    /// The signing key's own first.
    pub(super) verifying: Vec<VerifyingKey>,
}

impl ServiceAccounts {
    /// Reads the keys.
    ///
    /// # Errors
    /// A file that cannot be read or holds no key.
    pub fn load(options: ServiceAccountOptions) -> Result<Self, ServiceAccountError> {
        let signing = match &options.signing_key {
            Some(path) => Some(SigningKey::load(path).map_err(ServiceAccountError::Signing)?),
            None => None,
        };
        let mut verifying: Vec<VerifyingKey> = signing.iter().map(|key| key.verifying().clone()).collect();
        for path in &options.keys {
            for key in VerifyingKey::load(path).map_err(ServiceAccountError::Verifying)? {
                if verifying.iter().all(|known| known.id != key.id) {
                    verifying.push(key);
                }
            }
        }
        Ok(ServiceAccounts { options, signing, verifying })
    }

    /// For whom a token must be to be taken here.
    pub(in super::super) fn audiences(&self) -> &[String] {
        if self.options.audiences.is_empty() { &self.options.issuers } else { &self.options.audiences }
    }
}
