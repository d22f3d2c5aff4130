//! `lw kubelet`: runs the pods of one node.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use k8s_openapi::api::core::v1::Taint;
use listwatch_components::{
    client::{Client, ClientConfig},
    clock,
    kubelet::{self, Options, RuntimeKind, ServingCertificate, pod::backoff::BackoffLimits},
};
use listwatch_proto::resource::Quantity;
use listwatch_server::transport::port_owner;
use tokio_util::sync::CancellationToken;

use super::program::{ProgramArgs, SECONDS, runtime, stop_signal};
use crate::{connection::ConnectionArgs, usage};

/// Run the pods of one node
///
/// Example: lw kubelet --kubeconfig node01.kubeconfig --hostname-override node01 --root-dir ./nodes/node01
#[derive(Debug, Args)]
pub(crate) struct KubeletArgs {
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Name of the node; the machine's own if not given
    #[arg(long, env = "LW_HOSTNAME_OVERRIDE", value_name = "NAME")]
    hostname_override: Option<String>,
    /// Directory with the node's pods; one kubelet at a time
    #[arg(long, env = "LW_ROOT_DIR", value_name = "DIR")]
    root_dir: PathBuf,
    /// Wait for another kubelet on the directory to end, instead of refusing
    #[arg(long, env = "LW_WAIT_FOR_LOCK")]
    wait_for_lock: bool,
    /// What runs the containers
    #[arg(long, env = "LW_RUNTIME", value_enum, default_value_t = RuntimeName::Process)]
    runtime: RuntimeName,
    /// What the node offers, over cpu=4,memory=8Gi,pods=110
    #[arg(long, env = "LW_NODE_CAPACITY", value_name = "NAME=QUANTITY,…", value_delimiter = ',')]
    node_capacity: Vec<String>,
    /// Labels of the node beside the ones that every node has
    #[arg(long, env = "LW_NODE_LABELS", value_name = "KEY=VALUE,…", value_delimiter = ',')]
    node_labels: Vec<String>,
    /// Taints that the node is created with
    #[arg(long, env = "LW_REGISTER_WITH_TAINTS", value_name = "KEY[=VALUE]:EFFECT,…", value_delimiter = ',')]
    register_with_taints: Vec<String>,
    /// Address of the kubelet's own server, and of the node
    #[arg(long, env = "LW_ADDRESS", value_name = "IP", default_value = "127.0.0.1")]
    address: IpAddr,
    /// Port of the kubelet's own server; 0 takes a free one
    #[arg(long, env = "LW_PORT", value_name = "PORT", default_value_t = 10250)]
    port: u16,
    /// Certificate of the kubelet's own server; the client certificate if not given
    #[arg(long, env = "LW_TLS_CERT_FILE", value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Key of that certificate
    #[arg(long, env = "LW_TLS_PRIVATE_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// Authority of those who may read logs; the API server's authority if not given
    #[arg(long, env = "LW_CLIENT_CA_FILE", value_name = "FILE")]
    client_ca_file: Option<PathBuf>,
    /// How many seconds a renewal of the node's Lease is good for; it is renewed four times as often
    #[arg(long, env = "LW_NODE_LEASE_DURATION_SECONDS", value_name = "SECONDS", default_value_t = 40,
        value_parser = clap::value_parser!(i32).range(1..=3600))]
    node_lease_duration_seconds: i32,
    /// First pause of a container or an image that fails, in seconds
    #[arg(long, env = "LW_FAILURE_BACKOFF", value_name = "SECONDS", default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(SECONDS))]
    failure_backoff: u64,
    /// Longest such pause, in seconds
    #[arg(long, env = "LW_FAILURE_BACKOFF_MAX", value_name = "SECONDS", default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(SECONDS))]
    failure_backoff_max: u64,
    /// Seconds without a failure after which the pauses begin anew; twice the longest pause if not given
    #[arg(long, env = "LW_FAILURE_BACKOFF_RESET", value_name = "SECONDS",
        value_parser = clap::value_parser!(u64).range(SECONDS))]
    failure_backoff_reset: Option<u64>,
}

