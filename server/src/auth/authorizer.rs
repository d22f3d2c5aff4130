//! Who may do what: the modes in their order, the first that allows decides (kube-apiserver's `--authorization-mode`).

use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Object, Reason, Status};

use super::node::{self, NodeAuthorizer};
use super::rbac::{self, PolicyCache, Rule};
use super::{Authenticator, certificates, review, service_account};
use crate::registry::{
    AdmissionPlugin, Attributes, Change, Decision, Registry, RequestContext, Security, Store, Target, User,
};

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
            other => Err(format!("{} is not served (Node, RBAC, AlwaysAllow, AlwaysDeny)", quote(&other))),
        }
    }
}

/// The judge of a server.
#[derive(Debug)]
pub struct Authorizer {
    authenticator: Arc<Authenticator>,
    modes: Vec<AuthorizationMode>,
    node: NodeAuthorizer,
    policy: PolicyCache,
}

impl Authorizer {
    /// A judge over the roles and bindings of a store.
    pub fn new(modes: Vec<AuthorizationMode>, store: Arc<dyn Store>, authenticator: Arc<Authenticator>) -> Self {
        Authorizer { authenticator, modes, node: NodeAuthorizer::new(), policy: PolicyCache::new(store) }
    }
}

impl Authorizer {
    async fn rules(&self, context: &RequestContext, object: Object) -> Result<Object, Status> {
        let namespace = object.text(&["spec", "namespace"]).to_owned();
        let (mut rules, mut errors, mut incomplete) = (Vec::new(), Vec::new(), false);
        for mode in &self.modes {
            match mode {
                AuthorizationMode::Rbac => {
                    let (own, missing) = self.policy.rules_of(&context.user, &namespace).await?;
                    rules.extend(own);
                    errors.extend(missing);
                }
                AuthorizationMode::Node if node::node_of(&context.user).is_some() => {
                    incomplete = true;
                    errors.push("node authorizer does not support user rule resolution".to_owned());
                }
                AuthorizationMode::AlwaysAllow => rules.extend(Rule::everything()),
                AuthorizationMode::Node | AuthorizationMode::AlwaysDeny => {}
            }
        }
        review::self_rules(object, &rules, &errors, incomplete)
    }
}

fn no_tokens() -> Status {
    Status::new(Reason::NotFound, "the server could not find the requested resource")
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

    async fn answer(
        &self,
        registry: &Registry,
        context: &RequestContext,
        target: &Target,
        object: Object,
    ) -> Result<(Object, Vec<String>), Status> {
        if target.subresource == "token" {
            let Some(accounts) = self.authenticator.accounts() else { return Err(no_tokens()) };
            return service_account::issue(accounts, registry, context, target, object).await;
        }
        let answer = match target.kind.kind {
            "SelfSubjectReview" => review::self_subject(registry, context, object),
            "TokenReview" => review::token(&self.authenticator, registry, object).await?,
            "LocalSubjectAccessReview" => review::local(registry, object).await?,
            "SelfSubjectAccessReview" => review::own(registry, context, object).await?,
            "SelfSubjectRulesReview" => self.rules(context, object).await?,
            "SubjectAccessReview" => review::subject(registry, object).await?,
            other => return Err(Status::internal(format!("{other} has no answer"))),
        };
        Ok((answer, Vec::new()))
    }

    async fn admit(&self, registry: &Registry, user: &User, change: &Change<'_>) -> Result<(), Status> {
        if registry.runs(AdmissionPlugin::NodeRestriction) {
            node::admit(registry, user, change).await?;
        }
        certificates::admit(self, registry, user, change).await?;
        if self.modes.contains(&AuthorizationMode::Rbac) {
            rbac::admit(&self.policy, registry, user, change).await?;
        }
        Ok(())
    }
}
