//! `lw server`: the store, etcd's API and the resource API in one process.
//!
//! Only flags and their translation; names are those of etcd and kube-apiserver where the meaning is the same.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use listwatch_server::auth::service_account::{DEFAULT_ISSUER, ServiceAccountOptions};
use listwatch_server::auth::{AuditPath, AuthorizationMode};
use listwatch_server::config::{
    Access, Certificates, ClientPort, Config, KubeletFiles, ListenUrl, RequestTimes, RequestsInflight, SecurePort,
};
use listwatch_server::registry::{AddressRange, AdmissionPlugin, AdmissionPlugins, Pools};
use listwatch_server::storage::{CheckpointOptions, Durability, LogSizes};
use listwatch_server::transport::{ClientCertificates, TlsFiles};

use super::program::{self, ProgramArgs, duration, period};
use crate::usage;

/// How often `--durability buffered` syncs unless told otherwise: what a power cut may cost.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// Segments of the log: large enough for a frame of the largest request, small enough for its 32-bit places.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// The store with etcd's API on 2379 and the resource API on 6443
///
/// Without certificate flags it makes its own authority once under the data folder and writes a kubeconfig beside it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  lw server --data-dir ./data\n  \
                        etcdctl --endpoints http://127.0.0.1:2379 put a 1\n  \
                        lw get nodes --kubeconfig ./data/kubeconfig")]
pub(crate) struct ServerArgs {
    /// Folder of the store
    #[arg(long, env = "LW_DATA_DIR", default_value = "default.listwatch", value_name = "DIR")]
    data_dir: PathBuf,
    /// When a write counts as safe
    #[arg(long, env = "LW_DURABILITY", value_enum, default_value_t = DurabilityArg::Sync)]
    durability: DurabilityArg,
    /// How often `--durability buffered` syncs [default: 100ms]
    #[arg(long, env = "LW_SYNC_INTERVAL", value_parser = period, value_name = "DURATION")]
    sync_interval: Option<Duration>,
    /// How often old history is given up; 0 = never
    #[arg(long, env = "LW_COMPACTION_INTERVAL", value_parser = duration, value_name = "DURATION", default_value = "5m")]
    compaction_interval: Duration,
    /// How long Events are kept; 0 = for ever
    #[arg(long, env = "LW_EVENT_TTL", value_parser = duration, value_name = "DURATION", default_value = "1h")]
    event_ttl: Duration,
    #[command(flatten)]
    services: ServiceArgs,
    #[command(flatten)]
    storage: StorageArgs,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    secure: SecureArgs,
    #[command(flatten)]
    access: AccessArgs,
    #[command(flatten)]
    program: ProgramArgs,
}

/// When a write counts as safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DurabilityArg {
    /// On the disk before the answer
    Sync,
    /// Written before the answer, synced at an interval: a power cut may lose that much
    Buffered,
    /// Nothing is kept: all is gone with the process
    Memory,
}

/// What services are given.
#[derive(Debug, Args)]
#[command(next_help_heading = "Services")]
struct ServiceArgs {
    /// Ranges of the addresses of services, one of each family at most
    #[arg(long, env = "LW_SERVICE_CLUSTER_IP_RANGE", value_delimiter = ',', default_value = "10.96.0.0/12",
        value_name = "CIDR,...", value_parser = address_range)]
    service_cluster_ip_range: Vec<AddressRange>,
    /// Ports of every node that services may have
    #[arg(long, env = "LW_SERVICE_NODE_PORT_RANGE", default_value = "30000-32767", value_name = "PORT-PORT",
        value_parser = port_range)]
    service_node_port_range: std::ops::RangeInclusive<u16>,
    /// Address of the resource API that pods can reach [default: --bind-address, unless it is loopback]
    #[arg(long, env = "LW_ADVERTISE_ADDRESS", value_name = "IP")]
    advertise_address: Option<IpAddr>,
}

fn address_range(text: &str) -> Result<AddressRange, String> {
    AddressRange::parse(text).ok_or_else(|| format!("{text:?} is no range of addresses, such as 10.96.0.0/12"))
}

