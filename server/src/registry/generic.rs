//! The registry itself: what all verbs share, and the verbs by name.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use listwatch_proto::go_quote::{is_printable, quote};
use listwatch_proto::resource::{Cause, Kind, Object, Status, Storage};
use tokio::sync::OnceCell;

use super::admission::{AdmissionPlugins, Living};
use super::answered::is_kept;
use super::cache::Caches;
use super::custom::{Definitions, custom};
use super::error::not_served;
use super::kinds::{Part, SCALE_COLUMNS, scale_cells, strategy};
use super::proven::Proven;
use super::store::event_leases::EventLeases;
use super::{
    ApiService, Cell, Column, DeleteOptions, ListOptions, Patch, PatchKind, Pools, RegistryWatch, RegistryWatcher,
    RequestContext, Security, Store, StoredObject, Target, WatchOptions, WriteOptions,
};
use crate::clock::Clock;

/// What can be set about a registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryOptions {
    /// How long an Event is kept; zero = for ever.
    pub event_ttl: Duration,
    /// The longest silence of a watch that asked for bookmarks.
    pub progress_interval: Duration,
    /// The admission plugins that are on.
    pub plugins: AdmissionPlugins,
    /// How long a read waits for a revision that the store has not reached (Kubernetes: 3 s).
    pub revision_wait: Duration,
    /// What the server hands out to objects.
    pub pools: Pools,
    /// Where the API itself is reached; `None` = it has no service.
    pub api_service: Option<ApiService>,
    /// Who signs the certificates by which the API knows its clients, in PEM; `None` = it is not told.
    pub client_authority: Option<String>,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            event_ttl: Duration::from_secs(3600),
            progress_interval: Duration::from_secs(5),
            plugins: AdmissionPlugins::default(),
            revision_wait: Duration::from_secs(3),
            pools: Pools::default(),
            api_service: None,
            client_authority: None,
        }
    }
}

/// All verbs for all kinds. Cheap to clone; all clones are the same registry. Verbs are cancel-safe: a write that was
/// begun is done or not, never half. They must be called within tokio's multi-thread runtime, since the engine may
/// commit on the calling thread.
#[derive(Clone, Debug)]
pub struct Registry {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: RegistryOptions,
    /// Set once the first objects are there.
    pub(super) ready: OnceCell<()>,
    pub(super) leases: EventLeases,
    pub(super) caches: Caches,
    pub(super) proven: Proven,
    pub(super) living: Living,
    /// Who may do what; unset = everybody everything.
    pub(super) security: OnceLock<Arc<dyn Security>>,
    pub(super) definitions: Definitions,
}

/// The longest name of a field manager (Kubernetes 1.36).
const FIELD_MANAGER_MAX: usize = 128;

/// The answer to a write.
#[derive(Clone, Debug)]
pub struct Written {
    /// The object (or Scale, or Status) after the write.
    pub object: StoredObject,
    /// The store's revision, at or above the write's.
    pub revision: i64,
    /// Whether an object was made.
    pub created: bool,
    /// What a client should be told.
    pub warnings: Vec<String>,
}

/// The answer to a delete.
#[derive(Clone, Debug)]
pub struct Deleted {
    /// The object as it was last stored; marked, if it was not removed.
    pub object: StoredObject,
    /// The revision of the removal; else the store's, at or above the write's.
    pub revision: i64,
    /// False: it carries a deletionTimestamp and goes later.
    pub removed: bool,
    /// What a client should be told.
    pub warnings: Vec<String>,
}

/// The answer to a list.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// By namespace and name.
    pub items: Vec<StoredObject>,
    /// The snapshot all pages of this list are cut from; a watch from here misses nothing.
    pub revision: i64,
    /// Empty at the end.
    pub continue_token: String,
    /// What is left behind this page; `None` at the end, and with a selector.
    pub remaining: Option<i64>,
}

impl Registry {
    /// A registry over a store.
    pub fn new(store: Arc<dyn Store>, clock: Arc<dyn Clock>, options: RegistryOptions) -> Self {
        let leases = EventLeases::new(options.event_ttl);
        Self {
            shared: Arc::new(Shared {
                store,
                clock,
                options,
                ready: OnceCell::new(),
                leases,
                caches: Caches::default(),
                proven: Proven::default(),
                living: Living::default(),
                security: OnceLock::new(),
                definitions: Definitions::default(),
            }),
        }
    }

    /// Where the store stands.
    pub fn revision(&self) -> i64 {
        self.shared.store.revision()
    }

    /// The id of the history.
    pub fn incarnation(&self) -> &str {
        self.shared.store.incarnation()
    }

