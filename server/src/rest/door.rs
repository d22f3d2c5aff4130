//! From a request to the verb.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Body as _;
use listwatch_proto::resource::{Reason, Status, Storage};
use tokio_util::sync::CancellationToken;

use super::form::finish::Long;
use super::form::finish::{self, Wants};
use super::form::negotiate::{self, Encoding, Route, Shape};
use super::form::table::Carried;
use super::form::{answer, body};
use super::inflight::{Place, Places, RequestsInflight};
use super::metrics::{self, Counts, Subject};
use super::objects::{Ask, encoding_of};
use super::openapi::Documents;
use super::path::{self, Named};
use super::query::{Query, Read};
use super::times::RequestTimes;
use super::watch::{self, Shown};
use super::{discovery, health, list, log, openapi, plain, proxy, stream, well_formed};
use crate::kubelets::Kubelets;
use crate::registry::{Kinds, Registry, RequestContext, Target, protobuf_write};
use crate::storage::Engine;
use crate::transport::expiring;

/// What the door needs.
#[derive(Clone, Debug)]
pub(crate) struct RestDoor {
    pub(crate) registry: Registry,
    /// How kubelets are reached for logs; `None` = not at all.
    pub(crate) kubelets: Option<Arc<Kubelets>>,
    /// The end of the server: streams end with it.
    pub(crate) stopping: CancellationToken,
    /// The OpenAPI documents of the kinds that were asked for last.
    pub(crate) documents: Arc<Documents>,
    /// How long requests may last.
    pub(crate) times: RequestTimes,
    /// How many requests are worked on at a time.
    pub(crate) inflight: RequestsInflight,
}

/// The door at work.
#[derive(Clone, Debug)]
struct Serving {
    door: RestDoor,
    counts: Counts,
    places: Places,
}

/// The door without a router around it, for the requests that are many.
#[derive(Clone, Debug)]
pub(crate) struct RestFront(Arc<Serving>);

impl RestFront {
    /// Whether the request is one of these: a resource or discovery, by a method that needs nothing from a router.
    pub(crate) fn takes(request: &Request) -> bool {
        let path = request.uri().path();
        let is_known =
            matches!(*request.method(), Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
        // Its slashes may be encoded; the door reads the path, the router does not.
        is_known && path.starts_with("/api")
    }

    /// The same answer that the router gives.
    pub(crate) async fn answer(&self, request: Request) -> Response {
        match well_formed::refusal(&request) {
            Some(refusal) => refusal,
            None => answer::uncached(serve(State(self.0.clone()), request).await).await,
        }
    }
}

/// The router of the door: `/api`, `/apis`, `/openapi` and everything below, version and health. It must stand behind a gate that puts a request
/// context into each request, and on the multi-thread runtime. And the front of it, which a server may ask first.
pub(crate) fn routes(door: RestDoor, engine: Engine) -> (Router, RestFront) {
    let probes = health::router(engine.clone(), door.stopping.clone());
    let mut router = Router::new();
    for root in ["/api", "/apis", "/openapi"] {
        router = router.route(root, any(serve)).route(&format!("{root}/"), any(serve));
        router = router.route(&format!("{root}/{{*rest}}"), any(serve));
    }
    let counts = Counts::new();
    let numbers = metrics::router(counts.clone(), engine);
    let serving = Arc::new(Serving { places: Places::new(door.inflight), door, counts });
    let router = router.with_state(serving.clone()).merge(plain::router()).merge(probes).merge(numbers);
    let router = router.layer(axum::middleware::map_response(answer::uncached));
    (router.layer(axum::middleware::from_fn(well_formed::guard)), RestFront(serving))
}

async fn serve(State(serving): State<Arc<Serving>>, request: Request) -> Response {
    let encoding = encoding_of(&request);
    let text = request.uri().query().unwrap_or_default();
    let (wants, query) = (Wants::of(request.headers(), text), Query::read(text));
    let kinds = match serving.door.registry.kinds().await {
        Ok(kinds) => kinds,
        Err(status) => return refusal(status, encoding),
    };
    serving.counts.keep(&kinds);
    let named = path::read(&kinds, request.uri().path());
    let subject = subject(request.method(), &named, &query);
    let (began, flying) = (serving.door.registry.monotonic(), serving.counts.begin(&subject));
    let Some(place) = serving.place(&subject, &request) else {
        // Its answer must not overtake its body either.
        let _ = body::whole(request).await;
        serving.counts.end(&subject, false, 429, std::time::Duration::ZERO, None);
        return answer::too_many_requests();
    };
    // The body is read before anything is refused: an answer ahead of it resets the stream, and some clients then show
    // the reset instead of the answer.
    let answer = match body::whole(request).await {
        Ok(request) => {
            let answer = Box::pin(serving.answer(request, &kinds, named, &query));
            serving.in_time(&subject, &query, answer).await
        }
        Err(status) => Err(status),
    };
    let response = answer.unwrap_or_else(|status| refusal(status, encoding));
    let (code, size) = (response.status().as_u16(), response.body().size_hint().exact());
    serving.counts.end(
        &subject,
        query.text("dryRun") == "All",
        code,
        serving.door.registry.monotonic().saturating_sub(began),
        size,
    );
    // What is written piece by piece is served until its last piece.
    let held = |body: Body| {
        Body::new(body.map_frame(move |frame| {
            let _ = (&flying, &place);
            frame
        }))
    };
    let response = if size.is_none() { response.map(held) } else { response };
    let is_long = response.extensions().get::<Long>().is_some();
    let response = if wants.is_plain() { response } else { Box::pin(finish::finish(response, wants)).await };
    if !is_long {
        return response;
    }
    // What has not been read by the end of the request's time is not kept for its reader any longer.
    let left = serving.door.times.request.saturating_sub(serving.door.registry.monotonic().saturating_sub(began));
    response.map(|body| expiring(body, left))
}

/// What a request is about, for the counters.
fn subject(method: &Method, named: &Named, query: &Query) -> Subject {
    match named {
        Named::Resource { target, watch } => {
            let watch = *watch || (target.name.is_empty() && query.flag("watch").unwrap_or(false));
            Subject::of(method, target, watch)
        }
        _ => Subject::path(method),
    }
}

fn refusal(mut status: Status, encoding: Encoding) -> Response {
    if status.reason == Reason::BadRequest {
        // The field of a body that does not decode is told over gRPC; kube-apiserver has it in the words alone.
        status.causes.clear();
    }
    let mut response = answer::failure(&status, encoding);
    answer::warn(&mut response, &status.warnings);
    response
}

impl Serving {
    /// A place among the requests that are worked on; `None` = there are too many.
    fn place(&self, subject: &Subject, request: &Request) -> Option<Place> {
        if subject.is_long_running() {
            return Some(Place::uncounted());
        }
        let context = request.extensions().get::<Arc<RequestContext>>();
        let is_trusted = context.is_some_and(|context| context.user.is_master());
        self.places.take(subject.is_read(), is_trusted)
    }

