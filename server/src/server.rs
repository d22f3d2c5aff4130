//! The composition root of the server: opens the store, binds the ports, joins store, registry and doors, and takes them
//! down in order.
//!
//! Invariants: nothing is served before the store is open and nothing is told ready before everything is served; at the
//! end ports close first, then streams end with a reason, then the store closes.

mod certificates;
mod compactor;
mod error;
mod memory;

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::middleware;
use http::Request;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use error::ServerError;

use crate::auth::service_account::{self, ServiceAccounts};
use crate::auth::{AuditLog, Authenticator, Authorizer, Gate, Tokens, guard};
use crate::clock::{Clock, SystemClock};
use crate::config::{Certificates, Config, SecurePort};
use crate::etcd::{self, Entry, EtcdOptions};
use crate::registry::{ApiService, EngineStore, MASTERS, Registry, RegistryOptions, Store};
use crate::resources::{self, ResourceOptions};
use crate::rest::{self, RestDoor, RestFront};
use crate::storage::{Durability, Engine, EngineOptions, Seams, check_folder, check_no_cluster};
use crate::transport::{self, Answer, Door, Front, KeepAlive, Served, StreamingMethods, Tls};
use certificates::SecureTls;

/// How long streams and calls may take to end before they are cut.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// etcd's own figures (`--grpc-keepalive-interval`, `--grpc-keepalive-timeout`).
const CLIENT_KEEP_ALIVE: KeepAlive =
    KeepAlive { interval: Duration::from_secs(2 * 3600), timeout: Duration::from_secs(20) };

/// A component that is gone without a word must not hold its watches for hours.
const SECURE_KEEP_ALIVE: KeepAlive = KeepAlive { interval: Duration::from_secs(30), timeout: Duration::from_secs(30) };

/// Where a server listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// etcd's API: the first of the listen URLs; `None` = it is not served.
    pub client: Option<SocketAddr>,
    /// The resource API over TLS.
    pub secure: Option<SocketAddr>,
    /// The resource API in plain text.
    pub insecure: Option<SocketAddr>,
}

/// Runs a server until `shutdown` ends. `ready` is called once, when everything is served.
///
/// Must be called on tokio's multi-thread runtime.
///
/// # Errors
/// A setting, port, file or store that cannot be used; each message names it and the cure.
pub async fn run(
    config: Config,
    shutdown: impl Future<Output = ()>,
    ready: impl FnOnce(Addresses),
) -> Result<(), ServerError> {
    config.check()?;
    let clock = SystemClock::shared();
    check_place(&config)?;
    let ports = Ports::bind(&config).await?;
    let (engine, secure_tls) = open(&config, &ports, &clock).await?;
    tell_what_is_served(&config, &ports.addresses, &engine);
    let addresses = ports.addresses;
    let stop = Stop::default();
    let mut tasks = JoinSet::new();
    for door in ports.doors(&config, &clock, &engine, secure_tls, &stop)? {
        tasks.spawn(transport::serve(door, stop.drain.clone(), stop.abort.clone()));
    }
    tasks.spawn(memory::run(stop.drain.clone()));
    tasks.spawn(compactor::run(engine.clone(), config.compaction_interval, stop.drain.clone()));
    ready(addresses);
    shutdown.await;
    stop.finish(tasks).await;
    let closing = tokio::task::spawn_blocking(move || engine.close());
    closing.await.map_err(|_| ServerError::Internal("closing the store panicked"))?;
    tracing::info!("stopped");
    Ok(())
}

/// The two signals of the end: finish what you do; stop now.
#[derive(Default)]
struct Stop {
    drain: CancellationToken,
    abort: CancellationToken,
}

impl Stop {
    /// Lets streams and calls end by themselves, then cuts what has not.
    async fn finish(self, mut tasks: JoinSet<()>) {
        self.drain.cancel();
        let all = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_MAX, all).await.is_err() {
            tracing::warn!("some connections did not end within {DRAIN_MAX:?} and are cut");
            self.abort.cancel();
            while tasks.join_next().await.is_some() {}
        }
    }
}

