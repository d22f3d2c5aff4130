//! The simulated runtime behind the seam.
//!
//! Lock order: one lock, around the picture in memory, never held over an await. Calls for one pod come from one worker,
//! one after the other; the end of a container comes from a task of its own. A file is written before a call is
//! answered, so that a kubelet that dies and comes again finds what it was told.

use std::{
    collections::HashMap,
    fs, io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{
    super::{
        kept::blocking,
        process::record::{self as files, Durability},
        seam::{
            ContainerConfig, ContainerStatus, ExecOutput, Interaction, PodConfig, PodFound, Ports, PullError, Runtime,
            RuntimeError, Session,
        },
    },
    addresses::Addresses,
    behaviour::{self, ENDS_AFTER, Fate, STOPPED},
    record::{End, FORMAT, PodRecord, Run},
};
use crate::clock::SharedClock;

/// Said to whoever wants to run a command in a container.
const NO_PROCESS: &str =
    "the containers of this node are simulated: there is no process in them to run a command beside";

/// Pods that run without processes.
#[derive(Debug, Clone)]
pub struct SimulatedRuntime {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    host_ip: Ipv4Addr,
    clock: SharedClock,
    picture: Mutex<Picture>,
}

#[derive(Debug)]
struct Picture {
    pods: HashMap<String, Pod>,
    addresses: Addresses,
}

#[derive(Debug)]
struct Pod {
    record: PodRecord,
    changes: watch::Sender<u64>,
    /// Who waits for the end of a container, by its name.
    ends: HashMap<String, AbortOnDropHandle<()>>,
}

impl Pod {
    fn new(record: PodRecord) -> Self {
        Pod { record, changes: watch::Sender::new(0), ends: HashMap::new() }
    }

    fn changed(&self) {
        self.changes.send_modify(|n| *n += 1);
    }
}

impl SimulatedRuntime {
    /// A runtime that keeps its files in this directory, which the caller has locked, with what an earlier life has
    /// left there. Must be called within a tokio runtime.
    pub async fn open(
        root_dir: &Path,
        node_name: &str,
        host_ip: Ipv4Addr,
        clock: SharedClock,
    ) -> Result<Self, RuntimeError> {
        let folder = root_dir.join("simulated");
        let place = folder.clone();
        let found = blocking("read the simulated pods", move || find(&place)).await?;
        let mut addresses = Addresses::of_node(node_name);
        for record in found.iter().filter(|record| !record.pod.host_network) {
            addresses.keep(record.pod.ip);
        }
        let picture = Mutex::new(Picture { pods: HashMap::new(), addresses });
        let shared = Arc::new(Shared { folder, host_ip, clock, picture });
        {
            let now = shared.clock.now();
            let mut picture = shared.picture.lock();
            for mut record in found {
                let mut due = Vec::new();
                for (name, run) in &mut record.containers {
                    run.over = run.end.is_some_and(|end| end.at <= now);
                    due.extend(run.end.filter(|_| !run.over).map(|end| (name.clone(), end)));
                }
                let mut pod = Pod::new(record);
                for (name, end) in due {
                    shared.wait_for(&mut pod, name, end);
                }
                picture.pods.insert(pod.record.pod.uid.clone(), pod);
            }
        }
        Ok(SimulatedRuntime { shared })
    }
}

impl Shared {
    fn file(&self, uid: &str) -> PathBuf {
        self.folder.join("pods").join(format!("{uid}.json"))
    }

    /// The log that every container has: it writes nothing.
    fn empty_log(&self) -> PathBuf {
        self.folder.join("log")
    }

    async fn keep(&self, record: PodRecord) -> Result<(), RuntimeError> {
        let path = self.file(&record.pod.uid);
        let write = move || files::write(&path, &record, Durability::Written);
        blocking("write the pod's record", write).await
    }

    /// Has the end of a container come at its time.
    fn wait_for(self: &Arc<Self>, pod: &mut Pod, container: String, end: End) {
        let left = Duration::try_from(end.at.duration_since(self.clock.now())).unwrap_or_default();
        let (shared, uid, name) = (Arc::downgrade(self), pod.record.pod.uid.clone(), container.clone());
        let task = tokio::spawn(async move {
            tokio::time::sleep(left).await;
            if let Some(shared) = Weak::upgrade(&shared) {
                shared.ended(&uid, &name, end);
            }
        });
        pod.ends.insert(container, AbortOnDropHandle::new(task));
    }

    fn ended(&self, uid: &str, container: &str, end: End) {
        let mut picture = self.picture.lock();
        let Some(pod) = picture.pods.get_mut(uid) else { return };
        let Some(run) = pod.record.containers.get_mut(container) else { return };
        if run.end == Some(end) && !run.over {
            run.over = true;
            pod.changed();
        }
    }

    /// The record with one container started anew.
    fn started(&self, record: &PodRecord, config: &ContainerConfig) -> (PodRecord, Run) {
        let before = record.containers.get(&config.name);
        let started_at = self.clock.now();
        let end = match behaviour::fate(config) {
            Fate::Runs => None,
            Fate::Ends { code, after } => Some(End { at: later(started_at, after), code, asked: false }),
        };
        let run = Run {
            image: config.image.clone(),
            hash: config.hash.clone(),
            attempt: before.map_or(0, |run| run.attempt + 1).max(config.attempt_min),
            started_at,
            end,
            previous: before.and_then(Run::as_previous),
            over: end.is_some_and(|end| end.at <= started_at),
        };
        let mut record = record.clone();
        record.containers.insert(config.name.clone(), run.clone());
        (record, run)
    }
}

#[async_trait]
impl Runtime for SimulatedRuntime {
    fn version(&self) -> String {
        concat!("simulated://", env!("CARGO_PKG_VERSION")).to_owned()
    }

    fn isolation(&self) -> &'static str {
        "none: containers are simulated, no process runs"
    }

    fn is_simulation(&self) -> bool {
        true
    }

    fn answer(&self, readiness: bool, command: &[String]) -> Option<bool> {
        Some(behaviour::answer(readiness, command))
    }

    async fn pods(&self) -> Result<Vec<PodFound>, RuntimeError> {
        let picture = self.shared.picture.lock();
        let found = |pod: &Pod| PodFound { config: pod.record.pod.config(), ip: pod.record.pod.ip.to_string() };
        Ok(picture.pods.values().map(found).collect())
    }

    async fn prepare(&self, pod: &PodConfig) -> Result<String, RuntimeError> {
        let record = {
            let mut picture = self.shared.picture.lock();
            if let Some(known) = picture.pods.get(&pod.uid) {
                return Ok(known.record.pod.ip.to_string());
            }
            let ip = if pod.host_network { Some(self.shared.host_ip) } else { picture.addresses.take() };
            let none = || RuntimeError::Unsupported("the node's network has no address left".into());
            let record = PodRecord::new(pod, ip.ok_or_else(none)?);
            picture.pods.insert(pod.uid.clone(), Pod::new(record.clone()));
            record
        };
        let ip = record.pod.ip.to_string();
        self.shared.keep(record).await?;
        Ok(ip)
    }

    async fn has_image(&self, _image: &str) -> Result<bool, PullError> {
        Ok(true)
    }

    async fn pull(&self, _image: &str) -> Result<(), PullError> {
        Ok(())
    }

    async fn start(&self, uid: &str, config: &ContainerConfig) -> Result<Ports, RuntimeError> {
        let missing = || RuntimeError::NotFound { uid: uid.to_owned(), container: config.name.clone() };
        let record = self.shared.picture.lock().pods.get(uid).map(|pod| pod.record.clone()).ok_or_else(missing)?;
        let (record, run) = self.shared.started(&record, config);
        self.shared.keep(record).await?;
        let mut picture = self.shared.picture.lock();
        let pod = picture.pods.get_mut(uid).ok_or_else(missing)?;
        pod.ends.remove(&config.name);
        if let Some(end) = run.end.filter(|_| !run.over) {
            self.shared.wait_for(pod, config.name.clone(), end);
        }
        pod.record.containers.insert(config.name.clone(), run);
        pod.changed();
        Ok(config.ports.iter().map(|port| (*port, *port)).collect())
    }

    async fn stop(&self, uid: &str, container: &str, grace: Duration) -> Result<(), RuntimeError> {
        let record = {
            let at = later(self.shared.clock.now(), grace.min(ENDS_AFTER));
            let mut picture = self.shared.picture.lock();
            let Some(pod) = picture.pods.get_mut(uid) else { return Ok(()) };
            let Some(run) = pod.record.containers.get_mut(container) else { return Ok(()) };
            if !run.stop(at, STOPPED) {
                return Ok(());
            }
            self.shared.wait_for(pod, container.to_owned(), End { at, code: STOPPED, asked: true });
            pod.record.clone()
        };
        self.shared.keep(record).await
    }

    fn containers(&self, uid: &str) -> Vec<ContainerStatus> {
        self.shared.picture.lock().pods.get(uid).map(|pod| pod.record.statuses()).unwrap_or_default()
    }

    fn changes(&self, uid: &str) -> watch::Receiver<u64> {
        match self.shared.picture.lock().pods.get(uid) {
            Some(pod) => pod.changes.subscribe(),
            None => watch::Sender::new(0).subscribe(),
        }
    }

    fn ports(&self, _uid: &str, _container: &str) -> Ports {
        Ports::new()
    }

    async fn exec(&self, _uid: &str, _container: &str, _command: &[String]) -> Result<ExecOutput, RuntimeError> {
        Err(RuntimeError::Unsupported(NO_PROCESS.to_owned()))
    }

    async fn interact(
        &self,
        _uid: &str,
        _container: &str,
        _asked: &Interaction,
    ) -> Result<io::Result<Session>, RuntimeError> {
        Err(RuntimeError::Unsupported(NO_PROCESS.to_owned()))
    }

    fn volumes(&self, uid: &str) -> PathBuf {
        self.shared.folder.join("volumes").join(uid)
    }

    fn log(&self, uid: &str, container: &str, previous: bool) -> Result<PathBuf, RuntimeError> {
        let missing = || RuntimeError::NotFound { uid: uid.to_owned(), container: container.to_owned() };
        let picture = self.shared.picture.lock();
        let run = picture.pods.get(uid).and_then(|pod| pod.record.containers.get(container)).ok_or_else(missing)?;
        if previous && run.previous.is_none() {
            return Err(missing());
        }
        Ok(self.shared.empty_log())
    }

    async fn remove(&self, uid: &str) -> Result<(), RuntimeError> {
        let path = self.shared.file(uid);
        blocking("remove the pod's record", move || match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        })
        .await?;
        let mut picture = self.shared.picture.lock();
        if let Some(pod) = picture.pods.remove(uid)
            && !pod.record.pod.host_network
        {
            picture.addresses.give_back(pod.record.pod.ip);
        }
        Ok(())
    }
}

