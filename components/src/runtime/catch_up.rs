//! Brings a cache up to a revision without waiting for the next bookmark.
//!
//! A cache of a quiet collection does not know that it is up to date: only a bookmark tells it, and those come seconds
//! apart. Asking the server what happened between the cache's mark and the revision settles it at once: nothing, or
//! events that are on their way to the cache too, and those can be waited for.

use listwatch_proto::resource::{Kind, Object};

use super::{ReflectorConfig, Stopped, Store};
use crate::client::{Api, Client, Error, WatchEvent, WatchParams};

/// Waits until the cache of this selection holds everything up to a revision of the server. Cancel safe.
pub async fn catch_up<T>(
    client: &Client,
    kind: &'static Kind,
    selection: &ReflectorConfig,
    store: &Store<T>,
    revision: i64,
) -> Result<(), Stopped> {
    store.wait_synced().await?;
    if store.seen_up_to() >= revision {
        return Ok(());
    }
    match last_event(client, kind, selection, store, revision).await {
        Ok(last) => store.wait_for(last).await,
        Err(error) => {
            // The server is away or its history is cut: the next bookmark, or the next full state, will tell.
            tracing::debug!(kind = %kind.name(), %error, "cannot ask what happened");
            store.wait_for(revision).await
        }
    }
}

/// The revision of the last event of the selection up to a revision; that of the cache if there is none.
async fn last_event<T>(
    client: &Client,
    kind: &'static Kind,
    selection: &ReflectorConfig,
    store: &Store<T>,
    revision: i64,
) -> Result<i64, Error> {
    let mark = store.progress();
    let params = WatchParams {
        namespace: selection.namespace.clone(),
        label_selector: selection.label_selector.clone(),
        field_selector: selection.field_selector.clone(),
        start_revision: mark.revision,
        incarnation: mark.incarnation,
        until_revision: revision,
        progress_interval: selection.progress_interval,
        ..WatchParams::default()
    };
    let mut watch = Api::<Object>::of_kind(client, kind).watch(&params).await?;
    let mut last = mark.revision;
    while let Some(batch) = watch.next().await? {
        let events = batch.events.iter().filter(|event| !matches!(event, WatchEvent::Bookmark { .. }));
        last = events.map(WatchEvent::revision).fold(last, i64::max);
    }
    Ok(last)
}
