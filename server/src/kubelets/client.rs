//! Calling kubelets: over TLS, with the server's own client certificate, and only one that proves to be its node.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use listwatch_proto::resource::{Object, Reason, Status};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::transport::{CertificateUser, TlsError, read_chain, read_key};

/// A kubelet that does not answer in this time is away.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Bytes of a kubelet's refusal that are handed on.
const REFUSAL_BYTES_MAX: usize = 4096;

/// Reaches kubelets.
#[derive(Debug)]
pub struct Kubelets {
    config: Arc<ClientConfig>,
}

/// Where a node's kubelet listens.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    node: String,
    host: String,
    port: u16,
}

/// A connection to a kubelet that speaks another protocol now. Dropping it closes the connection.
pub(crate) struct Upgraded {
    headers: HeaderMap,
    stream: TokioIo<hyper::upgrade::Upgraded>,
    _connection: AbortOnDropHandle<()>,
}

/// The body of a kubelet's answer. Dropping it closes the connection.
pub(crate) struct Answer {
    body: Incoming,
    _connection: AbortOnDropHandle<()>,
}

impl Kubelets {
    /// Reads the server's certificate and key for kubelets, and the authority that signed theirs.
    ///
    /// # Errors
    /// A file that cannot be used; the message names it.
    pub fn load(certificate: &Path, key: &Path, authority: &Path) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        let content = |reason: String| TlsError::Content { path: authority.to_owned(), reason };
        for root in read_chain(authority)? {
            roots.add(root).map_err(|e| content(e.to_string()))?;
        }
        let pair = |error: rustls::Error| TlsError::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            reason: error.to_string(),
        };
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_root_certificates(roots)
            .with_client_auth_cert(read_chain(certificate)?, read_key(key)?)
            .map_err(pair)?;
        Ok(Kubelets { config: Arc::new(config) })
    }

    /// Gets a path from a node's kubelet.
    ///
    /// # Errors
    /// `ServiceUnavailable` if the kubelet is away or is not who it should be; its own refusal otherwise.
    pub(crate) async fn get(&self, endpoint: &Endpoint, path: &str) -> Result<Answer, Status> {
        let (response, connection) = self.ask(endpoint, path, HeaderMap::new()).await?;
        let (head, body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(refusal(&endpoint.node, head.status, body).await);
        }
        Ok(Answer { body, _connection: connection })
    }

    /// Gets a path from a node's kubelet, whatever it answers.
    ///
    /// # Errors
    /// `ServiceUnavailable` if the kubelet is away or is not who it should be.
    pub(crate) async fn pass(
        &self,
        endpoint: &Endpoint,
        path: &str,
    ) -> Result<(http::response::Parts, Answer), Status> {
        let (response, connection) = self.ask(endpoint, path, HeaderMap::new()).await?;
        let (head, body) = response.into_parts();
        Ok((head, Answer { body, _connection: connection }))
    }

    /// Opens a connection of another protocol to a node's kubelet; `handshake` asks for it.
    ///
    /// # Errors
    /// As [`Kubelets::get`].
    pub(crate) async fn upgrade(
        &self,
        endpoint: &Endpoint,
        path: &str,
        handshake: HeaderMap,
    ) -> Result<Upgraded, Status> {
        let (response, connection) = self.ask(endpoint, path, handshake).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (head, body) = response.into_parts();
            return Err(refusal(&endpoint.node, head.status, body).await);
        }
        let headers = response.headers().clone();
        let upgraded = hyper::upgrade::on(response).await;
        let upgraded = upgraded.map_err(|error| away(endpoint, &error.to_string()))?;
        Ok(Upgraded { headers, stream: TokioIo::new(upgraded), _connection: connection })
    }

    async fn ask(
        &self,
        endpoint: &Endpoint,
        path: &str,
        headers: HeaderMap,
    ) -> Result<(Response<Incoming>, AbortOnDropHandle<()>), Status> {
        let Endpoint { host, port, .. } = endpoint;
        let call = async {
            let (mut sender, connection) = self.connect(endpoint).await.map_err(|e| away(endpoint, &e.to_string()))?;
            let mut request = Request::get(path)
                .header(http::header::HOST, format!("{host}:{port}"))
                .body(Empty::<Bytes>::new())
                .map_err(|e| Status::bad_request(format!("the name of pod or container cannot be asked for: {e}")))?;
            request.headers_mut().extend(headers);
            let response = sender.send_request(request).await.map_err(|e| away(endpoint, &e.to_string()))?;
            Ok::<_, Status>((response, connection))
        };
        match tokio::time::timeout(ANSWER_MAX, call).await {
            Ok(outcome) => outcome,
            Err(_) => Err(away(endpoint, &format!("no answer within {ANSWER_MAX:?}"))),
        }
    }

    async fn connect(
        &self,
        Endpoint { node, host, port }: &Endpoint,
    ) -> io::Result<(http1::SendRequest<Empty<Bytes>>, AbortOnDropHandle<()>)> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(node.clone()).map_err(|e| invalid(e.to_string()))?;
        let stream = TlsConnector::from(self.config.clone()).connect(name, stream).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let user = CertificateUser::of(shown.ok_or_else(|| invalid("it shows no certificate".to_owned()))?)
            .map_err(invalid)?;
        let expected = format!("system:node:{node}");
        if user.name != expected || !user.groups.iter().any(|g| g == "system:nodes") {
            return Err(invalid(format!("it is {}, not {expected} of system:nodes", user.name)));
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        let driver = tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "connection to a kubelet ended");
            }
        });
        Ok((sender, AbortOnDropHandle::new(driver)))
    }
}

