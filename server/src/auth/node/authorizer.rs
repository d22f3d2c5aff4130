//! What a kubelet may ask for.

use listwatch_proto::go_quote::quote;

use super::super::rbac::{self, Rule};
use super::node_of;
use super::related::{self, Thing};
use crate::registry::{Asked, Attributes, Decision, Registry, ResourceAttributes, User, exact};

const NODE_LEASES: &str = "kube-node-lease";

/// Judges kubelets; has nothing to say of others.
#[derive(Debug)]
pub(in super::super) struct NodeAuthorizer {
    /// What every node may do with what is not any node's own.
    rules: Vec<Rule>,
}

fn yes() -> Decision {
    Decision { allowed: true, reason: String::new() }
}

fn no(reason: impl Into<String>) -> Decision {
    Decision { allowed: false, reason: reason.into() }
}

impl NodeAuthorizer {
    pub(in super::super) fn new() -> Self {
        NodeAuthorizer { rules: rbac::node_rules() }
    }

    /// `None` = the user is no kubelet.
    pub(in super::super) async fn authorize(
        &self,
        registry: &Registry,
        user: &User,
        attributes: &Attributes,
    ) -> Option<Decision> {
        let node = node_of(user)?;
        if node.is_empty() {
            return Some(no(format!("unknown node for user {}", quote(&user.name))));
        }
        if let Asked::Resource(asked) = &attributes.asked
            && let Some(decision) = own(registry, node, &attributes.verb, asked).await
        {
            return Some(decision);
        }
        Some(Decision { allowed: self.rules.iter().any(|rule| rule.allows(attributes)), reason: String::new() })
    }
}

/// Judges the kinds whose objects belong to nodes; `None` = another kind.
async fn own(registry: &Registry, node: &str, verb: &str, asked: &ResourceAttributes) -> Option<Decision> {
    Some(match (asked.group.as_str(), asked.resource.as_str()) {
        ("", "secrets") => read(registry, node, Thing::Secret, verb, asked).await,
        ("", "configmaps") => read(registry, node, Thing::ConfigMap, verb, asked).await,
        ("", "persistentvolumeclaims") if asked.subresource == "status" => match verb {
            "update" | "patch" => belongs(registry, node, Thing::Claim, asked).await,
            _ => no("can only get/update/patch this type"),
        },
        ("", "persistentvolumeclaims") => get(registry, node, Thing::Claim, verb, asked).await,
        ("", "persistentvolumes") => get(registry, node, Thing::Volume, verb, asked).await,
        ("resource.k8s.io", "resourceclaims") => get(registry, node, Thing::ResourceClaim, verb, asked).await,
        ("storage.k8s.io", "volumeattachments") => get(registry, node, Thing::Attachment, verb, asked).await,
        ("", "serviceaccounts") => service_account(registry, node, verb, asked).await,
        ("coordination.k8s.io", "leases") => lease(node, verb, asked),
        ("storage.k8s.io", "csinodes") => csi_node(node, verb, asked),
        ("resource.k8s.io", "resourceslices") => slice(registry, node, verb, asked).await,
        ("", "nodes") => node_object(node, verb, asked),
        ("", "pods") => pod(registry, node, verb, asked).await,
        ("certificates.k8s.io", "podcertificaterequests") => no(""),
        _ => return None,
    })
}

async fn belongs(registry: &Registry, node: &str, thing: Thing, asked: &ResourceAttributes) -> Decision {
    if asked.name.is_empty() {
        return no("No Object name found");
    }
    match related::is_related(registry, node, thing, &asked.namespace, &asked.name).await {
        Ok(true) => yes(),
        Ok(false) | Err(_) => no(format!("no relationship found between node '{node}' and this object")),
    }
}

async fn get(registry: &Registry, node: &str, thing: Thing, verb: &str, asked: &ResourceAttributes) -> Decision {
    match (verb, asked.subresource.as_str()) {
        ("get", "") => belongs(registry, node, thing, asked).await,
        ("get", _) => no("cannot get subresource"),
        _ => no("can only get individual resources of this type"),
    }
}

async fn read(registry: &Registry, node: &str, thing: Thing, verb: &str, asked: &ResourceAttributes) -> Decision {
    match (verb, asked.subresource.as_str()) {
        ("get" | "list" | "watch", _) if asked.namespace.is_empty() => {
            no("can only read namespaced object of this type")
        }
        ("get" | "list" | "watch", "") => belongs(registry, node, thing, asked).await,
        ("get" | "list" | "watch", _) => no("cannot read subresource"),
        _ => no("can only read resources of this type"),
    }
}

