//! Where a process or a command finds the API server.
//!
//! Invariant: a cluster that Listwatch did not start is only ever used when it was named by a flag.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use listwatch_components::client::{ClientCertificate, ClientConfig, load_kubeconfig};

use crate::cluster::locate;

/// How a component finds and trusts the server.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionArgs {
    /// File with the server's address and this client's identity
    #[arg(long, env = "LW_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Address of the server, `https://127.0.0.1:6443`
    #[arg(short, long, env = "LW_SERVER", value_name = "URL")]
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

impl ConnectionArgs {
    /// The connection that these flags name; `None` if they name none.
    fn named(&self, context: Option<&str>) -> anyhow::Result<Option<(ClientConfig, String)>> {
        if let Some(path) = &self.kubeconfig {
            if !path.exists() {
                bail!("stat {}: no such file or directory", path.display());
            }
            let selected = load_kubeconfig(path, context)?;
            let mut config = selected.config;
            self.overlay(&mut config)?;
            return Ok(Some((config, selected.namespace)));
        }
        let Some(server) = &self.server else { return Ok(None) };
        let mut config = ClientConfig::new(server.as_str());
        self.overlay(&mut config)?;
        Ok(Some((config, "default".to_owned())))
    }

    /// What flags say of address, trust and identity, over what a file says.
    fn overlay(&self, config: &mut ClientConfig) -> anyhow::Result<()> {
        if let Some(server) = &self.server {
            config.server.clone_from(server);
        }
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("read {}", path.display()));
        if let Some(path) = &self.certificate_authority {
            config.certificate_authority = Some(read(path)?);
        }
        if let (Some(certificate), Some(key)) = (&self.client_certificate, &self.client_key) {
            config.client_certificate = Some(ClientCertificate { certificate: read(certificate)?, key: read(key)? });
        }
        if let Some(token) = &self.token {
            config.token = Some(token.clone());
            if self.client_certificate.is_none() {
                // Whoever names a token wants to be known by it, and not by what the file says.
                config.client_certificate = None;
            }
        }
        config.insecure_skip_tls_verify |= self.insecure_skip_tls_verify;
        Ok(())
    }

    /// The connection of a component, which is always told where its server is.
    pub(crate) fn component(&self, client_name: &str) -> anyhow::Result<ClientConfig> {
        match self.named(None)? {
            Some((config, _)) => Ok(config.named(client_name)),
            None => bail!("where is the server? Give --kubeconfig, or --server with --certificate-authority"),
        }
    }

    /// The connection of a command, and the namespace of objects that name none: by flags, else by the cluster's name
    /// or data folder, else the running default cluster (see [`locate::kubeconfig`]).
    pub(crate) fn command(
        &self,
        name: Option<&str>,
        data_dir: Option<&Path>,
        context: Option<&str>,
    ) -> anyhow::Result<(ClientConfig, String)> {
        if let Some((config, namespace)) = self.named(context)? {
            return Ok((config.named("lw"), namespace));
        }
        let selected = load_kubeconfig(&locate::kubeconfig(name, data_dir)?, context)?;
        let mut config = selected.config;
        self.overlay(&mut config)?;
        Ok((config.named("lw"), selected.namespace))
    }
}
