//! `lw create service`: clusterip, nodeport, loadbalancer and externalname.

use clap::{Args, Subcommand};
use listwatch_proto::go_quote::quote;
use serde_json::{Value, json};

use super::command::HowArgs;
use super::name::NameArgs;
use crate::commands::failure::Failure;

/// Create a Service of a type
///
/// Examples: lw create service clusterip web --tcp=80:8080; lw create service nodeport web --tcp=80 --node-port=30080
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct ServiceArgs {
    #[command(subcommand)]
    what: ServiceKind,
}

#[derive(Debug, Subcommand)]
enum ServiceKind {
    #[command(name = "clusterip")]
    ClusterIp(ClusterIpArgs),
    #[command(name = "nodeport")]
    NodePort(NodePortArgs),
    #[command(name = "loadbalancer")]
    LoadBalancer(LoadBalancerArgs),
    #[command(name = "externalname")]
    ExternalName(ExternalNameArgs),
}

/// What every type takes.
#[derive(Debug, Args)]
struct PortArgs {
    #[command(flatten)]
    name: NameArgs,
    /// A port of the Service, and where it leads: PORT or PORT:TARGET
    #[arg(long, value_name = "PORT[:TARGET]", value_delimiter = ',')]
    tcp: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Create a Service with an address in the cluster
///
/// Examples: lw create service clusterip web --tcp=80:8080; lw create service clusterip web --clusterip=None
#[derive(Debug, Args)]
struct ClusterIpArgs {
    #[command(flatten)]
    ports: PortArgs,
    /// The address; None: the Service has none and names its pods
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    clusterip: String,
}

/// Create a Service that each node serves on a port
///
/// Examples: lw create service nodeport web --tcp=80 --node-port=30080
#[derive(Debug, Args)]
struct NodePortArgs {
    #[command(flatten)]
    ports: PortArgs,
    /// The port of the nodes; 0: a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, allow_negative_numbers = true)]
    node_port: i32,
}

/// Create a Service with an address outside of the cluster
///
/// Examples: lw create service loadbalancer web --tcp=80
#[derive(Debug, Args)]
struct LoadBalancerArgs {
    #[command(flatten)]
    ports: PortArgs,
}

/// Create a Service that stands for a name elsewhere
///
/// Examples: lw create service externalname db --external-name=db.example.com
#[derive(Debug, Args)]
struct ExternalNameArgs {
    #[command(flatten)]
    ports: PortArgs,
    /// The name
    #[arg(long, value_name = "NAME", required = true)]
    external_name: String,
}

impl ServiceArgs {
    fn parts(&self) -> (&PortArgs, &'static str, &'static str) {
        match &self.what {
            ServiceKind::ClusterIp(args) => (&args.ports, "ClusterIP", "clusterip"),
            ServiceKind::NodePort(args) => (&args.ports, "NodePort", "nodeport"),
            ServiceKind::LoadBalancer(args) => (&args.ports, "LoadBalancer", "loadbalancer"),
            ServiceKind::ExternalName(args) => (&args.ports, "ExternalName", "externalname"),
        }
    }

    /// How the object is created.
    pub(super) fn how(&self) -> &HowArgs {
        &self.parts().0.how
    }

    /// `NodePort service`, for messages.
    pub(super) fn called(&self) -> String {
        format!("{} service", self.parts().1)
    }

    /// The object that the flags describe.
    ///
    /// # Errors
    /// If a port is none, or none is named where one is needed.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let (args, service_type, word) = self.parts();
        let name = args.name.one(&format!("service {word}"))?;
        let (mut address, mut node_port, mut external_name) = ("", 0, "");
        match &self.what {
            ServiceKind::ClusterIp(args) => address = &args.clusterip,
            ServiceKind::NodePort(args) => node_port = args.node_port,
            ServiceKind::ExternalName(args) => external_name = &args.external_name,
            ServiceKind::LoadBalancer(_) => {}
        }
        if address != "None" && args.tcp.is_empty() && external_name.is_empty() {
            return Err(Failure::usage("at least one tcp port specifier must be provided"));
        }
        let ports = args.tcp.iter().map(|text| port(text, node_port)).collect::<Result<Vec<_>, _>>()?;
        let labels = json!({"app": name});
        let mut object = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "labels": labels},
            "spec": {"type": service_type, "selector": labels}, "status": {"loadBalancer": {}},
        });
        if !ports.is_empty() {
            object["spec"]["ports"] = ports.into();
        }
        for (field, text) in [("clusterIP", address), ("externalName", external_name)] {
            if !text.is_empty() {
                object["spec"][field] = text.into();
            }
        }
        Ok(object)
    }
}

/// `80`, `80:8080` or `80:http`.
fn port(text: &str, node_port: i32) -> Result<Value, Failure> {
    let (port, target) = text.split_once(':').map_or((text, None), |(port, target)| (port, Some(target)));
    let number = parse_port(port)?;
    let target = match target {
        None => json!(number),
        // What stands behind another colon is only part of the port's name.
        Some(target) => {
            let target = target.split(':').next().unwrap_or(target);
            if target.bytes().all(|b| b.is_ascii_digit()) { json!(parse_port(target)?) } else { json!(target) }
        }
    };
    let mut port = json!({"name": text.replace(':', "-"), "port": number, "targetPort": target, "protocol": "TCP"});
    if node_port != 0 {
        port["nodePort"] = node_port.into();
    }
    Ok(port)
}

fn parse_port(text: &str) -> Result<u16, Failure> {
    text.parse().map_err(|_| {
        let why = if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
            "value out of range"
        } else {
            "invalid syntax"
        };
        Failure::usage(format!("strconv.ParseUint: parsing {text}: {why}", text = quote(&text)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_read_as_kubectl_does() {
        let read = |text: &str| port(text, 0).expect("a port");
        assert_eq!(read("443"), json!({"name": "443", "port": 443, "targetPort": 443, "protocol": "TCP"}));
        assert_eq!(read("80:8080"), json!({"name": "80-8080", "port": 80, "targetPort": 8080, "protocol": "TCP"}));
        assert_eq!(read("80:x:y"), json!({"name": "80-x-y", "port": 80, "targetPort": "x", "protocol": "TCP"}));
        assert_eq!(port("5", 80).expect("a port")["nodePort"], 80);
        for text in ["", "x", "70000", "80:70000"] {
            assert!(port(text, 0).is_err(), "{text}");
        }
    }
}
