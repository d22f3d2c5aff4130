//! What all services of the door share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::entry::Entry;
use super::header::HeaderSource;
use crate::storage::Engine;

/// The version told to clients, which detect features by it: the etcd release whose behaviour is served.
pub const SERVER_VERSION: &str = "3.6.0";

/// The largest request that may write, in bytes (etcd 3.6, `--max-request-bytes`).
pub const REQUEST_BYTES_MAX: usize = 1_572_864;

/// What the transport accepts beyond [`REQUEST_BYTES_MAX`], in bytes (etcd 3.6).
pub(super) const OVERHEAD_BYTES: usize = 512 * 1024;

/// The most operations of one transaction (etcd 3.6, `--max-txn-ops`).
pub const TXN_OPS_MAX: usize = 128;

/// How the door is opened.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// The member's name in `MemberList`.
    pub name: String,
    /// The addresses clients are told, as URLs.
    pub client_urls: Vec<String>,
    /// How long a watch that asked for progress may stay silent. etcd's default is ten minutes; a shorter one keeps the
    /// point to resume from fresh.
    pub progress_interval: Duration,
    /// Who may enter.
    pub entry: Entry,
    /// The end of the server: watches and keep-alives end with it.
    pub shutdown: CancellationToken,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            client_urls: Vec::new(),
            progress_interval: Duration::from_secs(10),
            entry: Entry::default(),
            shutdown: CancellationToken::new(),
        }
    }
}

/// The shared part of all services; one per server.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) engine: Engine,
    pub(super) headers: HeaderSource,
    pub(super) options: EtcdOptions,
    /// Told before each compaction through this door, so that watches in step can say where they are.
    pub(super) compacting: watch::Sender<i64>,
}

impl Front {
    pub(super) fn new(engine: Engine, options: EtcdOptions) -> Arc<Self> {
        let headers = HeaderSource::new(&engine.status());
        Arc::new(Self { engine, headers, options, compacting: watch::Sender::new(0) })
    }
}