/// Reads `FROM-TO`, `FROM+COUNT` or one port, as kube-apiserver does.
fn port_range(text: &str) -> Result<std::ops::RangeInclusive<u16>, String> {
    let port = |text: &str| text.parse::<u16>().map_err(|_| format!("{text:?} is no port"));
    if let Some((first, last)) = text.split_once('-') {
        return Ok(port(first)?..=port(last)?);
    }
    if let Some((first, more)) = text.split_once('+') {
        let last =
            port(first)?.checked_add(port(more)?).ok_or_else(|| format!("{text:?} goes beyond the last port"))?;
        return Ok(port(first)?..=last);
    }
    let only = port(text)?;
    Ok(only..=only)
}

/// Sizes and times of the store that few need to change.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
struct StorageArgs {
    /// Bytes of a full segment of the log [default: 16 MiB]
    #[arg(long, env = "LW_LOG_SEGMENT_BYTES", value_name = "BYTES",
        value_parser = clap::value_parser!(u64).range(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX))]
    log_segment_bytes: Option<u64>,
    /// Bytes of log after which a checkpoint is made [default: 32 MiB]
    #[arg(long, env = "LW_CHECKPOINT_LOG_BYTES", value_name = "BYTES")]
    checkpoint_log_bytes: Option<u64>,
    /// The longest time between a write and its checkpoint [default: 10s]
    #[arg(long, env = "LW_CHECKPOINT_INTERVAL", value_parser = period, value_name = "DURATION")]
    checkpoint_interval: Option<Duration>,
    /// How long history can still be read by the resource API after it was compacted [default: 5m]
    #[arg(long, env = "LW_HISTORY_RETENTION", value_parser = duration, value_name = "DURATION")]
    history_retention: Option<Duration>,
}

/// A URL, or nothing where an empty text stands for no URL.
#[derive(Debug, Clone)]
struct OptionalUrl(Option<ListenUrl>);

impl std::str::FromStr for OptionalUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(OptionalUrl(None)) } else { text.parse().map(|url| OptionalUrl(Some(url))) }
    }
}

/// The port of etcd's API.
#[derive(Debug, Args)]
#[command(next_help_heading = "etcd's API")]
struct ClientArgs {
    /// Where etcd's API listens; port 0 = a free one; empty = not at all
    #[arg(
        long,
        env = "LW_LISTEN_CLIENT_URLS",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:2379",
        value_name = "URL,..."
    )]
    listen_client_urls: Vec<OptionalUrl>,
    /// What clients are told to dial [default: where it listens]
    #[arg(long, env = "LW_ADVERTISE_CLIENT_URLS", value_delimiter = ',', value_name = "URL,...")]
    advertise_client_urls: Vec<String>,
    /// Certificate for https URLs
    #[arg(long, env = "LW_CERT_FILE", value_name = "FILE", requires = "key_file")]
    cert_file: Option<PathBuf>,
    /// Key of the certificate
    #[arg(long, env = "LW_KEY_FILE", value_name = "FILE", requires = "cert_file")]
    key_file: Option<PathBuf>,
    /// Authority that client certificates must come from
    #[arg(long, env = "LW_TRUSTED_CA_FILE", value_name = "FILE", requires = "cert_file")]
    trusted_ca_file: Option<PathBuf>,
    /// Let no client in without a certificate
    #[arg(long, env = "LW_CLIENT_CERT_AUTH", requires = "trusted_ca_file", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = false, action = clap::ArgAction::Set, value_name = "BOOL")]
    client_cert_auth: bool,
    /// Serve http URLs on addresses that other machines reach
    #[arg(long, env = "LW_ALLOW_PLAIN_TEXT")]
    allow_plain_text: bool,
    /// Streams that one connection may have at the same time
    #[arg(long, env = "LW_MAX_CONCURRENT_STREAMS", value_name = "COUNT",
        default_value_t = listwatch_server::config::CLIENT_STREAMS_MAX, value_parser = clap::value_parser!(u32).range(1..))]
    max_concurrent_streams: u32,
}

