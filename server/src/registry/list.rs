//! Get and list: reads of one object, a collection, or a page of one.
//!
//! Invariant: all pages of a list are cut from the snapshot of its first page, and say so.

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Status, Storage};

use super::continue_token;
use super::current::Current;
use super::custom::served;
use super::error::{continue_too_old, list_too_old, too_large_revision};
use super::kinds::strategy;
use super::selection::{Selection, facts_of, place_of};
use super::{ListOptions, ListPage, Registry, StoreError, StoreWatcher, StoredObject, Target};
use crate::storage::{KeyRange, KeyValue};

/// Keys read at a time while a page is being filled through selectors.
const CHUNK: usize = 500;

/// The revision of a token that goes on in what is there now.
const INCONSISTENT: i64 = -1;

/// What to read, once the options are understood.
struct Plan {
    selection: Selection,
    range: KeyRange,
    /// 0 = the latest.
    revision: i64,
    limit: usize,
    continued: bool,
    exact: bool,
}

impl Registry {
    /// Reads an object, not older than `min_revision`.
    pub(super) async fn get_object(&self, target: &Target, min_revision: i64) -> Result<StoredObject, Status> {
        self.reach(min_revision).await?;
        let key = target.kind.key(&target.namespace, &target.name);
        let Some(kv) = self.shared.store.get(key.as_bytes()).await?.0 else {
            return Err(Status::not_found(target.kind, &target.name));
        };
        match self.proven(target.kind, &kv) {
            Some(object) => Ok(object),
            None => Ok(Current::served(target.kind, kv)?.stored(target.kind)),
        }
    }

    /// The object in a stored value that can be handed on as it is; `None` = it must be decoded first.
    fn proven(&self, kind: &'static Kind, kv: &KeyValue) -> Option<StoredObject> {
        // Custom resources may be stored in another version, and views show what others keep.
        if kind.extension.is_some() || kind.storage != Storage::Own {
            return None;
        }
        let place = self.shared.proven.place(kv)?;
        Some(StoredObject::proven(kind, kv.value.clone(), kv.mod_revision, place))
    }

    /// Reads a collection or a page of it.
    pub(super) async fn list_objects(&self, target: &Target, options: &ListOptions) -> Result<ListPage, Status> {
        let plan = plan(target, options)?;
        self.reach(options.min_revision.max(plan.revision)).await?;
        let revision = if plan.revision > 0 { plan.revision } else { self.revision() };
        if let Some(page) = self.cached(&plan, revision) {
            return Ok(page);
        }
        self.page(&plan, revision).await.map_err(|error| match error {
            StoreError::Compacted { oldest, current, .. } if plan.continued => {
                let rest = continue_token::encode(&plan.selection, INCONSISTENT, &plan.range.key);
                continue_too_old(oldest, current, rest)
            }
            StoreError::Compacted { oldest, current, .. } if plan.exact => list_too_old(oldest, current),
            other => other.into(),
        })
    }

    /// Waits until the store has reached a revision.
    ///
    /// # Errors
    /// `Timeout` when it does not within [`super::RegistryOptions::revision_wait`].
    pub(super) async fn reach(&self, revision: i64) -> Result<(), Status> {
        if revision <= self.revision() {
            return Ok(());
        }
        let wait = self.shared.options.revision_wait;
        match Box::pin(tokio::time::timeout(wait, self.reached(revision))).await {
            Ok(reached) => Ok(reached?),
            Err(_) => Err(too_large_revision(revision, self.revision())),
        }
    }