/// Before anything is made, so that nothing is put into a folder of somebody else's.
fn check_place(config: &Config) -> Result<(), ServerError> {
    let dir = &config.data_dir;
    let disk = Seams::real(dir).disk;
    // Without a store the folder only gets certificates and a kubeconfig: but never over those of a cluster.
    let check = if config.durability == Durability::Memory { check_no_cluster } else { check_folder };
    check(&*disk, dir).map_err(|source| ServerError::Store { dir: dir.clone(), source })
}

/// Opens the store and reads or makes the certificates, side by side: both wait for the disk.
async fn open(
    config: &Config,
    ports: &Ports,
    clock: &Arc<dyn Clock>,
) -> Result<(Engine, Option<SecureTls>), ServerError> {
    let options = EngineOptions {
        durability: config.durability,
        log: config.log.clone(),
        checkpoint: config.checkpoint.clone(),
        ..EngineOptions::new(&config.data_dir)
    };
    let seams = Seams { clock: clock.clone(), ..Seams::real(&config.data_dir) };
    let engine = tokio::task::spawn_blocking(move || Engine::open(options, seams));
    let (dir, clock) = (config.data_dir.clone(), clock.clone());
    let secure = config.secure.clone().zip(ports.addresses.secure);
    let tls = tokio::task::spawn_blocking(move || {
        secure.map(|(port, address)| certificates::prepare(&port.certificates, &dir, address, &clock)).transpose()
    });
    let engine = engine.await.map_err(|_| ServerError::Internal("opening the store panicked"))?;
    let tls = tls.await.map_err(|_| ServerError::Internal("preparing the certificates panicked"))?;
    let engine = engine.map_err(|source| ServerError::Store { dir: config.data_dir.clone(), source })?;
    match tls {
        Ok(tls) => Ok((engine, tls)),
        Err(error) => {
            // The lock and the background work of the store must not outlive a start that failed.
            engine.close();
            Err(error)
        }
    }
}

/// The bound ports.
struct Ports {
    client: Vec<(bool, TcpListener)>,
    secure: Option<TcpListener>,
    insecure: Option<TcpListener>,
    addresses: Addresses,
}

impl Ports {
    async fn bind(config: &Config) -> Result<Self, ServerError> {
        let mut client = Vec::new();
        for url in &config.client.listen {
            client.push((url.is_tls, transport::bind("--listen-client-urls", url.address).await?));
        }
        let secure = match &config.secure {
            Some(port) => Some(transport::bind("--secure-port", (port.bind_address, port.port).into()).await?),
            None => None,
        };
        let insecure = match config.insecure_resource_port {
            Some(port) => Some(transport::bind("--insecure-resource-port", (Ipv4Addr::LOCALHOST, port).into()).await?),
            None => None,
        };
        let addresses = Addresses {
            client: client.first().map(|(_, first)| local(first)).transpose()?,
            secure: secure.as_ref().map(local).transpose()?,
            insecure: insecure.as_ref().map(local).transpose()?,
        };
        Ok(Ports { client, secure, insecure, addresses })
    }

