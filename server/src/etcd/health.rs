//! Whether the store serves: as gRPC health service, and for the plain paths in [`super::http`].

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tonic::{Request, Response, Status};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server};

use super::front::Front;
use crate::storage::{KeyRange, RangeOp};

/// The key etcd's own health check reads (etcd 3.6).
const HEALTH_KEY: &str = "health";

impl Front {
    /// Whether the store can be read.
    pub(super) fn readable(&self) -> Result<(), String> {
        let mut probe = RangeOp::new(KeyRange::single(HEALTH_KEY));
        probe.count_only = true;
        self.engine.range(&probe).map(|_| ()).map_err(|error| error.to_string())
    }

    /// Whether the store takes writes.
    pub(super) fn writable(&self) -> Result<(), String> {
        if self.options.shutdown.is_cancelled() {
            return Err("the server is stopping".to_owned());
        }
        let status = self.engine.status();
        if status.no_room {
            return Err("no space left on the disk".to_owned());
        }
        status.poisoned.map_or(Ok(()), |reason| Err(reason.to_string()))
    }

    fn serving(&self) -> ServingStatus {
        if self.readable().and_then(|()| self.writable()).is_ok() {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        }
    }
}

/// The service. It knows one name, the empty one for the whole server (etcd 3.6).
#[derive(Debug)]
pub(super) struct Health {
    front: Arc<Front>,
}

impl Health {
    pub(super) fn new(front: Arc<Front>) -> Self {
        Self { front }
    }
}

#[tonic::async_trait]
impl health_server::Health for Health {
    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !request.into_inner().service.is_empty() {
            return Err(Status::not_found("unknown service"));
        }
        Ok(Response::new(HealthCheckResponse { status: self.front.serving().into() }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    /// The state now, and the one other state this door can announce: that the server stops.
    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let known = request.into_inner().service.is_empty();
        let answer = |status: ServingStatus| Ok(HealthCheckResponse { status: status.into() });
        let front = self.front.clone();
        let stream = futures::stream::unfold(0u8, move |step| {
            let front = front.clone();
            async move {
                match (step, known) {
                    (0, true) => Some((answer(front.serving()), 1)),
                    (0, false) => Some((answer(ServingStatus::ServiceUnknown), 1)),
                    (1, _) => {
                        front.options.shutdown.cancelled().await;
                        known.then(|| (answer(ServingStatus::NotServing), 2))
                    }
                    _ => None,
                }
            }
        });
        Ok(Response::new(Box::pin(stream)))
    }
}
