//! Requests of plain HTTP to the server's REST door, for what is not an object: documents about the API, health, paths
//! that a person types.
//!
//! Each request has a connection of its own, with the identity and the trust of the client's calls.

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use listwatch_proto::resource::Status;
use serde_json::Value;

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
        tokio::time::timeout(after, exchange(self.config(), request)).await.unwrap_or(Err(Error::Deadline { after }))
    }
}

async fn exchange(config: &ClientConfig, request: RawRequest) -> Result<Bytes, Error> {
    let uri: Uri = config.server.parse().map_err(broken)?;
    let host = uri.host().unwrap_or_default();
    let is_tls = uri.scheme_str() == Some("https");
    let bare_host = host.trim_start_matches('[').trim_end_matches(']');
    let tls = is_tls.then(|| Tls::speaking(config, bare_host, b"http/1.1")).transpose().map_err(broken)?;
    let authority = format!("{host}:{}", uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }));
    let stream = Connector::new(&authority, tls).dial().await.map_err(broken)?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(broken)?;
    // It ends with the answer; a fault on the way shows in the answer as well.
    let driver = tokio::spawn(connection);
    let answer = sender.send_request(head(config, &authority, request)?).await.map_err(broken)?;
    let (parts, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await.map_err(broken)?.to_bytes();
    driver.abort();
    if parts.status.is_success() {
        return Ok(body);
    }
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut status = Status::from_json(&said);
    if said["kind"] != "Status" {
        status.code = parts.status.as_u16();
        status.message = String::from_utf8_lossy(&body).trim().to_owned();
    }
    Err(Error::Status(Box::new(status)))
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
fn broken(error: impl std::fmt::Display) -> Error {
    let reason = error.to_string();
    Error::Transport { source: Box::new(tonic::Status::unavailable(reason.as_str())), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

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
