//! Definitions are settled: their names are accepted, their kinds served, and what is being deleted is emptied.
//!
//! Settling follows each write of a definition within the request, so that a client finds the kind served when it has its
//! answer. Emptying takes as long as it takes: a task does it, woken by the writes that may bring it on, and found again
//! from the store after a restart.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use listwatch_proto::resource::{Kind, Object, Status, time};
use serde_json::Value;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::task::AbortHandle;
use tracing::{debug, warn};

use super::super::current::{Current, ROUNDS_MAX};
use super::super::generic::Shared;
use super::super::{Commit, DeleteOptions, Guard, Registry, RequestContext, Target, Write};
use super::definition::{Definition, row_for_cleanup};
use super::kinds::Kinds;
use super::naming;
use crate::storage::KeyRange;

/// Who writes what is settled.
const AUTHOR: &str = "system:apiserver";
/// What holds a definition until its objects are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// How long the task waits after the store failed.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Objects that are deleted before the next ones are read.
const CHUNK: usize = 500;

/// What a registry knows of definitions, and the task that empties.
#[derive(Debug)]
pub(in super::super) struct Definitions {
    current: watch::Sender<Arc<Kinds>>,
    /// Set once the stored definitions have been read.
    loaded: OnceCell<()>,
    bell: Arc<Notify>,
    task: std::sync::OnceLock<AbortHandle>,
}

impl Default for Definitions {
    fn default() -> Self {
        let (current, _) = watch::channel(Arc::default());
        Self { current, loaded: OnceCell::new(), bell: Arc::default(), task: std::sync::OnceLock::new() }
    }
}

impl Drop for Definitions {
    fn drop(&mut self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl Definitions {
    /// The kinds of this moment.
    pub(in super::super) fn now(&self) -> Arc<Kinds> {
        self.current.borrow().clone()
    }

    /// Hears of each change of the kinds.
    pub(in super::super) fn follow(&self) -> watch::Receiver<Arc<Kinds>> {
        self.current.subscribe()
    }
}

/// The kind of definitions.
pub(in super::super) fn definitions_kind() -> &'static Kind {
    Kind::by_api_version("apiextensions.k8s.io/v1", "CustomResourceDefinition").expect("a kind of the table")
}

fn is_definition(kind: &'static Kind) -> bool {
    std::ptr::eq(kind, definitions_kind())
}

impl Registry {
    /// The kinds that are served now.
    ///
    /// # Errors
    /// Those of the store, when it is asked for the definitions for the first time.
    pub(crate) async fn kinds(&self) -> Result<Arc<Kinds>, Status> {
        let definitions = &self.shared.definitions;
        if !definitions.loaded.initialized() {
            // Apart, so that every later request does not carry the state of this work around with it.
            Box::pin(self.load_definitions()).await?;
        }
        Ok(definitions.now())
    }

    async fn load_definitions(&self) -> Result<(), Status> {
        let definitions = &self.shared.definitions;
        let load = || async {
            self.settle().await?;
            let task = tokio::spawn(empty_for_ever(Arc::downgrade(&self.shared), definitions.bell.clone()));
            let _ = definitions.task.set(task.abort_handle());
            definitions.bell.notify_one();
            Ok::<_, Status>(())
        };
        definitions.loaded.get_or_try_init(load).await.map(|_| ())
    }

    /// Whether the definitions have been looked at, so that the kinds are at hand.
    pub(in super::super) fn knows_kinds(&self) -> bool {
        self.shared.definitions.loaded.initialized()
    }

    /// After a write: what it means for the kinds, if it means anything. A failure is told and made good by the task.
    pub(in super::super) async fn after_write(&self, kind: &'static Kind) {
        let definitions = &self.shared.definitions;
        if is_definition(kind) {
            if let Err(error) = Box::pin(self.settle()).await {
                warn!(%error, "definitions could not be settled; it is tried again");
            }
            definitions.bell.notify_one();
        } else if kind.extension.is_some() && definitions.now().is_ending(kind) {
            definitions.bell.notify_one();
        }
    }

