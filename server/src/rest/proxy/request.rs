//! A request for `proxy`: where its path ends and the one that is passed on begins.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, Uri, header};
use listwatch_proto::resource::{Reason, Status};
use tokio_util::sync::CancellationToken;

use super::pass::{pass, pass_to_kubelet};
use super::place::{self, Place};
use crate::kubelets::{Kubelets, open_port};
use crate::registry::{Registry, RequestContext, Target};
use crate::rest::door::not_allowed;

/// Methods that are passed on (Kubernetes 1.36).
const METHODS: [Method; 7] =
    [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD, Method::OPTIONS];
/// Passes a request on.
pub(in crate::rest) async fn proxy(
    registry: &Registry,
    context: &RequestContext,
    kubelets: Option<&Arc<Kubelets>>,
    target: &Target,
    request: Request,
    stopping: CancellationToken,
) -> Result<Response, Status> {
    if !METHODS.contains(request.method()) {
        return Err(not_allowed());
    }
    let place = place::of(registry, context, target).await?;
    let (base, rest) = split(request.uri().path());
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    if rest.is_empty() && !is_upgrade && matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(moved(request.uri()));
    }
    let path = match request.uri().query() {
        Some(query) => format!("/{}?{query}", rest.trim_start_matches('/')),
        None => format!("/{}", rest.trim_start_matches('/')),
    };
    let base = base.to_owned();
    match place {
        Place::Pod(pod, port) => {
            let stream = open_port(registry, context, kubelets, &pod, port).await?;
            pass(stream, request, &path, &base, stopping).await
        }
        Place::Node(node) => {
            if *request.method() != Method::GET || is_upgrade {
                let why =
                    "proxy of nodes passes on plain GET only; commands and ports of pods have their own subresources";
                return Err(Status::new(Reason::MethodNotAllowed, why));
            }
            pass_to_kubelet(registry, context, kubelets, &node, &path, stopping).await
        }
    }
}

/// A path up to `proxy`, and what stands behind it.
fn split(path: &str) -> (&str, &str) {
    const PART: &str = "/proxy";
    // The first segment of that name behind the object's: names before it may be called so too.
    let parts: Vec<&str> = path.split('/').collect();
    let names = if parts.get(3) == Some(&"namespaces") { 7 } else { 5 };
    let length: usize = parts.iter().take(names + 1).map(|part| part.len() + 1).sum::<usize>().saturating_sub(1);
    let (head, rest) = path.split_at(length.min(path.len()));
    debug_assert!(head.ends_with(PART) || !path.contains(PART));
    (head, rest)
}

/// An empty path is the directory: relative links in what is found there must stay below it.
fn moved(uri: &Uri) -> Response {
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(to) = HeaderValue::from_str(&format!("{}/{query}", uri.path())) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_behind_the_object() {
        for (path, base, rest) in [
            ("/api/v1/namespaces/n/pods/proxy/proxy/a/proxy/b", "/api/v1/namespaces/n/pods/proxy/proxy", "/a/proxy/b"),
            ("/api/v1/namespaces/n/services/s:80/proxy", "/api/v1/namespaces/n/services/s:80/proxy", ""),
            ("/api/v1/nodes/n/proxy/", "/api/v1/nodes/n/proxy", "/"),
        ] {
            assert_eq!(split(path), (base, rest), "{path}");
        }
    }
}
