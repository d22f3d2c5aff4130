//! Who a certificate is for: the common name is the user, the organizations are the groups, as Kubernetes reads them.

use super::Error;

/// One holder of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The server's own certificate for 6443 and 2379, with the names and addresses beyond the usual ones that it must
    /// carry (an address it listens on, for example).
    Server(Vec<String>),
    /// The server as a client of kubelets.
    KubeletClient,
    /// The person who runs the cluster.
    Admin,
    /// The controller manager.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The kubelet of a node, as a client of the server and as a server of logs.
    Node(String),
}

/// The group of the all-powerful.
const MASTERS: &str = "system:masters";

/// Names every server certificate carries, besides the machine's own.
const SERVER_NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "127.0.0.1",
    "::1",
];

/// What a certificate may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    Server,
    Client,
    Both,
}

impl Identity {
    /// The common name, which is the user's name.
    pub fn user(&self) -> String {
        match self {
            Identity::Server(_) => "kube-apiserver".to_owned(),
            Identity::KubeletClient => "kube-apiserver-kubelet-client".to_owned(),
            Identity::Admin => "kubernetes-admin".to_owned(),
            Identity::ControllerManager => "system:kube-controller-manager".to_owned(),
            Identity::Scheduler => "system:kube-scheduler".to_owned(),
            Identity::Node(name) => format!("system:node:{name}"),
        }
    }

    /// The organizations, which are the user's groups.
    pub fn groups(&self) -> &'static [&'static str] {
        match self {
            Identity::Server(_) | Identity::ControllerManager | Identity::Scheduler => &[],
            Identity::KubeletClient | Identity::Admin => &[MASTERS],
            Identity::Node(_) => &["system:nodes"],
        }
    }

    /// The file name without its ending.
    pub fn stem(&self) -> String {
        match self {
            Identity::Server(_) => "server".to_owned(),
            Identity::KubeletClient => "kubelet-client".to_owned(),
            Identity::Admin => "admin".to_owned(),
            Identity::ControllerManager => "controller-manager".to_owned(),
            Identity::Scheduler => "scheduler".to_owned(),
            Identity::Node(name) => format!("node-{name}"),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        match self {
            Identity::Server(_) => Usage::Server,
            Identity::Node(_) => Usage::Both,
            _ => Usage::Client,
        }
    }

    /// The names and addresses that the certificate must carry.
    pub(super) fn required_names(&self) -> Vec<String> {
        let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        match self {
            Identity::Server(more) => [owned(SERVER_NAMES), more.clone()].concat(),
            Identity::Node(name) => [vec![name.clone()], owned(&["localhost", "127.0.0.1", "::1"])].concat(),
            _ => Vec::new(),
        }
    }

    /// Refuses names that would leave the folder or break the certificate.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Identity::Node(name) = self else { return Ok(()) };
        let refuse = |reason| Err(Error::BadName { name: name.clone(), reason });
        if name.is_empty() || name.len() > 253 {
            return refuse("it must have 1 to 253 characters");
        }
        let good = |label: &str| {
            let inner = label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            !label.is_empty() && inner && !label.starts_with('-') && !label.ends_with('-')
        };
        if !name.split('.').all(good) {
            return refuse(
                "only lower case letters, digits, '-' and '.' are allowed, beginning and ending with a letter or digit",
            );
        }
        Ok(())
    }
}
