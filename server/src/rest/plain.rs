//! What stands outside the API: the version, and the paths that there are.

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::any;
use http::{Method, StatusCode};
use listwatch_proto::resource::KINDS;
use listwatch_proto::version::VersionInfo;
use serde_json::json;

use super::door::not_allowed;
use super::form::answer;
use super::form::negotiate::{self, Encoding, Route};

/// `/`, `/index.html`, `/version`.
pub(super) fn router() -> Router {
    Router::new()
        .route("/", any(|| async { answer::value(StatusCode::OK, Encoding::Json, &json!({"paths": paths()})) }))
        .route(
            "/index.html",
            any(|| async { answer::value(StatusCode::OK, Encoding::Json, &json!({"paths": paths()})) }),
        )
        .route("/version", any(version))
        .route("/version/", any(version))
}

/// Every path that is worth a look, in order.
fn paths() -> Vec<String> {
    let mut paths: Vec<String> =
        ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]
            .map(str::to_owned)
            .to_vec();
    for kind in KINDS {
        match kind.group {
            "" => paths.push(format!("/api/{}", kind.version)),
            group => paths.extend([format!("/apis/{group}"), format!("/apis/{group}/{}", kind.version)]),
        }
    }
    paths.sort_unstable();
    paths.dedup();
    paths
}

async fn version(request: Request) -> Response {
    if request.method() != Method::GET {
        return answer::failure(&not_allowed(), negotiate::encoding(request.headers()));
    }
    if let Err(status) = negotiate::routed(request.headers(), Route::Json) {
        return answer::failure(&status, negotiate::encoding(request.headers()));
    }
    let value = serde_json::to_value(VersionInfo::server()).expect("plain data serializes");
    answer::value(StatusCode::OK, Encoding::Json, &value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_those_of_the_groups() {
        let paths = paths();
        for path in ["/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/readyz"] {
            assert_eq!(paths.iter().filter(|p| *p == path).count(), 1, "{path}");
        }
        assert!(paths.is_sorted());
    }
}
