//! A connection to a port of a pod, through the kubelet of its node: only the kubelet knows where the pod really listens, and
//! no address that somebody has written into an object is ever called.

use std::io;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, header};
use hyper_util::rt::TokioIo;
use listwatch_proto::resource::{Reason, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{Message, Role};
use tokio_util::task::AbortOnDropHandle;

use super::stream::open_stream;
use super::{Kubelets, StreamQuery};
use crate::registry::{Registry, RequestContext, Target};

/// Two channels: bytes, and what goes wrong (Kubernetes 1.36).
const PROTOCOL: &str = "v4.channel.k8s.io";
const DATA: u8 = 0;
const ERROR: u8 = 1;
/// What waits on its way in either direction: a piece or two, so that a slow side holds the other up.
const PIPE_BYTES: usize = 64 << 10;
/// How much is sent to the pod at once.
const CHUNK_BYTES: usize = 32 << 10;

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Bytes to and from a port of a pod. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct PortStream {
    pub(crate) bytes: DuplexStream,
    pub(crate) carrier: AbortOnDropHandle<()>,
    /// Why the port could not be reached, if the kubelet has said so; set before the bytes end.
    pub(crate) failure: Arc<OnceLock<String>>,
}

/// Connects to a port of a pod.
///
/// # Errors
/// `BadRequest` for a pod without a node, `ServiceUnavailable` if there is no way to the kubelet or to the port; the
/// kubelet's own refusal.
pub(crate) async fn open_port(
    registry: &Registry,
    context: &RequestContext,
    kubelets: Option<&Arc<Kubelets>>,
    pod: &Target,
    port: u16,
) -> Result<PortStream, Status> {
    let mut handshake = HeaderMap::new();
    for (name, value) in [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
        (header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL),
    ] {
        handshake.insert(name, HeaderValue::from_static(value));
    }
    let key = HeaderValue::from_str(&generate_key()).map_err(|error| Status::internal(error.to_string()))?;
    handshake.insert(header::SEC_WEBSOCKET_KEY, key);
    let query = StreamQuery::PortForward(vec![port]);
    let upgraded = open_stream(registry, context, kubelets, pod, &query, &handshake).await?;
    let (stream, connection) = upgraded.into_parts();
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    // The first message of each channel names the port.
    for _ in [DATA, ERROR] {
        next(&mut socket).await?.ok_or_else(|| unreachable_port("the kubelet closed the connection"))?;
    }
    let (bytes, inside) = tokio::io::duplex(PIPE_BYTES);
    let failure = Arc::new(OnceLock::new());
    let told = failure.clone();
    let carrier = tokio::spawn(async move {
        if let Err(error) = carry(socket, inside, &told).await {
            tracing::debug!(%error, "a connection to a port of a pod broke off");
        }
        drop(connection);
    });
    Ok(PortStream { bytes, carrier: AbortOnDropHandle::new(carrier), failure })
}

fn unreachable_port(why: &str) -> Status {
    Status::new(Reason::ServiceUnavailable, format!("error trying to reach service: {why}"))
}

/// The next message; `None` at the end.
async fn next(socket: &mut Socket) -> Result<Option<Bytes>, Status> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Binary(bytes))) => return Ok(Some(bytes)),
            Some(Ok(Message::Close(_))) | None => return Ok(None),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(unreachable_port(&error.to_string())),
        }
    }
}

/// Copies in both directions until the pod has ended or either side is gone.
async fn carry(socket: Socket, inside: DuplexStream, failure: &OnceLock<String>) -> io::Result<()> {
    let (mut sink, mut stream) = socket.split();
    let (mut from_client, mut to_client) = tokio::io::split(inside);
    let sending = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = from_client.read(&mut buffer).await?;
            if read == 0 {
                // The protocol cannot tell that one side has ended: the other goes on.
                return std::future::pending::<io::Result<()>>().await;
            }
            let mut message = Vec::with_capacity(read + 1);
            message.push(DATA);
            message.extend_from_slice(&buffer[..read]);
            sink.send(Message::Binary(message.into())).await.map_err(io::Error::other)?;
        }
    };
    let receiving = async {
        loop {
            match stream.next().await {
                Some(Ok(Message::Binary(bytes))) => match bytes.first() {
                    Some(&DATA) => to_client.write_all(&bytes[1..]).await?,
                    Some(&ERROR) => {
                        let why = String::from_utf8_lossy(&bytes[1..]).into_owned();
                        let _ = failure.set(why.clone());
                        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, why));
                    }
                    _ => {}
                },
                Some(Ok(Message::Close(_))) | None => return to_client.shutdown().await,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(io::Error::other(error)),
            }
        }
    };
    tokio::select! {
        sent = sending => sent,
        received = receiving => received,
    }
}