    /// What is served on each.
    fn doors(
        self,
        config: &Config,
        clock: &Arc<dyn Clock>,
        engine: &Engine,
        secure_tls: Option<SecureTls>,
        stop: &Stop,
    ) -> Result<Vec<Door>, ServerError> {
        let mut doors = Vec::new();
        let ports = self.client.len() + usize::from(self.secure.is_some()) + usize::from(self.insecure.is_some());
        let connections_max = transport::connections_max(ports);
        let streaming = streaming_methods();
        let client_tls = config.client.tls.as_ref().map(|files| Tls::load(files, clock.clone())).transpose()?;
        let options = EtcdOptions {
            client_urls: advertised(config, &self.client)?,
            entry: etcd_entry(config, secure_tls.as_ref())?,
            shutdown: stop.drain.clone(),
            ..EtcdOptions::default()
        };
        let router = etcd::routes(engine.clone(), options);
        for (is_tls, listener) in self.client {
            let tls = if is_tls { client_tls.clone() } else { None };
            doors.push(Door {
                listener,
                tls,
                served: router.clone().into(),
                keep_alive: CLIENT_KEEP_ALIVE,
                connections_max,
                streams_max: config.client.streams_max,
                streaming: streaming.clone(),
                takes_url_authority: true,
            });
        }
        let kubelets = secure_tls.as_ref().and_then(|secure| secure.kubelets.clone());
        let options = ResourceOptions { kubelets: kubelets.clone(), stopping: stop.drain.clone() };
        let signing_key = secure_tls.as_ref().and_then(|secure| secure.signing_key.clone());
        let accounts = service_accounts(config, signing_key.clone())?;
        let authenticator = Arc::new(Authenticator::Proof(tokens(config)?, accounts));
        let client_authority = secure_tls.as_ref().and_then(|secure| secure.client_authority.clone());
        let registry = registry(config, clock, engine, &authenticator, (self.addresses.secure, client_authority));
        let (rest, front) = rest::routes(
            RestDoor {
                registry: registry.clone(),
                kubelets,
                stopping: stop.drain.clone(),
                documents: Arc::default(),
                times: config.request_times,
                inflight: config.requests_inflight,
            },
            engine.clone(),
        );
        let audit = config.access.audit.as_ref().map(AuditLog::open).transpose()?.map(Arc::new);
        let gated = registry.clone();
        let keys = service_account::routes(Arc::new(service_accounts(config, signing_key)?));
        let router = resources::routes(registry, engine.clone(), options).merge(rest).merge(keys);
        let guarded = |authenticator| {
            let anonymous = config.access.anonymous;
            let gate = Gate { authenticator, registry: gated.clone(), anonymous, audit: audit.clone() };
            let gate = Arc::new(gate);
            let router = router.clone().layer(middleware::from_fn_with_state(gate.clone(), guard));
            Served::fronted(router, Arc::new(GatedFront { gate, front: front.clone() }))
        };
        let door = |listener, tls, served| Door {
            listener,
            tls,
            served,
            keep_alive: SECURE_KEEP_ALIVE,
            connections_max,
            streams_max: config.streams_max,
            streaming: streaming.clone(),
            takes_url_authority: false,
        };
        if let (Some(listener), Some(secure)) = (self.secure, secure_tls) {
            doors.push(door(listener, Some(secure.tls), guarded(authenticator)));
        }
        if let Some(listener) = self.insecure {
            doors.push(door(listener, None, guarded(Arc::new(Authenticator::TrustAll))));
        }
        Ok(doors)
    }
}

/// The methods of every service whose clients send a stream.
fn streaming_methods() -> StreamingMethods {
    StreamingMethods::of(&[
        listwatch_proto::DESCRIPTORS,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ])
    .expect("the checked-in descriptors are those of the compiled services")
}

/// REST behind the gate.
#[derive(Debug)]
struct GatedFront {
    gate: Arc<Gate>,
    front: RestFront,
}

impl Front for GatedFront {
    fn takes(&self, request: &Request<Body>) -> bool {
        RestFront::takes(request)
    }

    fn answer(self: Arc<Self>, request: Request<Body>) -> Answer {
        Box::pin(async move { Ok(self.gate.pass(request, |request| self.front.answer(request)).await) })
    }
}

/// Who may enter etcd's door. Where it trusts an authority whose certificates name users of the resource API, only
/// those whom that API refuses nothing: else a node's certificate were a key to everything.
fn etcd_entry(config: &Config, secure: Option<&SecureTls>) -> Result<Entry, ServerError> {
    let etcd = config.client.tls.as_ref().and_then(|files| files.clients.authority());
    let resources = secure.and_then(|secure| secure.client_authority_file.as_deref());
    let (Some(etcd), Some(resources)) = (etcd, resources) else { return Ok(Entry::Anybody) };
    let is_shared = certificates::is_authority_shared(etcd, resources)?;
    if is_shared {
        tracing::info!(
            "etcd's API is served to certificates of the group {MASTERS} alone: its authority names users too"
        );
    }
    Ok(if is_shared { Entry::Group(MASTERS) } else { Entry::Anybody })
}

