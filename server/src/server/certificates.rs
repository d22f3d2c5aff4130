//! The certificates of the TLS port: the server's own, made once, or those given by flags.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::ServerError;
use crate::clock::Clock;
use crate::config::{Certificates, KubeletFiles};
use crate::kubelets::Kubelets;
use crate::pki::{self, Identity};
use crate::transport::{ClientCertificates, Tls, TlsFiles};

/// What the TLS port needs.
pub(super) struct SecureTls {
    pub(super) tls: Tls,
    /// How kubelets are reached; `None` if the server has nothing to show them.
    pub(super) kubelets: Option<Arc<Kubelets>>,
    /// The key of service accounts' tokens, if the server makes its own.
    pub(super) signing_key: Option<PathBuf>,
    /// Who signs the certificates of clients, in PEM; `None` = certificates are not asked for.
    pub(super) client_authority: Option<String>,
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
    Ok(SecureTls { tls: loaded, kubelets: kubelets.map(Arc::new), signing_key, client_authority })
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