    /// The answer, within the time that a request has; what lasts by its nature has no limit here.
    async fn in_time(
        &self,
        subject: &Subject,
        query: &Query,
        answer: impl Future<Output = Result<Response, Status>>,
    ) -> Result<Response, Status> {
        if subject.is_long_running() {
            return answer.await;
        }
        // A client may ask for less time, not for more.
        let limit = match query.timeout()? {
            Some(asked) if !asked.is_zero() => asked.min(self.door.times.request),
            _ => self.door.times.request,
        };
        // A verb may be dropped at any moment: what it began to write is written, or not at all.
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                let message = "Timeout: request did not complete within the allotted timeout";
                Err(Status::new(Reason::Timeout, message))
            }
        }
    }

    async fn answer(
        &self,
        request: Request,
        kinds: &Arc<Kinds>,
        named: Named,
        query: &Query,
    ) -> Result<Response, Status> {
        let headers = request.headers();
        if request.uri().path().starts_with("/openapi") {
            let documents = self.door.documents.of(kinds);
            return Ok(openapi::answer(&documents, request.uri().path(), query, headers));
        }
        match named {
            Named::Nothing => Ok(answer::page_not_found()),
            Named::UnknownResource => Err(unknown_resource()),
            Named::PrefixOfNothing => Ok(answer::prefix_of_nothing(request.uri())),
            Named::Resource { target, watch } => match Registry::deprecation(target.kind) {
                None => self.verb(request, &target, watch, query).await,
                Some(warning) => {
                    let encoding = encoding_of(&request);
                    let mut response = match self.verb(request, &target, watch, query).await {
                        Ok(response) => response,
                        // Where nothing is served nothing is on its way out either.
                        Err(status) if status.reason == Reason::MethodNotAllowed => return Err(status),
                        Err(status) => refusal(status, encoding),
                    };
                    answer::warn_first(&mut response, warning);
                    Ok(response)
                }
            },
            // These two are no routes upstream: whatever is asked of them, they answer.
            Named::Groups => discovery::groups(kinds, headers),
            Named::Group(name) => discovery::group(kinds, headers, name),
            _ if request.method() != Method::GET => Err(not_allowed()),
            Named::CoreVersions => {
                negotiate::routed(headers, Route::Object)?;
                discovery::core_versions(kinds, headers)
            }
            Named::GroupVersion(group, version) => {
                if kinds.all().any(|kind| kind.group == group && kind.extension.is_none()) {
                    negotiate::routed(headers, Route::Object)?;
                }
                discovery::resources(kinds, headers, group, version)
            }
        }
    }

    async fn verb(&self, request: Request, target: &Target, watched: bool, query: &Query) -> Result<Response, Status> {
        let RestDoor { registry, kubelets, stopping, .. } = &self.door;
        let context = request
            .extensions()
            .get::<Arc<RequestContext>>()
            .cloned()
            .ok_or_else(|| Status::internal("the request has not been authenticated"))?;
        if target.subresource == "proxy" {
            let kubelets = kubelets.as_ref();
            return Box::pin(proxy::proxy(registry, &context, kubelets, target, request, stopping.clone())).await;
        }
        let is_collection = target.name.is_empty();
        if !is_served(request.method(), target, watched) {
            return Err(not_allowed());
        }
        if target.kind.extension.is_none() {
            if *request.method() == Method::PATCH {
                body::check_routed_patch(request.headers())?;
            }
            let is_list = is_collection && *request.method() == Method::GET;
            negotiate::routed(request.headers(), if is_list || watched { Route::Collection } else { Route::Object })?;
        }
        let has_protobuf = || protobuf_write::has(&target.kind.api_version(), target.kind.kind);
        let form = negotiate::form_of(request.headers(), has_protobuf)?;
        let carried =
            if form.shape == Shape::Table { Carried::read(query.include_object())? } else { Carried::Metadata };
        let ask = Ask { registry, context: &context, target, query, form, carried };
        if target.kind.storage == Storage::Computed && query.flag("watch").unwrap_or(false) {
            return Err(not_watched(target));
        }
        // Each verb apart: the future of a request is moved several times on its way, and must not be as large as the
        // largest of them.
        match *request.method() {
            Method::GET if is_collection || watched => match query.list_or_watch(watched)? {
                Read::List(options) => Box::pin(list::list(registry, &context, target, &options, form, carried)).await,
                Read::Watch(watching) => {
                    let (counts, lasts_min) = (self.counts.clone(), self.door.times.watch_min);
                    let shown = Shown { form, carried, counts, lasts_min };
                    Box::pin(watch::watch(registry, &context, target, watching, shown, stopping.clone())).await
                }
            },
            Method::GET if target.subresource == "log" => {
                Box::pin(log::log(registry, &context, kubelets.as_deref(), target, query, stopping.clone())).await
            }
            Method::GET | Method::POST if stream::is_stream(target) => {
                let kubelets = kubelets.as_ref();
                Box::pin(stream::stream(registry, &context, kubelets, target, query, request, stopping.clone())).await
            }
            Method::GET => Box::pin(ask.get()).await,
            Method::POST if takes_new(target) => Box::pin(ask.create(request)).await,
            Method::PUT if !is_collection => Box::pin(ask.update(request)).await,
            Method::PATCH if !is_collection => Box::pin(ask.patch(request)).await,
            Method::DELETE if !is_collection => Box::pin(ask.delete(request)).await,
            Method::DELETE if takes_new(target) && target.kind.deletes_collections => {
                Box::pin(ask.delete_collection(request)).await
            }
            _ => Err(not_allowed()),
        }
    }
}

