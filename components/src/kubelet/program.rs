//! The kubelet as a program: what it is told, what it consists of, how it starts and stops.
//!
//! Invariants: nothing is started before the lock on the root directory is held; a stop leaves every container running
//! under its shim.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use k8s_openapi::api::core::v1::{Node, Taint};
use listwatch_proto::resource::{Kind, ObjectKey, Quantity};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    node::{Heartbeat, NodeFacts, Reporter, system_facts},
    pod::backoff::BackoffLimits,
    runtime::{
        process::{
            ProcessRuntime,
            launch::Shim,
            layout::Root,
            lifeline,
            lock::{self, Lock},
        },
        seam::{Runtime, RuntimeError},
        simulated::SimulatedRuntime,
    },
    server::{Door, LogAccess, ServingCertificate, TlsError},
    worker::{ConfigMaps, Context, Ledger, Tokens, Workers},
};
use crate::{
    client::{Api, Client},
    clock::SharedClock,
    runtime::{IndexerBuilder, Informer, Queue, Recorder, ReflectorConfig},
};

/// What a kubelet is told.
#[derive(Debug, Clone)]
pub struct Options {
    /// The node's name.
    pub node_name: String,
    /// Where it keeps its pods.
    pub root_dir: PathBuf,
    /// Wait for another kubelet on the root directory to end, instead of refusing.
    pub wait_for_lock: bool,
    /// What the node offers.
    pub capacity: BTreeMap<String, Quantity>,
    /// Labels beside the ones that every node has.
    pub labels: BTreeMap<String, String>,
    /// Taints that a new node is born with.
    pub taints: Vec<Taint>,
    /// Where its server listens; port 0: a free one.
    pub address: SocketAddr,
    /// Certificates of its server; `None`: it serves no logs.
    pub serving: Option<ServingCertificate>,
    /// How many seconds a renewal of the node's Lease is good for; it is renewed four times as often.
    pub lease_duration_seconds: i32,
    /// Pauses of containers and images that fail.
    pub backoff: BackoffLimits,
    /// How shims and built-in images are called.
    pub shim: Shim,
    /// What runs the containers.
    pub runtime: RuntimeKind,
}

/// What runs the containers of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RuntimeKind {
    /// Processes of this machine.
    #[default]
    Process,
    /// Nothing: containers are only said to run.
    Simulated,
}

/// What a kubelet says when the API has its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Where its server listens, if it serves.
    pub address: Option<SocketAddr>,
}

