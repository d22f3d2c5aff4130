//! What is made out of how things stand when it is read: the state of what the API stands on.
//!
//! Of this server that is its store alone; whether scheduler and controllers are well, their own health tells, and the
//! leases that they hold.

use listwatch_proto::resource::{Kind, Object, Status};
use serde_json::{Value, json};

use super::facts::Facts;
use super::selection::Selection;
use super::{ListOptions, ListPage, Registry, StoredObject, Target};

/// What kube-apiserver calls the first member of its store.
const STORE: &str = "etcd-0";

impl Registry {
    /// One object of a kind that is not kept.
    pub(super) async fn computed(&self, target: &Target) -> Result<StoredObject, Status> {
        let all = self.components(target.kind).await;
        let found = all.into_iter().find(|object| object.name() == target.name);
        found.ok_or_else(|| {
            let mut status = Status::not_found(target.kind, &target.name);
            // Upstream says it in the singular.
            status.message = status.message.replacen(target.kind.plural, target.kind.singular, 1);
            status.kind = target.kind.singular.to_owned();
            status
        })
    }

    /// All objects of a kind that is not kept.
    pub(super) async fn all_computed(&self, target: &Target, options: &ListOptions) -> Result<ListPage, Status> {
        let selection = Selection::read(target, &options.label_selector, &options.field_selector)?;
        let mut items = self.components(target.kind).await;
        items.retain(|object| {
            let is_named = selection.name.is_empty() || selection.name == object.name();
            is_named && selection.matches(&Facts::of(target.kind, "", object.name(), object.object()))
        });
        Ok(ListPage { items, revision: self.revision(), continue_token: String::new(), remaining: None })
    }

    async fn components(&self, kind: &'static Kind) -> Vec<StoredObject> {
        // Any read will do: what counts is whether the store answers.
        let answered = self.shared.store.get(b"health").await;
        let condition = match answered {
            Ok(_) => json!({"type": "Healthy", "status": "True", "message": "ok"}),
            Err(error) => json!({"type": "Healthy", "status": "False", "error": error.to_string()}),
        };
        vec![StoredObject::of(kind, component(kind, STORE, condition), 0)]
    }
}

fn component(kind: &Kind, name: &str, condition: Value) -> Object {
    let mut object = Object::default();
    object.set(&["apiVersion"], kind.api_version());
    object.set(&["kind"], kind.kind);
    object.set(&["metadata"], json!({"name": name}));
    object.set(&["conditions"], json!([condition]));
    object
}