/// The pods that have a file. A damaged one is told and forgotten: nothing runs that could be lost.
fn find(folder: &Path) -> io::Result<Vec<PodRecord>> {
    let pods = folder.join("pods");
    fs::create_dir_all(&pods)?;
    fs::File::create(folder.join("log"))?;
    let mut found = Vec::new();
    for entry in fs::read_dir(&pods)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            // The beginning of a write that was never finished.
            fs::remove_file(&path)?;
            continue;
        }
        match files::read::<PodRecord>(&path) {
            Ok(Some(record)) if record.pod.format == FORMAT => found.push(record),
            Ok(Some(record)) => {
                let message = format!("{}: format {} is not known", path.display(), record.pod.format);
                return Err(io::Error::new(io::ErrorKind::Unsupported, message));
            }
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                tracing::error!(%error, "the file of a simulated pod is damaged; its containers start anew");
                fs::remove_file(&path)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn later(from: Timestamp, by: Duration) -> Timestamp {
    SignedDuration::try_from(by).ok().and_then(|by| from.checked_add(by).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        clock,
        kubelet::runtime::seam::{ContainerState, Place},
    };

    fn pod() -> PodConfig {
        PodConfig {
            uid: "u1".into(),
            namespace: "default".into(),
            name: "web".into(),
            host_network: false,
            grace: Duration::from_secs(30),
        }
    }

    fn container(name: &str, command: &str) -> ContainerConfig {
        ContainerConfig {
            name: name.into(),
            image: "registry.local/a:1".into(),
            command: vec![command.to_owned()],
            args: Vec::new(),
            env: Vec::new(),
            working_dir: None,
            ports: vec![80],
            mounts: Vec::new(),
            termination: None,
            attempt_min: 0,
            hash: "h".into(),
            place: Place::default(),
        }
    }

    async fn open(folder: &Path) -> SimulatedRuntime {
        SimulatedRuntime::open(folder, "node01", Ipv4Addr::LOCALHOST, clock::system()).await.expect("usable")
    }

    async fn wait_for_end(runtime: &SimulatedRuntime, name: &str) -> (i32, bool) {
        let mut changes = runtime.changes("u1");
        loop {
            let state = runtime.containers("u1").into_iter().find(|state| state.name == name).expect("known");
            if let ContainerState::Exited(exit) = state.state {
                return (exit.exit_code, exit.asked);
            }
            changes.changed().await.expect("the pod is there");
        }
    }

    #[tokio::test]
    async fn containers_end_as_their_command_says_or_when_asked() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let runtime = open(folder.path()).await;
        assert_eq!(runtime.prepare(&pod()).await.expect("prepared"), "10.129.0.1");
        for (name, command) in [("good", "/bin/true"), ("bad", "/bin/false"), ("long", "sleep")] {
            runtime.start("u1", &container(name, command)).await.expect("started");
        }
        assert_eq!(wait_for_end(&runtime, "good").await, (0, false));
        assert_eq!(wait_for_end(&runtime, "bad").await, (1, false));
        let runs = |state: &ContainerStatus| matches!(state.state, ContainerState::Running { .. });
        let running: Vec<_> = runtime.containers("u1").into_iter().filter(runs).map(|state| state.name).collect();
        assert_eq!(running, ["long"]);
        runtime.stop("u1", "long", Duration::from_secs(30)).await.expect("asked");
        assert_eq!(wait_for_end(&runtime, "long").await, (STOPPED, true));
    }

    #[tokio::test]
    async fn a_kubelet_that_comes_again_finds_its_pods_as_they_were() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let runtime = open(folder.path()).await;
        let ip = runtime.prepare(&pod()).await.expect("prepared");
        runtime.start("u1", &container("long", "sleep")).await.expect("started");
        runtime.start("u1", &container("good", "/bin/true")).await.expect("started");
        let long = runtime.containers("u1").into_iter().find(|state| state.name == "long").expect("known");
        drop(runtime);
        fs::write(folder.path().join("simulated/pods/u2.json"), "{\"form").expect("written");
        let again = open(folder.path()).await;
        let found = again.pods().await.expect("listed");
        assert_eq!(found, [PodFound { config: pod(), ip: ip.clone() }]);
        assert_eq!(again.prepare(&pod()).await.expect("prepared"), ip);
        assert_eq!(wait_for_end(&again, "good").await, (0, false), "what was due to end ends");
        assert_eq!(again.containers("u1").into_iter().find(|state| state.name == "long"), Some(long));
        let other = PodConfig { uid: "u3".into(), ..pod() };
        assert_ne!(again.prepare(&other).await.expect("prepared"), ip, "its address is not given twice");
        again.stop("u1", "long", Duration::ZERO).await.expect("asked");
        wait_for_end(&again, "long").await;
        again.remove("u1").await.expect("removed");
        assert_eq!(open(folder.path()).await.pods().await.expect("listed").len(), 1);
    }

    #[tokio::test]
    async fn a_run_counts_those_before_it() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let runtime = open(folder.path()).await;
        runtime.prepare(&pod()).await.expect("prepared");
        let first = ContainerConfig { attempt_min: 4, ..container("a", "/bin/false") };
        runtime.start("u1", &first).await.expect("started");
        wait_for_end(&runtime, "a").await;
        runtime.start("u1", &container("a", "sleep")).await.expect("started");
        let state = runtime.containers("u1").remove(0);
        assert_eq!((state.attempt, state.id.as_str()), (5, "simulated://u1.a.5"));
        assert_eq!(state.previous.map(|run| run.exit_code), Some(1));
        assert!(runtime.log("u1", "a", true).is_ok_and(|log| fs::read(log).is_ok_and(|text| text.is_empty())));
        assert!(runtime.exec("u1", "a", &["ls".into()]).await.is_err_and(|error| error.to_string() == NO_PROCESS));
    }
}
