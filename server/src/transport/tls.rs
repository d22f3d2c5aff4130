//! TLS at a port: the server's certificate, and what becomes of a client's.
//!
//! Where client certificates are asked for but not demanded, the handshake takes any of them (the holder has proved the
//! key) and [`Tls::identify`] judges it afterwards, so that a bad one is answered with a reason instead of an alert.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

use super::{CertificateUser, PeerIdentity};
use crate::clock::Clock;

/// Files with certificate, key and authority that cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file does not hold what it should.
    #[error("{}: {reason}", .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Certificate and key do not work together.
    #[error("certificate {} with key {}: {reason}", .certificate.display(), .key.display())]
    Pair {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// What becomes of client certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Not asked for.
    Ignored,
    /// Asked for; whoever shows none is nobody. Signed by the authorities of this file.
    Asked(PathBuf),
    /// No connection without one that the authorities of this file signed.
    Demanded(PathBuf),
}

impl ClientCertificates {
    /// The file of the authorities, if certificates are asked for.
    pub fn authority(&self) -> Option<&std::path::Path> {
        match self {
            ClientCertificates::Ignored => None,
            ClientCertificates::Asked(path) | ClientCertificates::Demanded(path) => Some(path),
        }
    }
}

/// The files a port's TLS is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate chain, PEM, leaf first.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// What becomes of client certificates.
    pub clients: ClientCertificates,
}

/// TLS at a port. Cheap to clone.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    /// Judges client certificates; `None` where they are not asked for.
    judge: Option<Arc<dyn ClientCertVerifier>>,
    clock: Arc<dyn Clock>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("judge", &self.judge).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// A file that cannot be read or used; the message names it.
    pub fn load(files: &TlsFiles, clock: Arc<dyn Clock>) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (chain, key) = (read_chain(&files.certificate)?, read_key(&files.key)?);
        let judge = match &files.clients {
            ClientCertificates::Ignored => None,
            ClientCertificates::Asked(ca) | ClientCertificates::Demanded(ca) => Some(verifier(ca, &provider)?),
        };
        let pair = |reason: rustls::Error| TlsError::Pair {
            certificate: files.certificate.clone(),
            key: files.key.clone(),
            reason: reason.to_string(),
        };
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(pair)?;
        let builder = match (&files.clients, &judge) {
            (ClientCertificates::Demanded(_), Some(judge)) => builder.with_client_cert_verifier(judge.clone()),
            (_, Some(judge)) => builder.with_client_cert_verifier(Arc::new(TakeAny(judge.clone()))),
            (_, None) => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(pair)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { acceptor: TlsAcceptor::from(Arc::new(config)), judge, clock })
    }

    pub(super) fn acceptor(&self) -> &TlsAcceptor {
        &self.acceptor
    }

    /// Judges the certificates that a client has shown. This is the only place that turns a certificate into a user.
    pub(super) fn identify(&self, shown: Option<&[CertificateDer<'_>]>) -> PeerIdentity {
        let (Some(judge), Some([leaf, more @ ..])) = (&self.judge, shown) else { return PeerIdentity::Nobody };
        let now = UnixTime::since_unix_epoch(Duration::from_millis(u64::try_from(self.clock.wall_ms()).unwrap_or(0)));
        if let Err(error) = judge.verify_client_cert(leaf, more, now) {
            return PeerIdentity::Refused(format!("client certificate: {error}").into());
        }
        match CertificateUser::of(leaf) {
            Ok(user) => PeerIdentity::Certificate(Arc::new(user)),
            Err(reason) => PeerIdentity::Refused(format!("client certificate: {reason}").into()),
        }
    }
}

fn verifier(ca: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let content = |reason: String| TlsError::Content { path: ca.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in read_chain(ca)? {
        roots.add(certificate).map_err(|e| content(e.to_string()))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|e| content(e.to_string()))
}

/// The certificates of a PEM file.
///
/// # Errors
/// The file cannot be read or holds none.
pub fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let content = |reason: String| TlsError::Content { path: path.to_owned(), reason };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|e| content(format!("is not a PEM certificate: {e}")))?;
    if chain.is_empty() {
        return Err(content("holds no PEM certificate".to_owned()));
    }
    Ok(chain)
}

/// The private key of a PEM file.
///
/// # Errors
/// The file cannot be read or holds none.
pub fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(&read(path)?)
        .map_err(|e| TlsError::Content { path: path.to_owned(), reason: format!("holds no PEM private key: {e}") })
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

/// Asks for a certificate and takes any whose holder proves the key; it counts for nothing until [`Tls::identify`].
#[derive(Debug)]
struct TakeAny(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for TakeAny {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // What cannot be parsed could not prove its key either.
        ParsedCertificate::try_from(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
