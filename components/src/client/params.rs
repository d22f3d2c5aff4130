//! What a call may be told.

use std::time::Duration;

use listwatch_proto::v1::{self, FieldValidation, PatchType};
use serde_json::Value;

/// Which objects, and from when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListParams {
    /// Empty: all namespaces.
    pub namespace: String,
    /// Kubernetes' text form; empty: all.
    pub label_selector: String,
    /// Kubernetes' text form; empty: all.
    pub field_selector: String,
    /// Not older than this revision; 0: as the server now is.
    pub min_revision: i64,
}

impl ListParams {
    /// All objects of the kind.
    pub fn all() -> Self {
        Self::default()
    }

    /// The objects of one namespace.
    pub fn in_namespace(namespace: impl Into<String>) -> Self {
        ListParams { namespace: namespace.into(), ..Self::default() }
    }

    /// Only those with these labels.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.label_selector = selector.into();
        self
    }

    /// Only those with these fields.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.field_selector = selector.into();
        self
    }
}

/// Which events, and from where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchParams {
    /// Empty: all namespaces.
    pub namespace: String,
    /// That object alone; empty: the collection.
    pub name: String,
    /// Kubernetes' text form; empty: all.
    pub label_selector: String,
    /// Kubernetes' text form; empty: all.
    pub field_selector: String,
    /// Events above it; 0: from now, or after the initial events.
    pub start_revision: i64,
    /// The history that `start_revision` belongs to; empty: any.
    pub incarnation: String,
    /// State first, as Added events and a bookmark that ends them.
    pub send_initial_events: bool,
    /// The stream ends when this revision has been sent; 0: live.
    pub until_revision: i64,
    /// The longest silence before a bookmark; zero: the server's own.
    pub progress_interval: Duration,
}

/// How a write is done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteParams {
    /// Everything but storing it.
    pub dry_run: bool,
    /// Who manages the fields; empty: unnamed.
    pub field_manager: String,
    /// What becomes of unknown fields; strict unless said otherwise.
    pub field_validation: FieldValidation,
}

/// A change to an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// RFC 6902.
    Json(Value),
    /// RFC 7386.
    Merge(Value),
    /// Kubernetes' strategic merge.
    Strategic(Value),
    /// Server-side apply: all that the field manager wants of the object.
    Apply {
        /// What is wanted.
        wanted: Value,
        /// Takes fields over that others own.
        force: bool,
    },
}

impl Patch {
    pub(super) fn wire(&self) -> (PatchType, &Value) {
        match self {
            Patch::Json(patch) => (PatchType::Json, patch),
            Patch::Merge(patch) => (PatchType::Merge, patch),
            Patch::Strategic(patch) => (PatchType::Strategic, patch),
            Patch::Apply { wanted, .. } => (PatchType::Apply, wanted),
        }
    }

    pub(super) fn is_forced(&self) -> bool {
        matches!(self, Patch::Apply { force: true, .. })
    }
}

/// What becomes of the objects that a deleted one owns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The kind's own rule.
    #[default]
    Default,
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay, ownerless.
    Orphan,
}

impl Propagation {
    /// The word of the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Propagation::Default => "",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// How an object is deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// Only the object with this uid; empty: any.
    pub uid: String,
    /// Only at this revision; 0: any.
    pub revision: i64,
    /// Seconds given to end; `None`: the object's own. 0 removes at once.
    pub grace_period_seconds: Option<i64>,
    /// What becomes of what it owns.
    pub propagation: Propagation,
    /// Everything but doing it.
    pub dry_run: bool,
}

impl DeleteParams {
    /// Whatever is there under the name.
    pub fn any() -> Self {
        Self::default()
    }

    /// Only the object with this uid.
    pub fn uid(uid: impl Into<String>) -> Self {
        DeleteParams { uid: uid.into(), ..Self::default() }
    }

    /// With this grace.
    #[must_use]
    pub fn grace(mut self, seconds: i64) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }

    /// Only at this revision.
    #[must_use]
    pub fn at_revision(mut self, revision: i64) -> Self {
        self.revision = revision;
        self
    }

    pub(super) fn wire(&self, resource: v1::ResourceRef) -> v1::DeleteRequest {
        let resource_version = if self.revision == 0 { String::new() } else { self.revision.to_string() };
        v1::DeleteRequest {
            resource: Some(resource),
            preconditions: Some(v1::Preconditions { uid: self.uid.clone(), resource_version }),
            grace_period_seconds: self.grace_period_seconds,
            propagation_policy: self.propagation.as_str().to_owned(),
            dry_run: self.dry_run,
        }
    }
}

/// Which part of a container's log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogParams {
    /// Empty: the only container.
    pub container: String,
    /// Go on as it grows.
    pub follow: bool,
    /// Of the container's run before this one.
    pub previous: bool,
    /// Only so many lines from the end.
    pub tail_lines: Option<i64>,
    /// Only what was written in the last seconds.
    pub since_seconds: Option<i64>,
    /// Each line with its time in front.
    pub timestamps: bool,
    /// At most so many bytes; 0: all.
    pub limit_bytes: i64,
}
