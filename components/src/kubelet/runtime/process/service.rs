//! The process runtime behind the seam: files and shims on one side, the kubelet's questions on the other.
//!
//! Lock order: there is one lock, around the picture in memory; it is never held over an await or a system call that
//! waits. Calls for one pod come from one worker, one after the other; the end of a shim comes by itself.

use std::{
    collections::BTreeMap,
    fs, io,
    net::Ipv4Addr,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::{io::unix::AsyncFd, sync::watch, task::spawn_blocking};
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::{
        kept::{KeptPod, blocking},
        seam::{
            ContainerConfig, ContainerState, ContainerStatus, ExecOutput, Interaction, PodConfig, PodFound, Ports,
            PullError, Runtime, RuntimeError, Session,
        },
    },
    attempt::{self, Attempt},
    exec,
    images::{Image, ImageError, PATH_DEFAULT, PATH_ENV},
    interact,
    launch::{self, Launched, Shim},
    layout::{PodDir, Root},
    lock,
    pod::{Container, Keeper, Pod, PodRecord, Pods},
    ports::{self, POD_IP_ENV, PORT_ENV, PORTS_ENV, Port},
    record::{self, Durability, FORMAT, Spec},
};
use crate::runtime::{Backoff, BackoffPolicy};

/// Size at which a container's log is rotated (Kubernetes: `containerLogMaxSize`).
const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// How many files a container's log has (Kubernetes: `containerLogMaxFiles`).
const LOG_FILES_MAX: u32 = 5;

/// Pauses while the end of a container cannot be read or written.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(5), jitter: 0.5 };

/// Containers as processes of this machine.
#[derive(Debug, Clone)]
pub struct ProcessRuntime {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: Root,
    shim: Shim,
    pods: Mutex<Pods>,
}

/// A pod as its files tell it.
type FoundPod = (PodRecord, BTreeMap<String, attempt::Found>);

impl ProcessRuntime {
    /// A runtime on this directory, which the caller has locked, with what an earlier life has left there. Must be
    /// called within a tokio runtime.
    pub async fn open(root: Root, shim: Shim) -> Result<Self, RuntimeError> {
        let shared = Arc::new(Shared { root, shim, pods: Mutex::new(Pods::default()) });
        let runtime = ProcessRuntime { shared };
        let this = runtime.clone();
        let found = blocking("read the pods", move || this.shared.find_pods()).await?;
        for (record, containers) in found {
            let uid = record.pod.uid.clone();
            let mut pod = Pod::new(record);
            // Under the lock, so that the end of a shim is looked at only after its container is known.
            let mut pods = runtime.shared.pods.lock();
            for (name, found) in containers {
                let shim = match found.shim {
                    Some(handle) => Some(runtime.keep(&uid, &name, handle)?),
                    None => None,
                };
                pod.containers.insert(name, Container { last: found.last, previous: found.previous, shim });
            }
            pods.0.insert(uid, pod);
        }
        Ok(runtime)
    }

    /// Waits for the end of a shim, then reads how it ended.
    fn keep(&self, uid: &str, container: &str, handle: OwnedFd) -> Result<Keeper, RuntimeError> {
        let handle = Arc::new(handle);
        // SAFETY: the shared handle inside keeps the descriptor open, and the same, for as long as the registration lives.
        let ended = unsafe { AsyncFd::register_with_interest(handle.clone(), tokio::io::Interest::READABLE) }
            .map_err(|error| RuntimeError::Io { what: "wait for a shim", source: error.into() })?;
        let (shared, uid, container) = (self.shared.clone(), uid.to_owned(), container.to_owned());
        let waiter = tokio::spawn(async move {
            if let Err(error) = ended.readable().await {
                tracing::error!(%error, uid, container, "cannot wait for a shim");
                return;
            }
            drop(ended);
            // A full disk must not leave a container running for ever in the eyes of the API.
            let mut backoff = Backoff::new(RETRY);
            loop {
                let (shared, uid, container) = (shared.clone(), uid.clone(), container.clone());
                match spawn_blocking(move || shared.ended(&uid, &container)).await {
                    Ok(Err(error)) => tracing::error!(%error, "cannot read how a container ended"),
                    Ok(Ok(())) | Err(_) => return,
                }
                tokio::time::sleep(backoff.next_delay()).await;
            }
        });
        Ok(Keeper { handle, _waiter: AbortOnDropHandle::new(waiter) })
    }
}

