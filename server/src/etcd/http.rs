//! Plain HTTP on the port of the gRPC services, as etcd serves it: `/version`, `/health`, `/livez`, `/readyz`, `/metrics`.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::front::{Front, SERVER_VERSION};
use super::metrics;

/// A named check of the health paths.
type Check = (&'static str, fn(&Front) -> Result<(), String>);

/// What `/livez` asks (etcd 3.6).
const LIVE: &[Check] = &[("serializable_read", Front::readable)];

/// What `/readyz` asks: etcd 3.6's, of which the last can never fail in a store with one member.
const READY: &[Check] = &[
    ("data_corruption", Front::writable),
    ("serializable_read", Front::readable),
    ("linearizable_read", Front::readable),
    ("non_learner", |_| Ok(())),
];

/// The paths.
pub(super) fn router(front: Arc<Front>) -> Router {
    Router::new()
        .route("/version", get(version))
        .route("/health", get(health))
        .route("/livez", get(livez))
        .route("/livez/{check}", get(livez_one))
        .route("/readyz", get(readyz))
        .route("/readyz/{check}", get(readyz_one))
        .route("/metrics", get(metrics_text))
        .fallback(unknown)
        .with_state(front)
}

async fn version() -> Response {
    let cluster = SERVER_VERSION.rsplit_once('.').map_or(SERVER_VERSION, |(minor, _)| minor);
    axum::Json(json!({
        "etcdserver": SERVER_VERSION,
        "etcdcluster": format!("{cluster}.0"),
        "storage": format!("{cluster}.0"),
    }))
    .into_response()
}

async fn health(State(front): State<Arc<Front>>) -> Response {
    let failed = front.readable().and_then(|()| front.writable()).err();
    let (code, health) = match failed {
        None => (StatusCode::OK, "true"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "false"),
    };
    (code, axum::Json(json!({ "health": health, "reason": failed.unwrap_or_default() }))).into_response()
}

async fn livez(State(front): State<Arc<Front>>, RawQuery(query): RawQuery) -> Response {
    checks(&front, "livez", LIVE, query.as_deref().unwrap_or_default())
}

async fn readyz(State(front): State<Arc<Front>>, RawQuery(query): RawQuery) -> Response {
    checks(&front, "readyz", READY, query.as_deref().unwrap_or_default())
}

async fn livez_one(State(front): State<Arc<Front>>, Path(name): Path<String>) -> Response {
    one(&front, "livez", LIVE, &name)
}

async fn readyz_one(State(front): State<Arc<Front>>, Path(name): Path<String>) -> Response {
    one(&front, "readyz", READY, &name)
}

fn one(front: &Front, path: &str, all: &[Check], name: &str) -> Response {
    match all.iter().find(|(known, _)| *known == name) {
        Some(check) => checks(front, path, std::slice::from_ref(check), ""),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Runs the checks that the query does not exclude, and tells all of them if one fails or `verbose` asks for it.
fn checks(front: &Front, path: &str, all: &[Check], query: &str) -> Response {
    let pairs = || query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let verbose = pairs().any(|(name, _)| name == "verbose");
    let mut text = String::new();
    let mut failed = false;
    for (name, check) in all {
        if pairs().any(|(key, value)| key == "exclude" && value == *name) {
            text += &format!("[+]{name} excluded: ok\n");
            continue;
        }
        match check(front) {
            Ok(()) => text += &format!("[+]{name} ok\n"),
            Err(reason) => {
                failed = true;
                text += &format!("[-]{name} failed: {reason}\n");
            }
        }
    }
    if failed {
        return (StatusCode::SERVICE_UNAVAILABLE, format!("{text}{path} check failed\n")).into_response();
    }
    if verbose { format!("{text}ok\n").into_response() } else { "ok\n".into_response() }
}

async fn metrics_text(State(front): State<Arc<Front>>) -> Response {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::text(&front)).into_response()
}

/// A path nobody serves: a gRPC client is told in its own way.
async fn unknown(request: Request) -> Response {
    let grpc = request
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    if !grpc {
        return StatusCode::NOT_FOUND.into_response();
    }
    let method = request.uri().path().trim_start_matches('/');
    let (service, method) = method.rsplit_once('/').unwrap_or((method, ""));
    // grpc-go's text for a service it does not have.
    let status = tonic::Status::unimplemented(format!("unknown service {service}: no method {method}"));
    status.into_http::<axum::body::Body>()
}
