//! Which port of which pod a request for `proxy` means, or which node: what a pod, a service and a node each are reached by.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, Reason, Status};
use serde_json::Value;

use crate::registry::{ListOptions, Registry, RequestContext, Target};

/// Where a request is passed on to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A port of a pod.
    Pod(Target, u16),
    /// The kubelet of this node.
    Node(Target),
}

/// What a request names: `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
#[derive(Debug, PartialEq, Eq)]
struct Named<'a> {
    name: &'a str,
    port: &'a str,
}

/// Where a request for this target goes.
pub(super) async fn of(registry: &Registry, context: &RequestContext, target: &Target) -> Result<Place, Status> {
    match target.kind.kind {
        "Pod" => place_of_pod(registry, context, target).await,
        "Service" => place_of_service(registry, context, target).await,
        _ => place_of_node(target),
    }
}

impl<'a> Named<'a> {
    fn read(id: &'a str, what: &str) -> Result<Self, Status> {
        let (scheme, name, port) = match id.split(':').collect::<Vec<_>>()[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("?", "", ""),
        };
        match scheme {
            _ if name.is_empty() => Err(Status::bad_request(format!("invalid {what} request {id}", id = quote(&id)))),
            "" | "http" => Ok(Named { name, port }),
            "https" => Err(Status::bad_request(format!(
                "{}: proxy passes requests on in plain HTTP only; use kubectl port-forward for a port that speaks TLS",
                quote(&id)
            ))),
            _ => Err(Status::bad_request(format!("invalid {what} request {id}", id = quote(&id)))),
        }
    }
}

async fn place_of_pod(registry: &Registry, context: &RequestContext, target: &Target) -> Result<Place, Status> {
    let named = Named::read(&target.name, "pod")?;
    let whole = Target::object(target.kind, &target.namespace, named.name);
    let pod = registry.get(context, &whole, 0).await?;
    let port = pod_port(pod.object(), named.port)?;
    if pod.object().text(&["status", "podIP"]).is_empty() {
        return Err(Status::bad_request("address not allowed"));
    }
    Ok(Place::Pod(whole, port))
}

/// The port that is named, or the first that a container names.
fn pod_port(pod: &Object, named: &str) -> Result<u16, Status> {
    if named.is_empty() {
        let containers = pod.at(&["spec", "containers"]).and_then(Value::as_array);
        let first =
            containers.into_iter().flatten().find_map(|container| container["ports"][0]["containerPort"].as_u64());
        return Ok(first.and_then(|port| u16::try_from(port).ok()).unwrap_or(80));
    }
    named.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
        Status::bad_request(format!("the port of a pod is a number from 1 to 65535, not {}", quote(&named)))
    })
}

async fn place_of_service(registry: &Registry, context: &RequestContext, target: &Target) -> Result<Place, Status> {
    let named = Named::read(&target.name, "service")?;
    let none = |what: String| Status::new(Reason::ServiceUnavailable, what);
    let whole = Target::object(target.kind, &target.namespace, named.name);
    let service = registry.get(context, &whole, 0).await?;
    let service = service.object();
    let port = match named.port.parse::<i64>() {
        Ok(number) => service_port(service, number)
            .ok_or_else(|| none(format!("no service port {number} found for service {}", quote(&named.name))))?,
        Err(_) => named.port.to_owned(),
    };
    let kind = |name: &str| Kind::by_api_version("v1", name).ok_or_else(|| Status::internal(format!("no {name}")));
    let (endpoints, pods) = (kind("Endpoints")?, kind("Pod")?);
    let known = match registry.get(context, &Target::object(endpoints, &target.namespace, named.name), 0).await {
        Ok(known) => known.object().at(&["subsets"]).and_then(Value::as_array).cloned().unwrap_or_default(),
        Err(status) if status.reason == Reason::NotFound => Vec::new(),
        Err(status) => return Err(status),
    };
    if known.is_empty() {
        // Pods of process nodes have loopback addresses, which endpoints may not name: the selector finds them.
        let found = selected(registry, context, service, pods, &port).await?;
        return found.ok_or_else(|| none(format!("no endpoints available for service {}", quote(&named.name))));
    }
    for (name, address, number) in candidates(&known, &port, &target.namespace) {
        let pod = Target::object(pods, &target.namespace, name);
        // Only to addresses that are pods', and still theirs.
        if let Ok(found) = registry.get(context, &pod, 0).await
            && has_address(found.object(), &address)
        {
            return Ok(Place::Pod(pod, number));
        }
    }
    Err(none(format!("no endpoints available for service {}", quote(&target.name))))
}

