//! Delete of a collection: what a list finds is deleted, one after the other.
//!
//! Invariant: each object is deleted as by its own delete, preconditions included; an object that is gone meanwhile is no
//! failure, any other failure ends it, with what was deleted before gone.

use listwatch_proto::resource::{Reason, Status};
use tokio::task::JoinSet;

use super::error::not_served;
use super::{DeleteOptions, ListOptions, ListPage, Registry, RequestContext, Target};

/// Objects deleted at the same time: enough that their commits share a sync of the disk, few enough that others get on.
const WORKERS: usize = 16;

impl Registry {
    /// Deletes the objects that a list finds, and answers the list.
    pub(super) async fn delete_listed(
        &self,
        context: &RequestContext,
        target: &Target,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<ListPage, Status> {
        let has_place = !target.kind.namespaced || !target.namespace.is_empty();
        if !has_place || !target.kind.deletes_collections {
            return Err(not_served());
        }
        let page = self.list_objects(target, list).await?;
        // They end with this verb: what has not begun is dropped with the set.
        let mut deleting = JoinSet::new();
        for item in &page.items {
            if deleting.len() == WORKERS {
                ended(deleting.join_next().await)?;
            }
            let target = Target::object(target.kind, item.namespace(), item.name());
            let (registry, context, options) = (self.clone(), context.clone(), options.clone());
            deleting.spawn(async move { registry.delete_object(&context, &target, &options).await.map(drop) });
        }
        while let Some(one) = deleting.join_next().await {
            ended(Some(one))?;
        }
        Ok(page)
    }
}

fn ended(one: Option<Result<Result<(), Status>, tokio::task::JoinError>>) -> Result<(), Status> {
    match one {
        Some(Ok(Err(status))) if status.reason != Reason::NotFound => Err(status),
        Some(Err(error)) => Err(Status::internal(format!("a deletion did not end: {error}"))),
        _ => Ok(()),
    }
}