/// The ports of the resource API.
#[derive(Debug, Args)]
#[command(next_help_heading = "Resource API")]
struct SecureArgs {
    /// Address of the TLS port
    #[arg(long, env = "LW_BIND_ADDRESS", default_value = "127.0.0.1", value_name = "IP")]
    bind_address: IpAddr,
    /// The TLS port; 0 = a free one
    #[arg(long, env = "LW_SECURE_PORT", default_value_t = listwatch_server::config::SECURE_PORT, value_name = "PORT")]
    secure_port: u16,
    /// Certificate of the TLS port [default: made under the data folder]
    #[arg(long, env = "LW_TLS_CERT_FILE", value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of the certificate
    #[arg(long, env = "LW_TLS_PRIVATE_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Authority of client certificates
    #[arg(long, env = "LW_CLIENT_CA_FILE", value_name = "FILE", requires = "tls_cert_file")]
    client_ca_file: Option<PathBuf>,
    /// Bearer tokens, a line each: token,user,uid,"group1,group2"
    #[arg(long, env = "LW_TOKEN_AUTH_FILE", value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Certificate to show to kubelets, for logs
    #[arg(
        long,
        env = "LW_KUBELET_CLIENT_CERTIFICATE",
        value_name = "FILE",
        requires = "kubelet_client_key",
        requires = "tls_cert_file"
    )]
    kubelet_client_certificate: Option<PathBuf>,
    /// Key of the certificate for kubelets
    #[arg(long, env = "LW_KUBELET_CLIENT_KEY", value_name = "FILE", requires = "kubelet_client_certificate")]
    kubelet_client_key: Option<PathBuf>,
    /// Authority of the kubelets' certificates [default: --client-ca-file]
    #[arg(
        long,
        env = "LW_KUBELET_CERTIFICATE_AUTHORITY",
        value_name = "FILE",
        requires = "kubelet_client_certificate"
    )]
    kubelet_certificate_authority: Option<PathBuf>,
    /// How long a request may last that is no watch, log or session
    #[arg(long, env = "LW_REQUEST_TIMEOUT", value_parser = period, value_name = "DURATION", default_value = "1m")]
    request_timeout: Duration,
    /// Seconds that a watch lasts at least, and up to twice of it, if it names no time
    #[arg(long, env = "LW_MIN_REQUEST_TIMEOUT", value_name = "SECONDS", default_value_t = 1800,
        value_parser = clap::value_parser!(u32).range(1..))]
    min_request_timeout: u32,
    /// How many requests that only read are worked on at a time, watches, logs and sessions apart; 0 = as many as come
    #[arg(long, env = "LW_MAX_REQUESTS_INFLIGHT", value_name = "COUNT", default_value_t = 400)]
    max_requests_inflight: u32,
    /// How many requests that change something are worked on at a time; 0 = as many as come
    #[arg(long, env = "LW_MAX_MUTATING_REQUESTS_INFLIGHT", value_name = "COUNT", default_value_t = 200)]
    max_mutating_requests_inflight: u32,
    /// Streams that one HTTP/2 connection may have at the same time
    #[arg(long, env = "LW_HTTP2_MAX_STREAMS_PER_CONNECTION", value_name = "COUNT",
        default_value_t = listwatch_server::config::STREAMS_MAX, value_parser = clap::value_parser!(u32).range(1..))]
    http2_max_streams_per_connection: u32,
    /// Serve the resource API in plain text on 127.0.0.1, without any proof of identity; 0 = a free port
    #[arg(long, env = "LW_INSECURE_RESOURCE_PORT", value_name = "PORT")]
    insecure_resource_port: Option<u16>,
}

