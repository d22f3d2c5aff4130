//! What is asked of the server for a description besides the object, and which description a kind has.

use jiff::Timestamp;
use listwatch_components::client::ListParams;
use listwatch_proto::resource::{Kind, LabelSelector, Object, ObjectKey};
use serde_json::Value;

use super::network::Backends;
use super::node::Surroundings;
use super::workload::{Phases, deployment, replica_set};
use super::{
    access, autoscaler, batch, endpoints, generic, limits, network, node, pod, service, sets, small, storage, text,
};
use crate::commands::failure::Failure;
use crate::commands::session::{Session, kind_named};

/// Where nodes keep their leases.
const NODE_LEASES: &str = "kube-node-lease";

/// Kinds whose descriptions never tell of Events (kubectl 1.36).
const WITHOUT_EVENTS: &[&str] = &[
    "Namespace",
    "ResourceQuota",
    "LimitRange",
    "Secret",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "NetworkPolicy",
];

/// The description of an object, with tabs.
///
/// # Errors
/// If the server does not give what belongs to it.
pub(super) async fn describe(
    session: &Session,
    kind: &'static Kind,
    object: &Object,
    with_events: bool,
) -> Result<String, Failure> {
    let out = &mut String::new();
    match kind.kind {
        "Pod" => pod::describe(out, object),
        "Deployment" => deployment(out, object, &selected(session, "replicasets", object).await?),
        "ReplicaSet" => {
            let phases = phases(session, object).await?;
            replica_set(out, object, phases);
        }
        "Node" => node::describe(out, object, &around_node(session, object).await?, Timestamp::now()),
        "ConfigMap" => small::config_map(out, object),
        "PriorityClass" => small::priority_class(out, object),
        "Namespace" => {
            small::namespace(out, object);
            let inside = ListParams::in_namespace(object.name());
            let quotas = list(session, "resourcequotas", &inside).await?;
            limits::of_namespace(out, &quotas, &list(session, "limitranges", &inside).await?);
        }
        "ResourceQuota" => limits::quota(out, object),
        "LimitRange" => limits::limit_range(out, object),
        "Secret" => access::secret(out, object),
        "Role" | "ClusterRole" => access::role(out, object),
        "RoleBinding" | "ClusterRoleBinding" => access::binding(out, object),
        "ServiceAccount" => access::service_account(out, object),
        "PodDisruptionBudget" => service::budget(out, object),
        "Job" => batch::job(out, object),
        "CronJob" => batch::cron_job(out, object),
        "StatefulSet" => sets::stateful_set(out, object, phases(session, object).await?),
        "DaemonSet" => sets::daemon_set(out, object, phases(session, object).await?),
        "ReplicationController" => {
            let selector = text::labels_of(object.at(&["spec", "selector"]).unwrap_or(&Value::Null)).join(",");
            let params = ListParams::in_namespace(object.namespace()).labels(selector);
            let pods = list(session, "pods", &params).await?;
            sets::replication_controller(out, object, Phases::of(pods.iter(), object.uid()));
        }
        "HorizontalPodAutoscaler" if kind.version == "v2" => autoscaler::autoscaler(out, object),
        "Ingress" => network::ingress(out, object, &backends(session, object).await?),
        "IngressClass" => network::ingress_class(out, object),
        "NetworkPolicy" => network::network_policy(out, object),
        "EndpointSlice" => endpoints::slice(out, object),
        "Endpoints" => endpoints::endpoints(out, object),
        "PersistentVolume" => storage::volume(out, object, Timestamp::now()),
        "PersistentVolumeClaim" => storage::claim(out, object, &users(session, object).await?, Timestamp::now()),
        "StorageClass" => storage::storage_class(out, object),
        "CSINode" => storage::csi_node(out, object),
        "Service" => {
            let slices = ListParams::in_namespace(object.namespace())
                .labels(format!("kubernetes.io/service-name={}", object.name()));
            service::service(out, object, &list(session, "endpointslices", &slices).await?);
        }
        _ => generic::describe(out, object),
    }
    if with_events && !WITHOUT_EVENTS.contains(&kind.kind) {
        text::events(out, events(session, kind, object).await?);
    }
    Ok(std::mem::take(out))
}

/// The phases of the pods that a controller has.
async fn phases(session: &Session, object: &Object) -> Result<Phases, Failure> {
    Ok(Phases::of(selected(session, "pods", object).await?.iter(), object.uid()))
}

