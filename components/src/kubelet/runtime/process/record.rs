//! The files by which a kubelet and a shim talk across their deaths.
//!
//! Every file is written whole under another name and renamed, so a reader sees all of it or nothing. Only the exit is
//! synced: a lost machine takes every process with it, but an exit code once known must stay known.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub use super::super::seam::{Mount, Termination};
use super::identity::ProcessIdentity;

/// The version of these files; another one is refused by name.
pub const FORMAT: u32 = 1;

/// What a shim runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// [`FORMAT`].
    pub format: u32,
    /// The pod's uid.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
    /// How often it has run before.
    pub attempt: u32,
    /// The image named in the pod.
    pub image: String,
    /// Hash over the parts of the container's spec that make a running container stale when they change.
    pub hash: String,
    /// The program, an absolute path.
    pub program: PathBuf,
    /// What the program sees as its own name.
    pub name: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Time from SIGTERM to SIGKILL when nobody says otherwise (`terminationGracePeriodSeconds`).
    pub grace_millis: u64,
    /// Size at which the log is rotated.
    pub log_bytes_max: u64,
    /// How many log files are kept, the newest included.
    pub log_files_max: u32,
    /// What is laid over the machine's files for this container.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// Where it says why it ended; `None`: nowhere.
    #[serde(default)]
    pub termination: Option<Termination>,
}

/// A shim that is about to start its container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Starting {
    /// The shim.
    pub shim: ProcessIdentity,
}

/// A container that runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// The shim that watches over it.
    pub shim: ProcessIdentity,
    /// The container's first process, leader of its session.
    pub process: ProcessIdentity,
    /// When it was started.
    pub at: Timestamp,
}

/// A request to stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stop {
    /// Time from SIGTERM to SIGKILL.
    pub grace_millis: u64,
}

/// How a container came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ending {
    /// Its first process ended by itself.
    Own,
    /// The kubelet asked for it.
    Stopped,
    /// The cluster's processes are gone.
    ClusterGone,
    /// The program could not be started.
    StartError,
    /// Its shim died and took the exit code along.
    Lost,
}

/// A container that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Exit {
    /// The exit code; 128 + signal for a process that was killed, as container runtimes have it.
    pub code: i32,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// How it came to its end.
    pub ending: Ending,
    /// What a person should know, empty if the code says all.
    pub message: String,
    /// When it was started; `None` if it never was.
    pub started_at: Option<Timestamp>,
    /// When its first process ended.
    pub finished_at: Timestamp,
}

/// What a shim tells the kubelet that started it, once, on its standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// The container runs.
    Started(Started),
    /// It never ran; the exit is on disk.
    Failed(Exit),
    /// The shim refuses: the text says why. Nothing was started.
    Refused(String),
}

/// Whether a file must survive the loss of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Written; survives every death of a process.
    Written,
    /// Synced, its directory too; survives the loss of power.
    Synced,
}

/// Writes a record whole: a reader sees the old one, the new one, or none.
pub fn write<T: Serialize>(path: &Path, record: &T, durability: Durability) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    let json = serde_json::to_vec(record)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&temporary)?;
    file.write_all(&json)?;
    if durability == Durability::Synced {
        file.sync_all()?;
    }
    fs::rename(&temporary, path)?;
    if durability == Durability::Synced
        && let Some(parent) = path.parent()
    {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

/// Reads a record; `None` if there is no such file. A file that cannot be read as one is an error that names it.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_back_and_a_damaged_one_is_named() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("stop.json");
        assert_eq!(read::<Stop>(&path).expect("readable"), None);
        write(&path, &Stop { grace_millis: 7 }, Durability::Synced).expect("written");
        assert_eq!(read(&path).expect("readable"), Some(Stop { grace_millis: 7 }));
        fs::write(&path, b"{\"grace").expect("written");
        let error = read::<Stop>(&path).expect_err("damaged");
        assert!(error.to_string().contains("stop.json"), "{error}");
    }
}
