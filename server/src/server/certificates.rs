//! The certificates of the TLS port: the server's own, made once, or those given by flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::ServerError;
use crate::clock::Clock;
use crate::config::{Certificates, KubeletFiles};
use crate::kubelets::Kubelets;
use crate::pki::{self, Identity};
use crate::transport::{ClientCertificates, Tls, TlsError, TlsFiles, read_chain};

/// What the TLS port needs.
pub(super) struct SecureTls {
    pub(super) tls: Tls,
    /// How kubelets are reached; `None` if the server has nothing to show them.
    pub(super) kubelets: Option<Arc<Kubelets>>,
    /// The key of service accounts' tokens, if the server makes its own.
    pub(super) signing_key: Option<PathBuf>,
    /// Who signs the certificates of clients, in PEM; `None` = certificates are not asked for.
    pub(super) client_authority: Option<String>,
    /// Where that stands.
    pub(super) client_authority_file: Option<PathBuf>,
}

/// Where the administrator's kubeconfig is written.
pub(super) fn kubeconfig_path(data_dir: &Path) -> PathBuf {
    data_dir.join("kubeconfig")
}

/// Reads or makes the certificates of a TLS port that listens on `address`.
pub(super) fn prepare(
    certificates: &Certificates,
    data_dir: &Path,
    address: SocketAddr,
    clock: &Arc<dyn Clock>,
) -> Result<SecureTls, ServerError> {
    let own;
    let (tls, kubelet) = match certificates {
        Certificates::Files { tls, kubelet } => (tls, kubelet.as_ref()),
        Certificates::Own => {
            own = make_own(data_dir, address, clock)?;
            (&own.0, Some(&own.1))
        }
    };
    let kubelets = kubelet.map(|f| Kubelets::load(&f.certificate, &f.key, &f.authority)).transpose()?;
    let signing_key = match certificates {
        Certificates::Files { .. } => None,
        Certificates::Own => Some(pki::ensure(data_dir.join("pki"), &**clock)?.signing_key()?),
    };
    // Read after it was found to be one: what is loaded names the file that cannot be used.
    let loaded = Tls::load(tls, clock.clone())?;
    let client_authority = tls.clients.authority().and_then(|path| std::fs::read_to_string(path).ok());
    let client_authority_file = tls.clients.authority().map(Path::to_owned);
    let kubelets = kubelets.map(Arc::new);
    Ok(SecureTls { tls: loaded, kubelets, signing_key, client_authority, client_authority_file })
}

/// Whether who trusts the authorities of `etcd` also takes what those of `resources` sign: one key in both, or one of the
/// latter signed by one of the former. Both are PEM files.
pub(super) fn is_authority_shared(etcd: &Path, resources: &Path) -> Result<bool, TlsError> {
    let (etcd, resources) = (authorities(etcd)?, authorities(resources)?);
    Ok(resources.iter().any(|one| {
        let is_below = |other: &Authority| one.issuer != one.subject && one.issuer == other.subject;
        etcd.iter().any(|other| one.key == other.key || is_below(other))
    }))
}

/// What tells one authority from another, as it is written in its certificate.
struct Authority {
    subject: Vec<u8>,
    issuer: Vec<u8>,
    key: Vec<u8>,
}

fn authorities(path: &Path) -> Result<Vec<Authority>, TlsError> {
    let read = |der: &[u8]| {
        let (_, parsed) = X509Certificate::from_der(der).map_err(|e| TlsError::Content {
            path: path.to_owned(),
            reason: format!("not an X.509 certificate: {e}"),
        })?;
        let (subject, issuer) = (parsed.subject().as_raw().to_vec(), parsed.issuer().as_raw().to_vec());
        Ok(Authority { subject, issuer, key: parsed.public_key().raw.to_vec() })
    };
    read_chain(path)?.iter().map(|certificate| read(certificate)).collect()
}

/// Authority, certificates and kubeconfig under the data folder.
fn make_own(
    data_dir: &Path,
    address: SocketAddr,
    clock: &Arc<dyn Clock>,
) -> Result<(TlsFiles, KubeletFiles), ServerError> {
    let pki = pki::ensure(data_dir.join("pki"), &**clock)?;
    let names = match address.ip() {
        ip if ip.is_unspecified() || ip.is_loopback() => Vec::new(),
        ip => vec![ip.to_string()],
    };
    let issued = pki.issue_all(&[Identity::Server(names), Identity::KubeletClient, Identity::Admin])?;
    let [server, kubelet, admin] = issued.as_slice() else {
        return Err(ServerError::Internal("three identities give three certificates"));
    };
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    let url = format!("https://{}", SocketAddr::new(host, address.port()));
    pki::kubeconfig::write(&kubeconfig_path(data_dir), "listwatch", &url, pki.ca_pem(), admin)?;
    let tls = TlsFiles {
        certificate: server.certificate_path.clone(),
        key: server.key_path.clone(),
        clients: ClientCertificates::Asked(pki.ca_path()),
    };
    let kubelet = KubeletFiles {
        certificate: kubelet.certificate_path.clone(),
        key: kubelet.key_path.clone(),
        authority: pki.ca_path(),
    };
    Ok((tls, kubelet))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

    use super::*;

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    #[test]
    fn an_authority_is_known_by_its_key_and_by_who_signed_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, pem: String| {
            let path = folder.path().join(name);
            std::fs::write(&path, pem).expect("written");
            path
        };
        let key = || KeyPair::generate().expect("a key");
        let own = |name: &str| CertifiedIssuer::self_signed(params(name), key()).expect("signed");
        let (one, namesake) = (own("ca"), own("ca"));
        let below = CertifiedIssuer::signed_by(params("below"), key(), &one).expect("signed");
        let renewed = params("ca of another year").self_signed(one.key()).expect("signed");
        let (one_pem, namesake_pem) = (one.pem(), namesake.pem());
        let both = file("both", format!("{namesake_pem}{one_pem}"));
        let (one, namesake) = (file("one", one_pem), file("namesake", namesake_pem));
        let (below, renewed) = (file("below", below.pem()), file("renewed", renewed.pem()));
        let shared = |etcd: &Path, resources: &Path| is_authority_shared(etcd, resources).expect("read");
        assert!(shared(&one, &one) && shared(&both, &one) && shared(&one, &both));
        assert!(shared(&renewed, &one), "the same key under another name");
        assert!(shared(&one, &below), "signed by it");
        assert!(!shared(&one, &namesake), "the same name, another key");
        assert!(!shared(&below, &one), "what one below signs is not trusted by who trusts it");
    }
}
