//! How a client finds the server, what it trusts and who it is.

use std::fmt;
use std::time::Duration;

/// The deadline of a unary call unless told otherwise. A server that is alive answers within milliseconds; ten seconds
/// leave room for a stalled disk.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// A silent connection is probed after this time, also while idle, so that a half-open link is noticed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// A probe without answer for this long means the connection is dead.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);

/// A certificate to be known by and its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The chain, leaf first.
    pub certificate: Vec<u8>,
    /// The private key.
    pub key: Vec<u8>,
}

/// Somebody else to act as, if the server lets this client (`--as`, `--as-group`, `--as-uid`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The user's uid; empty: none.
    pub uid: String,
}

/// Address, trust and identity of a client.
#[derive(Clone)]
pub struct ClientConfig {
    /// `https://host:port`, or `http://host:port` for a plain-text door on loopback.
    pub server: String,
    /// PEM of the authorities that the server's certificate must come from. Needed for `https` unless
    /// [`ClientConfig::insecure_skip_tls_verify`].
    pub certificate_authority: Option<Vec<u8>>,
    /// The certificate to be known by.
    pub client_certificate: Option<ClientCertificate>,
    /// The bearer token to be known by.
    pub token: Option<String>,
    /// Take any server for the right one.
    pub insecure_skip_tls_verify: bool,
    /// The name the server's certificate must carry, if not the host of the address.
    pub tls_server_name: Option<String>,
    /// Whom the client acts as; nobody: itself.
    pub impersonate: Impersonation,
    /// What the client calls itself (`lw-client` metadata, at most 128 bytes), for history and faults.
    pub client_name: String,
    /// Deadline of a unary call.
    pub request_timeout: Duration,
    /// Silence after which the connection is probed.
    pub keep_alive_interval: Duration,
    /// How long a probe may stay without answer.
    pub keep_alive_timeout: Duration,
}

impl ClientConfig {
    /// A configuration for this address with nothing but defaults.
    pub fn new(server: impl Into<String>) -> Self {
        ClientConfig {
            server: server.into(),
            certificate_authority: None,
            client_certificate: None,
            token: None,
            insecure_skip_tls_verify: false,
            tls_server_name: None,
            impersonate: Impersonation::default(),
            client_name: "listwatch-client".to_owned(),
            request_timeout: REQUEST_TIMEOUT,
            keep_alive_interval: KEEP_ALIVE_INTERVAL,
            keep_alive_timeout: KEEP_ALIVE_TIMEOUT,
        }
    }

    /// The same, under another client name.
    #[must_use]
    pub fn named(mut self, client_name: impl Into<String>) -> Self {
        self.client_name = client_name.into();
        self
    }
}

/// Secrets are not printed.
impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("server", &self.server)
            .field("certificate_authority", &self.certificate_authority.is_some())
            .field("client_certificate", &self.client_certificate.is_some())
            .field("token", &self.token.is_some())
            .field("insecure_skip_tls_verify", &self.insecure_skip_tls_verify)
            .field("tls_server_name", &self.tls_server_name)
            .field("client_name", &self.client_name)
            .finish_non_exhaustive()
    }
}

/// The key is not printed.
impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCertificate").finish_non_exhaustive()
    }
}
