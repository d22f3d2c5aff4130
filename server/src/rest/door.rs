//! From a request to the verb.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use http::Method;
use listwatch_proto::resource::{Reason, Status};
use tokio_util::sync::CancellationToken;

use super::negotiate::{self, Encoding, Shape};
use super::objects::{Ask, encoding_of};
use super::path::{self, Named};
use super::query::{Query, Read};
use super::table::Carried;
use super::{answer, body, discovery, health, list, log, openapi, plain, watch};
use crate::kubelets::Kubelets;
use crate::registry::{Registry, RequestContext, Target};
use crate::storage::Engine;

/// What the door needs.
#[derive(Clone, Debug)]
pub(crate) struct RestDoor {
    pub(crate) registry: Registry,
    /// How kubelets are reached for logs; `None` = not at all.
    pub(crate) kubelets: Option<Arc<Kubelets>>,
    /// The end of the server: streams end with it.
    pub(crate) stopping: CancellationToken,
}

/// The router of the door: `/api`, `/apis`, `/openapi` and everything below, version and health. It must stand behind a gate that puts a request
/// context into each request, and on the multi-thread runtime.
pub(crate) fn routes(door: RestDoor, engine: Engine) -> Router {
    let probes = health::router(engine, door.stopping.clone());
    let mut router = Router::new();
    for root in ["/api", "/apis", "/openapi"] {
        router = router.route(root, any(serve)).route(&format!("{root}/"), any(serve));
        router = router.route(&format!("{root}/{{*rest}}"), any(serve));
    }
    let router = router.with_state(Arc::new(door)).merge(plain::router()).merge(probes);
    router.layer(axum::middleware::map_response(answer::uncached))
}

async fn serve(State(door): State<Arc<RestDoor>>, request: Request) -> Response {
    let encoding = encoding_of(&request);
    // The body is read before anything is refused: an answer ahead of it resets the stream, and some clients then show
    // the reset instead of the answer.
    let answer = match body::whole(request).await {
        Ok(request) => door.answer(request).await,
        Err(status) => Err(status),
    };
    answer.unwrap_or_else(|status| refusal(status, encoding))
}

fn refusal(mut status: Status, encoding: Encoding) -> Response {
    if status.reason == Reason::BadRequest {
        // The field of a body that does not decode is told over gRPC; kube-apiserver has it in the words alone.
        status.causes.clear();
    }
    answer::failure(&status, encoding)
}

impl RestDoor {
    async fn answer(&self, request: Request) -> Result<Response, Status> {
        let headers = request.headers();
        if request.uri().path().starts_with("/openapi") {
            let query = Query::read(request.uri().query().unwrap_or_default());
            return Ok(openapi::answer(request.uri().path(), &query, headers));
        }
        let named = path::read(request.uri().path());
        match named {
            Named::Nothing => Ok(answer::page_not_found()),
            Named::UnknownResource => Err(unknown_resource()),
            Named::WatchOfNothing => Ok(answer::watch_of_nothing(request.uri())),
            Named::Resource { target, watch } => match Registry::deprecation(target.kind) {
                None => self.verb(request, &target, watch).await,
                Some(warning) => {
                    let encoding = encoding_of(&request);
                    let answer = self.verb(request, &target, watch).await;
                    let mut response = answer.unwrap_or_else(|status| refusal(status, encoding));
                    answer::warn_first(&mut response, warning);
                    Ok(response)
                }
            },
            _ if request.method() != Method::GET => Err(not_allowed()),
            Named::CoreVersions => discovery::core_versions(headers),
            Named::Groups => discovery::groups(headers),
            Named::Group(name) => discovery::group(headers, name),
            Named::GroupVersion(group, version) => discovery::resources(headers, group, version),
        }
    }

    async fn verb(&self, request: Request, target: &Target, watched: bool) -> Result<Response, Status> {
        let context = request
            .extensions()
            .get::<Arc<RequestContext>>()
            .cloned()
            .ok_or_else(|| Status::internal("the request has not been authenticated"))?;
        let query = Query::read(request.uri().query().unwrap_or_default());
        let form = negotiate::form(request.headers())?;
        let carried =
            if form.shape == Shape::Table { Carried::read(query.include_object())? } else { Carried::Metadata };
        let ask = Ask { registry: &self.registry, context: &context, target, query: &query, form, carried };
        let is_collection = target.name.is_empty();
        match *request.method() {
            Method::GET if is_collection || watched => match query.list_or_watch(watched)? {
                Read::List(options) => list::list(&self.registry, &context, target, &options, form, carried).await,
                Read::Watch(watching) => {
                    let stopping = self.stopping.clone();
                    watch::watch(&self.registry, &context, target, watching, (form, carried), stopping).await
                }
            },
            Method::GET if target.subresource == "log" => {
                let kubelets = self.kubelets.as_deref();
                log::log(&self.registry, &context, kubelets, target, &query, self.stopping.clone()).await
            }
            Method::GET => ask.get().await,
            Method::POST if takes_new(target) => ask.create(request).await,
            Method::PUT if !is_collection => ask.update(request).await,
            Method::PATCH if !is_collection => ask.patch(request).await,
            Method::DELETE if !is_collection => ask.delete(request).await,
            _ => Err(not_allowed()),
        }
    }
}

/// Objects are made in their namespace, not in all of them; parts of them where there is something to make.
fn takes_new(target: &Target) -> bool {
    let has_place = !target.kind.namespaced || !target.namespace.is_empty();
    if target.name.is_empty() { has_place } else { !target.subresource.is_empty() }
}

fn unknown_resource() -> Status {
    Status::new(Reason::NotFound, "the server could not find the requested resource")
}

pub(super) fn not_allowed() -> Status {
    Status::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
}
