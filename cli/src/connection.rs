//! Where a process or a command finds the API server.
//!
//! Invariant: a cluster that Listwatch did not start is only ever used when it was named by a flag.

use std::path::PathBuf;

use clap::Args;

/// How a component finds and trusts the server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// File with the server's address and this client's identity
    #[arg(long, env = "LW_KUBECONFIG", value_name = "FILE", conflicts_with_all = ["server"])]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Address of the server, `https://127.0.0.1:6443`
    #[arg(long, env = "LW_SERVER", value_name = "URL")]
    pub(crate) server: Option<String>,
    /// Bearer token to be known by
    #[arg(long, env = "LW_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// Certificate authority that the server's certificate must come from
    #[arg(long, env = "LW_CERTIFICATE_AUTHORITY", value_name = "FILE")]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// Client certificate to be known by
    #[arg(long, env = "LW_CLIENT_CERTIFICATE", value_name = "FILE", requires = "client_key")]
    pub(crate) client_certificate: Option<PathBuf>,
    /// Key of the client certificate
    #[arg(long, env = "LW_CLIENT_KEY", value_name = "FILE", requires = "client_certificate")]
    pub(crate) client_key: Option<PathBuf>,
    /// Take any server for the right one: for tests alone
    #[arg(long, env = "LW_INSECURE_SKIP_TLS_VERIFY")]
    pub(crate) insecure_skip_tls_verify: bool,
}
