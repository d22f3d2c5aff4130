//! `lw expose`: a Service for what is there.

use std::process::ExitCode;

use clap::Args;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use super::failure::{Failure, Report};
use super::generated::{GeneratedArgs, pairs};
use super::manifest::FileArgs;
use super::selection::{Chosen, Naming};

/// The longest name a Service may have.
const NAME_MAX: usize = 63;

/// Make a Service for a workload, a pod or another Service
///
/// Examples: lw expose deploy web --port=80 --target-port=8080; lw expose pod db --name=db --port=5432 --type=NodePort
#[derive(Debug, Args)]
#[command(mut_arg("cluster", |arg| arg.long("cluster-name")))]
pub(crate) struct ExposeArgs {
    /// KIND NAME or KIND/NAME
    #[arg(value_name = "KIND|KIND/NAME")]
    words: Vec<String>,
    #[command(flatten)]
    files: FileArgs,
    /// The Service's name; without it the object's
    #[arg(long = "name", value_name = "NAME", default_value = "", hide_default_value = true)]
    service_name: String,
    /// The Service's port; without it those that the object has
    #[arg(long, value_name = "PORT", default_value = "", hide_default_value = true)]
    port: String,
    /// Where the port leads in the pods: a number or a name; without it to the same number
    #[arg(long, value_name = "PORT", default_value = "", hide_default_value = true)]
    target_port: String,
    /// TCP, UDP or SCTP; without it what the object says, else TCP
    #[arg(long, value_name = "PROTOCOL", default_value = "", hide_default_value = true)]
    protocol: String,
    /// ClusterIP, NodePort, LoadBalancer or ExternalName
    #[arg(long = "type", value_name = "TYPE", default_value = "", hide_default_value = true)]
    service_type: String,
    /// Labels of the pods, a=b,c=d; without it those that the object asks for
    #[arg(long, value_name = "PAIRS", default_value = "", hide_default_value = true)]
    selector: String,
    /// Labels of the Service, a=b,c=d; without it the object's
    #[arg(short = 'l', long, value_name = "PAIRS", default_value = "", hide_default_value = true)]
    labels: String,
    /// The address; None: the Service has none and names its pods
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    cluster_ip: String,
    /// Another address at which it is reached
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    external_ip: String,
    /// The address that a load balancer shall have
    #[arg(long, value_name = "ADDRESS", default_value = "", hide_default_value = true)]
    load_balancer_ip: String,
    /// Whether a client stays with a pod: None or ClientIP
    #[arg(long, value_name = "AFFINITY", default_value = "", hide_default_value = true)]
    session_affinity: String,
    #[command(flatten)]
    generated: GeneratedArgs,
}

/// Runs the command.
pub(crate) async fn run(args: &ExposeArgs) -> Result<ExitCode, Failure> {
    let mut maker = args.generated.maker("kubectl-expose")?;
    let naming = Naming { words: &args.words, files: &args.files, labels: "", fields: "", all: false };
    if naming.is_empty() {
        return Err(Failure::usage(
            "You must provide one or more resources by argument or filename.\nExample resource specifications \
             include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'\n   '<resource> <name>'\n   '<resource>'",
        ));
    }
    let found = naming.find(&maker.session, "expose").await?;
    let mut report = Report::default();
    for Chosen { kind, object } in &found.chosen {
        let service = args.generated.overridden(args.service(kind, object)?)?;
        match maker.create(service).await {
            Ok((kind, service)) => maker.show(kind, &service, "exposed")?,
            Err(failure) => report.fail(failure),
        }
    }
    found.failures.into_iter().for_each(|failure| report.fail(failure));
    Ok(report.exit_code())
}

impl ExposeArgs {
    /// The Service for an object.
    fn service(&self, kind: &Kind, object: &Object) -> Result<Value, Failure> {
        let selector = selector_of(kind, object, &self.selector)?;
        let ports = self.ports(object)?;
        let name = if self.service_name.is_empty() { object.name() } else { &self.service_name };
        let name: String =
            if self.service_name.is_empty() { name.chars().take(NAME_MAX).collect() } else { name.to_owned() };
        let mut metadata = json!({"name": name});
        if !self.labels.is_empty() {
            metadata["labels"] = pairs(&self.labels)?;
        } else if let Some(labels) = object.at(&["metadata", "labels"]) {
            metadata["labels"] = labels.clone();
        }
        let mut spec = json!({"selector": selector});
        if !ports.is_empty() {
            spec["ports"] = ports.into();
        }
        if !self.external_ip.is_empty() {
            spec["externalIPs"] = json!([self.external_ip]);
        }
        if !["", "None", "ClientIP"].contains(&self.session_affinity.as_str()) {
            return Err(Failure::usage(format!("unknown session affinity: {}", self.session_affinity)));
        }
        let balancer = if self.service_type == "LoadBalancer" { self.load_balancer_ip.as_str() } else { "" };
        for (field, text) in [
            ("type", self.service_type.as_str()),
            ("loadBalancerIP", balancer),
            ("sessionAffinity", &self.session_affinity),
            ("clusterIP", &self.cluster_ip),
        ] {
            if !text.is_empty() {
                spec[field] = text.into();
            }
        }
        Ok(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec, "status": {"loadBalancer": {}},
        }))
    }

    fn ports(&self, object: &Object) -> Result<Vec<Value>, Failure> {
        let known = ports_of(object);
        let mut wanted: Vec<i64> = Vec::new();
        if self.port.is_empty() {
            for (number, _) in &known {
                if !wanted.contains(number) {
                    wanted.push(*number);
                }
            }
            if wanted.is_empty() && self.cluster_ip != "None" {
                return Err(Failure::usage("couldn't find port via --port flag or introspection"));
            }
        } else {
            for part in self.port.split(',') {
                let problem = || Failure::usage(format!("strconv.Atoi: parsing {}: invalid syntax", quote(&part)));
                wanted.push(part.parse().map_err(|_| problem())?);
            }
        }
        let is_one = wanted.len() == 1;
        let mut ports = Vec::new();
        for (index, number) in wanted.into_iter().enumerate() {
            let name = if is_one { String::new() } else { format!("port-{}", index + 1) };
            let mut protocols: Vec<&str> = Vec::new();
            if !self.protocol.is_empty() {
                protocols.push(&self.protocol);
            } else {
                for (_, protocol) in known.iter().filter(|(known, _)| *known == number) {
                    if !protocols.contains(&protocol.as_str()) {
                        protocols.push(protocol);
                    }
                }
            }
            if protocols.is_empty() {
                protocols.push("TCP");
            }
            let has_several = protocols.len() > 1;
            for protocol in protocols {
                let mut port = json!({"port": number, "protocol": protocol, "targetPort": self.target(number)});
                if has_several {
                    port["name"] = format!("port-{}-{}", index + 1, protocol.to_lowercase()).into();
                } else if !name.is_empty() {
                    port["name"] = name.as_str().into();
                }
                ports.push(port);
            }
        }
        Ok(ports)
    }

    fn target(&self, port: i64) -> Value {
        match self.target_port.as_str() {
            "" => port.into(),
            text => text.parse::<i32>().map_or_else(|_| text.into(), Value::from),
        }
    }
}