    /// Refuses a new object of a kind that is going; the guard holds the answer until the object is written.
    pub(in super::super) async fn admit_into_definition(&self, kind: &'static Kind) -> Result<Option<Guard>, Status> {
        let Some(rules) = super::custom(kind) else { return Ok(None) };
        let definition = self.current(definitions_kind(), "", rules.definition).await?;
        let Some(definition) = definition.filter(|_| self.shared.definitions.now().serves(kind)) else {
            let message = "the server could not find the requested resource";
            return Err(Status::new(listwatch_proto::resource::Reason::NotFound, message));
        };
        if definition.object.is_terminating() {
            let message = "create not allowed while custom resource definition is terminating";
            return Err(Status::new(listwatch_proto::resource::Reason::MethodNotAllowed, message));
        }
        Ok(Some(definition.guard()))
    }

    /// Gives every definition the status it should have, and serves what they say.
    async fn settle(&self) -> Result<(), Status> {
        for _ in 0..ROUNDS_MAX {
            let before = self.shared.definitions.now();
            let known: HashMap<&str, &Definition> =
                before.definitions.iter().map(|definition| (definition.name.as_str(), definition)).collect();
            let range = KeyRange::prefix(definitions_kind().collection_key(""));
            let page = self.shared.store.range(&range, 0, 0).await?;
            let revision = page.revision;
            let mut definitions = Vec::with_capacity(page.kvs.len());
            let mut settled = true;
            for kv in page.kvs {
                let (at, created) = (kv.mod_revision, kv.create_revision);
                let name = String::from_utf8_lossy(&kv.key).rsplit('/').next().unwrap_or_default().to_owned();
                match known.get(name.as_str()).filter(|known| known.revision == at) {
                    Some(known) => definitions.push((*known).clone()),
                    None => match Current::of(kv) {
                        Ok(current) => definitions.push(Definition::read(&current.object, at, created)),
                        // It is told where it is read; other definitions are served all the same.
                        Err(_) => debug!(name, "a stored definition is no object"),
                    },
                }
            }
            for at in 0..definitions.len() {
                settled &= self.settle_one(&definitions, at).await?;
            }
            if settled {
                self.serve(Kinds::of(revision, definitions));
                return Ok(());
            }
        }
        Err(super::super::update::too_busy(definitions_kind(), ""))
    }

