//! Certificates of the kubelet's server, and who its clients are.

use std::sync::Arc;

use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The user that the API server is to kubelets.
const API_SERVER: &str = "kube-apiserver-kubelet-client";

/// The group that may do everything.
const MASTERS: &str = "system:masters";

/// What the server shows, and whom it believes; all PEM.
#[derive(Clone)]
pub struct ServingCertificate {
    /// The chain, leaf first.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
    /// The authority of client certificates.
    pub client_ca: Vec<u8>,
}

/// Certificates that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {reason}")]
pub struct TlsError {
    /// `serving certificate`, `serving key`, `client authority`.
    pub what: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

/// The key is not printed.
impl std::fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServingCertificate").finish_non_exhaustive()
    }
}

/// The TLS side of the server. A client without a certificate gets as far as the sign of life.
pub(super) fn config(serving: &ServingCertificate) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    for root in chain("client authority", &serving.client_ca)? {
        roots.add(root).map_err(|error| fault("client authority", error))?;
    }
    let verifier: Arc<dyn ClientCertVerifier> =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| fault("client authority", error))?;
    let key = PrivateKeyDer::from_pem_slice(&serving.key).map_err(|error| fault("serving key", error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| fault("serving certificate", error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain("serving certificate", &serving.certificate)?, key)
        .map_err(|error| fault("serving certificate", error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Whether the client with these certificates may read logs. They were verified in the handshake.
pub(super) fn may_read(certificates: Option<&[CertificateDer<'_>]>) -> bool {
    let Some(leaf) = certificates.and_then(<[_]>::first) else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(leaf) else { return false };
    let subject = certificate.subject();
    let is_server = subject.iter_common_name().any(|name| name.as_str() == Ok(API_SERVER));
    is_server || subject.iter_organization().any(|group| group.as_str() == Ok(MASTERS))
}

fn chain(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let list: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| fault(what, error))?;
    if list.is_empty() {
        return Err(fault(what, "holds no PEM certificate"));
    }
    Ok(list)
}

fn fault(what: &'static str, error: impl std::fmt::Display) -> TlsError {
    TlsError { what, reason: error.to_string() }
}
