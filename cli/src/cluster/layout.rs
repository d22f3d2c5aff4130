//! The data folder of a cluster, and the few facts that a restart must find again.
//!
//! Invariant: every path of a cluster is made here; `cluster.json` is replaced whole, never edited in place.

use std::{
    fs::{self, DirBuilder, File},
    io::Write,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// The name of the cluster when none is given.
pub(crate) const DEFAULT_NAME: &str = "default";
/// A Unix socket's path must fit into the kernel's address: 108 bytes with the final zero.
const SOCKET_PATH_MAX: usize = 107;

/// Name and data folder of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// What `--name` said.
    pub(crate) name: String,
    /// The data folder.
    pub(crate) root: PathBuf,
}

/// What `cluster.json` holds: chosen once, used again by every restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterFile {
    /// The cluster's name.
    pub(crate) name: String,
    /// The version of `lw` that wrote it.
    pub(crate) version: String,
    /// Port of the etcd door.
    pub(crate) client_port: u16,
    /// Port of the API.
    pub(crate) secure_port: u16,
    /// How many nodes there are.
    pub(crate) nodes: u32,
    /// How many schedulers.
    pub(crate) schedulers: u32,
    /// How many controller-managers.
    pub(crate) controller_managers: u32,
}

/// Where everything of Listwatch lies unless told otherwise: `$XDG_STATE_HOME/listwatch`.
pub(crate) fn state_home() -> anyhow::Result<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    Ok(base.context("no place for the data: set HOME or XDG_STATE_HOME, or give --data-dir")?.join("listwatch"))
}

/// A name that can be a file's: letters, digits and dashes.
pub(crate) fn check_name(name: &str) -> anyhow::Result<()> {
    let fits = !name.is_empty() && name.len() <= 40 && name != "clusters";
    if fits && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Ok(());
    }
    Err(crate::usage::refuse(format!("--name {name:?}: a name has 1 to 40 lower-case letters, digits and dashes")))
}

impl Layout {
    /// The cluster of that name, in its usual place or in the folder given.
    pub(crate) fn new(name: &str, data_dir: Option<&Path>) -> anyhow::Result<Layout> {
        check_name(name)?;
        let root = match data_dir {
            Some(dir) => std::path::absolute(dir).with_context(|| format!("--data-dir {}", dir.display()))?,
            None => state_home()?.join(name),
        };
        Ok(Layout { name: name.to_owned(), root })
    }

    /// What a command needs to mean this cluster, with a space in front; nothing for the default one.
    pub(crate) fn flags(&self) -> String {
        if self.name == DEFAULT_NAME { String::new() } else { format!(" --name {}", self.name) }
    }

    /// Makes the folders, readable by their owner alone.
    pub(crate) fn create(&self) -> anyhow::Result<()> {
        for folder in [self.root.clone(), self.logs(), self.pki(), self.nodes()] {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder)
                .with_context(|| format!("make {}: choose another place with --data-dir", folder.display()))?;
        }
        Ok(())
    }

    /// Data of the server: its log and its state.
    pub(crate) fn server(&self) -> PathBuf {
        self.root.join("server")
    }

    /// Certificates, keys and the components' kubeconfigs.
    pub(crate) fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// The nodes' folders.
    pub(crate) fn nodes(&self) -> PathBuf {
        self.root.join("nodes")
    }

    /// Folder of one node.
    pub(crate) fn node(&self, node: &str) -> PathBuf {
        self.nodes().join(node)
    }

    /// Logs of the processes.
    pub(crate) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// Log of one component.
    pub(crate) fn log(&self, component: &str) -> PathBuf {
        self.logs().join(format!("{component}.log"))
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// Held by the supervisor for its life.
    pub(crate) fn lock(&self) -> PathBuf {
        self.root.join("up.lock")
    }

    /// Held by the process of a slot (a controller-manager, a scheduler) for its life.
    pub(crate) fn slot_lock(&self, component: &str) -> PathBuf {
        self.root.join(format!("{component}.lock"))
    }

    /// The supervisor's socket; in a short place where the data folder's path is too long for one.
    pub(crate) fn control_socket(&self) -> PathBuf {
        let beside = self.root.join("control.sock");
        if beside.as_os_str().len() <= SOCKET_PATH_MAX {
            return beside;
        }
        let hash = self
            .root
            .as_os_str()
            .as_encoded_bytes()
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
        let short = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(|| PathBuf::from("/tmp"), PathBuf::from);
        short.join(format!("listwatch-{hash:016x}.sock"))
    }

    fn cluster_file(&self) -> PathBuf {
        self.root.join("cluster.json")
    }

    /// Reads `cluster.json`, if there is one.
    pub(crate) fn read_cluster_file(&self) -> anyhow::Result<Option<ClusterFile>> {
        let path = self.cluster_file();
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e).with_context(|| format!("read {}", path.display())),
        };
        let parsed = serde_json::from_slice(&text);
        parsed.map(Some).with_context(|| format!("{} is damaged: remove it to choose ports anew", path.display()))
    }

    /// Replaces `cluster.json`.
    pub(crate) fn write_cluster_file(&self, file: &ClusterFile) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(file).expect("plain data serializes");
        replace_file(&self.cluster_file(), &text)
    }
}

/// Writes a file whole or not at all, readable by its owner alone.
pub(crate) fn replace_file(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let fresh = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&fresh)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().with_context(|| format!("write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["default", "a-1"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "a/b", "..", "A", "clusters"] {
            assert_eq!(crate::usage::exit_code(&check_name(name).expect_err(name)), 2, "{name}");
        }
    }

    #[test]
    fn a_long_data_folder_gets_a_short_socket() {
        let layout = Layout::new("x", Some(Path::new(&format!("/{}", "d".repeat(200))))).expect("valid");
        assert!(layout.control_socket().as_os_str().len() <= SOCKET_PATH_MAX);
    }

    #[test]
    fn the_cluster_file_reads_back() {
        let folder = tempfile::tempdir().expect("folder");
        let layout = Layout::new("x", Some(folder.path())).expect("valid");
        assert_eq!(layout.read_cluster_file().expect("absent is fine"), None);
        let file = ClusterFile { name: "x".into(), client_port: 1, ..ClusterFile::default() };
        layout.write_cluster_file(&file).expect("written");
        assert_eq!(layout.read_cluster_file().expect("read"), Some(file));
        fs::write(folder.path().join("cluster.json"), "{").expect("written");
        assert!(layout.read_cluster_file().expect_err("damaged").to_string().contains("is damaged"));
    }
}