impl Shared {
    /// What the files and the living shims say.
    fn find_pods(&self) -> io::Result<Vec<FoundPod>> {
        let mut pods = Vec::new();
        for uid in self.root.uids()? {
            let dir = self.root.pod(&uid);
            match self.find_pod(&dir) {
                Ok(Some(pod)) => pods.push(pod),
                // Made and not yet written: nothing was ever started in it.
                Ok(None) => fs::remove_dir_all(dir.path())?,
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    // Its processes cannot be told any more, so none may stay; the pod itself stands in the API.
                    tracing::error!(%error, uid, "the files of a pod are damaged; its containers are started anew");
                    for name in dir.containers()? {
                        drop(lock::take_by_force(&dir.container(&name).lock())?);
                    }
                    fs::remove_dir_all(dir.path())?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(pods)
    }

    fn find_pod(&self, dir: &PodDir) -> io::Result<Option<FoundPod>> {
        let Some(record) = record::read::<PodRecord>(&dir.record())? else { return Ok(None) };
        if record.pod.format != FORMAT {
            let message = format!("{}: format {} is not known", dir.record().display(), record.pod.format);
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let mut containers = BTreeMap::new();
        for name in dir.containers()? {
            if let Some(found) = attempt::find(&dir.container(&name))? {
                containers.insert(name, found);
            }
        }
        Ok(Some((record, containers)))
    }

    fn last_run(&self, uid: &str, container: &str) -> Result<Attempt, RuntimeError> {
        let pods = self.pods.lock();
        let found = pods.0.get(uid).and_then(|pod| pod.containers.get(container)).map(|found| found.last.clone());
        found.ok_or_else(|| RuntimeError::NotFound { uid: uid.to_owned(), container: container.to_owned() })
    }

    /// A shim has ended: its container has an exit now.
    fn ended(&self, uid: &str, container: &str) -> io::Result<()> {
        let handle = {
            let mut pods = self.pods.lock();
            let entry = pods.0.get_mut(uid).and_then(|pod| pod.containers.get_mut(container));
            match entry.and_then(|entry| entry.shim.as_ref()) {
                Some(keeper) => keeper.handle.clone(),
                None => return Ok(()),
            }
        };
        launch::reap(&handle)?;
        let found = attempt::find(&self.root.pod(uid).container(container))?;
        let mut pods = self.pods.lock();
        let Some(pod) = pods.0.get_mut(uid) else { return Ok(()) };
        match found {
            Some(found) => {
                let ended = Container { last: found.last, previous: found.previous, shim: None };
                // The waiter is this very task; it has done its work.
                pod.containers.insert(container.to_owned(), ended);
            }
            None => drop(pod.containers.remove(container)),
        }
        pod.changed();
        Ok(())
    }

    /// Starts a container under a new shim. Blocks for some milliseconds.
    fn launch(
        &self,
        record: &PodRecord,
        config: &ContainerConfig,
    ) -> Result<(Attempt, Option<OwnedFd>, Vec<Port>), RuntimeError> {
        let before = record.ports.get(&config.name).map_or(&[][..], Vec::as_slice);
        let ports = ports::place(record.pod.ip, &config.ports, before)
            .map_err(|source| RuntimeError::Io { what: "find a port", source })?;
        let image = Image::resolve(&config.image).map_err(|error| RuntimeError::Start(error.to_string()))?;
        let dir = self.root.pod(&record.pod.uid).container(&config.name);
        let cwd = config.working_dir.as_ref().map_or_else(|| dir.work(), PathBuf::from);
        let program = image.program(&config.command, &config.args);
        // A built-in has no last words, and without them it needs no view of its own.
        let termination = config.termination.clone().filter(|_| program.path.is_some());
        let spec = |attempt| {
            let (path, args) = match program.path {
                Some(path) => (path, program.args),
                None => (self.shim.program.clone(), [self.shim.builtin_args.clone(), program.args].concat()),
            };
            Spec {
                format: FORMAT,
                uid: record.pod.uid.clone(),
                namespace: record.pod.namespace.clone(),
                pod: record.pod.name.clone(),
                container: config.name.clone(),
                attempt,
                image: config.image.clone(),
                hash: config.hash.clone(),
                program: path,
                name: program.name,
                args,
                env: environment(record, config, &ports, &cwd),
                cwd: cwd.clone(),
                grace_millis: record.pod.grace_millis,
                log_bytes_max: LOG_BYTES_MAX,
                log_files_max: LOG_FILES_MAX,
                mounts: config.mounts.clone(),
                termination,
            }
        };
        let (spec, launched) = launch::launch(&self.shim, &dir, config.attempt_min, spec)
            .map_err(|error| RuntimeError::Start(error.to_string()))?;
        Ok(match launched {
            Launched::Running { started, shim } => {
                (Attempt { spec, started: Some(started), exit: None, message: String::new() }, Some(shim), ports)
            }
            Launched::Failed(exit) => {
                let message = exit.message.clone();
                (Attempt { spec, started: None, exit: Some(exit), message }, None, ports)
            }
        })
    }
}

#[async_trait]
impl Runtime for ProcessRuntime {
    fn version(&self) -> String {
        concat!("process://", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn isolation(&self) -> &'static str {
        "none: containers are processes of the machine"
    }

    async fn pods(&self) -> Result<Vec<PodFound>, RuntimeError> {
        let pods = self.shared.pods.lock();
        Ok(pods
            .0
            .values()
            .map(|pod| PodFound { config: pod.record.pod.config(), ip: pod.record.pod.ip.to_string() })
            .collect())
    }

    async fn prepare(&self, pod: &PodConfig) -> Result<String, RuntimeError> {
        let record = {
            let mut pods = self.shared.pods.lock();
            if let Some(known) = pods.0.get(&pod.uid) {
                return Ok(known.record.pod.ip.to_string());
            }
            let ip = if pod.host_network {
                Ipv4Addr::LOCALHOST
            } else {
                ports::address(self.shared.root.path(), &pods.addresses())
                    .ok_or_else(|| RuntimeError::Unsupported("the node's network has no address left".into()))?
            };
            let record = PodRecord { pod: KeptPod::new(FORMAT, pod, ip), ports: BTreeMap::new() };
            pods.0.insert(pod.uid.clone(), Pod::new(record.clone()));
            record
        };
        let ip = record.pod.ip.to_string();
        let dir = self.shared.root.pod(&pod.uid);
        blocking("write the pod's record", move || {
            fs::create_dir_all(dir.path())?;
            record::write(&dir.record(), &record, Durability::Written)
        })
        .await?;
        Ok(ip)
    }

    async fn has_image(&self, image: &str) -> Result<bool, PullError> {
        match Image::resolve(image) {
            Ok(_) => Ok(true),
            Err(error @ ImageError::Invalid { .. }) => Err(PullError::InvalidName(error.to_string())),
            Err(ImageError::Unknown { .. }) => Ok(false),
        }
    }

    async fn pull(&self, image: &str) -> Result<(), PullError> {
        match Image::resolve(image) {
            Ok(_) => Ok(()),
            Err(error @ ImageError::Invalid { .. }) => Err(PullError::InvalidName(error.to_string())),
            Err(error @ ImageError::Unknown { .. }) => Err(PullError::Failed(error.to_string())),
        }
    }

    async fn start(&self, uid: &str, config: &ContainerConfig) -> Result<Ports, RuntimeError> {
        let missing = || RuntimeError::NotFound { uid: uid.to_owned(), container: config.name.clone() };
        let record = self.shared.pods.lock().0.get(uid).map(|pod| pod.record.clone()).ok_or_else(missing)?;
        let (shared, wanted) = (self.shared.clone(), config.clone());
        let launched = spawn_blocking(move || {
            let launched = shared.launch(&record, &wanted)?;
            let mut record = record;
            let ports = &launched.2;
            if record.ports.insert(wanted.name, ports.clone()).as_ref() != Some(ports) && !ports.is_empty() {
                record::write(&shared.root.pod(&record.pod.uid).record(), &record, Durability::Written)
                    .map_err(|source| RuntimeError::Io { what: "write the pod's record", source })?;
            }
            Ok((launched, record.ports))
        });
        let ((last, shim, ports), all_ports) =
            launched.await.map_err(|error| RuntimeError::Start(error.to_string()))??;
        // Under the lock, so that the end of the shim is looked at only after its container is known.
        let mut pods = self.shared.pods.lock();
        let shim = match shim {
            Some(handle) => Some(self.keep(uid, &config.name, handle)?),
            None => None,
        };
        let pod = pods.0.get_mut(uid).ok_or_else(missing)?;
        pod.record.ports = all_ports;
        let previous = pod.containers.remove(&config.name).map(|before| before.last);
        pod.containers.insert(config.name.clone(), Container { last, previous, shim });
        pod.changed();
        Ok(ports.iter().map(|port| (port.wanted, port.actual)).collect())
    }

    async fn stop(&self, uid: &str, container: &str, grace: Duration) -> Result<(), RuntimeError> {
        let (handle, attempt) = {
            let pods = self.shared.pods.lock();
            let entry = pods.0.get(uid).and_then(|pod| pod.containers.get(container));
            match entry.and_then(|entry| Some((entry.shim.as_ref()?.handle.clone(), entry.last.spec.attempt))) {
                Some(running) => running,
                None => return Ok(()),
            }
        };
        let dir = self.shared.root.pod(uid).container(container).attempt(attempt);
        blocking("ask a container to stop", move || launch::stop(&dir, &handle, grace)).await
    }

    fn containers(&self, uid: &str) -> Vec<ContainerStatus> {
        let pods = self.shared.pods.lock();
        let containers = pods.0.get(uid).map(|pod| &pod.containers);
        containers.into_iter().flatten().map(|(name, container)| container.status(name)).collect()
    }

    fn changes(&self, uid: &str) -> watch::Receiver<u64> {
        match self.shared.pods.lock().0.get(uid) {
            Some(pod) => pod.changes.subscribe(),
            None => watch::Sender::new(0).subscribe(),
        }
    }

    fn ports(&self, uid: &str, container: &str) -> Ports {
        let pods = self.shared.pods.lock();
        let ports = pods.0.get(uid).and_then(|pod| pod.record.ports.get(container));
        ports.into_iter().flatten().map(|port| (port.wanted, port.actual)).collect()
    }

    async fn exec(&self, uid: &str, container: &str, command: &[String]) -> Result<ExecOutput, RuntimeError> {
        let attempt = self.shared.last_run(uid, container)?;
        let what = "run a command in the container";
        exec::run(&self.shared.shim, &attempt, command).await.map_err(|source| RuntimeError::Io { what, source })
    }

    async fn interact(
        &self,
        uid: &str,
        container: &str,
        asked: &Interaction,
    ) -> Result<io::Result<Session>, RuntimeError> {
        let attempt = self.shared.last_run(uid, container)?;
        if attempt.started.is_none() || attempt.exit.is_some() {
            return Err(RuntimeError::NotFound { uid: uid.to_owned(), container: container.to_owned() });
        }
        Ok(interact::start(&self.shared.shim, &attempt, asked).await)
    }

    fn volumes(&self, uid: &str) -> PathBuf {
        self.shared.root.pod(uid).volumes()
    }

    fn log(&self, uid: &str, container: &str, previous: bool) -> Result<PathBuf, RuntimeError> {
        let missing = || RuntimeError::NotFound { uid: uid.to_owned(), container: container.to_owned() };
        let pods = self.shared.pods.lock();
        let entry = pods.0.get(uid).and_then(|pod| pod.containers.get(container)).ok_or_else(missing)?;
        let run = if previous { entry.previous.as_ref().ok_or_else(missing)? } else { &entry.last };
        Ok(self.shared.root.pod(uid).container(container).attempt(run.spec.attempt).log())
    }

    async fn remove(&self, uid: &str) -> Result<(), RuntimeError> {
        let running = self.containers(uid).iter().any(|c| matches!(c.state, ContainerState::Running { .. }));
        assert!(!running, "a pod is removed only after its containers have ended");
        let dir = self.shared.root.pod(uid);
        blocking("remove the pod's directory", move || match fs::remove_dir_all(dir.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
        .await?;
        self.shared.pods.lock().0.remove(uid);
        Ok(())
    }
}

/// The whole environment of a container: what every process of the machine needs, what the pod's place is, and above
/// all what the pod asks for.
fn environment(record: &PodRecord, config: &ContainerConfig, ports: &[Port], cwd: &Path) -> Vec<(String, String)> {
    let mut env = BTreeMap::new();
    env.insert(PATH_ENV.to_owned(), std::env::var(PATH_ENV).unwrap_or_else(|_| PATH_DEFAULT.to_owned()));
    env.insert("HOME".to_owned(), cwd.display().to_string());
    env.insert("HOSTNAME".to_owned(), record.pod.name.clone());
    env.insert(POD_IP_ENV.to_owned(), record.pod.ip.to_string());
    if let Some(first) = ports.first() {
        env.insert(PORTS_ENV.to_owned(), ports::to_text(ports));
        env.insert(PORT_ENV.to_owned(), first.actual.to_string());
    }
    env.extend(config.env.iter().cloned());
    env.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn damaged_files_of_one_pod_do_not_keep_the_others_from_running() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let root = Root::new(folder.path());
        for (uid, text) in [("damaged", "{\"form"), ("empty", "")] {
            fs::create_dir_all(root.pod(uid).path()).expect("made");
            fs::write(root.pod(uid).record(), text).expect("written");
        }
        let config = PodConfig {
            uid: "whole".into(),
            namespace: "default".into(),
            name: "web".into(),
            host_network: false,
            grace: Duration::from_secs(1),
        };
        let runtime = ProcessRuntime::open(root.clone(), Shim::default()).await.expect("usable");
        runtime.prepare(&config).await.expect("prepared");
        let again = ProcessRuntime::open(root.clone(), Shim::default()).await.expect("usable");
        let found: Vec<_> = again.pods().await.expect("listed").into_iter().map(|pod| pod.config).collect();
        assert_eq!(found, [config]);
        assert_eq!(root.uids().expect("listed"), ["whole"]);
    }
}