fn registry(
    config: &Config,
    clock: &Arc<dyn Clock>,
    engine: &Engine,
    authenticator: &Arc<Authenticator>,
    (secure, client_authority): (Option<SocketAddr>, Option<String>),
) -> Registry {
    let api_service = secure.map(|address| ApiService { port: address.port(), address: config.reached_at() });
    let options = RegistryOptions {
        event_ttl: config.event_ttl,
        plugins: config.access.plugins.clone(),
        pools: config.pools.clone(),
        api_service,
        client_authority,
        ..RegistryOptions::default()
    };
    let store: Arc<dyn Store> = Arc::new(EngineStore::new(engine.clone()));
    let authorizer = Authorizer::new(config.access.authorization.clone(), store.clone(), authenticator.clone());
    Registry::new(store, clock.clone(), options).secured(Arc::new(authorizer))
}

/// The keys of service accounts' tokens: those given, or the server's own.
fn service_accounts(config: &Config, own: Option<PathBuf>) -> Result<ServiceAccounts, ServerError> {
    let mut options = config.access.service_accounts.clone();
    options.signing_key = options.signing_key.or(own);
    Ok(ServiceAccounts::load(options)?)
}

fn tokens(config: &Config) -> Result<Tokens, ServerError> {
    match config.secure.as_ref().and_then(|port| port.token_auth_file.as_ref()) {
        Some(path) => Ok(Tokens::load(path)?),
        None => Ok(Tokens::default()),
    }
}

fn local(listener: &TcpListener) -> Result<SocketAddr, ServerError> {
    listener.local_addr().map_err(ServerError::LocalAddress)
}

fn advertised(config: &Config, bound: &[(bool, TcpListener)]) -> Result<Vec<String>, ServerError> {
    if !config.client.advertise.is_empty() {
        return Ok(config.client.advertise.clone());
    }
    let url = |(is_tls, listener): &(bool, TcpListener)| {
        let scheme = if *is_tls { "https" } else { "http" };
        Ok(format!("{scheme}://{}", local(listener)?))
    };
    bound.iter().map(url).collect()
}

/// Says what an operator must know: versions, how safe a write is, and what stands open.
fn tell_what_is_served(config: &Config, addresses: &Addresses, engine: &Engine) {
    let status = engine.status();
    let dir = config.data_dir.display();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        etcd = etcd::SERVER_VERSION,
        kubernetes = rest::KUBERNETES_VERSION,
        revision = status.revision,
        incarnation = engine.incarnation(),
        "store open"
    );
    match config.durability {
        Durability::Sync => {
            tracing::info!(%dir, sync_cost = ?status.sync_cost, "durability sync: a write is on the disk before its answer")
        }
        Durability::Buffered(interval) => {
            tracing::warn!(%dir, ?interval, sync_cost = ?status.sync_cost, "durability buffered: a power cut loses up to the last interval of answered writes");
        }
        Durability::Memory => tracing::warn!("durability memory: everything is lost when this process ends"),
    }
    for url in config.client.listen.iter().filter(|url| !url.is_tls) {
        let reach =
            if url.address.ip().is_loopback() { "every local user" } else { "everybody who reaches the address" };
        tracing::warn!(
            "etcd's API is served in plain text on {}: {reach} may read and write every key, those under /registry \
             (the resources) too, without proof of identity (--listen-client-urls= closes it)",
            url.address
        );
    }
    if let Some(address) = addresses.insecure {
        tracing::warn!("the resource API is served in plain text on {address}: every local user may do everything");
    }
    if let (Some(address), Some(SecurePort { certificates: Certificates::Own, .. })) =
        (addresses.secure, &config.secure)
    {
        let kubeconfig = certificates::kubeconfig_path(Path::new(&config.data_dir));
        tracing::info!("the resource API is served over TLS on {address}; kubeconfig: {}", kubeconfig.display());
    }
}
