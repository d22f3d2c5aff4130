//! `lw cluster-info`: where the control plane is, and the services that belong to the cluster itself.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use listwatch_components::client::ListParams;
use listwatch_proto::resource::{Kind, Object};
use serde_json::Value;

use super::failure::Failure;
use super::refused::{Instead, RefusedArgs};
use super::session::{Session, SessionArgs};

/// What marks a service of the cluster itself (Kubernetes').
const SELECTOR: &str = "kubernetes.io/cluster-service=true";

/// Show where the control plane is
///
/// Examples: lw cluster-info
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ClusterInfoArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    session: SessionArgs,
}

#[derive(Debug, Subcommand)]
enum What {
    #[command(hide = true)]
    Dump(RefusedArgs),
}

/// Runs the command.
pub(crate) async fn run(args: &ClusterInfoArgs) -> Result<ExitCode, Failure> {
    if let Some(What::Dump(words)) = &args.what {
        let instead = "lw get all -A -o yaml shows the objects, lw logs what pods write, lw status the processes";
        return words.refuse("cluster-info dump", Instead::Do(instead));
    }
    let session = Session::open(&args.session)?;
    let services = Kind::by_name("services").expect("a served kind");
    let namespace = if session.is_namespace_given { session.namespace.as_str() } else { "kube-system" };
    let found = session.api(services).list(&ListParams::in_namespace(namespace).labels(SELECTOR)).await?;
    let server = session.client.server();
    let mut out = io::stdout().lock();
    writeln!(out, "Kubernetes control plane is running at {server}")?;
    for service in &found.items {
        writeln!(out, "{}", line(server, &service.object))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A service by its balancer's addresses, else by the way through the server.
fn line(server: &str, service: &Object) -> String {
    let ports = service.at(&["spec", "ports"]).and_then(|ports| ports.as_array()).cloned().unwrap_or_default();
    let ingress = service.at(&["status", "loadBalancer", "ingress"]).map_or(Value::Null, |list| list[0].clone());
    let link = if ingress.is_object() {
        let text = |field: &str| ingress[field].as_str().filter(|text| !text.is_empty());
        let host = text("ip").or_else(|| text("hostname")).unwrap_or_default();
        ports.iter().map(|port| format!("http://{host}:{} ", port["port"])).collect()
    } else {
        let name = match ports.first() {
            None => service.name().to_owned(),
            Some(port) => {
                let port_name = port["name"].as_str().unwrap_or_default();
                let scheme = if port_name == "https" || port["port"] == 443 { "https" } else { "" };
                match (scheme, port_name) {
                    ("", "") => service.name().to_owned(),
                    _ => format!("{scheme}:{}:{port_name}", service.name()).trim_start_matches(':').to_owned(),
                }
            }
        };
        format!("{server}/api/v1/namespaces/{}/services/{name}/proxy", service.namespace())
    };
    let label = service.at(&["metadata", "labels", "kubernetes.io/name"]).and_then(|name| name.as_str());
    format!("{} is running at {link}", label.filter(|name| !name.is_empty()).unwrap_or(service.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_is_told_with_the_way_to_it() {
        let service = |labels: Value, port: Value, balancer: Value| {
            let object = json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": "dns", "namespace": "kube-system", "labels": labels},
                "spec": {"ports": [port]}, "status": {"loadBalancer": balancer}});
            line("https://h:1", &Object::from_value(object).expect("a map"))
        };
        let through = "https://h:1/api/v1/namespaces/kube-system/services";
        let plain = service(json!({}), json!({"port": 53}), json!({}));
        assert_eq!(plain, format!("dns is running at {through}/dns/proxy"));
        let named = service(json!({"kubernetes.io/name": "CoreDNS"}), json!({"port": 53, "name": "dns"}), json!({}));
        assert_eq!(named, format!("CoreDNS is running at {through}/dns:dns/proxy"));
        let secure = service(json!({}), json!({"port": 443}), json!({}));
        assert_eq!(secure, format!("dns is running at {through}/https:dns:/proxy"));
        let balanced = service(json!({}), json!({"port": 80}), json!({"ingress": [{"hostname": "x"}]}));
        assert_eq!(balanced, "dns is running at http://x:80 ");
    }
}
