//! What a verb is asked: who asks, of what, and how.
//!
//! Invariant: the doors translate into these and back; the registry knows no wire. Selectors and revisions come as the
//! client wrote them, so that each refusal is worded in one place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Status};

use super::custom::Kinds;
use crate::storage::Origin;

/// A collection, an object, or a part of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The kind.
    pub kind: &'static Kind,
    /// Empty for cluster-scoped kinds, and for all namespaces in list and watch.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// Empty, `status`, `scale`, `binding`, `finalize`.
    pub subresource: String,
}

impl Target {
    /// A collection; an empty namespace means all of them.
    pub fn collection(kind: &'static Kind, namespace: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: String::new(), subresource: String::new() }
    }

    /// An object.
    pub fn object(kind: &'static Kind, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.into(), name: name.into(), subresource: String::new() }
    }

    /// The same with a subresource.
    pub fn with_subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = subresource.into();
        self
    }

    /// Reads a reference from the wire.
    ///
    /// # Errors
    /// `NotFound` for a kind or subresource that is not served, `BadRequest` for a namespace where there can be none.
    pub(crate) fn from_reference(kinds: &Kinds, reference: &listwatch_proto::v1::ResourceRef) -> Result<Self, Status> {
        let kind = kinds
            .by_plural(&reference.group, &reference.version, &reference.resource)
            .ok_or_else(|| unknown_resource(&reference.group, &reference.version, &reference.resource))?;
        if !kind.namespaced && !reference.namespace.is_empty() {
            return Err(Status::bad_request(format!("{} have no namespace", kind.name())));
        }
        if !reference.subresource.is_empty() && !kind.has_subresource(&reference.subresource) {
            let path = format!("{}/{}", kind.plural, reference.subresource);
            return Err(unknown_resource(kind.group, kind.version, &path));
        }
        Ok(Self {
            kind,
            namespace: reference.namespace.clone(),
            name: reference.name.clone(),
            subresource: reference.subresource.clone(),
        })
    }
}

fn unknown_resource(group: &str, version: &str, resource: &str) -> Status {
    use listwatch_proto::resource::Reason;
    let api = [group, version].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/");
    let api = if api.is_empty() { "the core group".to_owned() } else { api };
    Status::new(Reason::NotFound, format!("the server could not find the requested resource: {resource} of {api}"))
}

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct User {
    /// `system:node:node01`.
    pub name: String,
    /// Empty where the proof names none.
    pub uid: String,
    /// `system:nodes`.
    pub groups: Vec<String>,
    /// What else the proof says of the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The group that may do everything, whatever roles say (Kubernetes 1.36).
pub const MASTERS: &str = "system:masters";

impl User {
    /// Whether it may do everything.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RequestContext {
    /// As authenticated by the door.
    pub user: Arc<User>,
    /// The name the client gave itself; claimed, not proven.
    pub client: Option<String>,
    /// The program the client says it is, as HTTP's `User-Agent`; empty if it does not say.
    pub user_agent: String,
    /// The highest revision the client had seen; 0 = unknown.
    pub cause: i64,
}

impl RequestContext {
    /// A user without claimed name and cause.
    pub fn user(name: impl Into<String>) -> Self {
        Self { user: Arc::new(User { name: name.into(), ..User::default() }), ..Self::default() }
    }

    /// As stored with each write.
    pub fn origin(&self) -> Origin {
        Origin {
            author: Arc::from(self.user.name.as_str()),
            client: self.client.as_deref().map(Arc::from),
            cause: self.cause,
        }
    }
}

/// How unknown and duplicate fields of a body are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FieldValidation {
    /// Refused, each by name.
    #[default]
    Strict,
    /// Dropped, with a warning each.
    Warn,
    /// Dropped.
    Ignore,
}

/// How create, update and patch are done.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Do everything but write.
    pub dry_run: bool,
    /// How unknown and duplicate fields are treated.
    pub field_validation: FieldValidation,
    /// Who comes to own the fields written; empty: the client, by the name it gives itself.
    pub field_manager: String,
}

/// The form of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' strategic merge.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// A patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its form.
    pub kind: PatchKind,
    /// JSON.
    pub body: Bytes,
    /// Whether an apply takes fields over that others own; refused for any other form.
    pub force: bool,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The object goes at once, its dependents later.
    Background,
    /// The dependents go first.
    Foreground,
    /// The dependents stay.
    Orphan,
}

impl Propagation {
    /// The policy of upstream's word; `None` = there is none of that name.
    pub fn named(word: &str) -> Option<Propagation> {
        match word {
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            _ => None,
        }
    }
}

/// How delete is done.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DeleteOptions {
    /// Only if the object has this uid.
    pub uid: Option<String>,
    /// Only if the object has this resourceVersion.
    pub resource_version: Option<String>,
    /// Seconds to wait; `None` = the kind's or the object's own.
    pub grace_period_seconds: Option<i64>,
    /// `None` = the kind's own.
    pub propagation: Option<Propagation>,
    /// Do everything but write.
    pub dry_run: bool,
}

/// How a collection is read.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// `app=web,tier!=db`.
    pub label_selector: String,
    /// `spec.nodeName=node01`.
    pub field_selector: String,
    /// Objects in a page at most; 0 or below = all.
    pub limit: i64,
    /// From the page before.
    pub continue_token: String,
    /// The snapshot is not older than this; 0 = the latest.
    pub min_revision: i64,
    /// The snapshot is exactly this one; 0 = not asked for.
    pub exact_revision: i64,
}

/// How a collection or an object is watched.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct WatchOptions {
    /// `app=web,tier!=db`.
    pub label_selector: String,
    /// `spec.nodeName=node01`.
    pub field_selector: String,
    /// Events above this revision; 0 = from now on, or after the initial events. With
    /// [`WatchOptions::send_initial_events`]: the state is not older than this.
    pub start_revision: i64,
    /// The history the start revision belongs to; empty = not checked.
    pub incarnation: String,
    /// First the state as `Added` events and a bookmark that says it is complete.
    pub send_initial_events: bool,
    /// Tell by bookmarks how far the stream has come.
    pub allow_bookmarks: bool,
    /// End when this revision has been sent; 0 = live.
    pub until_revision: i64,
    /// The longest silence before a bookmark; `None` = [`super::RegistryOptions::progress_interval`].
    pub progress_interval: Option<Duration>,
}
