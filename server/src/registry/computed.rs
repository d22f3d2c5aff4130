//! Kinds whose objects are made out of how things stand when they are read: what they say, they say by their rules.

use listwatch_proto::resource::{Kind, Object, Status};

use super::facts::Facts;
use super::kinds::strategy;
use super::selection::Selection;
use super::{ListOptions, ListPage, Registry, StoredObject, Target};

impl Registry {
    /// One object of a kind that is not kept.
    pub(super) async fn computed(&self, target: &Target) -> Result<StoredObject, Status> {
        let all = self.made(target.kind).await;
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
        let mut items = self.made(target.kind).await;
        items.retain(|object| {
            let is_named = selection.name.is_empty() || selection.name == object.name();
            is_named && selection.matches(&Facts::of(target.kind, "", object.name(), object.object()))
        });
        Ok(ListPage { items, revision: self.revision(), continue_token: String::new(), remaining: None })
    }

    /// The objects, as things stand now.
    async fn made(&self, kind: &'static Kind) -> Vec<StoredObject> {
        // Any read will do: what counts is whether the store answers.
        let answered = self.shared.store.get(b"health").await.map(drop).map_err(|error| error.to_string());
        let objects = strategy(kind).computed(answered).into_iter().map(|made| {
            let mut object = Object::default();
            object.set(&["apiVersion"], kind.api_version());
            object.set(&["kind"], kind.kind);
            object.0.extend(made.0);
            StoredObject::of(kind, object, 0)
        });
        objects.collect()
    }
}