    /// Writes the status of a definition, if it should have another one. True = it has the right one.
    async fn settle_one(&self, all: &[Definition], at: usize) -> Result<bool, Status> {
        let own = &all[at];
        let others = || all.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, other)| other.head.as_ref());
        let same_group = |other: &&Object| other.text(&["spec", "group"]) == own.head.text(&["spec", "group"]);
        let now = time(self.now());
        if naming::settled(&own.head, others().filter(same_group), &now).is_none() {
            return Ok(true);
        }
        // What is known of it is only its head: the status goes into the whole of it.
        let Some(current) = self.current(definitions_kind(), "", &own.name).await? else { return Ok(false) };
        if let Some(new) = naming::settled(&current.object, others().filter(same_group), &now) {
            self.write_back(&RequestContext::user(AUTHOR), definitions_kind(), &current, new).await?;
        }
        Ok(false)
    }

    fn serve(&self, kinds: Kinds) {
        let kinds = Arc::new(kinds);
        let newer = self.shared.definitions.current.send_if_modified(|current| {
            let newer = kinds.revision > current.revision || !kinds.same_as(current);
            if newer && kinds.revision >= current.revision {
                *current = kinds.clone();
                return true;
            }
            false
        });
        if newer {
            self.shared.caches.keep(|kind| kinds.serves(kind));
        }
    }

    /// Deletes the objects of definitions that are being deleted, and lets those go that have none left.
    async fn empty_definitions(&self) -> Result<(), Status> {
        let context = RequestContext::user(AUTHOR);
        for definition in
            self.shared.definitions.now().definitions.iter().filter(|definition| definition.is_terminating)
        {
            let Some(current) = self.current(definitions_kind(), "", &definition.name).await? else { continue };
            if !current.object.is_terminating() || !current.object.finalizers().any(|finalizer| finalizer == CLEANUP) {
                continue;
            }
            let in_progress = naming::condition(
                "Terminating",
                "True",
                "InstanceDeletionInProgress",
                "CustomResource deletion is in progress",
            );
            self.tell(&context, current, in_progress, false).await?;
            let Some(current) = self.current(definitions_kind(), "", &definition.name).await? else { continue };
            if self.delete_objects(&context, &current.object).await? {
                let done =
                    naming::condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances");
                if !self.tell(&context, current, done, true).await? {
                    // Somebody has changed it in between: it is looked at again.
                    self.shared.definitions.bell.notify_one();
                }
            }
        }
        self.settle().await
    }

    /// Tells a condition; with `lets_go` the definition is no longer held, and goes if nothing else holds it. False =
    /// somebody else was faster.
    async fn tell(
        &self,
        context: &RequestContext,
        current: Current,
        condition: Value,
        lets_go: bool,
    ) -> Result<bool, Status> {
        let mut new = current.object.clone();
        naming::set_condition(&mut new, condition, &time(self.now()));
        if lets_go {
            let rest: Vec<Value> = new.finalizers().filter(|f| *f != CLEANUP).map(Value::from).collect();
            if rest.is_empty() {
                return Ok(self.remove(context, definitions_kind(), &current).await?.is_some());
            }
            new.set(&["metadata", "finalizers"], rest);
        }
        if new == current.object {
            return Ok(true);
        }
        Ok(self.write_back(context, definitions_kind(), &current, new).await?.is_some())
    }

    /// Deletes the objects of a definition. True = there are none left.
    async fn delete_objects(&self, context: &RequestContext, definition: &Object) -> Result<bool, Status> {
        let Some(kind) = row_for_cleanup(definition) else { return Ok(true) };
        let mut range = KeyRange::prefix(kind.collection_key(""));
        loop {
            let page = self.shared.store.range(&range, 0, CHUNK).await?;
            let Some(last) = page.kvs.last().map(|kv| kv.key.clone()) else { break };
            for kv in &page.kvs {
                let key = String::from_utf8_lossy(&kv.key).into_owned();
                match kind.parse_key(&key) {
                    Some((namespace, name)) => {
                        let target = Target::object(kind, namespace, name);
                        match self.delete_object(context, &target, &DeleteOptions::default()).await {
                            Ok(_) => {}
                            Err(status) if status.code == 404 => {}
                            Err(status) => return Err(status),
                        }
                    }
                    // Under the prefix, but no object: nothing would ever find it again.
                    None => {
                        let guard = Guard { key: kv.key.clone(), mod_revision: kv.mod_revision };
                        let write = Write::Delete { key: kv.key.clone() };
                        let commit = self.shared.store.commit(vec![guard], vec![write], &context.origin()).await?;
                        debug!(key, done = matches!(commit, Commit::Done(_)), "a value that is no object was removed");
                    }
                }
            }
            if !page.more {
                break;
            }
            let mut next = last.to_vec();
            next.push(0);
            range.key = next.into();
        }
        let left = self.shared.store.range(&KeyRange::prefix(kind.collection_key("")), 0, 1).await?;
        Ok(left.kvs.is_empty())
    }
}

/// Empties whenever the bell rings, for as long as the registry lives.
async fn empty_for_ever(shared: Weak<Shared>, bell: Arc<Notify>) {
    loop {
        bell.notified().await;
        let Some(shared) = shared.upgrade() else { return };
        let registry = Registry { shared };
        if let Err(error) = registry.empty_definitions().await {
            if error.code == 503 {
                debug!(%error, "definitions cannot be emptied while the store is closed");
            } else {
                warn!(%error, "definitions could not be emptied; it is tried again");
            }
            drop(registry);
            tokio::time::sleep(RETRY_AFTER).await;
            bell.notify_one();
        }
    }
}

/// A definition as it is after the first word of its deletion: marked, and held until its objects are gone.
pub(in super::super) fn marked(old: &Object, now: &str) -> Object {
    let mut new = old.clone();
    new.set(&["metadata", "deletionTimestamp"], now);
    let mut finalizers: Vec<Value> = old.finalizers().map(Value::from).collect();
    if !old.finalizers().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.into());
    }
    new.set(&["metadata", "finalizers"], finalizers);
    let pending = naming::condition(
        "Terminating",
        "True",
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    naming::set_condition(&mut new, pending, now);
    new
}