/// A port of a pod that is ready and that a service selects, by chance.
async fn selected(
    registry: &Registry,
    context: &RequestContext,
    service: &Object,
    pods: &'static Kind,
    port: &str,
) -> Result<Option<Place>, Status> {
    let Some(Value::Object(labels)) = service.at(&["spec", "selector"]).filter(|own| **own != Value::Null) else {
        return Ok(None);
    };
    let label = |(key, value): (&String, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    let label_selector = labels.iter().map(label).collect::<Vec<_>>().join(",");
    let options = ListOptions { label_selector, ..ListOptions::default() };
    let page = registry.list(context, &Target::collection(pods, service.namespace()), &options).await?;
    let ready = page.items.iter().filter(|pod| is_ready(pod.object()));
    let mut found: Vec<Place> = ready
        .filter_map(|pod| {
            let number = target_port(service, pod.object(), port)?;
            Some(Place::Pod(Target::object(pods, service.namespace(), pod.name()), number))
        })
        .collect();
    if found.is_empty() {
        return Ok(None);
    }
    Ok(Some(found.swap_remove(rand::random_range(0..found.len()))))
}

fn is_ready(pod: &Object) -> bool {
    let conditions = pod.at(&["status", "conditions"]).and_then(Value::as_array);
    let ready = |own: &Value| own["type"] == "Ready" && own["status"] == "True";
    !pod.is_terminating() && conditions.into_iter().flatten().any(ready)
}

/// The number that a port of a service has in a pod.
fn target_port(service: &Object, pod: &Object, port: &str) -> Option<u16> {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array);
    let own = ports.into_iter().flatten().find(|own| own["name"].as_str().unwrap_or_default() == port)?;
    let number = |value: &Value| value.as_u64().and_then(|number| u16::try_from(number).ok());
    match &own["targetPort"] {
        Value::Null => number(&own["port"]),
        Value::String(name) => {
            let containers = pod.at(&["spec", "containers"]).and_then(Value::as_array);
            let ports = containers.into_iter().flatten().flat_map(|container| container["ports"].as_array());
            ports.flatten().find(|port| port["name"] == name.as_str()).and_then(|port| number(&port["containerPort"]))
        }
        value => number(value),
    }
}

/// The name of the port of this number.
fn service_port(service: &Object, number: i64) -> Option<String> {
    let ports = service.at(&["spec", "ports"]).and_then(Value::as_array);
    let port = ports.into_iter().flatten().find(|port| port["port"].as_i64() == Some(number))?;
    Some(port["name"].as_str().unwrap_or_default().to_owned())
}

/// Pods behind a port, with address and port number, from a place by chance on.
fn candidates(subsets: &[Value], port: &str, namespace: &str) -> Vec<(String, String, u16)> {
    let mut found = Vec::new();
    for subset in subsets {
        let ports = subset["ports"].as_array().into_iter().flatten();
        let number =
            ports.filter(|own| own["name"].as_str().unwrap_or_default() == port).find_map(|own| own["port"].as_u64());
        let Some(number) = number.and_then(|number| u16::try_from(number).ok()) else { continue };
        for address in subset["addresses"].as_array().into_iter().flatten() {
            let of = &address["targetRef"];
            if of["kind"] == "Pod" && of["namespace"] == namespace {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                found.push((text(&of["name"]), text(&address["ip"]), number));
            }
        }
    }
    if !found.is_empty() {
        let start = rand::random_range(0..found.len());
        found.rotate_left(start);
    }
    found
}

