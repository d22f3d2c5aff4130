//! Accepting, serving and draining connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::authority::Lenient;
use super::deadline::{deadline, within};
use super::gather::gather;
use super::{Answer, Peer, PeerIdentity, Served, Tls, port_owner};

/// Connections of one port at the same time. Beyond it new ones wait in the kernel's queue: a bound on memory that no
/// sensible client meets, since one connection carries thousands of streams.
const CONNECTIONS_MAX: usize = 20_000;

/// What of one stream waits to be framed: a page of some hundred objects goes in one turn; of a longer list more would
/// only grow cold in memory.
const SEND_BUFFER_BYTES_MAX: usize = 256 << 10;

/// Streams of one connection at the same time. A node or a proxy watches many things over one connection; etcd sets no
/// bound of its own.
const STREAMS_MAX: u32 = 100_000;

/// A client that has not finished its handshake, or the head of its HTTP/1.1 request, in this time is let go.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How long the port rests when the system has no descriptor left, instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A port that cannot be had.
#[derive(Debug, Error)]
pub enum BindError {
    /// Somebody else has it.
    #[error("{flag} {address}: the port {} is taken by {}; stop it, or choose another port (0 takes a free one)", .address.port(), .owner.as_deref().unwrap_or("another process"))]
    Taken {
        /// The flag that asked for it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// Name and process id, where they can be seen.
        owner: Option<String>,
    },
    /// Anything else.
    #[error("{flag} {address}: cannot listen: {source}")]
    Io {
        /// The flag that asked for it.
        flag: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
}

/// How a silent client is found dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// After this silence the client is asked for a sign of life.
    pub interval: Duration,
    /// Without one in this time the connection is closed.
    pub timeout: Duration,
}

/// A port with all that is needed to serve it.
#[derive(Debug)]
pub struct Door {
    /// The bound port.
    pub listener: TcpListener,
    /// `None` = plain text.
    pub tls: Option<Tls>,
    /// What is served; each request carries a [`Peer`].
    pub served: Served,
    /// How a silent client is found dead.
    pub keep_alive: KeepAlive,
    /// Let in clients that send a URL where the authority belongs, as etcd's older ones do.
    pub takes_url_authority: bool,
}

/// Binds a port.
///
/// # Errors
/// The port is taken or the address is not ours; the message names flag and port.
pub async fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::Taken { flag, address, owner: port_owner(address.port()) },
        _ => BindError::Io { flag, address, source },
    })
}

/// Serves a port until `drain` is cancelled: then takes no new connection, asks the old ones to finish (streams must
/// end by their own means), and returns when the last has. `abort` cuts short what has not finished.
pub async fn serve(door: Door, drain: CancellationToken, abort: CancellationToken) {
    let Door { listener, tls, served, keep_alive, takes_url_authority } = door;
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = tokio::select! {
            () = drain.cancelled() => break,
            place = places.clone().acquire_owned() => place.expect("the semaphore is never closed"),
        };
        let accepted = tokio::select! {
            () = drain.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                tracing::warn!(%error, "accepting connections");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = Connection {
            address,
            tls: tls.clone(),
            served: served.clone(),
            keep_alive,
            takes_url_authority,
            drain: drain.clone(),
            _place: place,
        };
        let abort = abort.clone();
        connections.spawn(async move {
            tokio::select! {
                () = abort.cancelled() => {}
                () = connection.serve(stream) => {}
            }
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Errors that concern the connection that failed, not the port.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
    )
}

struct Connection {
    address: SocketAddr,
    tls: Option<Tls>,
    served: Served,
    keep_alive: KeepAlive,
    takes_url_authority: bool,
    drain: CancellationToken,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(self, stream: TcpStream) {
        // Without it small answers wait for the acknowledgement of those before.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(peer = %self.address, %error, "connection lost");
            return;
        }
        let Some(tls) = &self.tls else {
            let peer = Peer { address: self.address, identity: PeerIdentity::Plain };
            return self.admit(stream, peer).await;
        };
        let handshake = tokio::select! {
            () = self.drain.cancelled() => return,
            done = tokio::time::timeout(HANDSHAKE_MAX, tls.acceptor().accept(stream)) => done,
        };
        let stream = match handshake {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return tracing::debug!(peer = %self.address, %error, "TLS handshake failed"),
            Err(_) => return tracing::debug!(peer = %self.address, "TLS handshake not finished in time"),
        };
        let identity = tls.identify(stream.get_ref().1.peer_certificates());
        let peer = Peer { address: self.address, identity };
        self.admit(stream, peer).await;
    }

    async fn admit<S>(&self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if self.takes_url_authority {
            self.speak(Lenient::new(stream), peer).await;
        } else {
            self.speak(stream, peer).await;
        }
    }

    /// HTTP/1.1 or HTTP/2, as the client begins.
    async fn speak<S>(&self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (stream, gatherer) = gather(stream);
        let served = self.served.clone();
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            call(&served, request)
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
            .keep_alive_interval(self.keep_alive.interval)
            .keep_alive_timeout(self.keep_alive.timeout);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = gatherer.run(connection.as_mut()) => ended,
            () = self.drain.cancelled() => {
                connection.as_mut().graceful_shutdown();
                gatherer.run(connection.as_mut()).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %self.address, %error, "connection ended");
        }
    }
}

/// The answer, within the client's deadline. On the heap, since a connection moves what it is handed several times.
fn call(served: &Served, request: http::Request<Incoming>) -> Answer {
    let deadline = deadline(request.headers());
    let answer = served.answer(request.map(Body::new));
    if deadline.is_none() { answer } else { Box::pin(within(deadline, answer)) }
}
