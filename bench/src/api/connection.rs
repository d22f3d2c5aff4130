//! One HTTP/2 connection to a server, as client-go keeps one.

use anyhow::Context;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::server::ApiServer;

/// As large as a whole collection may be on its way.
const WINDOW_BYTES: u32 = 4 << 20;

/// A connection; its clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    sender: http2::SendRequest<Full<Bytes>>,
    address: String,
    token: String,
}

impl Connection {
    /// Opens one.
    pub(crate) async fn open(server: &ApiServer) -> anyhow::Result<Connection> {
        let tcp =
            TcpStream::connect(&server.address).await.with_context(|| format!("connect to {}", server.address))?;
        tcp.set_nodelay(true)?;
        let host = server.address.rsplit_once(':').map_or(server.address.as_str(), |(host, _)| host).to_owned();
        let tls = TlsConnector::from(server.tls.clone()).connect(ServerName::try_from(host)?, tcp).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(TokioIo::new(tls))
            .await?;
        tokio::spawn(connection);
        Ok(Connection { sender, address: server.address.clone(), token: server.token.clone() })
    }

    /// Sends a request; the answer's body is still to come.
    pub(crate) async fn begin(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<http::Response<Incoming>> {
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", "application/json")
            .header("user-agent", "listwatch-bench")
            .header("content-type", content_type)
            .body(Full::new(body))?;
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content_type: &str,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let answer = self.begin(method, path, content_type, body).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }

    /// A request that must succeed.
    pub(crate) async fn good(&mut self, method: Method, path: &str, body: Bytes) -> anyhow::Result<Bytes> {
        let (status, bytes) = self.send(method.clone(), path, "application/json", body).await?;
        anyhow::ensure!(status.is_success(), "{method} {path}: {status} {}", String::from_utf8_lossy(&bytes));
        Ok(bytes)
    }

    /// The same, with JSON in and out.
    pub(crate) async fn json(&mut self, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
        let bytes = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        Ok(serde_json::from_slice(&self.good(method, path, bytes).await?)?)
    }
}

/// The lines of a watch.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Incoming,
    buffer: Vec<u8>,
    /// Bytes at the buffer's beginning that have been given out.
    used: usize,
}

impl Lines {
    /// Of an answer that must be a good one.
    pub(crate) async fn of(answer: http::Response<Incoming>) -> anyhow::Result<Lines> {
        let status = answer.status();
        let body = answer.into_body();
        if !status.is_success() {
            let text = body.collect().await?.to_bytes();
            anyhow::bail!("{status}: {}", String::from_utf8_lossy(&text));
        }
        Ok(Lines { body, buffer: Vec::new(), used: 0 })
    }

    /// The next one, or `None` at the end.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        let mut searched = self.used;
        loop {
            if let Some(at) = self.buffer[searched..].iter().position(|byte| *byte == b'\n') {
                let (begin, end) = (self.used, searched + at);
                self.used = end + 1;
                return Ok(Some(&self.buffer[begin..end]));
            }
            self.buffer.drain(..self.used);
            self.used = 0;
            searched = self.buffer.len();
            match self.body.frame().await {
                None => return Ok(None),
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