/// The answer of a server that has nothing to show to kubelets.
pub(crate) fn no_way() -> Status {
    let message = "this server has nothing to show to kubelets: start it with --kubelet-client-certificate, \
                   --kubelet-client-key and --kubelet-certificate-authority";
    Status::new(Reason::ServiceUnavailable, message)
}

fn away(Endpoint { node, host, port }: &Endpoint, why: &str) -> Status {
    let message = format!("the kubelet of node {node} at {host}:{port} cannot be reached: {why}");
    Status::new(Reason::ServiceUnavailable, message)
}

/// The kubelet's own words.
async fn refusal(node: &str, code: StatusCode, body: Incoming) -> Status {
    let text = match Limited::new(body, REFUSAL_BYTES_MAX).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).trim().to_owned(),
        Err(_) => String::new(),
    };
    let reason = match code {
        StatusCode::NOT_FOUND => Reason::NotFound,
        StatusCode::BAD_REQUEST => Reason::BadRequest,
        StatusCode::FORBIDDEN => Reason::Forbidden,
        StatusCode::TOO_MANY_REQUESTS => Reason::TooManyRequests,
        StatusCode::SERVICE_UNAVAILABLE => Reason::ServiceUnavailable,
        _ => Reason::InternalError,
    };
    let said = if text.is_empty() { code.to_string() } else { text };
    Status::new(reason, format!("the kubelet of node {node} says: {said}"))
}

impl Endpoint {
    /// Reads it from the node's status.
    ///
    /// # Errors
    /// `ServiceUnavailable` if the node does not publish it.
    pub(crate) fn of(node: &Object) -> Result<Self, Status> {
        let unknown = |what: &str| {
            Status::new(
                Reason::ServiceUnavailable,
                format!("node {} does not publish {what} of its kubelet", node.name()),
            )
        };
        let port = node
            .int(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"])
            .and_then(|port| u16::try_from(port).ok())
            .filter(|port| *port > 0)
            .ok_or_else(|| unknown("the port"))?;
        let addresses = node.at(&["status", "addresses"]).and_then(Value::as_array);
        let of_type = |wanted: &str| {
            let mut list = addresses.into_iter().flatten();
            list.find(|a| a["type"] == wanted).and_then(|a| a["address"].as_str()).filter(|a| !a.is_empty())
        };
        let host = of_type("InternalIP").or_else(|| of_type("Hostname")).ok_or_else(|| unknown("an address"))?;
        Ok(Endpoint { node: node.name().to_owned(), host: host.to_owned(), port })
    }
}

impl Upgraded {
    /// The connection alone, with what drives it.
    pub(super) fn into_parts(self) -> (TokioIo<hyper::upgrade::Upgraded>, AbortOnDropHandle<()>) {
        (self.stream, self._connection)
    }

    /// What the kubelet has answered to the handshake.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The connection.
    pub(crate) fn stream(&mut self) -> &mut TokioIo<hyper::upgrade::Upgraded> {
        &mut self.stream
    }
}

impl Answer {
    /// The next bytes; `None` at the end. Safe to cancel.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => return Some(Ok(data)),
                    // Trailers tell nothing.
                    Err(_) => continue,
                },
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_endpoint_is_read_from_the_nodes_status() {
        let node =
            |status: Value| Object::from_value(json!({"metadata": {"name": "n"}, "status": status})).expect("a map");
        let port = json!({"kubeletEndpoint": {"Port": 10250}});
        let both = json!([{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"}]);
        let read = |status| Endpoint::of(&node(status)).map(|e| (e.host, e.port)).map_err(|s| s.message);
        assert_eq!(read(json!({"daemonEndpoints": port, "addresses": both})), Ok(("10.0.0.1".into(), 10250)));
        let host = json!([{"type": "Hostname", "address": "h"}]);
        assert_eq!(read(json!({"daemonEndpoints": port, "addresses": host})), Ok(("h".into(), 10250)));
        assert!(read(json!({"daemonEndpoints": port})).unwrap_err().contains("an address"));
        assert!(read(json!({"addresses": both})).unwrap_err().contains("the port"));
    }
}
