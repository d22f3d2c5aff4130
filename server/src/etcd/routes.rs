//! The door as one router: every gRPC service, reflection, and the plain paths.

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::{Router, middleware};
use futures::FutureExt;
use futures::future::Map;
use http::{HeaderMap, Request, Response};
use listwatch_proto::DESCRIPTORS;
use listwatch_proto::etcd::etcdserverpb::auth_server::AuthServer;
use listwatch_proto::etcd::etcdserverpb::cluster_server::ClusterServer;
use listwatch_proto::etcd::etcdserverpb::kv_server::KvServer;
use listwatch_proto::etcd::etcdserverpb::lease_server::LeaseServer;
use listwatch_proto::etcd::etcdserverpb::maintenance_server::MaintenanceServer;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tower::{Service, ServiceExt};

use super::entry::{self, Entry};
use super::front::{EtcdOptions, Front, OVERHEAD_BYTES, REQUEST_BYTES_MAX};
use super::long_range::LongRange;
use super::watch::WatchService;
use super::{auth, cluster, error, health, http as plain, kv, lease, maintenance};
use crate::storage::Engine;

/// The largest message the transport accepts, in bytes (etcd 3.6).
const MESSAGE_BYTES_MAX: usize = REQUEST_BYTES_MAX + OVERHEAD_BYTES;

/// The router of the etcd door. Serve it on connections that speak HTTP/1.1 and HTTP/2 without further agreement, on
/// tokio's multi-thread runtime. Who is at the other end is read from the [`crate::transport::Peer`] in each request's
/// extensions; without one the author is `anonymous`. Who may enter is [`EtcdOptions::entry`].
pub fn routes(engine: Engine, options: EtcdOptions) -> Router {
    let entry = options.entry;
    let front = Front::new(engine, options);
    let kv = KvServer::new(kv::Kv::new(front.clone())).max_decoding_message_size(MESSAGE_BYTES_MAX);
    let lease = LeaseServer::new(lease::Lease::new(front.clone()));
    let cluster = ClusterServer::new(cluster::Cluster::new(front.clone()));
    let maintenance = MaintenanceServer::new(maintenance::Maintenance::new(front.clone()));
    let auth = AuthServer::new(auth::Auth::new(front.clone()));
    let health = HealthServer::new(health::Health::new(front.clone()));
    let router = plain::router(front.clone());
    let router = mount(router, TransportTexts(kv));
    let router = mount(router, WatchService::new(front));
    let router = mount(router, lease);
    let router = mount(router, cluster);
    let router = mount(router, maintenance);
    let router = mount(router, auth);
    let router = mount(router, health);
    let router = reflection(router);
    // Who lets in everybody pays nothing for the question.
    match entry {
        Entry::Anybody => router,
        entry => router.layer(middleware::from_fn_with_state(entry, entry::guard)),
    }
}

/// Adds a gRPC service under its own name.
fn mount<S>(router: Router, service: S) -> Router
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let path = format!("/{}/{{*method}}", S::NAME);
    router.route_service(&path, service.map_request(|request: Request<axum::body::Body>| request.map(Body::new)))
}

/// Adds reflection, in both versions that clients ask for.
fn reflection(router: Router) -> Router {
    let builder = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let reason = "the checked-in descriptors are those of the compiled services";
    let router = mount(router, builder().build_v1().expect(reason));
    mount(router, builder().build_v1alpha().expect(reason))
}

/// Puts the transport's refusal of a large message into the code and text that etcd's clients know, and the long answer
/// of a range in the place of the message that stands for it.
#[derive(Clone, Debug)]
struct TransportTexts<S>(S);

impl<S: NamedService> NamedService for TransportTexts<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<Request<Body>> for TransportTexts<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Map<S::Future, fn(Result<Response<Body>, Infallible>) -> Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.0.call(request).map(|result| result.map(retell))
    }
}

/// tonic says OutOfRange with a text of its own where grpc-go says ResourceExhausted.
fn retell(mut response: Response<Body>) -> Response<Body> {
    if let Some(long) = response.extensions_mut().remove::<LongRange>() {
        return long.fill(response).map(Body::new);
    }
    match too_large(response.headers()) {
        Some(status) => status.into_http(),
        None => response,
    }
}

fn too_large(headers: &HeaderMap) -> Option<Status> {
    // Only answers that are an error from the start carry the status in their headers.
    headers.get(Status::GRPC_STATUS)?;
    let status = Status::from_header_map(headers)?;
    let text = status.message().strip_prefix("Error, decoded message length too large: found ")?;
    let bytes = text.split(' ').next()?;
    (status.code() == Code::OutOfRange).then(|| error::message_too_large(bytes, MESSAGE_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_message_is_refused_in_grpc_gos_words() {
        let told = Status::out_of_range(
            "Error, decoded message length too large: found 5000012 bytes, the limit is: 2097152 bytes",
        );
        let response: Response<Body> = told.into_http();
        let status = too_large(response.headers()).expect("recognised");
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.message(), "grpc: received message larger than max (5000012 vs. 2097152)");
        let other: Response<Body> =
            Status::out_of_range("etcdserver: mvcc: required revision has been compacted").into_http();
        assert!(too_large(other.headers()).is_none());
    }
}
