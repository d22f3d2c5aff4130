//! The seam to who may do what: what a request wants to do, and who judges it.
//!
//! The registry asks where only it knows what is done (an update that creates, a role that grants); the doors ask for
//! everything else. Invariant: both ask the same [`Security`], and a refusal has the same words (Kubernetes 1.36).

use async_trait::async_trait;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, Reason, Status};

use super::kinds::strategy;
use super::{Registry, RequestContext, Target, User};

/// What somebody wants to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `create`, …; for a path the HTTP method in lower case.
    pub verb: String,
    /// To what.
    pub asked: Asked,
}

/// What a verb is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A resource, served or not.
    Resource(ResourceAttributes),
    /// A path that is no resource: `/healthz`.
    Path(String),
}

/// A resource that somebody wants something of. Every field may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAttributes {
    /// API group.
    pub group: String,
    /// Version.
    pub version: String,
    /// Plural.
    pub resource: String,
    /// `status`, `log`, …
    pub subresource: String,
    /// Empty = the cluster's scope, or all namespaces.
    pub namespace: String,
    /// Empty = a collection.
    pub name: String,
    /// Of list, watch and deletecollection.
    pub field_selector: String,
    /// Of list, watch and deletecollection.
    pub label_selector: String,
}

/// What was judged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may be done.
    pub allowed: bool,
    /// Why, if something is to be said.
    pub reason: String,
}

/// Judges, and answers the kinds that ask about judgement.
#[async_trait]
pub trait Security: Send + Sync + std::fmt::Debug {
    /// Whether a user may do something.
    async fn authorize(&self, registry: &Registry, user: &User, attributes: &Attributes) -> Decision;

    /// The objects that must be there for anybody to be allowed anything.
    fn first_objects(&self) -> Vec<Object>;

    /// A stored first object, with what it lacks of the one that should be there; `None` = it lacks nothing.
    fn completed(&self, stored: &Object, wanted: &Object) -> Option<Object>;

    /// Answers an object that is not kept: a review, a request for a token. Also what a client should be told.
    ///
    /// # Errors
    /// What is wrong with the question.
    async fn answer(
        &self,
        registry: &Registry,
        context: &RequestContext,
        target: &Target,
        object: Object,
    ) -> Result<(Object, Vec<String>), Status>;

    /// Judges a write by what it does to the object: a right to write may not reach every object or every content.
    ///
    /// # Errors
    /// `Forbidden`, with what would be beyond the right.
    async fn admit(&self, registry: &Registry, user: &User, change: &Change<'_>) -> Result<(), Status>;
}

/// A write that is about to be done.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// What kind of write.
    pub verb: ChangeVerb,
    /// Of what.
    pub kind: &'static Kind,
    /// Which part; empty = the object.
    pub subresource: &'a str,
    /// The name in the request itself; empty where the object is sent to its collection, as in a create.
    pub asked_name: &'a str,
    /// As it will be; `None` in a delete.
    pub new: Option<&'a Object>,
    /// As it is; `None` in a create.
    pub old: Option<&'a Object>,
}

/// The kinds of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeVerb {
    /// An object, or an object of a subresource, is made.
    Create,
    /// It is changed, by update or patch.
    Update,
    /// It is deleted or marked.
    Delete,
}

impl Change<'_> {
    /// The object: as it will be, or else as it is.
    pub fn object(&self) -> Option<&Object> {
        self.new.or(self.old)
    }
}

impl Attributes {
    /// A verb on a path.
    pub fn path(verb: impl Into<String>, path: impl Into<String>) -> Self {
        Attributes { verb: verb.into(), asked: Asked::Path(path.into()) }
    }

    /// A verb on what a target names.
    pub fn of(verb: impl Into<String>, target: &Target) -> Self {
        let kind = target.kind;
        let mut namespace = target.namespace.clone();
        if strategy(kind).habits().is_place {
            namespace.clone_from(&target.name);
        }
        Attributes {
            verb: verb.into(),
            asked: Asked::Resource(ResourceAttributes {
                group: kind.group.to_owned(),
                version: kind.version.to_owned(),
                resource: kind.plural.to_owned(),
                subresource: target.subresource.clone(),
                namespace,
                name: target.name.clone(),
                ..ResourceAttributes::default()
            }),
        }
    }

    /// The namespace that is asked in; empty = the cluster.
    pub fn namespace(&self) -> &str {
        match &self.asked {
            Asked::Resource(asked) => &asked.namespace,
            Asked::Path(_) => "",
        }
    }

    /// The same, of the objects that selectors choose. One that asks for a single name asks for that object.
    pub fn selecting(mut self, field_selector: &str, label_selector: &str) -> Self {
        if let Asked::Resource(resource) = &mut self.asked {
            field_selector.clone_into(&mut resource.field_selector);
            label_selector.clone_into(&mut resource.label_selector);
            if resource.name.is_empty()
                && let Some(name) = exact(field_selector, "metadata.name")
            {
                name.clone_into(&mut resource.name);
            }
        }
        self
    }

