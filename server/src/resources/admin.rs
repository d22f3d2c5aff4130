//! What an operator asks of the store: `listwatch.v1.Admin`.

use listwatch_proto::resource::{Reason, Status};
use listwatch_proto::v1::{self, admin_server::Admin};
use tonic::{Request, Response};

use super::request;
use crate::registry::{Registry, RegistryWatcher};
use crate::storage::{Engine, Error, WatcherInfo};

/// The service.
#[derive(Debug)]
pub(super) struct AdminService {
    pub(super) engine: Engine,
    pub(super) registry: Registry,
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn expire(&self, request: Request<v1::ExpireRequest>) -> Result<Response<v1::ExpireResponse>, tonic::Status> {
        let context = request::context(&request)?;
        let asked = request.into_inner().revision;
        request::not_negative("revision", asked)?;
        let engine = self.engine.clone();
        let revision = if asked == 0 { engine.revision() } else { asked };
        let outcome = tokio::task::spawn_blocking(move || engine.expire(revision)).await;
        outcome.map_err(|_| Status::internal("expiring history panicked"))?.map_err(status)?;
        tracing::info!(revision, user = context.user.name, "history expired by request");
        Ok(Response::new(v1::ExpireResponse {
            compacted_revision: self.engine.compacted(),
            retained_revision: self.engine.retained(),
            revision: self.engine.revision(),
        }))
    }

    async fn watchers(
        &self,
        request: Request<v1::WatchersRequest>,
    ) -> Result<Response<v1::WatchersResponse>, tonic::Status> {
        request::context(&request)?;
        // The registry first: a watcher that changes over in between is then seen twice, never not at all.
        let cached = self.registry.watchers();
        let revision = self.engine.revision();
        let cached = cached.into_iter().map(|info| cached_watcher(info, revision));
        let watchers = self.engine.watchers().into_iter().map(watcher).chain(cached).collect();
        Ok(Response::new(v1::WatchersResponse { revision, watchers }))
    }
}

fn watcher(info: WatcherInfo) -> v1::Watcher {
    let text = |text: Option<std::sync::Arc<str>>| text.map(|t| t.to_string()).unwrap_or_default();
    let target = match info.label.target {
        Some(target) => target.to_string(),
        None => format!("{:?}", info.range),
    };
    v1::Watcher {
        id: info.id,
        door: info.label.door.to_owned(),
        user: info.label.user.to_string(),
        client: text(info.label.client),
        target,
        sent_revision: info.progress,
        lag: info.lag,
        events_sent: info.delivered,
        state: state(info.synced).to_owned(),
        ..v1::Watcher::default()
    }
}

/// Keeps the numbers of the registry's watchers apart from the engine's.
const CACHED: u64 = 1 << 63;

/// A watcher that is fed by the cache of its kind.
fn cached_watcher(info: RegistryWatcher, revision: i64) -> v1::Watcher {
    v1::Watcher {
        id: info.id | CACHED,
        door: "resources".to_owned(),
        user: info.watcher.user,
        client: info.watcher.client.unwrap_or_default(),
        target: info.watcher.target,
        sent_revision: info.revision,
        lag: (revision - info.revision).max(0),
        events_sent: info.delivered,
        state: state(info.in_step).to_owned(),
        ..v1::Watcher::default()
    }
}

fn state(in_step: bool) -> &'static str {
    if in_step { "synced" } else { "catching up" }
}

/// The store's errors, as far as this service meets them.
fn status(error: Error) -> Status {
    let reason = match &error {
        Error::FutureRevision { .. } => Reason::BadRequest,
        Error::Busy => Reason::TooManyRequests,
        Error::Poisoned { .. } | Error::Closed | Error::NoSpace { .. } => Reason::ServiceUnavailable,
        _ => Reason::InternalError,
    };
    Status::new(reason, error.told())
}