/// Who may do what on the resource API.
#[derive(Debug, Args)]
#[command(next_help_heading = "Access")]
struct AccessArgs {
    /// Who decides what is allowed, in this order: Node, RBAC, AlwaysAllow, AlwaysDeny
    #[arg(
        long,
        env = "LW_AUTHORIZATION_MODE",
        value_delimiter = ',',
        default_value = "Node,RBAC",
        value_name = "MODE,..."
    )]
    authorization_mode: Vec<AuthorizationMode>,
    /// Take requests that show no proof of identity, as system:anonymous
    #[arg(long, env = "LW_ANONYMOUS_AUTH", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    anonymous_auth: bool,
    /// Tell every request to this file, a line of JSON each; - = standard output
    #[arg(long, env = "LW_AUDIT_LOG_PATH", value_name = "FILE")]
    audit_log_path: Option<PathBuf>,
    /// Admission plugins to switch on beside the usual
    #[arg(long, env = "LW_ENABLE_ADMISSION_PLUGINS", value_delimiter = ',', value_name = "NAME,...")]
    enable_admission_plugins: Vec<AdmissionPlugin>,
    /// Admission plugins to switch off: NodeRestriction, Priority, ServiceAccount, ...
    #[arg(long, env = "LW_DISABLE_ADMISSION_PLUGINS", value_delimiter = ',', value_name = "NAME,...")]
    disable_admission_plugins: Vec<AdmissionPlugin>,
    /// Who issues service accounts' tokens; given several times the first issues and all are believed
    #[arg(long, env = "LW_SERVICE_ACCOUNT_ISSUER", value_delimiter = ',', default_value = DEFAULT_ISSUER, value_name = "URL")]
    service_account_issuer: Vec<String>,
    /// Key that signs service accounts' tokens [default: made under the data folder]
    #[arg(long, env = "LW_SERVICE_ACCOUNT_SIGNING_KEY_FILE", value_name = "FILE")]
    service_account_signing_key_file: Option<PathBuf>,
    /// Keys whose tokens are believed beside the signing key's
    #[arg(long, env = "LW_SERVICE_ACCOUNT_KEY_FILE", value_delimiter = ',', value_name = "FILE")]
    service_account_key_file: Vec<PathBuf>,
    /// Where others find the public keys [default: below the issuer]
    #[arg(long, env = "LW_SERVICE_ACCOUNT_JWKS_URI", value_name = "URL")]
    service_account_jwks_uri: Option<String>,
    /// The longest life of a token that may be asked for; 0 = no limit
    #[arg(long, env = "LW_SERVICE_ACCOUNT_MAX_TOKEN_EXPIRATION", value_parser = duration, value_name = "DURATION", default_value = "0")]
    service_account_max_token_expiration: Duration,
    /// Let the tokens of pods live a year, though they are renewed each hour
    #[arg(long, env = "LW_SERVICE_ACCOUNT_EXTEND_TOKEN_EXPIRATION", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    service_account_extend_token_expiration: bool,
    /// For whom a token must be to be taken here [default: the issuers]
    #[arg(long, env = "LW_API_AUDIENCES", value_delimiter = ',', value_name = "NAME,...")]
    api_audiences: Vec<String>,
}

impl AccessArgs {
    fn access(self) -> anyhow::Result<Access> {
        if let Some(both) = self.enable_admission_plugins.iter().find(|p| self.disable_admission_plugins.contains(p)) {
            return Err(usage::refuse(format!("--enable-admission-plugins: {both:?} is disabled as well")));
        }
        Ok(Access {
            authorization: self.authorization_mode,
            anonymous: self.anonymous_auth,
            audit: self.audit_log_path.as_deref().map(AuditPath::from),
            plugins: AdmissionPlugins::all().without(&self.disable_admission_plugins),
            service_accounts: ServiceAccountOptions {
                issuers: self.service_account_issuer,
                audiences: self.api_audiences,
                signing_key: self.service_account_signing_key_file,
                keys: self.service_account_key_file,
                jwks_uri: self.service_account_jwks_uri,
                max_expiration: self.service_account_max_token_expiration,
                extend_expiration: self.service_account_extend_token_expiration,
            },
        })
    }
}

/// Runs the server until it is told to stop.
pub(crate) fn run(args: ServerArgs) -> anyhow::Result<ExitCode> {
    let ready = args.program.start("server")?;
    let config = args.config()?;
    config.check().map_err(|error| usage::refuse(error.to_string()))?;
    program::give_big_buffers_back();
    let runtime = program::runtime()?;
    let _within = runtime.enter();
    runtime.block_on(listwatch_server::run(config, program::stop_signal(), |addresses| {
        let mut list: Vec<_> = addresses.client.map(|address| ("client", address)).into_iter().collect();
        list.extend(addresses.secure.map(|address| ("secure", address)));
        list.extend(addresses.insecure.map(|address| ("insecure", address)));
        ready.ready(&list);
    }))?;
    Ok(ExitCode::SUCCESS)
}

