//! The snapshot, kept in step with the store.
//!
//! Nothing runs in the background: whoever asks first drains what the store has written since, so that a check sees
//! every write that was answered before it. What is not asked for waits in the store's watches, which are bounded; if
//! they were cut, everything is read anew.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use listwatch_proto::resource::{Kind, Object, Status};
use parking_lot::Mutex;

use super::snapshot::Snapshot;
use super::{Rule, snapshot};
use crate::registry::{Attributes, Decision, Store, StoreError, StoreWatch, StoreWatcher, User};
use crate::storage::{EventKind, KeyRange, KeyValue};

/// The kinds that make the policy.
const KINDS: [&str; 4] = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];

/// Roles and bindings as they are now.
#[derive(Debug)]
pub(in super::super) struct PolicyCache {
    store: Arc<dyn Store>,
    /// Never held over an await.
    state: Mutex<Option<State>>,
}

#[derive(Debug)]
struct State {
    snapshot: Snapshot,
    sources: Vec<(&'static Kind, Box<dyn StoreWatch>)>,
}

impl PolicyCache {
    pub(in super::super) fn new(store: Arc<dyn Store>) -> Self {
        PolicyCache { store, state: Mutex::new(None) }
    }

    /// Whether roles allow it.
    pub(in super::super) async fn authorize(&self, user: &User, attributes: &Attributes) -> Decision {
        let namespace = attributes.namespace();
        let judged = self
            .read(|snapshot| {
                let mut missing: Vec<String> = Vec::new();
                for bound in snapshot.bound(user, namespace) {
                    match bound.rules {
                        Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                            return Decision { allowed: true, reason: format!("RBAC: allowed by {}", bound.source) };
                        }
                        Ok(_) => {}
                        Err(why) if missing.contains(&why) => {}
                        Err(why) => missing.push(why),
                    }
                }
                let reason = match missing.as_slice() {
                    [] => String::new(),
                    [one] => format!("RBAC: {one}"),
                    several => format!("RBAC: [{}]", several.join(", ")),
                };
                Decision { allowed: false, reason }
            })
            .await;
        // Nobody is let in because the store does not answer.
        judged.unwrap_or_else(|error| Decision { allowed: false, reason: format!("RBAC: {error}") })
    }

    /// Every rule that holds for a user in a namespace, and the words for roles that are not there.
    pub(in super::super) async fn rules_of(
        &self,
        user: &User,
        namespace: &str,
    ) -> Result<(Vec<Rule>, Vec<String>), Status> {
        let found = self
            .read(|snapshot| {
                let (mut rules, mut missing) = (Vec::new(), Vec::new());
                for bound in snapshot.bound(user, namespace) {
                    match bound.rules {
                        Ok(own) => rules.extend_from_slice(own),
                        Err(why) => missing.push(why),
                    }
                }
                (rules, missing)
            })
            .await;
        Ok(found?)
    }

    /// The rules of a role.
    pub(super) async fn role(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Result<Vec<Rule>, String>, Status> {
        Ok(self.read(|snapshot| snapshot.role(kind, namespace, name).map(<[Rule]>::to_vec)).await?)
    }

    /// Looks at the snapshot as it is now.
    async fn read<T>(&self, look: impl Fn(&snapshot::Snapshot) -> T) -> Result<T, StoreError> {
        loop {
            if let Some(state) = self.state.lock().as_mut()
                && state.catch_up()
            {
                return Ok(look(&state.snapshot));
            }
            // Two that load at once do the same work; the later one stands.
            let fresh = self.load().await?;
            *self.state.lock() = Some(fresh);
        }
    }

    async fn load(&self) -> Result<State, StoreError> {
        let mut state = State { snapshot: Snapshot::default(), sources: Vec::new() };
        for name in KINDS {
            let kind = Kind::by_api_version("rbac.authorization.k8s.io/v1", name).expect("a served kind");
            let range = KeyRange::prefix(kind.key_prefix);
            let page = self.store.range(&range, 0, 0).await?;
            let watcher = StoreWatcher {
                user: "system:registry".to_owned(),
                client: None,
                target: format!("policy: {}", kind.name()),
            };
            let source = self.store.watch(&range, page.revision + 1, &watcher).await?;
            page.kvs.iter().for_each(|kv| state.put(kind, kv));
            state.sources.push((kind, source));
        }
        Ok(state)
    }
}

impl State {
    /// Takes in what the store has written since. False = it must be read anew.
    fn catch_up(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        let mut changes = Vec::new();
        for (kind, source) in &mut self.sources {
            loop {
                match source.poll_next(&mut context) {
                    Poll::Pending => break,
                    Poll::Ready(Ok(Some(message))) => changes.extend(message.events.into_iter().map(|e| (*kind, e))),
                    Poll::Ready(Ok(None) | Err(_)) => return false,
                }
            }
        }
        for (kind, event) in changes {
            match event.kind {
                EventKind::Put => self.put(kind, &event.kv),
                EventKind::Delete => self.remove(kind, &event.kv),
            }
        }
        true
    }

    fn put(&mut self, kind: &'static Kind, kv: &KeyValue) {
        let Some((namespace, _)) = place(kind, kv) else { return };
        match Object::from_slice(&kv.value) {
            Ok(object) if kind.kind.ends_with("Binding") => self.snapshot.put_binding(&namespace, &object),
            Ok(object) => self.snapshot.put_role(&namespace, &object),
            // A value that is no object grants nothing.
            Err(_) => self.remove(kind, kv),
        }
    }

    fn remove(&mut self, kind: &'static Kind, kv: &KeyValue) {
        let Some((namespace, name)) = place(kind, kv) else { return };
        if kind.kind.ends_with("Binding") {
            self.snapshot.remove_binding(&namespace, &name);
        } else {
            self.snapshot.remove_role(&namespace, &name);
        }
    }
}

fn place(kind: &'static Kind, kv: &KeyValue) -> Option<(String, String)> {
    let key = std::str::from_utf8(&kv.key).ok()?;
    kind.parse_key(key).map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
}
