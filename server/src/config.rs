//! What a server is started with.
//!
//! Names follow the flags of etcd and kube-apiserver. Invariant: a setting that cannot be honoured is refused by
//! [`Config::check`] with the flag's name, never dropped.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

use crate::auth::service_account::ServiceAccountOptions;
use crate::auth::{AuditPath, AuthorizationMode};
use crate::registry::{AdmissionPlugins, Pools};
pub use crate::rest::{RequestTimes, RequestsInflight};
use crate::storage::{CheckpointOptions, Durability, LogSizes};
use crate::transport::TlsFiles;

/// etcd's port.
pub const CLIENT_PORT: u16 = 2379;

/// kube-apiserver's port.
pub const SECURE_PORT: u16 = 6443;

/// How often history is given up, as kube-apiserver does with etcd.
pub const COMPACTION_INTERVAL: Duration = Duration::from_secs(300);

/// How long Events are kept (kube-apiserver's `--event-ttl`).
pub const EVENT_TTL: Duration = Duration::from_secs(3600);

/// Streams of one HTTP/2 connection to the resource API at the same time (kube-apiserver 1.36).
pub const STREAMS_MAX: u32 = 100;

/// Streams of one connection to etcd's API at the same time. etcd sets no bound unless told to; this one is above what a
/// client with a stream for each of its watches has, and keeps one connection from taking all memory.
pub const CLIENT_STREAMS_MAX: u32 = 10_000;

/// A setting that cannot be honoured.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{flag}: {reason}")]
pub struct ConfigError {
    /// The flag, with its dashes.
    pub flag: &'static str,
    /// Why not, and what to do.
    pub reason: String,
}

/// What a server is started with.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--data-dir`: the folder of the store, and of certificates and kubeconfig if the server makes its own.
    pub data_dir: PathBuf,
    /// `--durability`: when a write counts as safe.
    pub durability: Durability,
    /// `--log-segment-bytes`: sizes of the log's files.
    pub log: LogSizes,
    /// `--checkpoint-log-bytes`, `--checkpoint-interval`, `--history-retention`: when the state follows the log, and how
    /// long history stays after it was given up.
    pub checkpoint: CheckpointOptions,
    /// The port of etcd's API.
    pub client: ClientPort,
    /// The TLS port of the resource API; `None` = the store alone.
    pub secure: Option<SecurePort>,
    /// Who may do what.
    pub access: Access,
    /// `--insecure-resource-port`: the resource API in plain text on 127.0.0.1, without any proof of identity.
    pub insecure_resource_port: Option<u16>,
    /// `--compaction-interval`: how often the history of the resources is given up; zero = never.
    pub compaction_interval: Duration,
    /// `--event-ttl`: how long Events are kept; zero = for ever.
    pub event_ttl: Duration,
    /// `--service-cluster-ip-range`, `--service-node-port-range`: what services are given.
    pub pools: Pools,
    /// `--advertise-address`: where pods reach the resource API; `None` = at `--bind-address`, if that is one they can
    /// reach.
    pub advertise_address: Option<IpAddr>,
    /// How long requests of the REST API may last.
    pub request_times: RequestTimes,
    /// How many of them are worked on at a time.
    pub requests_inflight: RequestsInflight,
    /// `--http2-max-streams-per-connection`: streams of one connection to the resource API at the same time.
    pub streams_max: u32,
}

/// Who may do what on the resource API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// `--authorization-mode`: in this order, the first that allows decides.
    pub authorization: Vec<AuthorizationMode>,
    /// `--anonymous-auth`: whether a request may show no proof of identity.
    pub anonymous: bool,
    /// `--audit-log-path`; `None` = no audit log.
    pub audit: Option<AuditPath>,
    /// `--enable-admission-plugins`, `--disable-admission-plugins`.
    pub plugins: AdmissionPlugins,
    /// `--service-account-…`, `--api-audiences`.
    pub service_accounts: ServiceAccountOptions,
}

impl Default for Access {
    /// kubeadm's: kubelets by their node, everybody by roles.
    fn default() -> Self {
        Access {
            authorization: vec![AuthorizationMode::Node, AuthorizationMode::Rbac],
            anonymous: true,
            audit: None,
            plugins: AdmissionPlugins::all(),
            service_accounts: ServiceAccountOptions::default(),
        }
    }
}

