//! Which processes a cluster has, and with which flags each is started.

use crate::{cluster::Layout, programs::kubelet::RuntimeName};

/// When a component is stopped: controllers and schedulers first, then kubelets, the server last. Started the other
/// way round, but for the kubelets, which need not wait for anybody but the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Controller-managers and schedulers.
    Control,
    /// Kubelets.
    Kubelet,
    /// The server.
    Server,
}

/// A component and how it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spec {
    /// `server`, `scheduler`, `kubelet-node01`, …
    pub(crate) name: String,
    /// When it is stopped.
    pub(crate) class: Class,
    /// Arguments of `lw`.
    pub(crate) args: Vec<String>,
}

/// What decides the flags of the processes.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Where everything lies.
    pub(crate) layout: Layout,
    /// Port of the etcd door.
    pub(crate) client_port: u16,
    /// Port of the API.
    pub(crate) secure_port: u16,
    /// The kubelets' nodes.
    pub(crate) nodes: Vec<String>,
    /// What runs their containers.
    pub(crate) runtime: RuntimeName,
    /// What they offer beside the usual, each `NAME=QUANTITY`.
    pub(crate) node_capacity: Vec<String>,
    /// How many schedulers.
    pub(crate) schedulers: u32,
    /// How many controller-managers.
    pub(crate) controller_managers: u32,
    /// `sync`, `buffered` or `memory`.
    pub(crate) durability: String,
    /// Filter of the logs.
    pub(crate) log_filter: String,
}

impl Plan {
    /// Every component, in the order of start.
    pub(crate) fn specs(&self) -> Vec<Spec> {
        let mut specs = vec![self.server()];
        let kinds = [("controller-manager", self.controller_managers), ("scheduler", self.schedulers)];
        for (program, count) in kinds {
            specs.extend((1..=count).map(|number| self.elected(program, number)));
        }
        specs.extend(self.nodes.iter().map(|node| self.kubelet(node)));
        specs
    }

    fn server(&self) -> Spec {
        let pki = self.layout.pki();
        let file = |name: &str| pki.join(name).display().to_string();
        let mut args = vec!["server".to_owned()];
        let mut flag = |name: &str, value: String| args.extend([format!("--{name}"), value]);
        flag("data-dir", self.layout.server().display().to_string());
        flag("listen-client-urls", format!("https://127.0.0.1:{}", self.client_port));
        flag("cert-file", file("server.crt"));
        flag("key-file", file("server.key"));
        flag("trusted-ca-file", file("ca.crt"));
        flag("bind-address", "127.0.0.1".to_owned());
        flag("secure-port", self.secure_port.to_string());
        flag("tls-cert-file", file("server.crt"));
        flag("tls-private-key-file", file("server.key"));
        flag("client-ca-file", file("ca.crt"));
        flag("service-account-signing-key-file", file("sa.key"));
        flag("kubelet-client-certificate", file("kubelet-client.crt"));
        flag("kubelet-client-key", file("kubelet-client.key"));
        flag("durability", self.durability.clone());
        flag("log", self.log_filter.clone());
        args.push("--client-cert-auth".to_owned());
        Spec { name: "server".to_owned(), class: Class::Server, args }
    }

    /// The first of its kind has the kind's name, so that one more of it does not rename it.
    fn elected(&self, program: &str, number: u32) -> Spec {
        let name = if number == 1 { program.to_owned() } else { format!("{program}-{number}") };
        let args = [
            program.to_owned(),
            "--kubeconfig".to_owned(),
            self.component_kubeconfig(program).display().to_string(),
            "--leader-elect-identity".to_owned(),
            name.clone(),
            "--slot-lock".to_owned(),
            self.layout.slot_lock(&name).display().to_string(),
            "--log".to_owned(),
            self.log_filter.clone(),
        ];
        Spec { name, class: Class::Control, args: args.to_vec() }
    }

    fn kubelet(&self, node: &str) -> Spec {
        let pki = self.layout.pki();
        let file = |name: String| pki.join(name).display().to_string();
        let mut args = vec!["kubelet".to_owned()];
        let mut flag = |name: &str, value: String| args.extend([format!("--{name}"), value]);
        flag("kubeconfig", self.node_kubeconfig(node).display().to_string());
        flag("hostname-override", node.to_owned());
        flag("root-dir", self.layout.node(node).display().to_string());
        flag("tls-cert-file", file(format!("node-{node}.crt")));
        flag("tls-private-key-file", file(format!("node-{node}.key")));
        flag("client-ca-file", file("ca.crt".to_owned()));
        flag("port", "0".to_owned());
        flag("runtime", self.runtime.word());
        if !self.node_capacity.is_empty() {
            flag("node-capacity", self.node_capacity.join(","));
        }
        flag("log", self.log_filter.clone());
        Spec { name: format!("kubelet-{node}"), class: Class::Kubelet, args }
    }

    /// The kubeconfig of controller-managers or schedulers.
    pub(crate) fn component_kubeconfig(&self, program: &str) -> std::path::PathBuf {
        self.layout.pki().join(format!("{program}.kubeconfig"))
    }

    /// The kubeconfig of a node's kubelet.
    pub(crate) fn node_kubeconfig(&self, node: &str) -> std::path::PathBuf {
        self.layout.pki().join(format!("node-{node}.kubeconfig"))
    }
}
