//! A server of the Kubernetes API under load.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::cpu;

/// Who the load acts as with our server.
const TOKEN: &str = "bench-admin-token";

/// Where a load goes.
#[derive(Debug)]
pub(crate) struct ApiServer {
    /// What it is called in the tables.
    pub(crate) name: String,
    /// `127.0.0.1:6443`.
    pub(crate) address: String,
    pub(crate) token: String,
    pub(crate) tls: Arc<ClientConfig>,
    /// Its processes, the store's among them.
    pids: Vec<u32>,
    _running: Option<Running>,
}

/// Killed when dropped.
#[derive(Debug)]
struct Running {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that runs already, as `NAME,HOST:PORT,CA-FILE,TOKEN,PID[+PID]`.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    name: String,
    address: String,
    ca: PathBuf,
    token: String,
    pids: Vec<u32>,
}

impl std::str::FromStr for Peer {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Peer> {
        let parts: Vec<&str> = text.split(',').collect();
        let [name, address, ca, token, pids] = parts.as_slice() else {
            anyhow::bail!("expected NAME,HOST:PORT,CA-FILE,TOKEN,PID[+PID]");
        };
        let pids = pids.split('+').map(str::parse).collect::<Result<_, _>>().context("the process ids")?;
        Ok(Peer {
            name: (*name).to_owned(),
            address: (*address).to_owned(),
            ca: ca.into(),
            token: (*token).to_owned(),
            pids,
        })
    }
}

impl ApiServer {
    /// `lw server` of the given binary, in a fresh folder below `dir`.
    pub(crate) async fn ours(binary: &Path, dir: &Path) -> anyhow::Result<ApiServer> {
        let folder = tempfile::tempdir_in(dir).context("make a data folder")?;
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, format!("{TOKEN},admin,admin,system:masters\n"))?;
        let data = folder.path().join("data");
        let mut child = Command::new(binary)
            .args(["server", "--listen-client-urls", "http://127.0.0.1:0", "--secure-port", "0", "--ready-json"])
            .args(["--log", "warn", "--disable-admission-plugins", "ServiceAccount", "--token-auth-file"])
            .arg(&tokens)
            .arg("--data-dir")
            .arg(&data)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let out = child.stdout.take().context("standard output is piped")?;
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(out).read_line(&mut line).map(|_| line)
        });
        let ready: serde_json::Value = serde_json::from_str(&line.await??).context("the server's ready line")?;
        let address =
            ready["addresses"]["secure"].as_str().context("a ready line without a secure address")?.to_owned();
        let pids = vec![child.id()];
        let tls = trusting(&data.join("pki/ca.crt"))?;
        let running = Some(Running { child, _folder: folder });
        Ok(ApiServer { name: "Listwatch".to_owned(), address, token: TOKEN.to_owned(), tls, pids, _running: running })
    }

    /// One that runs already.
    pub(crate) fn peer(peer: &Peer) -> anyhow::Result<ApiServer> {
        let Peer { name, address, ca, token, pids } = peer.clone();
        Ok(ApiServer { name, address, token, tls: trusting(&ca)?, pids, _running: None })
    }

    /// CPU time of its processes.
    pub(crate) fn spent(&self) -> anyhow::Result<Duration> {
        self.pids.iter().map(|pid| cpu::spent(*pid)).sum()
    }

    /// Resident memory of its processes, in bytes.
    pub(crate) fn resident(&self) -> anyhow::Result<u64> {
        self.pids.iter().map(|pid| cpu::resident(*pid)).sum()
    }
}

/// Trusts one authority and speaks HTTP/2.
fn trusting(ca: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).with_context(|| format!("read {}", ca.display()))? {
        roots.add(certificate?)?;
    }
    let mut config =
        ClientConfig::builder_with_provider(Arc::new(tokio_rustls::rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