/// Why a kubelet does not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another one is there.
    #[error("root directory {root_dir} is in use by the kubelet with process id {holders}", root_dir = root_dir.display())]
    Held {
        /// The directory.
        root_dir: PathBuf,
        /// The processes that hold its lock.
        holders: String,
    },
    /// The root directory cannot be used.
    #[error("root directory {root_dir}", root_dir = root_dir.display())]
    RootDir {
        /// The directory.
        root_dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The runtime cannot be used.
    #[error("the runtime of containers")]
    Runtime(#[from] RuntimeError),
    /// The server's certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The server's address cannot be had.
    #[error("listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Options {
    /// A kubelet of this node in this directory, with defaults for all else.
    pub fn new(node_name: impl Into<String>, root_dir: impl Into<PathBuf>) -> Self {
        Options {
            node_name: node_name.into(),
            root_dir: root_dir.into(),
            wait_for_lock: false,
            capacity: BTreeMap::from([
                ("cpu".to_owned(), Quantity::units(4)),
                ("memory".to_owned(), Quantity::bytes(8 << 30)),
                ("pods".to_owned(), Quantity::units(110)),
            ]),
            labels: BTreeMap::new(),
            taints: Vec::new(),
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            serving: None,
            lease_duration_seconds: 40,
            backoff: BackoffLimits::default(),
            shim: Shim::default(),
            runtime: RuntimeKind::default(),
        }
    }
}

/// Runs until told to stop. `ready` is called once the API has the node, Ready.
pub async fn run(
    options: Options,
    client: Client,
    clock: SharedClock,
    shutdown: CancellationToken,
    ready: impl FnOnce(Ready),
) -> Result<(), Error> {
    let _lock = tokio::select! {
        lock = lock_root(&options) => lock?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let runtime = open_runtime(&options, &clock).await?;
    let found = runtime.pods().await?;
    let door = match &options.serving {
        Some(serving) => {
            let listen = |source| Error::Listen { address: options.address, source };
            let door = Door::bind(options.address, serving).await?.map_err(listen)?;
            let address = door.address().map_err(listen)?;
            Some((door, address))
        }
        None => {
            tracing::warn!("no serving certificate: logs of this node's containers cannot be read");
            None
        }
    };
    let address = door.as_ref().map(|(_, address)| *address);
    let (recorder, recording) = Recorder::new(&client, "kubelet", &options.node_name, clock.clone());
    let parts = Parts::new(&options, &client, runtime, recorder, &clock, address);
    let mut tasks = JoinSet::new();
    let recording = tokio::spawn(recording.run(shutdown.clone()));
    let Parts { context, pods, nodes, pod_changes, node_changes, reporter } = parts;
    if let Some((door, _)) = door {
        let access = LogAccess { pods: pods.store(), runtime: context.runtime.clone(), clock: clock.clone() };
        tasks.spawn(door.serve(access));
    }
    tasks.spawn(pods.run(shutdown.clone()));
    tasks.spawn(nodes.run(shutdown.clone()));
    tasks.spawn(Workers::new(context, pod_changes).run(found));
    let node_uid = tokio::select! {
        node_uid = reporter.register() => node_uid,
        () = shutdown.cancelled() => return Ok(()),
    };
    ready(Ready { address });
    let duration_seconds = options.lease_duration_seconds;
    let heartbeat =
        Heartbeat { api: Api::new(&client), node_name: options.node_name, node_uid, clock, duration_seconds };
    tasks.spawn(heartbeat.run());
    tasks.spawn(reporter.run(node_changes));
    shutdown.cancelled().await;
    // Workers are dropped where they stand; their containers go on under their shims.
    tasks.shutdown().await;
    // Events that were told are still written, within the recorder's own limit.
    let _ = recording.await;
    Ok(())
}

async fn open_runtime(options: &Options, clock: &SharedClock) -> Result<Arc<dyn Runtime>, RuntimeError> {
    let root_dir = &options.root_dir;
    Ok(match options.runtime {
        RuntimeKind::Process => Arc::new(ProcessRuntime::open(Root::new(root_dir), options.shim.clone()).await?),
        RuntimeKind::Simulated => {
            let host_ip = match options.address.ip() {
                IpAddr::V4(ip) => ip,
                IpAddr::V6(_) => Ipv4Addr::LOCALHOST,
            };
            Arc::new(SimulatedRuntime::open(root_dir, &options.node_name, host_ip, clock.clone()).await?)
        }
    })
}

/// The parts that hear of pods and nodes.
struct Parts {
    context: Arc<Context>,
    pods: Informer<k8s_openapi::api::core::v1::Pod>,
    nodes: Informer<Node>,
    pod_changes: Queue<ObjectKey>,
    node_changes: Queue<ObjectKey>,
    reporter: Reporter,
}

impl Parts {
    fn new(
        options: &Options,
        client: &Client,
        runtime: Arc<dyn Runtime>,
        recorder: Recorder,
        clock: &SharedClock,
        address: Option<SocketAddr>,
    ) -> Self {
        let name = &options.node_name;
        let mut pods = informer(client, "pods", format!("spec.nodeName={name}"));
        let mut nodes = informer(client, "nodes", format!("metadata.name={name}"));
        let (pod_changes, node_changes) = (Queue::new(), Queue::new());
        feed(&mut pods, &pod_changes);
        feed(&mut nodes, &node_changes);
        let facts = NodeFacts {
            name: name.clone(),
            address: options.address.ip().to_string(),
            port: address.map_or(0, |address| address.port()),
            capacity: options.capacity.iter().map(|(name, amount)| (name.clone(), amount.to_string())).collect(),
            labels: options.labels.clone(),
            taints: options.taints.clone(),
            isolation: runtime.isolation(),
            system: system_facts(&runtime.version()),
        };
        let context = Arc::new(Context {
            node_name: name.clone(),
            host_ip: facts.address.clone(),
            pods: Api::new(client),
            nodes: Api::new(client),
            pod_store: pods.store(),
            node_store: nodes.store(),
            runtime,
            recorder: recorder.clone(),
            clock: clock.clone(),
            cluster_has_ended: lifeline::has_ended,
            backoff: options.backoff,
            allocatable: options.capacity.clone(),
            config_maps: Arc::new(ConfigMaps::new(client)),
            tokens: Arc::new(Tokens::new(client, clock.clone())),
            ledger: Arc::new(Ledger::new(options.capacity.clone())),
        });
        let reporter = Reporter { api: Api::new(client), store: nodes.store(), facts, recorder, clock: clock.clone() };
        Parts { context, pods, nodes, pod_changes, node_changes, reporter }
    }
}

fn informer<T: crate::client::Resource>(client: &Client, plural: &str, field_selector: String) -> Informer<T> {
    let kind = Kind::by_plural("", "v1", plural).expect("pods and nodes are served kinds");
    let config = ReflectorConfig { field_selector, ..ReflectorConfig::default() };
    Informer::with(client, kind, config, IndexerBuilder::new())
}

fn feed<T: crate::client::Resource>(informer: &mut Informer<T>, queue: &Queue<ObjectKey>) {
    let queue = queue.clone();
    informer.on_change(move |change| queue.add(change.key().clone()));
}

/// Takes the lock that makes this the only kubelet of the directory.
async fn lock_root(options: &Options) -> Result<Lock, Error> {
    let root_dir = options.root_dir.clone();
    let failed = |source| Error::RootDir { root_dir: root_dir.clone(), source };
    std::fs::create_dir_all(&root_dir).map_err(failed)?;
    let path = Root::new(&root_dir).lock();
    if let Some(lock) = Lock::try_take(&path).map_err(failed)? {
        return Ok(lock);
    }
    let holders = lock::holders(&path).unwrap_or_default();
    let holders = holders.iter().map(i32::to_string).collect::<Vec<_>>().join(", ");
    if !options.wait_for_lock {
        return Err(Error::Held { root_dir, holders });
    }
    tracing::info!(root_dir = %root_dir.display(), holders, "waiting for another kubelet to end");
    // A thread of its own: one of the pool would hold up the end of a kubelet that is told to stop while it waits.
    let (taken, wait) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = taken.send(Lock::take(&path));
    });
    wait.await.map_err(io::Error::other).and_then(|lock| lock).map_err(failed)
}