    /// Makes an object; with the subresource `binding` binds a pod, with `eviction` evicts it, and
    /// answers a Status.
    ///
    /// # Errors
    /// `AlreadyExists`, `Invalid`, `BadRequest`, `NotFound` or `Forbidden` for the namespace; `TooManyRequests` where a
    /// disruption budget allows no eviction.
    pub async fn create(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.begin("CreateOptions", options).await?;
        let written = match target.subresource.as_str() {
            "" if target.kind.storage == Storage::Nothing => match strategy(target.kind).stands_for() {
                Some((kind, part)) => {
                    let part = Target::collection(kind, target.namespace.clone()).with_subresource(part);
                    self.create_part(context, &part, body, options).await
                }
                None => Box::pin(self.answer_object(context, target, body, options)).await,
            },
            "" => Box::pin(self.create_object(context, target, body, options)).await,
            _ => self.create_part(context, named(target)?, body, options).await,
        }?;
        self.after_write(target.kind).await;
        Ok(written)
    }

    /// Does what a subresource does that is created and not kept.
    async fn create_part(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        match target.subresource.as_str() {
            "token" => Box::pin(self.answer_object(context, target, body, options)).await,
            "binding" => Box::pin(self.bind(context, target, body, options)).await,
            "eviction" => Box::pin(self.evict(context, target, body, options)).await,
            _ => Err(not_served()),
        }
    }

    /// Reads an object (or its `scale`), not older than `min_revision` (0 = the latest).
    ///
    /// # Errors
    /// `NotFound`; `Timeout` when the store does not reach the revision in time.
    pub async fn get(
        &self,
        _context: &RequestContext,
        target: &Target,
        min_revision: i64,
    ) -> Result<StoredObject, Status> {
        self.ready().await?;
        if target.kind.storage == Storage::Computed && !target.name.is_empty() {
            return self.computed(target).await;
        }
        let target = named(target)?;
        match target.subresource.as_str() {
            "scale" => Box::pin(self.get_scale(target, min_revision)).await,
            "finalize" => Err(not_served()),
            part if Part::of(part).is_some() => self.get_object(target, min_revision).await,
            _ => Err(not_served()),
        }
    }

    /// Reads a collection or a page of it.
    ///
    /// # Errors
    /// `BadRequest` for selectors and tokens that do not parse, `Expired` for a snapshot that is gone, `Timeout` for one
    /// that is yet to come.
    pub async fn list(
        &self,
        _context: &RequestContext,
        target: &Target,
        options: &ListOptions,
    ) -> Result<ListPage, Status> {
        self.ready().await?;
        if target.kind.storage == Storage::Computed {
            return self.all_computed(target, options).await;
        }
        collection(target)?;
        self.list_objects(target, options).await
    }

    /// Replaces an object, or the part of it that the subresource owns.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` when the object's resourceVersion or uid is another, `Invalid`, `BadRequest`.
    pub async fn update(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        self.begin("UpdateOptions", options).await?;
        let target = named(target)?;
        let written = match target.subresource.as_str() {
            "scale" => Box::pin(self.update_scale(context, target, body, options)).await,
            _ => Box::pin(self.update_object(context, target, body, options)).await,
        }?;
        self.after_write(target.kind).await;
        Ok(written)
    }

    /// Changes an object, or the part of it that the subresource owns.
    ///
    /// # Errors
    /// As [`Registry::update`]; `UnsupportedMediaType` for a form of patch that is not served.
    pub async fn patch(
        &self,
        context: &RequestContext,
        target: &Target,
        patch: &Patch,
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let mut faults = manager_faults(&options.field_manager);
        match patch.kind {
            PatchKind::Apply if options.field_manager.is_empty() => {
                faults.insert(0, required("fieldManager", "is required for apply patch"));
            }
            PatchKind::Apply => {}
            _ if patch.force => faults.insert(0, forbidden("force", "may not be specified for non-apply patch")),
            _ => {}
        }
        if !faults.is_empty() {
            return Err(Status::invalid_options("PatchOptions", faults));
        }
        self.ready().await?;
        let target = named(target)?;
        if target.subresource == "finalize" {
            return Err(not_served());
        }
        let written = Box::pin(self.patch_object(context, target, patch, options)).await?;
        self.after_write(target.kind).await;
        Ok(written)
    }

