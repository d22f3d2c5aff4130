//! What is asked of the server for a description besides the object, and which description a kind has.

use jiff::Timestamp;
use listwatch_components::client::ListParams;
use listwatch_proto::resource::{Kind, LabelSelector, Object, ObjectKey};
use serde_json::Value;

use super::node::Surroundings;
use super::workload::{Phases, deployment, replica_set};
use super::{access, generic, limits, node, pod, service, small, text};
use crate::commands::failure::Failure;
use crate::commands::session::{Session, kind_named};

/// Where nodes keep their leases.
const NODE_LEASES: &str = "kube-node-lease";

/// Kinds whose descriptions never tell of Events (kubectl 1.36).
const WITHOUT_EVENTS: &[&str] =
    &["Namespace", "ResourceQuota", "LimitRange", "Secret", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"];

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
            let pods = selected(session, "pods", object).await?;
            replica_set(out, object, Phases::of(pods.iter(), object.uid()));
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
