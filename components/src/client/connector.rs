//! Dials the server: TCP, then TLS, with a pause that grows while the server is away.
//!
//! Invariant: two attempts are never closer together than the pause, however many calls wait; the first attempt after
//! a success is made at once.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::Service;

use super::tls::Tls;
use super::{Backoff, BackoffPolicy};
use crate::clock::timer_now;

/// TCP and TLS handshake together may take this long.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pauses between attempts: short at first, since a local server restarts within a fraction of a second; never long,
/// since an attempt on a closed port costs microseconds.
const RECONNECT: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(20), factor: 2.0, cap: Duration::from_millis(500), jitter: 0.5 };

/// Makes connections for one client.
#[derive(Clone)]
pub(super) struct Connector {
    authority: Arc<str>,
    tls: Option<Tls>,
    /// Guards the pause before the next attempt; held for the length of an assignment.
    pause: Arc<Mutex<Pause>>,
}

struct Pause {
    backoff: Backoff,
    /// Not before this moment.
    next: Option<Instant>,
}

impl Connector {
    pub(super) fn new(authority: &str, tls: Option<Tls>) -> Self {
        let pause = Pause { backoff: Backoff::new(RECONNECT), next: None };
        Connector { authority: authority.into(), tls, pause: Arc::new(Mutex::new(pause)) }
    }

    pub(super) async fn dial(self) -> io::Result<TokioIo<Stream>> {
        let due = self.pause.lock().next;
        if let Some(due) = due {
            sleep_until(due).await;
        }
        let result = match timeout(CONNECT_TIMEOUT, self.handshake()).await {
            Ok(result) => result,
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no connection within five seconds")),
        };
        let mut pause = self.pause.lock();
        match result {
            Ok(stream) => {
                pause.backoff.reset();
                pause.next = None;
                Ok(TokioIo::new(stream))
            }
            Err(error) => {
                let wait = pause.backoff.next_delay();
                pause.next = Some(timer_now() + wait);
                Err(io::Error::new(error.kind(), format!("connect to {}: {error}", self.authority)))
            }
        }
    }

    async fn handshake(&self) -> io::Result<Stream> {
        let tcp = TcpStream::connect(&*self.authority).await?;
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Stream::Plain(tcp)),
            Some(tls) => {
                let stream = TlsConnector::from(tls.config.clone()).connect(tls.server_name.clone(), tcp).await?;
                Ok(Stream::Tls(Box::new(stream)))
            }
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<Stream>>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _uri: Uri) -> Self::Future {
        Box::pin(self.clone().dial())
    }
}

/// A connection, with or without TLS.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_read(cx, buf),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_write(cx, buf),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_flush(cx),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_shutdown(cx),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(s) => s.is_write_vectored(),
            Stream::Tls(s) => s.is_write_vectored(),
        }
    }
}
