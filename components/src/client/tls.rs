//! The TLS side of a client: rustls with the ring provider; HTTP/2 for calls, HTTP/1.1 for raw requests.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};

use super::{ClientConfig, ConfigError};

/// What a handshake needs.
#[derive(Clone)]
pub(super) struct Tls {
    pub(super) config: Arc<rustls::ClientConfig>,
    pub(super) server_name: ServerName<'static>,
}

impl Tls {
    /// For calls.
    pub(super) fn new(config: &ClientConfig, host: &str) -> Result<Self, ConfigError> {
        Self::speaking(config, host, b"h2")
    }

    /// For connections of this protocol, by its ALPN name.
    pub(super) fn speaking(config: &ClientConfig, host: &str, protocol: &[u8]) -> Result<Self, ConfigError> {
        let provider = Arc::new(ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|e| tls_error("protocol versions", e))?;
        let builder = if config.insecure_skip_tls_verify {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyServer(provider)))
        } else {
            builder.with_root_certificates(roots(config)?)
        };
        let mut tls = match &config.client_certificate {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = certificates("client certificate", &identity.certificate)?;
                let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|e| tls_error("client key", e))?;
                builder.with_client_auth_cert(chain, key).map_err(|e| tls_error("client certificate", e))?
            }
        };
        tls.alpn_protocols = vec![protocol.to_vec()];
        let name = config.tls_server_name.as_deref().unwrap_or(host).to_owned();
        let server_name = ServerName::try_from(name).map_err(|e| tls_error("server name", e))?;
        Ok(Tls { config: Arc::new(tls), server_name })
    }
}

fn roots(config: &ClientConfig) -> Result<RootCertStore, ConfigError> {
    const WHAT: &str = "certificate authority";
    let pem = config.certificate_authority.as_ref().ok_or_else(|| ConfigError::Tls {
        what: WHAT,
        reason: "none given for an https server; name its file (--certificate-authority) or trust any server \
                 (--insecure-skip-tls-verify)"
            .to_owned(),
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(WHAT, pem)? {
        roots.add(certificate).map_err(|e| tls_error(WHAT, e))?;
    }
    Ok(roots)
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let list: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|e| tls_error(what, e))?;
    if list.is_empty() {
        return Err(ConfigError::Tls { what, reason: "holds no PEM certificate".to_owned() });
    }
    Ok(list)
}

fn tls_error(what: &'static str, error: impl std::fmt::Display) -> ConfigError {
    ConfigError::Tls { what, reason: error.to_string() }
}

/// Accepts every certificate, but still checks that the server holds its key.
#[derive(Debug)]
struct TrustAnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
