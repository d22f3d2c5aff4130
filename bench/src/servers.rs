//! Starting our server and a real etcd for a comparison.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::load;

/// Within this time a server must answer.
const READY_MAX: Duration = Duration::from_secs(30);

/// A running server; killed when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    /// What it is called in the tables.
    pub(crate) name: String,
    /// Where clients connect.
    pub(crate) endpoint: String,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Our server: `lw server` of the given binary, in a fresh folder below `dir`.
    pub(crate) async fn ours(binary: &Path, dir: &Path) -> anyhow::Result<Server> {
        let folder = tempfile::tempdir_in(dir).context("make a data folder")?;
        let mut child = Command::new(binary)
            .args(["server", "--listen-client-urls", "http://127.0.0.1:0", "--secure-port", "0", "--ready-json"])
            // There is no controller that makes the accounts.
            .args(["--disable-admission-plugins", "ServiceAccount"])
            .args(["--log", "warn", "--data-dir"])
            .arg(folder.path().join("data"))
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let out = child.stdout.take().context("standard output is piped")?;
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(out).read_line(&mut line).map(|_| line)
        });
        let line = line.await??;
        let ready: serde_json::Value = serde_json::from_str(&line).context("the server's ready line")?;
        let address = ready["addresses"]["client"].as_str().context("a ready line without a client address")?;
        let endpoint = format!("http://{address}");
        Ok(Server { name: "Listwatch".to_owned(), endpoint, child, _folder: folder })
    }

    /// A real etcd, in a fresh folder below `dir`, with its own defaults.
    pub(crate) async fn etcd(binary: &Path, dir: &Path) -> anyhow::Result<Server> {
        let name = version(binary)?;
        let folder = tempfile::tempdir_in(dir).context("make a data folder")?;
        let endpoint = format!("http://127.0.0.1:{}", free_port()?);
        let peer = format!("http://127.0.0.1:{}", free_port()?);
        let child = Command::new(binary)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--log-level", "error"])
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let server = Server { name, endpoint, child, _folder: folder };
        server.wait().await?;
        Ok(server)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    async fn wait(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_MAX;
        loop {
            match load::connect(&self.endpoint).await {
                Ok(channel) => {
                    let mut client =
                        listwatch_proto::etcd::etcdserverpb::maintenance_client::MaintenanceClient::new(channel);
                    let status = client.status(listwatch_proto::etcd::etcdserverpb::StatusRequest {}).await;
                    if status.is_ok_and(|status| status.into_inner().leader != 0) {
                        return Ok(());
                    }
                }
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => {}
            }
            anyhow::ensure!(Instant::now() < deadline, "{} does not answer", self.endpoint);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago: etcd cannot say which one it took by itself.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// `etcd 3.6.4`, as the binary says of itself.
fn version(binary: &Path) -> anyhow::Result<String> {
    let out = Command::new(binary).arg("--version").output().with_context(|| format!("run {}", binary.display()))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: ")).unwrap_or("of unknown version");
    Ok(format!("etcd {version}"))
}

/// A binary that must be there.
pub(crate) fn existing(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("no binary at {}", path.display()))
}