/// Why it does not run, with the cure where there is one. A port that is taken is told as the server tells it.
fn told(error: kubelet::Error) -> anyhow::Error {
    match &error {
        kubelet::Error::Listen { address, source } if source.kind() == std::io::ErrorKind::AddrInUse => {
            let owner = port_owner(address.port()).unwrap_or_else(|| "another process".to_owned());
            anyhow::anyhow!(
                "--port {port}: the port {port} is taken by {owner}; stop it, or choose another port (0 takes a free one)",
                port = address.port()
            )
        }
        kubelet::Error::Listen { address, .. } => {
            let flags = format!("--address {} --port {}", address.ip(), address.port());
            anyhow::Error::new(error).context(format!("{flags}: the kubelet's own server cannot be had"))
        }
        _ => error.into(),
    }
}

/// What can run containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeName {
    /// Processes of this machine
    Process,
    /// Nothing: containers are only said to run, and end as their command says
    Simulated,
    /// containerd or another CRI socket
    Cri,
}

/// Runs the kubelet to its end.
pub(crate) fn run(args: KubeletArgs) -> anyhow::Result<ExitCode> {
    let ready_line = args.program.start("kubelet")?;
    let name = args.node_name()?;
    let config = args.connection.component(&format!("kubelet-{name}"))?;
    let options = args.options(name, &config)?;
    runtime()?.block_on(async {
        let client = Client::new(&config)?;
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let running = kubelet::run(options, client, clock::system(), shutdown, |ready| {
            let addresses: Vec<_> = ready.address.map(|address| ("kubelet", address)).into_iter().collect();
            ready_line.ready(&addresses);
        });
        tokio::pin!(running);
        tokio::select! {
            outcome = &mut running => return outcome.map_err(told),
            () = stop_signal() => stop.cancel(),
        }
        running.await.map_err(told)
    })?;
    Ok(ExitCode::SUCCESS)
}

impl RuntimeName {
    /// The runtime, if this version has it.
    ///
    /// # Errors
    /// Wrong usage: the flag names one that it has not.
    pub(crate) fn kind(self) -> anyhow::Result<RuntimeKind> {
        match self {
            RuntimeName::Process => Ok(RuntimeKind::Process),
            RuntimeName::Simulated => Ok(RuntimeKind::Simulated),
            RuntimeName::Cri => {
                let which = "process and simulated are";
                Err(usage::refuse(format!("--runtime cri is not supported by this version; {which}")))
            }
        }
    }

    /// The word of the flag.
    pub(crate) fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

impl KubeletArgs {
    fn node_name(&self) -> anyhow::Result<String> {
        let name = match &self.hostname_override {
            Some(name) => name.clone(),
            None => {
                let machine = rustix::system::uname();
                machine.nodename().to_str().context("the machine's name is not text")?.to_ascii_lowercase()
            }
        };
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
        if name.is_empty() || name.len() > 253 || !name.chars().all(allowed) {
            let rule = "a node's name has only lower case letters, digits, '-' and '.'";
            return Err(usage::refuse(format!("--hostname-override {name:?}: {rule}")));
        }
        Ok(name)
    }

    fn options(&self, name: String, config: &ClientConfig) -> anyhow::Result<Options> {
        let root_dir = std::path::absolute(&self.root_dir).context("--root-dir")?;
        let mut options = Options::new(name, root_dir);
        options.wait_for_lock = self.wait_for_lock;
        options.runtime = self.runtime.kind()?;
        options.capacity.extend(node_capacity(&self.node_capacity)?);
        options.labels = pairs("--node-labels", &self.node_labels)?;
        options.taints = self.register_with_taints.iter().map(|text| taint(text)).collect::<Result<_, _>>()?;
        options.address = SocketAddr::new(self.address, self.port);
        options.serving = self.serving(config)?;
        options.lease_duration_seconds = self.node_lease_duration_seconds;
        options.backoff = BackoffLimits {
            first: Duration::from_secs(self.failure_backoff),
            longest: Duration::from_secs(self.failure_backoff_max.max(self.failure_backoff)),
            reset: self.failure_backoff_reset.map(Duration::from_secs),
        };
        Ok(options)
    }

