//! The gate in front of a router: judges each request and hands on its context.
//!
//! Whoever is authenticated may do anything: this is the seam where an authorizer will stand.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use listwatch_proto::resource::{Reason, Status};

use super::{ANONYMOUS, Authenticator, claims};
use crate::registry::RequestContext;
use crate::transport::Peer;

/// How much of the body of a refused request is read, and for how long: enough for what honest clients send.
const REFUSED_BODY_BYTES_MAX: usize = 64 << 10;
const REFUSED_BODY_WAIT_MAX: Duration = Duration::from_secs(1);

/// Paths that need no identity: an exact path, or everything below one that ends with a slash.
pub type PublicPaths = &'static [&'static str];

/// Judges requests. One for each port.
#[derive(Debug)]
pub struct Gate {
    /// Turns proof into a user.
    pub authenticator: Authenticator,
    /// What needs no identity.
    pub public: PublicPaths,
}

impl Gate {
    fn judge(&self, request: &Request) -> Result<RequestContext, Status> {
        let user = self.authenticator.user(request.extensions().get::<Peer>(), request.headers())?;
        let path = request.uri().path();
        if user.name == ANONYMOUS && !self.is_public(path) {
            let verb = request.method().as_str().to_ascii_lowercase();
            let message = format!("forbidden: User \"{ANONYMOUS}\" cannot {verb} path \"{path}\"");
            return Err(Status::new(Reason::Forbidden, message));
        }
        claims::context(user, request.headers())
    }

    fn is_public(&self, path: &str) -> bool {
        self.public.iter().any(|open| path == *open || (open.ends_with('/') && path.starts_with(open)))
    }
}

/// Middleware: lets a request through with an `Arc<RequestContext>` in its extensions, or answers why not.
pub async fn guard(State(gate): State<Arc<Gate>>, mut request: Request, next: Next) -> Response {
    match gate.judge(&request) {
        Ok(context) => {
            request.extensions_mut().insert(Arc::new(context));
            next.run(request).await
        }
        Err(status) => {
            let (parts, body) = request.into_parts();
            // An answer ahead of the body resets the stream, and some clients then show the reset instead of the answer.
            let drained = axum::body::to_bytes(body, REFUSED_BODY_BYTES_MAX);
            let _ = tokio::time::timeout(REFUSED_BODY_WAIT_MAX, drained).await;
            refuse(&parts.headers, status)
        }
    }
}

/// The refusal in the form that the client speaks: a gRPC status, or the Status object of Kubernetes.
fn refuse(headers: &HeaderMap, status: Status) -> Response {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if content_type.starts_with("application/grpc") {
        return tonic::Status::from(status).into_http::<tonic::body::Body>().map(Body::new);
    }
    let mut status = status;
    if status.reason == Reason::Unauthorized {
        // Kubernetes tells nobody why; over gRPC the reason is told, to people who set up clients.
        status.message = "Unauthorized".to_owned();
    }
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, axum::Json(status.to_json())).into_response()
}