async fn service_account(registry: &Registry, node: &str, verb: &str, asked: &ResourceAttributes) -> Decision {
    match (verb, asked.subresource.as_str()) {
        ("get", "") => read(registry, node, Thing::ServiceAccount, verb, asked).await,
        ("create", "token") if !asked.name.is_empty() => belongs(registry, node, Thing::ServiceAccount, asked).await,
        ("create", _) if !asked.name.is_empty() => no("can only create token subresource of serviceaccount"),
        _ => no("can only create tokens for individual service accounts"),
    }
}

fn lease(node: &str, verb: &str, asked: &ResourceAttributes) -> Decision {
    match verb {
        "get" | "create" | "update" | "patch" | "delete" => {}
        _ => return no("can only get, create, update, patch, or delete a node lease"),
    }
    if asked.namespace != NODE_LEASES {
        return no(format!("can only access leases in the {} system namespace", quote(&NODE_LEASES)));
    }
    // Who creates is judged by what is created: the name is not in the request.
    if verb != "create" && asked.name != node {
        return no("can only access node lease with the same name as the requesting node");
    }
    yes()
}

fn csi_node(node: &str, verb: &str, asked: &ResourceAttributes) -> Decision {
    match verb {
        "get" | "create" | "update" | "patch" | "delete" => {}
        _ => return no("can only get, create, update, patch, or delete a CSINode"),
    }
    if !asked.subresource.is_empty() {
        return no("cannot authorize CSINode subresources");
    }
    if verb != "create" && asked.name != node {
        return no("can only access CSINode with the same name as the requesting node");
    }
    yes()
}

async fn slice(registry: &Registry, node: &str, verb: &str, asked: &ResourceAttributes) -> Decision {
    if !asked.subresource.is_empty() {
        return no("cannot authorize ResourceSlice subresources");
    }
    match verb {
        "create" => yes(),
        "get" | "update" | "patch" | "delete" => belongs(registry, node, Thing::Slice, asked).await,
        "watch" | "list" | "deletecollection" => match exact(&asked.field_selector, "spec.nodeName") {
            Some(name) if name == node => yes(),
            _ => no("can only list/watch/deletecollection resourceslices with nodeName field selector"),
        },
        _ => no("only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection"),
    }
}

fn node_object(node: &str, verb: &str, asked: &ResourceAttributes) -> Decision {
    match (asked.subresource.as_str(), verb) {
        // Which node is written is judged by what is written.
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => yes(),
        ("", "get" | "list" | "watch") => match asked.name.as_str() {
            name if name == node => yes(),
            "" => no(format!("node '{node}' cannot read all nodes, only its own Node object")),
            other => no(format!("node '{node}' cannot read '{other}', only its own Node object")),
        },
        _ => no(""),
    }
}

async fn pod(registry: &Registry, node: &str, verb: &str, asked: &ResourceAttributes) -> Decision {
    match (asked.subresource.as_str(), verb) {
        ("", "get") => get(registry, node, Thing::Pod, verb, asked).await,
        ("", "list" | "watch") => match exact(&asked.field_selector, "spec.nodeName") {
            Some(name) if name == node => yes(),
            _ if !asked.name.is_empty() => belongs(registry, node, Thing::Pod, asked).await,
            _ => no("can only list/watch pods with spec.nodeName field selector"),
        },
        // Which pod is judged by what is written.
        ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => yes(),
        _ => no(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(namespace: &str, name: &str, subresource: &str) -> ResourceAttributes {
        ResourceAttributes {
            namespace: namespace.into(),
            name: name.into(),
            subresource: subresource.into(),
            ..ResourceAttributes::default()
        }
    }

    #[test]
    fn a_node_has_its_own_node_and_lease_alone() {
        for (verb, name, subresource, allowed) in [
            ("get", "n1", "", true),
            ("get", "n2", "", false),
            ("list", "", "", false),
            ("watch", "n1", "", true),
            ("patch", "n2", "status", true),
            ("delete", "n1", "", false),
        ] {
            let decision = node_object("n1", verb, &asked("", name, subresource));
            assert_eq!(decision.allowed, allowed, "{verb} {name}/{subresource}");
        }
        for (verb, namespace, name, allowed) in [
            ("update", NODE_LEASES, "n1", true),
            ("update", NODE_LEASES, "n2", false),
            ("create", NODE_LEASES, "", true),
            ("get", "kube-system", "n1", false),
            ("list", NODE_LEASES, "", false),
        ] {
            assert_eq!(lease("n1", verb, &asked(namespace, name, "")).allowed, allowed, "{verb} {namespace}/{name}");
        }
    }
}