fn has_address(pod: &Object, address: &str) -> bool {
    let all = pod.at(&["status", "podIPs"]).and_then(Value::as_array);
    pod.text(&["status", "podIP"]) == address || all.into_iter().flatten().any(|own| own["ip"] == address)
}

fn place_of_node(target: &Target) -> Result<Place, Status> {
    let named = Named::read(&target.name, "node")?;
    Ok(Place::Node(Target::object(target.kind, "", named.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_named_is_read_or_refused() {
        assert_eq!(Named::read("p", "pod"), Ok(Named { name: "p", port: "" }));
        assert_eq!(Named::read("http:p:8080", "pod"), Ok(Named { name: "p", port: "8080" }));
        for (wrong, why) in [
            ("a:b:c:d", "invalid pod request \"a:b:c:d\""),
            (":80", "invalid pod request \":80\""),
            ("ftp:p:1", "invalid pod request \"ftp:p:1\""),
        ] {
            assert_eq!(Named::read(wrong, "pod").expect_err(wrong).message, why);
        }
        assert!(Named::read("https:p:443", "pod").expect_err("TLS").message.contains("port-forward"));
    }

    #[test]
    fn a_service_leads_to_pods_of_its_namespace() {
        let subsets = json!([
            {"ports": [{"name": "http", "port": 8080}, {"name": "other", "port": 1}],
                "addresses": [{"ip": "127.5.0.1", "targetRef": {"kind": "Pod", "namespace": "n", "name": "a"}},
                    {"ip": "127.0.0.1"}, {"ip": "1.2.3.4", "targetRef": {"kind": "Pod", "namespace": "x", "name": "b"}}]},
            {"ports": [{"name": "other", "port": 2}], "addresses": [{"ip": "127.5.0.2"}]},
        ]);
        let found = candidates(subsets.as_array().expect("a list"), "http", "n");
        assert_eq!(found, [("a".to_owned(), "127.5.0.1".to_owned(), 8080)]);
        assert!(candidates(&[], "http", "n").is_empty());
        let service = Object::from_value(json!({"spec": {"ports": [{"name": "http", "port": 80}, {"port": 81}]}}));
        let service = service.expect("a map");
        assert_eq!(service_port(&service, 80).as_deref(), Some("http"));
        assert_eq!(service_port(&service, 81).as_deref(), Some(""));
        assert_eq!(service_port(&service, 82), None);
    }

    #[test]
    fn a_service_names_ports_of_its_pods_by_number_or_name() {
        let object = |value: Value| Object::from_value(value).expect("a map");
        let service = object(json!({"spec": {"ports": [
            {"name": "a", "port": 80, "targetPort": "http"}, {"name": "b", "port": 81, "targetPort": 9000},
            {"name": "c", "port": 82}, {"name": "d", "port": 83, "targetPort": "nosuch"}]}}));
        let pod = object(json!({"spec": {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}));
        let numbers: Vec<_> = ["a", "b", "c", "d", "e"].map(|port| target_port(&service, &pod, port)).into();
        assert_eq!(numbers, [Some(8080), Some(9000), Some(82), None, None]);
        assert!(is_ready(&pod) && !is_ready(&service));
    }

    #[test]
    fn a_pod_says_which_port_is_meant() {
        let pod = Object::from_value(json!({"spec": {"containers": [{}, {"ports": [{"containerPort": 8000}]}]}}));
        let pod = pod.expect("a map");
        assert_eq!(pod_port(&pod, "").expect("the first"), 8000);
        assert_eq!(pod_port(&pod, "9000").expect("as named"), 9000);
        assert_eq!(pod_port(&pod, "http").expect_err("a name").code, 400);
    }
}
