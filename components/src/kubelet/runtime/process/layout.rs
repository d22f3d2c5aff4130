//! Where the process runtime keeps its files.
//!
//! ```text
//! ROOT/lock                                  held by the kubelet for its life
//! ROOT/pods/UID/pod.json                     what the pod is: name, address, ports, grace
//! ROOT/pods/UID/.volumes/NAME                its volumes
//! ROOT/pods/UID/NAME/lock                    held by whoever runs the container NAME of the pod UID
//! ROOT/pods/UID/NAME/work/                   the container's working directory
//! ROOT/pods/UID/NAME/ATTEMPT/                the intent to run it the ATTEMPT-th time, made by exclusive create
//!     spec.json  starting.json  started.json  stop.json  exit.json  log  log.1 …  shim.log  termination-log
//!     root/                                  where the container's own view of the machine begins
//! ```
//!
//! Invariant: a directory of an attempt is made and removed only by a holder of the container's lock.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The directory of one kubelet.
#[derive(Debug, Clone)]
pub struct Root(PathBuf);

/// The directory of one pod.
#[derive(Debug, Clone)]
pub struct PodDir(PathBuf);

/// The directory of one container of a pod.
#[derive(Debug, Clone)]
pub struct ContainerDir(PathBuf);

/// The directory of one run of a container.
#[derive(Debug, Clone)]
pub struct AttemptDir(PathBuf);

impl Root {
    /// The directory at this path.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Root(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The kubelet's own lock.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// The directory of a pod.
    pub fn pod(&self, uid: &str) -> PodDir {
        PodDir(self.0.join("pods").join(uid))
    }

    /// The uids of the pods that have a directory.
    pub fn uids(&self) -> io::Result<Vec<String>> {
        names(&self.0.join("pods"))
    }
}

impl PodDir {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The record of the pod.
    pub fn record(&self) -> PathBuf {
        self.0.join("pod.json")
    }

    /// The directory of a container.
    pub fn container(&self, name: &str) -> ContainerDir {
        ContainerDir(self.0.join(name))
    }

    /// The directory of its volumes. No container can have this name.
    pub fn volumes(&self) -> PathBuf {
        self.0.join(".volumes")
    }

    /// The names of the containers that have a directory.
    pub fn containers(&self) -> io::Result<Vec<String>> {
        Ok(names(&self.0)?.into_iter().filter(|name| !name.starts_with('.')).collect())
    }
}

impl ContainerDir {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The lock of this container of this pod.
    pub fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    /// Where the container runs unless its spec names another place.
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// The directory of a run.
    pub fn attempt(&self, number: u32) -> AttemptDir {
        AttemptDir(self.0.join(number.to_string()))
    }

    /// The runs that have a directory, oldest first.
    pub fn attempts(&self) -> io::Result<Vec<u32>> {
        let mut numbers: Vec<u32> = names(&self.0)?.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }
}

impl AttemptDir {
    /// The directory at this path, as a shim is told of it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        AttemptDir(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The container's lock, one floor up.
    pub fn lock(&self) -> PathBuf {
        self.0.parent().unwrap_or(&self.0).join("lock")
    }

    /// What to run; written by the kubelet before the shim starts.
    pub fn spec(&self) -> PathBuf {
        self.0.join("spec.json")
    }

    /// Written by the shim just before it starts the container: from here on it may have run.
    pub fn starting(&self) -> PathBuf {
        self.0.join("starting.json")
    }

    /// Written by the shim once the container runs.
    pub fn started(&self) -> PathBuf {
        self.0.join("started.json")
    }

    /// Written by the kubelet before it asks the shim to stop.
    pub fn stop(&self) -> PathBuf {
        self.0.join("stop.json")
    }

    /// Written by the shim, and synced, when all processes of the container are gone.
    pub fn exit(&self) -> PathBuf {
        self.0.join("exit.json")
    }

    /// The newest part of the container's output.
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    /// What the container says of its end.
    pub fn termination_log(&self) -> PathBuf {
        self.0.join("termination-log")
    }

    /// An empty directory on which the container's own view of the machine is mounted.
    pub fn root(&self) -> PathBuf {
        self.0.join("root")
    }

    /// What the shim itself has to say; empty in the normal case.
    pub fn shim_log(&self) -> PathBuf {
        self.0.join("shim.log")
    }
}

/// The names of the directories in a directory; none if it does not exist.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}