/// Whether there is such a verb: the collection, the object or the part names its own.
fn is_served(method: &Method, target: &Target, watched: bool) -> bool {
    let verbs = if target.subresource.is_empty() {
        target.kind.verbs()
    } else {
        discovery::verbs_of_part(target.kind, &target.subresource)
    };
    if watched {
        return *method == Method::GET && verbs.contains(&"watch");
    }
    let verb = match *method {
        Method::GET if target.name.is_empty() => "list",
        Method::GET => "get",
        Method::POST if takes_new(target) => "create",
        Method::DELETE if target.name.is_empty() && takes_new(target) => "deletecollection",
        Method::PUT if !target.name.is_empty() => "update",
        Method::PATCH if !target.name.is_empty() => "patch",
        Method::DELETE if !target.name.is_empty() => "delete",
        _ => return false,
    };
    verbs.contains(&verb)
}

/// Objects are made in their namespace, not in all of them; parts of them where there is something to make.
fn takes_new(target: &Target) -> bool {
    let has_place = !target.kind.namespaced || !target.namespace.is_empty();
    if target.name.is_empty() { has_place } else { !target.subresource.is_empty() }
}

fn unknown_resource() -> Status {
    Status::new(Reason::NotFound, "the server could not find the requested resource")
}

fn not_watched(target: &Target) -> Status {
    let kind = target.kind;
    let message = format!("watch is not supported on resources of kind {:?}", kind.name().to_string());
    Status {
        group: kind.group.to_owned(),
        kind: kind.plural.to_owned(),
        ..Status::new(Reason::MethodNotAllowed, message)
    }
}

pub(super) fn not_allowed() -> Status {
    Status::new(Reason::MethodNotAllowed, "the server does not allow this method on the requested resource")
}
