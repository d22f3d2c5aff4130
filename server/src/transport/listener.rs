//! Accepting, serving and draining connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::header::CONTENT_TYPE;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
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
use super::timely::Timely;
use super::turn::{Kept, Turns};
use super::{Answer, Peer, PeerIdentity, Served, StreamingMethods, Tls, port_owner};

/// How the media type of every request over gRPC begins.
const GRPC: &[u8] = b"application/grpc";

/// What of one stream waits to be framed: a page of some hundred objects goes in one turn; of a longer list more would
/// only grow cold in memory. Beside it a stream holds one piece of its answer that has no room yet.
const SEND_BUFFER_BYTES_MAX: usize = 256 << 10;

/// What an HTTP/1.1 connection holds of what it writes, and so also the longest head that it takes.
const H1_BUFFER_BYTES_MAX: usize = 256 << 10;

/// The longest head of a request over HTTP/2: room for the longest URL there is and for tokens beside it.
const H2_HEAD_BYTES_MAX: u32 = 128 << 10;

/// A client that has not finished its handshake, or has not said by then which HTTP it speaks, is let go.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The head of an HTTP/1.1 request must have come in this time, counted from the answer before it (kube-apiserver 1.36,
/// `ReadHeaderTimeout`).
const HEAD_TIME_MAX: Duration = Duration::from_secs(32);

/// After this silence the system asks the other end whether it is there, so often and in these steps.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// What was sent must have been taken by the other end in this time: it is gone, or has long not read a byte.
const UNTAKEN_MAX: Duration = Duration::from_secs(60);

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
    /// Connections at the same time; further ones wait in the kernel's queue.
    pub connections_max: usize,
    /// Streams of one HTTP/2 connection at the same time.
    pub streams_max: u32,
    /// The methods of gRPC whose clients send a stream.
    pub streaming: StreamingMethods,
    /// Let in clients that send a URL where the authority belongs, as etcd's older ones do.
    pub takes_url_authority: bool,
}

/// Binds a port.
///
/// # Errors
/// The port is taken or the address is not ours; the message names flag and port.
pub async fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    let listener = TcpListener::bind(address).await.map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::Taken { flag, address, owner: port_owner(address.port()) },
        _ => BindError::Io { flag, address, source },
    })?;
    probe(&listener).map_err(|error| BindError::Io { flag, address, source: error.into() })?;
    Ok(listener)
}

/// Lets the system find out that the other end of a connection is gone: HTTP/1.1 has no sign of life of its own, and over
/// HTTP/2 it takes hours at etcd's port. Connections have it from their port.
fn probe(listener: &TcpListener) -> rustix::io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(listener, true)?;
    sockopt::set_tcp_keepidle(listener, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(listener, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(listener, PROBES)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(listener, u32::try_from(UNTAKEN_MAX.as_millis()).unwrap_or(u32::MAX))?;
    Ok(())
}

/// Serves a port until `drain` is cancelled: then takes no new connection, asks the old ones to finish (streams must
/// end by their own means), and returns when the last has. `abort` cuts short what has not finished.
pub async fn serve(door: Door, drain: CancellationToken, abort: CancellationToken) {
    let Door { listener, tls, served, connections_max, .. } = &door;
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(*connections_max));
    // Told once, not twenty times a second.
    let mut is_refused = false;
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
                if !std::mem::replace(&mut is_refused, true) {
                    tracing::warn!(%error, "connections cannot be accepted for now");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        is_refused = false;
        let connection = Connection {
            address,
            tls: tls.clone(),
            served: served.clone(),
            keep_alive: door.keep_alive,
            streams_max: door.streams_max,
            streaming: door.streaming.clone(),
            takes_url_authority: door.takes_url_authority,
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
    drop(door);
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
    streams_max: u32,
    streaming: StreamingMethods,
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
        let (stream, gatherer) = gather(stream, HANDSHAKE_MAX);
        let (served, streaming) = (self.served.clone(), self.streaming.clone());
        let (turns, mut kept) = (Turns::default(), Kept::default());
        let begun = turns.clone();
        let service = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            if !request.method().is_safe() {
                begun.next_may_block();
            }
            call(&served, &streaming, request)
        });
        let mut builder = auto::Builder::new(turns.clone());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIME_MAX).max_buf_size(H1_BUFFER_BYTES_MAX);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.streams_max)
            .max_header_list_size(H2_HEAD_BYTES_MAX)
            .max_send_buf_size(SEND_BUFFER_BYTES_MAX)
            .keep_alive_interval(self.keep_alive.interval)
            .keep_alive_timeout(self.keep_alive.timeout);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            ended = turns.run(&gatherer, &mut kept, connection.as_mut()) => ended,
            () = self.drain.cancelled() => {
                connection.as_mut().graceful_shutdown();
                turns.run(&gatherer, &mut kept, connection.as_mut()).await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(peer = %self.address, %error, "connection ended");
        }
    }
}

/// The answer, within the client's deadline. On the heap, since a connection moves what it is handed several times.
fn call(served: &Served, streaming: &StreamingMethods, request: http::Request<Incoming>) -> Answer {
    let deadline = deadline(request.headers());
    let is_grpc = request.headers().get(CONTENT_TYPE).is_some_and(|own| own.as_bytes().starts_with(GRPC));
    let request = if is_grpc {
        let is_stream = streaming.has(request.uri().path());
        request.map(|body| Body::new(Timely::new(body, is_stream)))
    } else {
        request.map(Body::new)
    };
    let answer = served.answer(request);
    if deadline.is_none() { answer } else { Box::pin(within(deadline, answer)) }
}
