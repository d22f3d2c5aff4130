//! The door as one router.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use listwatch_proto::DESCRIPTORS;
use listwatch_proto::v1::admin_server::AdminServer;
use listwatch_proto::v1::resources_server::ResourcesServer;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::server::NamedService;
use tower::{Service, ServiceExt};

use super::admin::AdminService;
use super::refusal;
use super::service::ResourceService;
use crate::kubelets::Kubelets;
use crate::registry::Registry;
use crate::storage::Engine;

/// The largest message: kube-apiserver's limit of a body, which the registry holds to, and room for what is around it.
const REQUEST_BYTES_MAX: usize = (3 << 20) + (64 << 10);

/// What the door needs beside registry and store.
#[derive(Clone, Debug)]
pub struct ResourceOptions {
    /// How kubelets are reached for logs; `None` = not at all.
    pub kubelets: Option<Arc<Kubelets>>,
    /// The end of the server: streams end with it.
    pub stopping: CancellationToken,
}

/// The router of the resource door: resources, admin, health and reflection over gRPC. It must stand behind a gate that puts a request context into each request, and on the multi-thread runtime.
pub fn routes(registry: Registry, engine: Engine, options: ResourceOptions) -> Router {
    let admin = AdminServer::new(AdminService { engine, registry: registry.clone() });
    let resources = ResourceService { registry, kubelets: options.kubelets, stopping: options.stopping };
    let resources = ResourcesServer::new(resources)
        .max_decoding_message_size(REQUEST_BYTES_MAX)
        .accept_compressed(CompressionEncoding::Gzip);
    let router = mount(Router::new(), resources);
    let router = mount(router, admin);
    let router = mount(router, health());
    reflection(router).fallback(unknown)
}

/// Adds a gRPC service under its own name.
fn mount<S>(router: Router, service: S) -> Router
where
    S: Service<http::Request<tonic::body::Body>, Response = http::Response<tonic::body::Body>, Error = Infallible>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    let path = format!("/{}/{{*method}}", S::NAME);
    let service = service.map_request(|request: Request| request.map(tonic::body::Body::new));
    router.route_service(&path, service.map_response(refusal::typed))
}

/// gRPC health: serving, from the first answer on; what is not serving does not listen.
fn health() -> impl Service<
    http::Request<tonic::body::Body>,
    Response = http::Response<tonic::body::Body>,
    Error = Infallible,
    Future: Send,
> + NamedService
+ Clone
+ Send
+ Sync
+ 'static {
    let (_reporter, service) = tonic_health::server::health_reporter();
    service
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

/// Neither a service nor a path: said in the form that the client speaks.
async fn unknown(request: Request) -> Response {
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let path = request.uri().path();
    if content_type.starts_with("application/grpc") {
        let status = tonic::Status::unimplemented(format!("{path} is not served"));
        return status.into_http::<tonic::body::Body>().map(Body::new);
    }
    // As Go's HTTP server says that there is nothing.
    let head = [
        (header::CONTENT_TYPE, "text/plain; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache, private"),
    ];
    (StatusCode::NOT_FOUND, head, "404 page not found\n").into_response()
}