/// The port of etcd's API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientPort {
    /// `--listen-client-urls`: where to listen; empty = not at all.
    pub listen: Vec<ListenUrl>,
    /// `--advertise-client-urls`: what clients are told; empty = where it listens.
    pub advertise: Vec<String>,
    /// `--cert-file`, `--key-file`, `--trusted-ca-file`, `--client-cert-auth`: for `https` URLs.
    pub tls: Option<TlsFiles>,
    /// `--allow-plain-text`: serve `http` URLs on addresses that other machines reach.
    pub allow_plain_text: bool,
    /// `--max-concurrent-streams`: streams of one connection at the same time.
    pub streams_max: u32,
}

/// The TLS port of the resource API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecurePort {
    /// `--bind-address`.
    pub bind_address: IpAddr,
    /// `--secure-port`; 0 = a free one.
    pub port: u16,
    /// Where certificates come from.
    pub certificates: Certificates,
    /// `--token-auth-file`: static bearer tokens.
    pub token_auth_file: Option<PathBuf>,
}

/// Where the certificates of the TLS port come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// Made once under `--data-dir`, with a kubeconfig of the administrator.
    Own,
    /// Given by flags.
    Files {
        /// `--tls-cert-file`, `--tls-private-key-file`, `--client-ca-file`.
        tls: TlsFiles,
        /// `--kubelet-client-certificate`, `--kubelet-client-key`, `--kubelet-certificate-authority`: without them logs
        /// cannot be read from kubelets.
        kubelet: Option<KubeletFiles>,
    },
}

/// What the server shows to kubelets, and whom it takes for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletFiles {
    /// The client certificate, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// The authority that signed the kubelets' certificates, PEM.
    pub authority: PathBuf,
}

/// An address to listen on, `http://127.0.0.1:2379`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenUrl {
    /// `https`.
    pub is_tls: bool,
    /// Address and port; port 0 = a free one.
    pub address: SocketAddr,
}

impl Config {
    /// A server with every default in this folder: etcd's API in plain text and the resource API over TLS, both on
    /// loopback.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Config {
            data_dir: data_dir.into(),
            durability: Durability::Sync,
            log: LogSizes::default(),
            checkpoint: CheckpointOptions::default(),
            client: ClientPort {
                listen: vec![ListenUrl { is_tls: false, address: (Ipv4Addr::LOCALHOST, CLIENT_PORT).into() }],
                advertise: Vec::new(),
                tls: None,
                allow_plain_text: false,
                streams_max: CLIENT_STREAMS_MAX,
            },
            secure: Some(SecurePort {
                bind_address: Ipv4Addr::LOCALHOST.into(),
                port: SECURE_PORT,
                certificates: Certificates::Own,
                token_auth_file: None,
            }),
            access: Access::default(),
            insecure_resource_port: None,
            compaction_interval: COMPACTION_INTERVAL,
            event_ttl: EVENT_TTL,
            pools: Pools::default(),
            advertise_address: None,
            request_times: RequestTimes::default(),
            requests_inflight: RequestsInflight::default(),
            streams_max: STREAMS_MAX,
        }
    }

    /// Checks what one setting means for another.
    ///
    /// # Errors
    /// The first setting that cannot be honoured.
    pub fn check(&self) -> Result<(), ConfigError> {
        let refuse = |flag, reason: String| Err(ConfigError { flag, reason });
        let modes = &self.access.authorization;
        if modes.is_empty() {
            return refuse("--authorization-mode", "names no mode".to_owned());
        }
        if let Some((_, twice)) = modes.iter().enumerate().find(|(n, mode)| modes[..*n].contains(mode)) {
            return refuse("--authorization-mode", format!("{twice:?} is named twice"));
        }
        if self.streams_max == 0 {
            return refuse("--http2-max-streams-per-connection", "must be 1 or more".to_owned());
        }
        let client = &self.client;
        if client.streams_max == 0 {
            return refuse("--max-concurrent-streams", "must be 1 or more".to_owned());
        }
        if client.listen.is_empty() && client.tls.is_some() {
            return refuse("--cert-file", "--listen-client-urls names no address".to_owned());
        }
        if self.access.service_accounts.issuers.is_empty() {
            return refuse("--service-account-issuer", "names no issuer".to_owned());
        }
        for url in &client.listen {
            if url.is_tls && client.tls.is_none() {
                return refuse("--listen-client-urls", format!("{url} needs --cert-file and --key-file"));
            }
            if !url.is_tls && !url.address.ip().is_loopback() && !client.allow_plain_text {
                let why = format!(
                    "{url} would give every key to whoever reaches the address, in plain text; use https with \
                     --cert-file, --key-file and --client-cert-auth, or say --allow-plain-text"
                );
                return refuse("--listen-client-urls", why);
            }
        }
        if client.tls.is_some() && client.listen.iter().all(|url| !url.is_tls) {
            return refuse("--cert-file", "no URL of --listen-client-urls is https".to_owned());
        }
        self.check_pools()?;
        if self.durability == Durability::Buffered(Duration::ZERO) {
            return refuse("--sync-interval", "must be longer than nothing".to_owned());
        }
        Ok(())
    }
}

