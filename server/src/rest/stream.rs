//! `exec`, `attach` and `portforward` of pods: a client's WebSocket through to the kubelet.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use hyper_util::rt::TokioIo;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Status;
use tokio_util::sync::CancellationToken;

use super::query::Query;
use crate::kubelets::{Kubelets, StreamQuery, Streams, open_stream};
use crate::registry::{Attributes, Registry, RequestContext, Target};

/// Whether the target is a stream of a pod.
pub(super) fn is_stream(target: &Target) -> bool {
    matches!(target.subresource.as_str(), "exec" | "attach" | "portforward")
}

/// Answers `GET` and `POST` of a stream. `request` has no body; its connection is taken over.
pub(super) async fn stream(
    registry: &Registry,
    context: &RequestContext,
    kubelets: Option<&Arc<Kubelets>>,
    target: &Target,
    query: &Query,
    mut request: Request,
    stopping: CancellationToken,
) -> Result<Response, Status> {
    let asked = stream_query(target, query)?;
    if request.method() == http::Method::GET && request.headers().contains_key(http::header::UPGRADE) {
        // A WebSocket begins with a GET; what it does is the same (Kubernetes 1.36 asks for `create` both times).
        registry.authorize(&context.user, &Attributes::of("create", target)).await?;
    }
    let coming = hyper::upgrade::on(&mut request);
    let kubelet = open_stream(registry, context, kubelets, target, &asked, request.headers()).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *response.headers_mut() = handshake(kubelet.headers());
    // Owned by the connection: it ends with either side, or with the server.
    tokio::spawn(async move {
        let client = match coming.await {
            Ok(client) => client,
            Err(error) => return tracing::debug!(%error, "a client went before its stream began"),
        };
        let (mut client, mut kubelet) = (TokioIo::new(client), kubelet);
        tokio::select! {
            copied = tokio::io::copy_bidirectional(&mut client, kubelet.stream()) => {
                if let Err(error) = copied {
                    tracing::debug!(%error, "a stream of a pod broke off");
                }
            }
            () = stopping.cancelled() => {}
        }
    });
    Ok(response)
}

fn stream_query(target: &Target, query: &Query) -> Result<StreamQuery, Status> {
    let flag = |name: &str, default: bool| query.flag(name).unwrap_or(default);
    let streams = || Streams {
        container: query.text("container").to_owned(),
        stdin: flag("stdin", false),
        stdout: flag("stdout", true),
        stderr: flag("stderr", true),
        tty: flag("tty", false),
    };
    match target.subresource.as_str() {
        "exec" => Ok(StreamQuery::Exec(streams(), query.all("command").map(str::to_owned).collect())),
        "attach" => Ok(StreamQuery::Attach(streams())),
        _ => {
            let mut ports = Vec::new();
            for text in query.all("ports").flat_map(|list| list.split(',')).filter(|text| !text.is_empty()) {
                let port = text.parse::<u16>().ok().filter(|port| *port > 0);
                ports.push(port.ok_or_else(|| Status::bad_request(format!("ports: {} is not a port", quote(&text))))?);
            }
            Ok(StreamQuery::PortForward(ports))
        }
    }
}

/// The kubelet's answer, as far as it is the handshake.
fn handshake(headers: &HeaderMap) -> HeaderMap {
    use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
    let mut kept = HeaderMap::new();
    for name in [CONNECTION, UPGRADE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL] {
        if let Some(value) = headers.get(&name) {
            kept.insert(name, value.clone());
        }
    }
    kept
}
