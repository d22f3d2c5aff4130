//! The gate in front of a router: authenticates and authorizes each request and hands on its context.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use listwatch_proto::resource::{Reason, Status};

use super::audit::{AuditLog, Received};
use super::{ANONYMOUS, Authenticator, asked, claims, impersonation};
use crate::registry::{Attributes, Registry, RequestContext, User, declared};
use crate::transport::Peer;

/// How much of the body of a refused request is read, and for how long: enough for what honest clients send.
const REFUSED_BODY_BYTES_MAX: usize = 64 << 10;
const REFUSED_BODY_WAIT_MAX: Duration = Duration::from_secs(1);

/// Paths that everybody may see, whatever roles say (kube-apiserver's `--authorization-always-allow-paths`).
const ALWAYS_ALLOWED: [&str; 5] =
    ["/healthz", "/readyz", "/livez", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];

/// The gRPC services whose messages name what is asked.
const RESOURCES: &str = "/listwatch.v1.Resources/";
/// What tells the gRPC API itself; as open as discovery.
const REFLECTION: &str = "/grpc.reflection.";

/// Judges requests. One for each port.
#[derive(Debug)]
pub struct Gate {
    /// Turns proof into a user.
    pub authenticator: Arc<Authenticator>,
    /// Who judges.
    pub registry: Registry,
    /// Whether a request may show no proof at all (kube-apiserver's `--anonymous-auth`).
    pub anonymous: bool,
    /// Who is told of every request.
    pub audit: Option<Arc<AuditLog>>,
}

/// A context whose user has not been judged: what it asks stands in its message. It gives the context away only for a
/// judgement.
#[derive(Clone, Debug)]
pub struct Unjudged {
    context: Arc<RequestContext>,
    /// Where the audit log learns what was asked.
    asked: Arc<OnceLock<Attributes>>,
}

impl Unjudged {
    /// The context, if its user may do this.
    ///
    /// # Errors
    /// `Forbidden`; a store that does not answer.
    pub async fn may(&self, registry: &Registry, attributes: &Attributes) -> Result<Arc<RequestContext>, Status> {
        // The first question is what the request is for.
        let _ = self.asked.set(attributes.clone());
        registry.authorize(&self.context.user, attributes).await?;
        Ok(self.context.clone())
    }
}

impl Gate {
    /// Judges a request and puts what it found into its extensions.
    async fn judge(&self, request: &mut Request, received: Option<&Received>) -> Result<(), Status> {
        let (peer, headers) = (request.extensions().get::<Peer>(), request.headers());
        let asker = self.authenticator.user(&self.registry, peer, headers).await?;
        if !self.anonymous && asker.name == ANONYMOUS {
            return Err(Status::new(Reason::Unauthorized, "Unauthorized: no proof of identity"));
        }
        let path = request.uri().path();
        if let Some(received) = received {
            let _ = received.user.set(User::clone(&asker));
        }
        let user = match impersonation::user(&self.registry, &asker, request.headers()).await? {
            Some(other) => {
                if let Some(received) = received {
                    let _ = received.acting_as.set(other.clone());
                }
                Arc::new(other)
            }
            None => asker,
        };
        let context = claims::context(user, request.headers())?;
        if path.starts_with(RESOURCES) {
            let asked = received.map(|received| received.attributes.clone()).unwrap_or_default();
            let context = Arc::new(context);
            request.extensions_mut().insert(Unjudged { context, asked });
            return Ok(());
        }
        // What a master asks for needs only be known for the log.
        if !ALWAYS_ALLOWED.contains(&path) && (received.is_some() || !context.user.is_master()) {
            let attributes = if path.starts_with(REFLECTION) {
                Attributes::path("get", "/openapi")
            } else {
                asked::of(request.method(), request.uri())
            };
            if let Some(received) = received {
                let _ = received.attributes.set(attributes.clone());
            }
            self.registry.authorize(&context.user, &attributes).await?;
        }
        request.extensions_mut().insert(Arc::new(context));
        Ok(())
    }

    /// Judges a request, and has it answered if it may be. The audit log hears of it either way.
    pub async fn pass<F>(&self, mut request: Request, answer: impl FnOnce(Request) -> F) -> Response
    where
        F: Future<Output = Response>,
    {
        // What the log will say is only put aside if there is one.
        let received = self.audit.as_ref().map(|_| received(&self.registry, &request));
        let response = match self.judge(&mut request, received.as_ref()).await {
            Ok(()) => answer(request).await,
            Err(status) => {
                let (parts, body) = request.into_parts();
                // An answer ahead of the body resets the stream, and some clients then show the reset instead of the
                // answer.
                let drained = axum::body::to_bytes(body, REFUSED_BODY_BYTES_MAX);
                let _ = tokio::time::timeout(REFUSED_BODY_WAIT_MAX, drained).await;
                refuse(&parts.headers, status)
            }
        };
        if let (Some(audit), Some(received)) = (&self.audit, &received) {
            let code = code_of(&response);
            let revision = (received.is_write() && code < 300).then(|| self.registry.revision());
            audit.tell(&received.event(code, revision, self.registry.time()));
        }
        response
    }
}

/// Middleware: lets a request through with an `Arc<RequestContext>` in its extensions, or answers why not.
pub async fn guard(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    gate.pass(request, |request| next.run(request)).await
}

fn received(registry: &Registry, request: &Request) -> Received {
    let address = request.extensions().get::<Peer>().map(|peer| peer.address.ip().to_string());
    Received::new(registry.time(), request.method().clone(), request.uri().clone(), request.headers(), address)
}

/// HTTP's code of an answer, also of one that gRPC wraps.
fn code_of(response: &Response) -> u16 {
    match tonic::Status::from_header_map(response.headers()) {
        Some(status) if status.code() != tonic::Code::Ok => Status::from_grpc(&status).code,
        _ => response.status().as_u16(),
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
    // As upstream sends every refusal.
    let head = [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-cache, private"),
        (header::CONTENT_TYPE, "application/json"),
    ];
    (code, head, declared::text(&status.to_json(), "meta/v1.Status")).into_response()
}
