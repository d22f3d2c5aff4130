//! Requests of plain HTTP to the server's REST door, for what is not an object: documents about the API, health, paths
//! that a person types.
//!
//! Each request has a connection of its own, with the identity and the trust of the client's calls.

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION,
    UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use listwatch_proto::resource::{Reason, Status};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::connection::impersonation;
use super::connector::Connector;
use super::tls::Tls;
use super::{Client, ClientConfig, Error};

/// The largest answer taken: the largest documents about the API come to a few megabytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct RawRequest {
    /// `GET`, `POST`, …
    pub method: Method,
    /// Path with its query, `/healthz?verbose`.
    pub path: String,
    /// What is sent; none: no body.
    pub body: Option<Bytes>,
}

impl RawRequest {
    /// Reads a path.
    pub fn get(path: impl Into<String>) -> Self {
        RawRequest { path: path.into(), ..Self::default() }
    }
}

impl Client {
    /// Sends the request and gives the answer's body.
    ///
    /// # Errors
    /// A failure that the server answered, the way to it, or no answer within the client's deadline.
    pub async fn raw(&self, request: RawRequest) -> Result<Bytes, Error> {
        let after = self.config().request_timeout;
        let exchange = async {
            let (answer, driver) = send(self.config(), request, HeaderMap::new()).await?;
            let body = body_of(answer).await;
            driver.abort();
            body
        };
        tokio::time::timeout(after, exchange).await.unwrap_or(Err(Error::Deadline { after }))
    }

    /// Opens a WebSocket at this path, in this protocol.
    pub(super) async fn upgrade(
        &self,
        path: &str,
        protocol: &'static str,
    ) -> Result<WebSocketStream<TokioIo<Upgraded>>, Error> {
        let after = self.config().request_timeout;
        let opening = async {
            let mut headers = HeaderMap::new();
            for (name, value) in [(CONNECTION, "Upgrade"), (UPGRADE, "websocket"), (SEC_WEBSOCKET_VERSION, "13")] {
                headers.insert(name, HeaderValue::from_static(value));
            }
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
            let key = HeaderValue::try_from(generate_key()).map_err(broken)?;
            headers.insert(SEC_WEBSOCKET_KEY, key);
            let (answer, driver) = send(self.config(), RawRequest::get(path), headers).await?;
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
                let refused = body_of(answer).await;
                driver.abort();
                let refused = refused.and(Err(Error::Incomplete("the protocol that was asked for")));
                return refused;
            }
            hyper::upgrade::on(answer).await.map_err(broken)
        };
        let upgraded = tokio::time::timeout(after, opening).await.unwrap_or(Err(Error::Deadline { after }))?;
        Ok(WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await)
    }
}

/// Sends a request over a connection of its own; what drives the connection ends with it.
async fn send(
    config: &ClientConfig,
    request: RawRequest,
    more: HeaderMap,
) -> Result<(Response<Incoming>, JoinHandle<()>), Error> {
    let uri: Uri = config.server.parse().map_err(broken)?;
    let host = uri.host().unwrap_or_default();
    let is_tls = uri.scheme_str() == Some("https");
    let bare_host = host.trim_start_matches('[').trim_end_matches(']');
    let tls = is_tls.then(|| Tls::speaking(config, bare_host, b"http/1.1")).transpose().map_err(broken)?;
    let authority = format!("{host}:{}", uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }));
    let stream = Connector::new(&authority, tls).dial().await.map_err(broken)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(broken)?;
    // A fault on the way shows in the answer as well.
    let driver = tokio::spawn(async move { drop(connection.with_upgrades().await) });
    let mut head = head(config, &authority, request)?;
    head.headers_mut().extend(more);
    let answer = sender.send_request(head).await.map_err(broken)?;
    Ok((answer, driver))
}

/// The answer's body, or the failure that it tells of.
async fn body_of(answer: Response<Incoming>) -> Result<Bytes, Error> {
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(broken)?.to_bytes();
    if parts.status.is_success() {
        return Ok(body);
    }
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut status = Status::from_json(&said);
    if said["kind"] != "Status" {
        status.code = parts.status.as_u16();
        status.message = String::from_utf8_lossy(&body).trim().to_owned();
        if parts.status == StatusCode::NOT_FOUND {
            // What has no page of its own, in the words of Kubernetes' client.
            status.reason = Reason::NotFound;
            status.message = "the server could not find the requested resource".to_owned();
        }
    }
    Err(Error::Status(Box::new(status)))
}

/// Pairs as the query of a path, without the question mark: `stdin=true&command=ls`.
pub fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (name, value) in pairs {
        if !text.is_empty() {
            text.push('&');
        }
        text.push_str(name);
        text.push('=');
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => text.push(char::from(byte)),
                byte => text.push_str(&format!("%{byte:02X}")),
            }
        }
    }
    text
}

fn head(config: &ClientConfig, authority: &str, request: RawRequest) -> Result<Request<Full<Bytes>>, Error> {
    let mut head = Request::builder()
        .method(request.method)
        .uri(request.path)
        .header(HOST, authority)
        .header(USER_AGENT, concat!("listwatch/", env!("CARGO_PKG_VERSION")));
    if let Some(token) = &config.token {
        head = head.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    for (name, value) in impersonation(config) {
        head = head.header(name, value);
    }
    if request.body.is_some() {
        head = head.header(CONTENT_TYPE, "application/json");
    }
    head.body(Full::new(request.body.unwrap_or_default())).map_err(broken)
}

/// Something between here and the server; the call may or may not have been done.
pub(super) fn broken(error: impl std::fmt::Display) -> Error {
    let reason = error.to_string();
    Error::Transport { source: Box::new(tonic::Status::unavailable(reason.as_str())), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_holds_any_text() {
        assert_eq!(
            query([("command", "sh"), ("command", "a b&c=é"), ("tty", "true")]),
            "command=sh&command=a%20b%26c%3D%C3%A9&tty=true"
        );
        assert_eq!(query([]), "");
    }

    #[test]
    fn a_request_carries_who_asks() {
        let mut config = ClientConfig::new("https://127.0.0.1:1");
        config.token = Some("t".to_owned());
        config.impersonate.user = "ann".to_owned();
        config.impersonate.groups = vec!["a".to_owned(), "b".to_owned()];
        let head = head(&config, "h:1", RawRequest::get("/healthz?verbose")).expect("a request");
        assert_eq!((head.uri().path(), head.headers()[HOST].as_bytes()), ("/healthz", &b"h:1"[..]));
        assert_eq!(head.headers()[AUTHORIZATION], "Bearer t");
        assert_eq!(head.headers()["impersonate-user"], "ann");
        assert_eq!(head.headers().get_all("impersonate-group").iter().count(), 2);
        assert!(head.headers().get(CONTENT_TYPE).is_none());
    }
}
