//! A real etcd on a fresh folder.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running etcd; killed when dropped.
pub(crate) struct RealEtcd {
    pub(crate) endpoint: String,
    child: Child,
    _folder: tempfile::TempDir,
}

/// Where a real etcd may be.
fn binary() -> Option<PathBuf> {
    let named = std::env::var_os("REAL_ETCD").map(PathBuf::from);
    let built = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("real/bin/etcd36"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
    named.into_iter().chain(built).chain(installed).find(|path| path.is_file())
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound port").port()
}

impl RealEtcd {
    /// Starts it; `None`, said aloud, where there is none.
    pub(crate) fn start() -> Option<RealEtcd> {
        let Some(binary) = binary() else {
            println!("SKIPPED: no real etcd (REAL_ETCD, ~/real/bin/etcd36, or etcd on the PATH)");
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let endpoint = format!("http://127.0.0.1:{}", free_port());
        let peer = format!("http://127.0.0.1:{}", free_port());
        let child = Command::new(&binary)
            .arg("--data-dir")
            .arg(folder.path().join("data"))
            .args(["--log-level", "error", "--unsafe-no-fsync"])
            .args(["--listen-client-urls", &endpoint, "--advertise-client-urls", &endpoint])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd starts");
        Some(RealEtcd { endpoint, child, _folder: folder })
    }
}

impl Drop for RealEtcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