/// The labels by which the object's pods are found.
fn selector_of(kind: &Kind, object: &Object, given: &str) -> Result<Value, Failure> {
    if !["ReplicationController", "Service", "Pod", "Deployment", "ReplicaSet"].contains(&kind.kind) {
        return Err(Failure::usage(format!("cannot expose a {}", kind.kind)));
    }
    if !given.is_empty() {
        return pairs(given);
    }
    let missing = |problem: &str| {
        Failure::plain(format!("couldn't retrieve selectors via --selector flag or introspection: {problem}"))
    };
    let labels = |path: &[&str]| object.at(path).filter(|v| v.as_object().is_some_and(|map| !map.is_empty())).cloned();
    match kind.kind {
        "Pod" => labels(&["metadata", "labels"]).ok_or_else(|| missing("the pod has no labels and cannot be exposed")),
        "Service" => labels(&["spec", "selector"]).ok_or_else(|| missing("the service has no pod selector set")),
        "ReplicationController" => {
            labels(&["spec", "selector"]).ok_or_else(|| missing("the replication controller has no selector set"))
        }
        _ => {
            let expressions = object.at(&["spec", "selector", "matchExpressions"]).and_then(Value::as_array);
            if let Some(expressions) = expressions.filter(|list| !list.is_empty()) {
                return Err(missing(&format!(
                    "couldn't convert expressions - \"{}\" to map-based selector format",
                    Value::Array(expressions.clone())
                )));
            }
            labels(&["spec", "selector", "matchLabels"]).ok_or_else(|| missing("the object has no selector set"))
        }
    }
}

/// The ports of a Service, or of a pod's containers, and their protocols.
fn ports_of(object: &Object) -> Vec<(i64, String)> {
    let read = |list: Option<&Value>, field: &str| -> Vec<(i64, String)> {
        let list = list.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let read = |port: &Value| {
            let protocol = port["protocol"].as_str().unwrap_or("TCP").to_owned();
            Some((port[field].as_i64()?, protocol))
        };
        list.iter().filter_map(read).collect()
    };
    if object.kind_name() == "Service" {
        return read(object.at(&["spec", "ports"]), "port");
    }
    let containers = object
        .at(&["spec", "template", "spec", "containers"])
        .or_else(|| object.at(&["spec", "containers"]))
        .and_then(Value::as_array);
    containers.into_iter().flatten().flat_map(|container| read(container.get("ports"), "containerPort")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        expose: ExposeArgs,
    }

    fn service(flags: &str, object: Value) -> Result<Value, String> {
        let words = ["expose"].into_iter().chain(flags.split_whitespace());
        let object = Object::from_value(object).expect("a map");
        let args = Command::parse_from(words).expose;
        args.service(object.kind().expect("served"), &object).map_err(|failure| failure.text())
    }

    /// As recorded with kubectl 1.36.
    #[test]
    fn a_service_takes_over_what_the_object_says() {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "cow", "labels": {"app": "cow"}},
            "spec": {
                "selector": {"matchLabels": {"app": "cow"}},
                "template": {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 9}, {"containerPort": 9, "protocol": "UDP"}]}]}},
            },
        });
        let made = service("--port=5 --cluster-ip=None --protocol=UDP", deployment.clone()).expect("a service");
        assert_eq!(
            made["spec"],
            json!({
                "clusterIP": "None", "ports": [{"port": 5, "protocol": "UDP", "targetPort": 5}], "selector": {"app": "cow"},
            })
        );
        let found = service("--target-port=http", deployment).expect("a service");
        assert_eq!(
            found["spec"]["ports"],
            json!([
                {"name": "port-1-tcp", "port": 9, "protocol": "TCP", "targetPort": "http"},
                {"name": "port-1-udp", "port": 9, "protocol": "UDP", "targetPort": "http"},
            ])
        );
        assert_eq!(found["metadata"], json!({"name": "cow", "labels": {"app": "cow"}}));
    }

    #[test]
    fn what_cannot_be_exposed_is_told() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        assert_eq!(service("--port=1", config), Err("error: cannot expose a ConfigMap".to_owned()));
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": {}});
        let problem = "error: couldn't find port via --port flag or introspection";
        assert_eq!(service("--name=x", pod), Err(problem.to_owned()));
    }
}