    /// Waits for a revision without limit.
    pub(super) async fn reached(&self, revision: i64) -> Result<(), StoreError> {
        let watcher = StoreWatcher { target: format!("revision {revision}"), ..StoreWatcher::default() };
        let mut watch = self.shared.store.watch(&KeyRange::all(), revision, &watcher).await?;
        while self.revision() < revision {
            if watch.next().await?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// The list out of the watch cache, where that is less work: a page without selectors is cut faster from the store,
    /// and an old snapshot is only there.
    fn cached(&self, plan: &Plan, least: i64) -> Option<ListPage> {
        let selection = &plan.selection;
        if plan.revision > 0 || plan.continued || (plan.limit > 0 && !selection.has_selectors()) {
            return None;
        }
        let caches = &self.shared.caches;
        // What goes by itself is much and seldom listed: its cache is there only if somebody watches it.
        let cache = if strategy(selection.kind).habits().expires {
            caches.existing(selection.kind)?
        } else {
            caches.of(selection.kind, &self.shared.store)
        };
        let listed = cache.list(selection, plan.limit, least)?;
        let mut page =
            ListPage { items: listed.items, revision: listed.revision, continue_token: String::new(), remaining: None };
        if let Some(last) = page.items.last().filter(|_| listed.left > 0) {
            let key = selection.kind.key(last.namespace(), last.name());
            page.continue_token = continue_token::encode(selection, page.revision, &after(key.as_bytes()));
        }
        Some(page)
    }

    async fn page(&self, plan: &Plan, revision: i64) -> Result<ListPage, StoreError> {
        let selective = plan.selection.has_selectors();
        let chunk = match (plan.limit, selective) {
            (0, false) => 0,
            (0, true) => CHUNK,
            (limit, false) => limit,
            (limit, true) => limit.max(CHUNK),
        };
        let mut items = Vec::new();
        let mut range = plan.range.clone();
        let (mut last, mut left) = (None, 0);
        'read: loop {
            let page = self.shared.store.range(&range, revision, chunk).await?;
            let (found, mut looked_at) = (page.kvs.len() as i64, 0);
            for kv in page.kvs {
                looked_at += 1;
                last = Some(kv.key.clone());
                let Some(item) = self.selected(&plan.selection, kv) else { continue };
                items.push(item);
                if plan.limit > 0 && items.len() == plan.limit {
                    left = page.count - looked_at;
                    break 'read;
                }
            }
            let more = page.more && found > 0;
            let Some(key) = last.as_ref().filter(|_| more) else { break };
            range.key = after(key);
        }
        let mut answer = ListPage { items, revision, continue_token: String::new(), remaining: None };
        if let Some(last) = last.filter(|_| left > 0) {
            answer.continue_token = continue_token::encode(&plan.selection, revision, &after(&last));
            answer.remaining = (!selective).then_some(left);
        }
        Ok(answer)
    }
}

impl Registry {
    /// The object in a stored value, if it is one and is selected.
    fn selected(&self, selection: &Selection, kv: KeyValue) -> Option<StoredObject> {
        let kind = selection.kind;
        // Where only the place counts, nothing in the object needs to be known.
        if !selection.has_selectors()
            && let Some(object) = self.proven(kind, &kv)
        {
            return place_of(kind, &kv.key).filter(|place| selection.holds(*place)).map(|_| object);
        }
        let value = served(kind, kv.value);
        let facts = facts_of(kind, &kv.key, &value, kv.mod_revision)?;
        selection.matches(&facts).then(|| StoredObject::new(kind, value, kv.mod_revision))
    }
}

/// The first key behind this one.
fn after(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    Bytes::from(next)
}

fn plan(target: &Target, options: &ListOptions) -> Result<Plan, Status> {
    let selection = Selection::read(target, &options.label_selector, &options.field_selector)?;
    let mut range = selection.range();
    let mut revision = options.exact_revision.max(0);
    if options.exact_revision > 0 && options.min_revision > 0 {
        return Err(Status::bad_request("an exact and a least revision exclude each other"));
    }
    let continued = !options.continue_token.is_empty();
    if continued {
        if options.exact_revision != 0 || options.min_revision != 0 {
            return Err(Status::bad_request("specifying resource version is not allowed when using continue"));
        }
        let (start, rv) = continue_token::decode(&selection, &options.continue_token)?;
        range.key = start;
        // A negative revision goes on in what is there now, not in the snapshot.
        revision = rv.max(0);
    }
    let limit = usize::try_from(options.limit).unwrap_or(0);
    Ok(Plan { selection, range, revision, limit, continued, exact: options.exact_revision > 0 })
}
