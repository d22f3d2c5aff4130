//! Who is at the other end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// The other end of a connection. An extension of every request; cheap to clone.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// What it has shown of itself.
    pub identity: PeerIdentity,
}

/// What the other end has shown of itself in the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerIdentity {
    /// The connection is plain text.
    Plain,
    /// TLS, without a certificate.
    Nobody,
    /// A certificate that our authority signed.
    Certificate(Arc<CertificateUser>),
    /// A certificate that does not hold; the text says why.
    Refused(Arc<str>),
}

/// The subject of a certificate, as Kubernetes and etcd read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateUser {
    /// The common name.
    pub name: String,
    /// The organizations.
    pub groups: Vec<String>,
}

impl Peer {
    /// The name in the certificate, if there is one that holds.
    pub fn certificate_name(&self) -> Option<&str> {
        match &self.identity {
            PeerIdentity::Certificate(user) => Some(&user.name),
            _ => None,
        }
    }
}

impl CertificateUser {
    /// Reads the subject of a certificate.
    ///
    /// # Errors
    /// It is no certificate, or has no common name.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, String> {
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|e| format!("not an X.509 certificate: {e}"))?;
        let subject = parsed.subject();
        let name = subject
            .iter_common_name()
            .next()
            .and_then(|n| n.as_str().ok())
            .filter(|n| !n.is_empty())
            .ok_or("the certificate has no common name")?;
        let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
        Ok(CertificateUser { name: name.to_owned(), groups })
    }
}