    /// The certificates of the own server: as told, else those of the client side. Without either there is none.
    fn serving(&self, config: &ClientConfig) -> anyhow::Result<Option<ServingCertificate>> {
        let read = |path: &Path| std::fs::read(path).with_context(|| format!("read {}", path.display()));
        let own = match (&self.tls_cert_file, &self.tls_private_key_file) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            _ => config.client_certificate.as_ref().map(|own| (own.certificate.clone(), own.key.clone())),
        };
        let client_ca = match &self.client_ca_file {
            Some(path) => Some(read(path)?),
            None => config.certificate_authority.clone(),
        };
        Ok(own.zip(client_ca).map(|((certificate, key), client_ca)| ServingCertificate { certificate, key, client_ca }))
    }
}

fn pairs(flag: &str, list: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    list.iter()
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
            _ => Err(usage::refuse(format!("{flag} {pair:?} is not KEY=VALUE"))),
        })
        .collect()
}

/// What `--node-capacity` says, by resource.
///
/// # Errors
/// Wrong usage: a pair is none, or no node can offer that.
pub(crate) fn node_capacity(list: &[String]) -> anyhow::Result<BTreeMap<String, Quantity>> {
    let pairs = pairs("--node-capacity", list)?.into_iter();
    pairs.map(|(resource, amount)| Ok((resource.clone(), capacity(&resource, &amount)?))).collect()
}

/// What a node can offer of a resource.
fn capacity(resource: &str, amount: &str) -> anyhow::Result<Quantity> {
    let refuse = |why: String| usage::refuse(format!("--node-capacity {resource}={amount}: {why}"));
    let quantity: Quantity = amount.parse().map_err(|e| refuse(format!("{e}")))?;
    if quantity.is_negative() {
        return Err(refuse("must be 0 or more".to_owned()));
    }
    Ok(quantity)
}

fn taint(text: &str) -> anyhow::Result<Taint> {
    let refuse = |why: &str| usage::refuse(format!("--register-with-taints {text:?}{why}"));
    let (name, effect) = text.rsplit_once(':').ok_or_else(|| refuse(" is not KEY[=VALUE]:EFFECT"))?;
    if !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        return Err(refuse(": the effect is NoSchedule, PreferNoSchedule or NoExecute"));
    }
    let (key, value) = name.split_once('=').map_or((name, None), |(key, value)| (key, Some(value.to_owned())));
    if key.is_empty() {
        return Err(refuse(" is not KEY[=VALUE]:EFFECT"));
    }
    Ok(Taint { key: key.to_owned(), value, effect: effect.to_owned(), ..Taint::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_read_as_kubelets_read_them() {
        let read = taint("dedicated=gpu:NoSchedule").expect("a taint");
        assert_eq!(
            (read.key.as_str(), read.value.as_deref(), read.effect.as_str()),
            ("dedicated", Some("gpu"), "NoSchedule")
        );
        assert_eq!(taint("k:NoExecute").expect("a taint").value, None);
        for text in ["k", "k=v", "k:Never", "a=b:Foo", ":NoSchedule", "=v:NoSchedule"] {
            assert_eq!(usage::exit_code(&taint(text).expect_err(text)), 2, "{text}");
        }
    }

    #[test]
    fn what_no_node_can_offer_is_wrong_usage() {
        assert!(capacity("cpu", "0").is_ok());
        for amount in ["-1", "", "x", "-1Gi"] {
            assert_eq!(usage::exit_code(&capacity("cpu", amount).expect_err(amount)), 2, "{amount}");
        }
        assert_eq!(usage::exit_code(&pairs("--node-capacity", &["cpu".to_owned()]).expect_err("no amount")), 2);
    }
}