/// Where the services behind an Ingress lead to.
async fn backends(session: &Session, object: &Object) -> Result<Backends, Failure> {
    let mut known = Backends::new();
    let services = session.api(kind_named("services")?);
    for (name, port) in network::backends_of(object).into_iter().filter_map(network::service_of) {
        let place = ListParams::in_namespace(object.namespace());
        let slices =
            list(session, "endpointslices", &place.labels(format!("kubernetes.io/service-name={name}"))).await?;
        let text = match services.get(&ObjectKey::new(object.namespace(), name)).await {
            Ok(service) => {
                let ports =
                    service.object.at(&["spec", "ports"]).and_then(Value::as_array).cloned().unwrap_or_default();
                let number: Option<i64> = port.parse().ok();
                let is_meant = |entry: &&Value| {
                    entry["name"] == port.as_str() || number.is_some_and(|number| entry["port"] == number)
                };
                let named = ports.iter().rfind(is_meant).and_then(|entry| entry["name"].as_str()).unwrap_or_default();
                endpoints::ready_addresses(&slices, named)
            }
            Err(listwatch_components::client::Error::Status(status)) => format!("<error: {}>", status.message),
            Err(error) => return Err(error.into()),
        };
        known.insert(format!("{name}:{port}"), text);
    }
    Ok(known)
}

/// The names of the pods that use a claim, or that it was made for.
async fn users(session: &Session, claim: &Object) -> Result<Vec<String>, Failure> {
    let pods = list(session, "pods", &ListParams::in_namespace(claim.namespace())).await?;
    let owners: Vec<String> =
        claim.owner_references().into_iter().filter(|owner| owner.kind == "Pod").map(|owner| owner.uid).collect();
    let uses = |pod: &&Object| {
        let volumes = pod.at(&["spec", "volumes"]).and_then(Value::as_array).into_iter().flatten();
        let mut names = volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str());
        names.any(|name| name == claim.name()) || owners.iter().any(|uid| uid == pod.uid())
    };
    let mut names: Vec<String> = pods.iter().filter(uses).map(|pod| pod.name().to_owned()).collect();
    names.sort();
    Ok(names)
}

/// The objects that a controller's selector means.
async fn selected(session: &Session, kind: &str, object: &Object) -> Result<Vec<Object>, Failure> {
    let selector = object.at(&["spec", "selector"]).unwrap_or(&Value::Null);
    let selector = LabelSelector::from_json(selector).map_err(|error| Failure::plain(error.to_string()))?;
    let params = ListParams::in_namespace(object.namespace()).labels(selector.to_string());
    list(session, kind, &params).await
}

async fn list(session: &Session, kind: &str, params: &ListParams) -> Result<Vec<Object>, Failure> {
    let list = session.api(kind_named(kind)?).list(params).await?;
    Ok(list.items.into_iter().map(|item| item.object).collect())
}

async fn around_node(session: &Session, node: &Object) -> Result<Surroundings, Failure> {
    let fields = format!("spec.nodeName={},status.phase!=Succeeded,status.phase!=Failed", node.name());
    let pods = list(session, "pods", &ListParams::all().fields(fields)).await?;
    let key = ObjectKey::new(NODE_LEASES, node.name());
    let lease = match session.api(kind_named("leases")?).get(&key).await {
        Ok(lease) => Ok(lease.object),
        Err(listwatch_components::client::Error::Status(status)) => Err(status.message),
        Err(error) => return Err(error.into()),
    };
    Ok(Surroundings { lease, pods })
}

/// The Events about an object; those about a node name it in place of its uid, where its kubelet has told them.
async fn events(session: &Session, kind: &Kind, object: &Object) -> Result<Vec<Object>, Failure> {
    let about = |uid: &str| {
        let (name, namespace) = (object.name(), object.namespace());
        let place = if kind.namespaced { format!(",involvedObject.namespace={namespace}") } else { String::new() };
        format!("involvedObject.name={name}{place},involvedObject.kind={},involvedObject.uid={uid}", kind.kind)
    };
    let params = ListParams::in_namespace(object.namespace()).fields(about(object.uid()));
    let mut events = list(session, "events", &params).await?;
    if kind.kind == "Node" {
        let params = ListParams::all().fields(about(object.name()));
        events.extend(list(session, "events", &params).await?);
    }
    Ok(events)
}