    /// Deletes an object, or marks it to go.
    ///
    /// # Errors
    /// `NotFound`, `Conflict` when a precondition does not hold, `Forbidden` for the namespaces that must stay.
    pub async fn delete(
        &self,
        context: &RequestContext,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        self.ready().await?;
        let target = named(target)?;
        if !target.subresource.is_empty() {
            return Err(not_served());
        }
        let told = match options.propagation {
            None => strategy(target.kind).delete_warnings(),
            Some(_) => &[],
        };
        let told: Vec<String> = told.iter().map(|told| (*told).to_owned()).collect();
        let mut deleted = match Box::pin(self.delete_object(context, target, options)).await {
            Ok(deleted) => deleted,
            Err(status) => return Err(status.beside(told)),
        };
        deleted.warnings.extend(told);
        self.after_write(target.kind).await;
        Ok(deleted)
    }

    /// Deletes what a list of a collection finds, and answers the list: the objects as they were.
    ///
    /// # Errors
    /// As [`Registry::list`] and, for the first object that is not deleted, as [`Registry::delete`].
    pub async fn delete_collection(
        &self,
        context: &RequestContext,
        target: &Target,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<ListPage, Status> {
        self.ready().await?;
        collection(target)?;
        let deleted = self.delete_listed(context, target, list, options).await;
        // Also a deletion that stopped half-way has deleted something.
        self.after_write(target.kind).await;
        deleted
    }

    /// Watches a collection, or one object of it.
    ///
    /// # Errors
    /// `BadRequest` for selectors that do not parse, `Expired` when history begins above the start or is another one.
    pub async fn watch(
        &self,
        context: &RequestContext,
        target: &Target,
        options: &WatchOptions,
    ) -> Result<RegistryWatch, Status> {
        self.ready().await?;
        collection(target)?;
        self.open_watch(context, target, options).await
    }

    /// All watches that a cache serves, in step with it or standing still; one that reads on from the store stands among
    /// the engine's own.
    pub fn watchers(&self) -> Vec<RegistryWatcher> {
        self.shared.caches.watchers()
    }

    /// An object of a kind with nothing in it but a revision and annotations, as Kubernetes writes one: what a bookmark
    /// carries.
    pub(crate) fn blank(&self, kind: &'static Kind, revision: i64, annotations: &[(&str, &str)]) -> StoredObject {
        let rules = strategy(kind);
        let mut blank = match custom(kind) {
            // Nothing is known of it but that it is an object.
            Some(_) => Object::default(),
            None => Object::from_value(super::schema::blank::of(rules.schema())).unwrap_or_default(),
        };
        blank.set(&["apiVersion"], kind.api_version());
        blank.set(&["kind"], kind.kind);
        blank.set(&["metadata"], serde_json::json!({}));
        rules.blank(&mut blank);
        for (key, value) in annotations {
            blank.set(&["metadata", "annotations", key], *value);
        }
        StoredObject::of(kind, blank, revision)
    }

    /// The body of a delete as what it asks.
    ///
    /// # Errors
    /// `BadRequest` for a body that is no `DeleteOptions`, `Invalid` for one that asks what cannot be.
    pub(crate) fn read_delete_options(json: &[u8]) -> Result<DeleteOptions, Status> {
        DeleteOptions::judged(&super::body::read_delete_options(json)?)
    }

    /// An object in Kubernetes' protobuf form, as JSON.
    ///
    /// # Errors
    /// `BadRequest` for bytes that are none.
    pub(crate) fn from_protobuf(kind: &'static Kind, body: &[u8]) -> Result<serde_json::Value, Status> {
        super::schema::protobuf::read(body).map_err(|malformed| {
            let shown: String = if body.is_ascii() && !body.iter().any(u8::is_ascii_control) {
                String::from_utf8_lossy(body).into_owned()
            } else {
                body.iter().take(64).map(|byte| format!("{byte:02x}")).collect()
            };
            let (name, why) = (kind.kind, malformed.0);
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {name}): {why} ({shown})"
            ))
        })
    }

    /// The OpenAPI schemas of kinds and their lists, and of all that they hold.
    pub(crate) fn openapi_schemas(
        kinds: impl Iterator<Item = &'static Kind>,
        words: &super::Words,
    ) -> serde_json::Map<String, serde_json::Value> {
        let mut roots = Vec::new();
        let mut others = serde_json::Map::new();
        for kind in kinds {
            let name = Self::openapi_name(kind);
            let mut told = "";
            match custom(kind) {
                None => {
                    told = strategy(kind).schema();
                    roots.push(told);
                }
                Some(rules) => drop(others.insert(name.clone(), rules.openapi())),
            }
            if kind.storage != Storage::Nothing {
                others.insert(format!("{name}List"), super::schema::openapi::list(&name, told, words));
            }
            if kind.subresources.contains(&"scale") {
                roots.push("autoscaling/v1.Scale");
            }
        }
        let mut schemas = super::schema::openapi::schemas(&roots, words);
        schemas.extend(others);
        schemas
    }

    /// The name of a kind's OpenAPI schema.
    pub(crate) fn openapi_name(kind: &'static Kind) -> String {
        if kind.extension.is_none() {
            return super::schema::openapi::name_of(strategy(kind).schema());
        }
        let mut parts: Vec<&str> = kind.group.split('.').rev().collect();
        parts.extend([kind.version, kind.kind]);
        parts.join(".")
    }

    /// What is told on every request that names the kind, since it is on its way out.
    pub(crate) fn deprecation(kind: &'static Kind) -> Option<&'static str> {
        strategy(kind).deprecation()
    }

    /// Whether the answer to a delete is the object, also when it is gone; else it is a Status.
    pub(crate) fn tells_what_it_deleted(&self, kind: &'static Kind) -> bool {
        strategy(kind).habits().tells_what_it_deleted
    }

    /// The columns of a kind's table.
    pub fn columns(&self, kind: &'static Kind) -> &'static [Column] {
        strategy(kind).columns()
    }

    /// The columns of an object's table: a Scale has its own, whatever it scales.
    pub fn columns_of(&self, object: &StoredObject) -> &'static [Column] {
        if is_scale(object.object()) { SCALE_COLUMNS } else { self.columns(object.kind()) }
    }

    /// The cells of an object's row, one for each column; ages are as of now.
    pub fn row(&self, object: &StoredObject) -> Vec<Cell> {
        let (shown, now) = (object.object(), self.now().as_second());
        let rules = strategy(object.kind());
        match rules.view() {
            _ if is_scale(shown) => scale_cells(shown, now),
            Some(view) => rules.cells(&view.kept(shown.clone()), now),
            None => rules.cells(shown, now),
        }
    }

    /// The time, for a door that counts from it.
    pub(crate) fn time(&self) -> Timestamp {
        self.now()
    }

    /// Time that only goes on, to measure how long something takes.
    pub(crate) fn monotonic(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    /// The time, from the clock of the server.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.shared.clock.wall_ms()).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    /// The lease a new value of a kind hangs on; 0 = it stays.
    pub(super) async fn lease_for(&self, kind: &'static Kind) -> Result<i64, Status> {
        if !strategy(kind).habits().expires {
            return Ok(0);
        }
        Ok(self.shared.leases.current(&*self.shared.store, self.shared.clock.monotonic()).await?)
    }

    /// What every write begins with.
    async fn begin(&self, form: &str, options: &WriteOptions) -> Result<(), Status> {
        let faults = manager_faults(&options.field_manager);
        if !faults.is_empty() {
            return Err(Status::invalid_options(form, faults));
        }
        self.ready().await
    }
}

fn is_scale(object: &Object) -> bool {
    object.kind_name() == "Scale" && object.api_version() == "autoscaling/v1"
}

/// What is wrong with the name of a field manager.
pub(crate) fn manager_faults(manager: &str) -> Vec<Cause> {
    let mut faults = Vec::new();
    if manager.len() > FIELD_MANAGER_MAX {
        let message = format!("Too long: may not be more than {FIELD_MANAGER_MAX} bytes");
        faults.push(Cause { reason: "FieldValueTooLong".into(), message, field: "fieldManager".into() });
    }
    for (at, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let message =
            format!("Invalid value: {}: invalid character U+{:04X} (at position {at})", quote(manager), u32::from(c));
        faults.push(Cause { reason: "FieldValueInvalid".into(), message, field: "fieldManager".into() });
    }
    faults
}

fn required(field: &str, why: &str) -> Cause {
    Cause { reason: "FieldValueRequired".into(), message: format!("Required value: {why}"), field: field.into() }
}

fn forbidden(field: &str, why: &str) -> Cause {
    Cause { reason: "FieldValueForbidden".into(), message: format!("Forbidden: {why}"), field: field.into() }
}

/// A target that names one object.
fn named(target: &Target) -> Result<&Target, Status> {
    is_kept(target)?;
    if target.name.is_empty() {
        return Err(Status::bad_request(format!("the request names no object of {}", target.kind.name())));
    }
    if target.kind.namespaced && target.namespace.is_empty() {
        return Err(Status::bad_request("Namespace parameter required."));
    }
    Ok(target)
}

/// A target that names a collection.
fn collection(target: &Target) -> Result<(), Status> {
    is_kept(target)?;
    if target.subresource.is_empty() { Ok(()) } else { Err(not_served()) }
}