    /// 403 in upstream's words.
    pub fn forbidden(&self, user: &User, reason: &str) -> Status {
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let (name, verb) = (quote(&user.name), &self.verb);
        match &self.asked {
            Asked::Path(path) => {
                let why = tame(&format!("User {name} cannot {verb} path {}", quote(path)));
                Status::new(Reason::Forbidden, format!("forbidden: {why}{reason}"))
            }
            Asked::Resource(asked) => {
                let full = asked.full_resource();
                let scope = match asked.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {}", quote(namespace)),
                };
                let why = tame(&format!(
                    "User {name} cannot {verb} resource {} in API group {} {scope}",
                    quote(&full),
                    quote(&asked.group)
                ));
                let qualified = match asked.group.as_str() {
                    "" => asked.resource.clone(),
                    group => format!("{}.{group}", asked.resource),
                };
                let object = if asked.name.is_empty() { String::new() } else { format!(" \"{}\"", asked.name) };
                let mut status =
                    Status::new(Reason::Forbidden, format!("{qualified}{object} is forbidden: {why}{reason}"));
                status.name.clone_from(&asked.name);
                status.group.clone_from(&asked.group);
                status.kind.clone_from(&asked.resource);
                status
            }
        }
    }
}

impl ResourceAttributes {
    /// `pods/log`.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// The value that a selector demands of a field, if it demands one.
pub fn exact<'a>(selector: &'a str, field: &str) -> Option<&'a str> {
    selector.split(',').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let value = value.strip_prefix('=').unwrap_or(value).trim();
        (key.trim() == field && !key.ends_with('!') && !value.is_empty() && !value.contains('/')).then_some(value)
    })
}

/// Nothing that a browser could take for HTML.
fn tame(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

impl Registry {
    /// The same registry, judged by `security`. Called once, before anything is asked of it.
    #[must_use]
    pub fn secured(self, security: std::sync::Arc<dyn Security>) -> Self {
        let fresh = self.shared.security.set(security).is_ok();
        debug_assert!(fresh, "a registry is secured once");
        self
    }

    /// Whether a user may do something. Without [`Security`] everybody may do everything.
    ///
    /// # Errors
    /// `Forbidden` in upstream's words; a store that does not answer.
    pub async fn authorize(&self, user: &User, attributes: &Attributes) -> Result<(), Status> {
        let decision = self.decide(user, attributes).await?;
        if decision.allowed { Ok(()) } else { Err(attributes.forbidden(user, &decision.reason)) }
    }

    /// As [`Registry::authorize`], with the reason either way.
    ///
    /// # Errors
    /// A store that does not answer.
    pub async fn decide(&self, user: &User, attributes: &Attributes) -> Result<Decision, Status> {
        let Some(security) = self.shared.security.get() else {
            return Ok(Decision { allowed: true, reason: String::new() });
        };
        // Nothing stands between the owner of the cluster and a store that must be mended.
        if user.is_master() {
            return Ok(Decision { allowed: true, reason: String::new() });
        }
        self.ready().await?;
        Ok(security.authorize(self, user, attributes).await)
    }

    /// Has a write judged by what it does.
    ///
    /// # Errors
    /// `Forbidden`.
    pub(super) async fn admit_change(&self, context: &RequestContext, change: &Change<'_>) -> Result<(), Status> {
        match self.shared.security.get() {
            Some(security) => security.admit(self, &context.user, change).await,
            None => Ok(()),
        }
    }

    /// An update that finds nothing makes an object: that is another right (Kubernetes 1.36).
    pub(super) async fn may_create(&self, context: &RequestContext, target: &Target) -> Result<(), Status> {
        self.authorize(&context.user, &Attributes::of("create", target)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User { name: "x".into(), ..User::default() }
    }

    #[test]
    fn a_refusal_has_upstreams_words() {
        let pods = Kind::by_name("pods").expect("known");
        let said = |attributes: Attributes| attributes.forbidden(&user(), "").message;
        assert_eq!(
            said(Attributes::of("list", &Target::collection(pods, "y"))),
            r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "y""#
        );
        assert_eq!(
            said(Attributes::of("get", &Target::object(pods, "y", "a").with_subresource("log"))),
            r#"pods "a" is forbidden: User "x" cannot get resource "pods/log" in API group "" in the namespace "y""#
        );
        let deployments = Kind::by_name("deploy").expect("known");
        assert_eq!(
            said(Attributes::of("list", &Target::collection(deployments, ""))),
            r#"deployments.apps is forbidden: User "x" cannot list resource "deployments" in API group "apps" at the cluster scope"#
        );
        assert_eq!(said(Attributes::path("get", "/a<b")), r#"forbidden: User "x" cannot get path "/a&lt;b""#);
        let status = Attributes::path("get", "/x").forbidden(&user(), "because");
        assert_eq!((status.code, status.message.ends_with(": because")), (403, true));
    }

    #[test]
    fn a_selector_of_one_name_asks_for_that_object() {
        let pods = Kind::by_name("pods").expect("known");
        let name =
            |selector: &str| match Attributes::of("list", &Target::collection(pods, "y")).selecting(selector, "").asked
            {
                Asked::Resource(asked) => asked.name,
                Asked::Path(_) => unreachable!(),
            };
        assert_eq!(name("metadata.name=a"), "a");
        assert_eq!(name("spec.nodeName=n,metadata.name==a"), "a");
        assert_eq!(name("metadata.name!=a"), "");
        assert_eq!(name("metadata.name=a/b"), "");
    }
}
