//! A request onward and its answer back, as a proxy hands them on (RFC 9110).

use std::sync::{Arc, OnceLock};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Reason, Status};
use tokio_util::sync::CancellationToken;

use crate::kubelets::{Endpoint, Kubelets, PortStream};
use crate::registry::{Registry, RequestContext, Target};
use crate::transport::{Peer, websocket};

/// Headers that concern one connection and not what is asked (RFC 9110), and those that prove who asks.
const NOT_PASSED: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "authorization",
];

/// What is passed on of a client's headers.
fn passed(headers: &HeaderMap, is_upgrade: bool) -> HeaderMap {
    let mut passed = HeaderMap::new();
    for (name, value) in headers {
        let is_kept = match name.as_str() {
            "upgrade" | "connection" => is_upgrade,
            name => !NOT_PASSED.contains(&name) && !name.starts_with("impersonate-"),
        };
        if is_kept {
            passed.append(name.clone(), value.clone());
        }
    }
    websocket::hide_bearer(&mut passed);
    passed
}

/// Tells who asked for what, as proxies do.
fn forwarded(headers: &mut HeaderMap, base: &str, path: &str) {
    let host = headers.get(header::HOST).cloned();
    let mut put = |name: &'static str, value: Option<HeaderValue>| {
        if let Some(value) = value {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    let asked = path.split('?').next().unwrap_or_default();
    put("x-forwarded-uri", HeaderValue::from_str(&format!("{base}{asked}")).ok());
    put("x-forwarded-host", host);
    put("x-forwarded-proto", Some(HeaderValue::from_static("https")));
}

/// The kubelet's own reason, or else what the connection died of.
fn unreachable_service(error: &hyper::Error, failure: &OnceLock<String>) -> Status {
    let why = failure.get().cloned().unwrap_or_else(|| error.to_string());
    Status::new(Reason::ServiceUnavailable, format!("error trying to reach service: {why}"))
}

/// Passes a request on over a connection of its own.
pub(super) async fn pass(
    stream: PortStream,
    request: Request,
    path: &str,
    base: &str,
    stopping: CancellationToken,
) -> Result<Response, Status> {
    let PortStream { bytes, carrier, failure } = stream;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(bytes)).await.map_err(|e| unreachable_service(&e, &failure))?;
    // Owned by the answer's body, or by the copying of an upgraded connection.
    let driver = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a pod ended");
        }
        drop(carrier);
    }));
    let is_upgrade = request.headers().contains_key(header::UPGRADE);
    let (mut parts, body) = request.into_parts();
    let coming = is_upgrade.then(|| parts.extensions.remove::<hyper::upgrade::OnUpgrade>()).flatten();
    let mut headers = passed(&parts.headers, is_upgrade);
    forwarded(&mut headers, base, path);
    if let Some(client) = parts.extensions.get::<Peer>()
        && let Ok(address) = HeaderValue::from_str(&client.address.ip().to_string())
    {
        headers.append(HeaderName::from_static("x-forwarded-for"), address);
    }
    let mut onward = Request::builder().method(parts.method).uri(path).body(body);
    if let Ok(onward) = &mut onward {
        *onward.headers_mut() = headers;
    }
    let onward = onward
        .map_err(|error| Status::bad_request(format!("{path} cannot be asked for: {error}", path = quote(&path))))?;
    let mut answer = sender.send_request(onward).await.map_err(|e| unreachable_service(&e, &failure))?;
    let upgrades = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    let pod_side = upgrades.then(|| hyper::upgrade::on(&mut answer));
    let (head, body) = answer.into_parts();
    if let (Some(pod_side), Some(client_side)) = (pod_side, coming) {
        // Owned by the connection: it ends with either side, or with the server.
        tokio::spawn(async move {
            if let (Ok(pod), Ok(client)) = (pod_side.await, client_side.await) {
                let (mut pod, mut client) = (TokioIo::new(pod), TokioIo::new(client));
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut client, &mut pod) => {}
                    () = stopping.cancelled() => {}
                }
            }
            drop(driver);
        });
        return Ok(Response::from_parts(answered(head, base, true), Body::empty()));
    }
    let pieces = stream::unfold((Body::new(body).into_data_stream(), driver), |(mut body, driver)| async {
        body.next().await.map(|piece| (piece, (body, driver)))
    });
    let body = Body::from_stream(pieces.take_until(stopping.cancelled_owned()));
    Ok(Response::from_parts(answered(head, base, false), body))
}

/// The head of an answer, as it is handed on: a place on the same host is a place below the base.
fn answered(mut head: http::response::Parts, base: &str, is_upgrade: bool) -> http::response::Parts {
    head.version = http::Version::default();
    if !is_upgrade {
        for name in NOT_PASSED {
            head.headers.remove(name);
        }
    }
    let place = head.headers.get(header::LOCATION).and_then(|place| place.to_str().ok());
    if let Some(own) = place.filter(|place| place.starts_with('/') && !place.starts_with("//"))
        && let Ok(below) = HeaderValue::from_str(&format!("{base}{own}"))
    {
        head.headers.insert(header::LOCATION, below);
    }
    head
}

/// Passes a plain `GET` on to the kubelet of a node.
pub(super) async fn pass_to_kubelet(
    registry: &Registry,
    context: &RequestContext,
    kubelets: Option<&Arc<Kubelets>>,
    node: &Target,
    path: &str,
    stopping: CancellationToken,
) -> Result<Response, Status> {
    let node = registry.get(context, node, 0).await?;
    let endpoint = Endpoint::of(node.object())?;
    let kubelets = kubelets.ok_or_else(crate::kubelets::no_way)?;
    let (head, answer) = kubelets.pass(&endpoint, path).await?;
    let pieces = stream::unfold(answer, |mut answer| async { answer.next().await.map(|piece| (piece, answer)) });
    let body = Body::from_stream(pieces.take_until(stopping.cancelled_owned()));
    Ok(Response::from_parts(answered(head, "", false), body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proves_who_asks_is_not_passed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer t"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.dA"),
            ("impersonate-user", "x"),
            ("connection", "Upgrade"),
            ("upgrade", "websocket"),
            ("accept", "text/html"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let names = |headers: &HeaderMap| {
            let mut names: Vec<String> = headers.keys().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(names(&passed(&headers, false)), ["accept"]);
        assert_eq!(names(&passed(&headers, true)), ["accept", "connection", "upgrade"]);
    }

    #[test]
    fn places_on_the_same_host_stay_below_the_base() {
        let head = |place: &'static str| {
            Response::builder().header(header::LOCATION, place).body(()).expect("valid").into_parts().0
        };
        let place = |own| answered(head(own), "/base", false).headers[header::LOCATION].clone();
        assert_eq!(place("/login"), "/base/login");
        assert_eq!(place("https://elsewhere/login"), "https://elsewhere/login");
        assert_eq!(place("//elsewhere/login"), "//elsewhere/login");
    }
}
