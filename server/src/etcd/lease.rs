//! The Lease service.

use std::pin::Pin;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use listwatch_proto::etcd::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse, LeaseStatus, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse, lease_server,
};
use tonic::{Request, Response, Status, Streaming};

use super::error::{self, Refusal};
use super::front::Front;

/// The service.
#[derive(Debug)]
pub(super) struct Lease {
    front: Arc<Front>,
}

impl Lease {
    pub(super) fn new(front: Arc<Front>) -> Self {
        Self { front }
    }
}

impl Front {
    /// Renews one lease. The header is made before the renewal, and a lease that is gone has a time to live of zero
    /// instead of an error (etcd 3.6).
    async fn renew(&self, id: i64) -> Result<LeaseKeepAliveResponse, Status> {
        let header = Some(self.headers.at(self.engine.revision()));
        let ttl = self.engine.submit_lease_keep_alive(id).await.map_err(error::status)?.unwrap_or(0);
        Ok(LeaseKeepAliveResponse { header, id, ttl })
    }
}

#[tonic::async_trait]
impl lease_server::Lease for Lease {
    async fn lease_grant(&self, request: Request<LeaseGrantRequest>) -> Result<Response<LeaseGrantResponse>, Status> {
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        let engine = &self.front.engine;
        let (id, ttl) = engine.submit_lease_grant(id, ttl).await.map_err(error::status)?;
        let header = Some(self.front.headers.at(engine.revision()));
        Ok(Response::new(LeaseGrantResponse { header, id, ttl, error: String::new() }))
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let id = request.into_inner().id;
        let revision = self.front.engine.submit_lease_revoke(id).await.map_err(error::status)?;
        Ok(Response::new(LeaseRevokeResponse { header: Some(self.front.headers.at(revision)) }))
    }

    type LeaseKeepAliveStream = Pin<Box<dyn Stream<Item = Result<LeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let front = self.front.clone();
        let shutdown = front.options.shutdown.clone();
        let renewals = request.into_inner().then(move |request| {
            let front = front.clone();
            async move { front.renew(request?.id).await }
        });
        let end = futures::stream::once(async { Err(Refusal::Stopped.into()) });
        Ok(Response::new(Box::pin(renewals.take_until(shutdown.clone().cancelled_owned()).chain(
            // Only the end of the server is an error; a client that is done ends its stream in peace.
            end.take_while(move |_| std::future::ready(shutdown.is_cancelled())),
        ))))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let LeaseTimeToLiveRequest { id, keys } = request.into_inner();
        let engine = &self.front.engine;
        let info = engine.lease_time_to_live(id, keys);
        let header = Some(self.front.headers.at(engine.revision()));
        Ok(Response::new(match info {
            Some(info) => {
                LeaseTimeToLiveResponse { header, id, ttl: info.ttl, granted_ttl: info.granted_ttl, keys: info.keys }
            }
            None => LeaseTimeToLiveResponse { header, id, ttl: -1, granted_ttl: 0, keys: Vec::new() },
        }))
    }

    async fn lease_leases(
        &self,
        _request: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        let engine = &self.front.engine;
        let leases = engine.leases().into_iter().map(|id| LeaseStatus { id }).collect();
        Ok(Response::new(LeaseLeasesResponse { header: Some(self.front.headers.at(engine.revision())), leases }))
    }
}