impl ServerArgs {
    fn config(self) -> anyhow::Result<Config> {
        let durability = match (self.durability, self.sync_interval) {
            (DurabilityArg::Buffered, interval) => Durability::Buffered(interval.unwrap_or(SYNC_INTERVAL)),
            (_, Some(_)) => {
                return Err(usage::refuse("--sync-interval: only --durability buffered syncs at an interval"));
            }
            (DurabilityArg::Sync, None) => Durability::Sync,
            (DurabilityArg::Memory, None) => Durability::Memory,
        };
        Ok(Config {
            data_dir: self.data_dir,
            durability,
            log: self.storage.log(),
            checkpoint: self.storage.checkpoint(),
            client: self.client.port()?,
            insecure_resource_port: self.secure.insecure_resource_port,
            access: self.access.access()?,
            request_times: RequestTimes {
                request: self.secure.request_timeout,
                watch_min: Duration::from_secs(self.secure.min_request_timeout.into()),
            },
            requests_inflight: RequestsInflight {
                reads: self.secure.max_requests_inflight,
                writes: self.secure.max_mutating_requests_inflight,
            },
            streams_max: self.secure.http2_max_streams_per_connection,
            secure: Some(self.secure.port()?),
            compaction_interval: self.compaction_interval,
            event_ttl: self.event_ttl,
            pools: Pools {
                addresses: self.services.service_cluster_ip_range,
                node_ports: self.services.service_node_port_range,
            },
            advertise_address: self.services.advertise_address,
        })
    }
}

impl StorageArgs {
    fn log(&self) -> LogSizes {
        let usual = LogSizes::default();
        let segment_bytes = self.log_segment_bytes.unwrap_or(usual.segment_bytes);
        LogSizes { segment_bytes, first_segment_bytes: usual.first_segment_bytes.min(segment_bytes) }
    }

    fn checkpoint(&self) -> CheckpointOptions {
        let usual = CheckpointOptions::default();
        let log_bytes = self.checkpoint_log_bytes.unwrap_or(usual.log_bytes);
        CheckpointOptions {
            log_bytes,
            interval: self.checkpoint_interval.unwrap_or(usual.interval),
            log_bytes_max: usual.log_bytes_max.max(log_bytes.saturating_mul(2)),
            retention: self.history_retention.unwrap_or(usual.retention),
        }
    }
}

impl ClientArgs {
    fn port(self) -> anyhow::Result<ClientPort> {
        // As with etcd, an authority alone demands certificates too.
        let clients = match self.trusted_ca_file {
            Some(authority) => ClientCertificates::Demanded(authority),
            None => ClientCertificates::Ignored,
        };
        let tls = self.cert_file.zip(self.key_file).map(|(certificate, key)| TlsFiles { certificate, key, clients });
        if self.client_cert_auth && !matches!(&tls, Some(TlsFiles { clients: ClientCertificates::Demanded(_), .. })) {
            return Err(usage::refuse("--client-cert-auth: needs --cert-file, --key-file and --trusted-ca-file"));
        }
        Ok(ClientPort {
            listen: self.listen_client_urls.into_iter().filter_map(|url| url.0).collect(),
            advertise: self.advertise_client_urls,
            tls,
            allow_plain_text: self.allow_plain_text,
            streams_max: self.max_concurrent_streams,
        })
    }
}

