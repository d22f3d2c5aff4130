//! Who may do what: the modes in their order, the first that allows decides (kube-apiserver's `--authorization-mode`).

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use listwatch_proto::resource::{Object, Status};

use super::node::{self, NodeAuthorizer};
use super::rbac::{self, PolicyCache};
use crate::registry::{Attributes, Change, Decision, Registry, Security, Store, User};

/// One way of deciding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Kubelets, by what belongs to their node.
    Node,
    /// Roles and bindings.
    Rbac,
    /// Everybody may do everything.
    AlwaysAllow,
    /// Nobody may do anything, but the masters.
    AlwaysDeny,
}

impl FromStr for AuthorizationMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "Node" => Ok(AuthorizationMode::Node),
            "RBAC" => Ok(AuthorizationMode::Rbac),
            "AlwaysAllow" => Ok(AuthorizationMode::AlwaysAllow),
            "AlwaysDeny" => Ok(AuthorizationMode::AlwaysDeny),
            other => Err(format!("{other:?} is not served (Node, RBAC, AlwaysAllow, AlwaysDeny)")),
        }
    }
}

/// The judge of a server.
#[derive(Debug)]
pub struct Authorizer {
    modes: Vec<AuthorizationMode>,
    node: NodeAuthorizer,
    policy: PolicyCache,
}

impl Authorizer {
    /// A judge over the roles and bindings of a store.
    pub fn new(modes: Vec<AuthorizationMode>, store: Arc<dyn Store>) -> Self {
        Authorizer { modes, node: NodeAuthorizer::new(), policy: PolicyCache::new(store) }
    }
}

#[async_trait]
impl Security for Authorizer {
    async fn authorize(&self, registry: &Registry, user: &User, attributes: &Attributes) -> Decision {
        let mut reasons = Vec::new();
        for mode in &self.modes {
            let decision = match mode {
                AuthorizationMode::Node => match self.node.authorize(registry, user, attributes).await {
                    Some(decision) => decision,
                    None => continue,
                },
                AuthorizationMode::Rbac => self.policy.authorize(user, attributes).await,
                AuthorizationMode::AlwaysAllow => Decision { allowed: true, reason: String::new() },
                AuthorizationMode::AlwaysDeny => {
                    let reason = "Everything is forbidden.".to_owned();
                    Decision { allowed: false, reason }
                }
            };
            if decision.allowed {
                return decision;
            }
            if !decision.reason.is_empty() {
                reasons.push(decision.reason);
            }
        }
        Decision { allowed: false, reason: reasons.join("\n") }
    }

    fn first_objects(&self) -> Vec<Object> {
        rbac::first_objects()
    }

    fn completed(&self, stored: &Object, wanted: &Object) -> Option<Object> {
        rbac::completed(stored, wanted)
    }

    async fn admit(&self, registry: &Registry, user: &User, change: &Change<'_>) -> Result<(), Status> {
        if self.modes.contains(&AuthorizationMode::Node) {
            node::admit(registry, user, change).await?;
        }
        if self.modes.contains(&AuthorizationMode::Rbac) {
            rbac::admit(&self.policy, registry, user, change).await?;
        }
        Ok(())
    }
}
