//! Version and health over plain HTTP, as kube-apiserver answers them.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::storage::Engine;

/// The Kubernetes release whose API is served.
pub(crate) const KUBERNETES_VERSION: &str = "1.36.3";

#[derive(Clone, Debug)]
struct Probe {
    engine: Engine,
    stopping: CancellationToken,
}

/// `/version`, `/healthz`, `/livez`, `/readyz`.
pub(super) fn router(engine: Engine, stopping: CancellationToken) -> Router {
    Router::new()
        .route("/version", get(version))
        .route("/livez", get(|| async { "ok" }))
        .route("/healthz", get(ready))
        .route("/readyz", get(ready))
        .with_state(Probe { engine, stopping })
}

async fn version() -> Json<serde_json::Value> {
    let mut parts = KUBERNETES_VERSION.split('.');
    Json(json!({
        "major": parts.next(),
        "minor": parts.next(),
        "gitVersion": format!("v{KUBERNETES_VERSION}+listwatch-{}", env!("CARGO_PKG_VERSION")),
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    }))
}

/// Ready = reads and writes are served.
async fn ready(State(probe): State<Probe>) -> Response {
    if probe.stopping.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "the server is stopping").into_response();
    }
    match probe.engine.status().poisoned {
        None => "ok".into_response(),
        Some(reason) => {
            (StatusCode::INTERNAL_SERVER_ERROR, format!("the store takes no writes: {reason}")).into_response()
        }
    }
}