impl SecureArgs {
    fn port(self) -> anyhow::Result<SecurePort> {
        let certificates = match self.tls_cert_file.zip(self.tls_private_key_file) {
            None => Certificates::Own,
            Some((certificate, key)) => {
                let kubelet = match self.kubelet_client_certificate.zip(self.kubelet_client_key) {
                    None => None,
                    Some((certificate, key)) => {
                        let authority = self.kubelet_certificate_authority.or_else(|| self.client_ca_file.clone());
                        let Some(authority) = authority else {
                            return Err(usage::refuse(
                                "--kubelet-client-certificate: needs --kubelet-certificate-authority or --client-ca-file, \
                                 to know kubelets by",
                            ));
                        };
                        Some(KubeletFiles { certificate, key, authority })
                    }
                };
                let clients = match self.client_ca_file {
                    Some(authority) => ClientCertificates::Asked(authority),
                    None => ClientCertificates::Ignored,
                };
                Certificates::Files { tls: TlsFiles { certificate, key, clients }, kubelet }
            }
        };
        Ok(SecurePort {
            bind_address: self.bind_address,
            port: self.secure_port,
            certificates,
            token_auth_file: self.token_auth_file,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use listwatch_server::config::{COMPACTION_INTERVAL, EVENT_TTL};

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        server: ServerArgs,
    }

    fn config(flags: &[&str]) -> Result<Config, String> {
        let args = Cli::try_parse_from(["lw"].iter().chain(flags)).map_err(|e| e.to_string())?;
        args.server.config().map_err(|e| e.to_string())
    }

    #[test]
    fn the_defaults_are_the_servers_own() {
        let config = config(&[]).expect("defaults");
        assert_eq!(config.check(), Ok(()));
        let own = Config::new("default.listwatch");
        assert_eq!(config.client, own.client);
        assert_eq!(config.access, own.access);
        assert_eq!(config.secure, own.secure);
        assert_eq!(config.checkpoint, own.checkpoint);
        assert_eq!(config.log, own.log);
        assert_eq!((config.compaction_interval, config.event_ttl), (COMPACTION_INTERVAL, EVENT_TTL));
        assert_eq!(config.pools, own.pools);
    }

    #[test]
    fn flags_that_make_no_sense_together_are_refused_by_name() {
        for (flags, named) in [
            (&["--sync-interval", "1s"][..], "--sync-interval"),
            (&["--client-cert-auth"], "--trusted-ca-file"),
            (&["--cert-file", "c"], "--key-file"),
            (&["--tls-cert-file", "c"], "--tls-private-key-file"),
            (&["--snapshot-count", "5"], "--snapshot-count"),
            (&["--authorization-mode", "Webhook"], "Webhook"),
            (&["--disable-admission-plugins", "NoSuch"], "NoSuch"),
            (&["--listen-client-urls", "unix:///x"], "unix"),
            (&["--compaction-interval", "soon"], "--compaction-interval"),
            (&["--service-cluster-ip-range", "10.0.0.1/16"], "--service-cluster-ip-range"),
            (&["--service-node-port-range", "a-b"], "--service-node-port-range"),
            (
                &[
                    "--tls-cert-file",
                    "c",
                    "--tls-private-key-file",
                    "k",
                    "--kubelet-client-certificate",
                    "c",
                    "--kubelet-client-key",
                    "k",
                ],
                "--kubelet-certificate-authority",
            ),
        ] {
            let error = config(flags).expect_err("refused");
            assert!(error.contains(named), "{flags:?}: {error}");
        }
    }

    #[test]
    fn every_flag_of_a_whole_cluster_is_taken() {
        let config = config(&[
            "--data-dir",
            "d",
            "--listen-client-urls",
            "https://127.0.0.1:0",
            "--cert-file",
            "s.crt",
            "--key-file",
            "s.key",
            "--trusted-ca-file",
            "ca.crt",
            "--client-cert-auth",
            "--bind-address",
            "127.0.0.1",
            "--secure-port",
            "0",
            "--tls-cert-file",
            "s.crt",
            "--tls-private-key-file",
            "s.key",
            "--client-ca-file",
            "ca.crt",
            "--kubelet-client-certificate",
            "k.crt",
            "--kubelet-client-key",
            "k.key",
            "--durability",
            "memory",
        ])
        .expect("taken");
        assert_eq!(config.check(), Ok(()));
        let Some(SecurePort { certificates: Certificates::Files { kubelet: Some(kubelet), .. }, .. }) = config.secure
        else {
            panic!("certificates are given");
        };
        assert_eq!(kubelet.authority, PathBuf::from("ca.crt"));
    }
}