impl Config {
    /// One range of each family at most, each large enough to be of use (Kubernetes 1.36).
    fn check_pools(&self) -> Result<(), ConfigError> {
        let refuse = |flag, reason: String| Err(ConfigError { flag, reason });
        let ranges = &self.pools.addresses;
        if ranges.is_empty() {
            return refuse("--service-cluster-ip-range", "names no range".to_owned());
        }
        for (i, range) in ranges.iter().enumerate() {
            if ranges[..i].iter().any(|other| other.family() == range.family()) {
                return refuse("--service-cluster-ip-range", format!("{range} is a second range of its family"));
            }
            if !range.is_large_enough() {
                let why = format!("{range} must have 8 addresses at least, and no prefix below 64 in IPv6");
                return refuse("--service-cluster-ip-range", why);
            }
        }
        if self.pools.node_ports.is_empty() || *self.pools.node_ports.start() == 0 {
            return refuse("--service-node-port-range", "must be two ports from 1 on, the lower one first".to_owned());
        }
        Ok(())
    }

    /// Where pods reach the resource API, if anywhere.
    pub(crate) fn reached_at(&self) -> Option<IpAddr> {
        let bound = self.secure.as_ref().map(|port| port.bind_address);
        let bound = bound.filter(|address| !address.is_loopback() && !address.is_unspecified());
        self.advertise_address.or(bound)
    }
}

impl FromStr for ListenUrl {
    type Err = String;

    /// Reads `http://IP:PORT` or `https://IP:PORT`; as with etcd the host is an IP address or `localhost`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| format!("{text:?} has no scheme (http or https)"))?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            other => return Err(format!("{text:?}: the scheme {other} is not served (http or https)")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let host_port = match rest.strip_prefix("localhost:") {
            Some(port) => format!("127.0.0.1:{port}"),
            None => rest.to_owned(),
        };
        let address =
            host_port.parse().map_err(|_| format!("{text:?}: {rest:?} is not IP:PORT (host names cannot be bound)"))?;
        Ok(ListenUrl { is_tls, address })
    }
}

impl fmt::Display for ListenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.is_tls { "https" } else { "http" }, self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::ClientCertificates;

    #[test]
    fn urls_are_read_as_etcd_reads_them() {
        let read = |text: &str| text.parse::<ListenUrl>().map(|u| u.to_string());
        assert_eq!(read("http://localhost:2379").as_deref(), Ok("http://127.0.0.1:2379"));
        assert_eq!(read("https://[::1]:0/").as_deref(), Ok("https://[::1]:0"));
        for wrong in
            ["", "127.0.0.1:2379", "unix:///tmp/x", "http://example.org:1", "http://127.0.0.1", "http://1.2.3.4:99999"]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused_by_name() {
        let check = |change: fn(&mut Config)| {
            let mut config = Config::new("d");
            change(&mut config);
            config.check().map_err(|e| e.flag)
        };
        let tls = || TlsFiles { certificate: "c".into(), key: "k".into(), clients: ClientCertificates::Ignored };
        assert_eq!(check(|_| ()), Ok(()));
        assert_eq!(check(|c| c.client.listen.clear()), Ok(()));
        assert_eq!(check(|c| c.access.authorization.clear()), Err("--authorization-mode"));
        assert_eq!(check(|c| c.access.authorization.push(AuthorizationMode::Node)), Err("--authorization-mode"));
        assert_eq!(check(|c| c.client.listen[0].is_tls = true), Err("--listen-client-urls"));
        assert_eq!(check(|c| c.client.streams_max = 0), Err("--max-concurrent-streams"));
        assert_eq!(check(|c| c.streams_max = 0), Err("--http2-max-streams-per-connection"));
        assert_eq!(check(|c| c.client.listen[0].address = "0.0.0.0:1".parse().unwrap()), Err("--listen-client-urls"));
        let mut config = Config::new("d");
        config.client.listen[0].address = "0.0.0.0:1".parse().unwrap();
        config.client.allow_plain_text = true;
        assert_eq!(config.check(), Ok(()));
        config.client.tls = Some(tls());
        assert_eq!(config.check().map_err(|e| e.flag), Err("--cert-file"));
        config.client.listen[0].is_tls = true;
        assert_eq!(config.check(), Ok(()));
        assert_eq!(check(|c| c.durability = Durability::Buffered(Duration::ZERO)), Err("--sync-interval"));
    }
}
