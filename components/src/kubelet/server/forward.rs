//! Forwarded ports over a WebSocket: connections of a client to ports of a pod.
//!
//! kubectl speaks SPDY/3.1 within it, with two streams a connection: one for bytes, one for what goes wrong. Older
//! libraries have two channels a port and one connection for each (`v4.channel.k8s.io`). Invariants: what a connection
//! holds is bounded, and a slow one holds up only its own WebSocket; with the WebSocket all of its connections end.

use std::collections::HashMap;

use bytes::Bytes;
use futures::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::mpsc,
    task::JoinSet,
};
use tokio_tungstenite::tungstenite::Message;

use super::{
    channels,
    spdy::frame::{Decoder, Encoder, Frame},
    upgrade::Socket,
};

/// The protocols, the better one first.
pub(super) const PROTOCOLS: [&str; 2] = [TUNNEL, "v4.channel.k8s.io"];
/// SPDY within a WebSocket.
pub(super) const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// How much is read from a pod at once.
const CHUNK_BYTES: usize = 32 * 1024;

/// How many pieces may wait for a slow client, or for a slow pod.
const PIECES_WAITING: usize = 8;

/// How many connections one WebSocket may have at a time.
const CONNECTIONS_MAX: usize = 256;

/// Where the ports of a pod really are.
#[derive(Debug, Clone)]
pub(super) struct Ports {
    /// Address of the pod.
    pub(super) ip: String,
    /// By the port that the pod names; those not named are where they say.
    pub(super) actual: HashMap<u16, u16>,
    /// The pod, as messages name it.
    pub(super) pod: String,
}

impl Ports {
    async fn connect(&self, port: u16) -> Result<TcpStream, String> {
        let actual = self.actual.get(&port).copied().unwrap_or(port);
        let stream = TcpStream::connect((self.ip.as_str(), actual)).await;
        stream.map_err(|error| {
            format!("error forwarding port {port} to pod {}: dial tcp {}:{actual}: {error}", self.pod, self.ip)
        })
    }
}

/// Forwards until the client goes.
pub(super) async fn serve(socket: Socket, protocol: &str, asked: &[u16], ports: Ports) {
    let (sink, mut stream) = socket.split();
    let (out, queue) = mpsc::channel(PIECES_WAITING);
    let receiving = async {
        if protocol == TUNNEL {
            let mut tunnel = Tunnel::new(ports, out);
            while let Some(bytes) = next(&mut stream).await {
                if let Err(why) = tunnel.take(&bytes).await {
                    tracing::debug!(why, "a tunnel of forwarded ports ends");
                    return;
                }
            }
        } else {
            let channels = Channels::open(asked, &ports, out).await;
            while let Some(bytes) = next(&mut stream).await {
                channels.take(bytes).await;
            }
        }
    };
    tokio::select! {
        () = receiving => {}
        () = send(sink, queue) => {}
    }
}

/// The next bytes of a client; `None` when it is gone.
async fn next(stream: &mut SplitStream<Socket>) -> Option<Bytes> {
    loop {
        match stream.next().await?.ok()? {
            Message::Binary(bytes) => return Some(bytes),
            Message::Close(_) => return None,
            Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
    }
}

async fn send(mut sink: SplitSink<Socket, Message>, mut queue: mpsc::Receiver<Bytes>) {
    while let Some(message) = queue.recv().await {
        if sink.send(Message::Binary(message)).await.is_err() {
            return;
        }
    }
}

/// What happens on a connection to a pod.
#[derive(Debug)]
enum News {
    /// The pod has sent this.
    Data(Bytes),
    /// It will send no more.
    End,
    /// It cannot be reached.
    Failed(String),
}

/// Copies between a client's bytes and a port. Ends when both have ended, or the port is gone.
async fn connection(ports: Ports, port: u16, mut bytes: mpsc::Receiver<Bytes>, teller: Teller) {
    let stream = match ports.connect(port).await {
        Ok(stream) => stream,
        Err(why) => {
            teller.tell(News::Failed(why)).await;
            return;
        }
    };
    // Small pieces of an exchange must not wait for one another.
    let _ = stream.set_nodelay(true);
    let (mut from_pod, mut to_pod) = stream.into_split();
    let reading = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            match from_pod.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    if !teller.tell(News::Data(Bytes::copy_from_slice(&buffer[..n]))).await {
                        break;
                    }
                }
            }
        }
    };
    let writing = async {
        while let Some(bytes) = bytes.recv().await {
            if to_pod.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to_pod.shutdown().await;
    };
    // What the pod says is awaited after the client has said all; without the pod there is nothing to wait for.
    let mut reading = std::pin::pin!(reading);
    tokio::select! {
        () = &mut reading => {}
        () = writing => reading.await,
    }
    teller.tell(News::End).await;
}

/// A client's streams.
struct Tunnel {
    ports: Ports,
    decoder: Decoder,
    frames: mpsc::Sender<Frame>,
    /// The streams for what goes wrong that wait for their connection, by request.
    errors: HashMap<String, u32>,
    /// The client's bytes for a connection, by stream.
    connections: HashMap<u32, mpsc::Sender<Bytes>>,
    tasks: JoinSet<u32>,
}

impl Tunnel {
    fn new(ports: Ports, out: mpsc::Sender<Bytes>) -> Self {
        let (frames, mut waiting) = mpsc::channel::<Frame>(PIECES_WAITING);
        let mut tasks = JoinSet::new();
        // One place encodes, so that headers go out in the order in which they were packed.
        tasks.spawn(async move {
            let mut encoder = Encoder::default();
            while let Some(frame) = waiting.recv().await {
                if out.send(encoder.encode(&frame)).await.is_err() {
                    break;
                }
            }
            0
        });
        let (errors, connections) = (HashMap::new(), HashMap::new());
        Tunnel { ports, decoder: Decoder::new(), frames, errors, connections, tasks }
    }

    /// Takes what the client has sent.
    async fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.decoder.push(bytes);
        while let Some(frame) = self.decoder.next().map_err(|error| error.to_string())? {
            while let Some(Ok(stream)) = self.tasks.try_join_next() {
                self.connections.remove(&stream);
            }
            self.frame(frame).await?;
        }
        Ok(())
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), String> {
        match frame {
            Frame::Open { stream, headers, .. } => self.open(stream, &headers).await,
            Frame::Data { stream, fin, data } => {
                if let Some(connection) = self.connections.get(&stream)
                    && !data.is_empty()
                {
                    // A connection that is over takes no more; the client has been told.
                    let _ = connection.send(data).await;
                }
                if fin {
                    self.connections.remove(&stream);
                }
                Ok(())
            }
            Frame::Reset { stream } => {
                self.connections.remove(&stream);
                self.errors.retain(|_, error| *error != stream);
                Ok(())
            }
            Frame::Ping { id } if id % 2 == 1 => self.say(Frame::Ping { id }).await,
            Frame::GoAway | Frame::Reply { .. } | Frame::Ping { .. } | Frame::Other => Ok(()),
        }
    }

    /// A new stream: its headers say which port it is for, and which of the two it is.
    async fn open(&mut self, stream: u32, headers: &[(String, String)]) -> Result<(), String> {
        let header = |wanted: &str| {
            let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map_or("", |(_, value)| value.as_str())
        };
        let port = header("port").parse::<u16>().ok().filter(|port| *port > 0);
        let request = header("requestid").to_owned();
        let Some(port) = port else {
            return self.say(Frame::Reset { stream }).await;
        };
        match header("streamtype") {
            "error" => {
                if self.errors.len() >= CONNECTIONS_MAX {
                    return self.say(Frame::Reset { stream }).await;
                }
                self.errors.insert(request, stream);
                self.say(Frame::Reply { stream }).await
            }
            "data" if self.connections.len() < CONNECTIONS_MAX => {
                let Some(error) = self.errors.remove(&request) else {
                    return self.say(Frame::Reset { stream }).await;
                };
                self.say(Frame::Reply { stream }).await?;
                let (bytes, waiting) = mpsc::channel(PIECES_WAITING);
                self.connections.insert(stream, bytes);
                let teller = Teller::Streams { frames: self.frames.clone(), data: stream, error };
                let ports = self.ports.clone();
                self.tasks.spawn(async move {
                    connection(ports, port, waiting, teller).await;
                    stream
                });
                Ok(())
            }
            _ => self.say(Frame::Reset { stream }).await,
        }
    }

    async fn say(&self, frame: Frame) -> Result<(), String> {
        self.frames.send(frame).await.map_err(|_| "the client is gone".to_owned())
    }
}

/// Says what happens on a connection, in the words of the protocol.
enum Teller {
    /// On two streams.
    Streams {
        /// Where frames go.
        frames: mpsc::Sender<Frame>,
        /// Of bytes.
        data: u32,
        /// Of what goes wrong.
        error: u32,
    },
    /// On two channels.
    Channels {
        /// Where messages go.
        out: mpsc::Sender<Bytes>,
        /// Of bytes.
        data: u8,
        /// Of what goes wrong.
        error: u8,
    },
}

impl Teller {
    /// False: there is nobody any more to tell it to.
    async fn tell(&self, news: News) -> bool {
        match self {
            Teller::Streams { frames, data, error } => {
                let last = |stream, data| Frame::Data { stream, fin: true, data };
                let list = match news {
                    News::Data(bytes) => vec![Frame::Data { stream: *data, fin: false, data: bytes }],
                    News::End => vec![last(*data, Bytes::new()), last(*error, Bytes::new())],
                    News::Failed(why) => vec![last(*error, Bytes::from(why)), last(*data, Bytes::new())],
                };
                for frame in list {
                    if frames.send(frame).await.is_err() {
                        return false;
                    }
                }
                true
            }
            Teller::Channels { out, data, error } => {
                let message = match news {
                    News::Data(bytes) => channels::message(*data, &bytes),
                    News::Failed(why) => channels::message(*error, why.as_bytes()),
                    // The protocol has no word for the end of one connection.
                    News::End => return true,
                };
                out.send(message).await.is_ok()
            }
        }
    }
}

/// Two channels for each port, opened at once: bytes on the even one, what goes wrong on the odd one.
struct Channels {
    /// The client's bytes, by port in the order of the request.
    bytes: Vec<mpsc::Sender<Bytes>>,
    _tasks: JoinSet<()>,
}

impl Channels {
    async fn open(asked: &[u16], ports: &Ports, out: mpsc::Sender<Bytes>) -> Self {
        let (mut bytes, mut tasks) = (Vec::new(), JoinSet::new());
        for (index, port) in (0u8..).zip(asked.iter().copied().take(CHANNEL_PORTS_MAX)) {
            let (data, error) = (index * 2, index * 2 + 1);
            for channel in [data, error] {
                // A client that is gone is noticed by whoever reads from it.
                let _ = out.send(channels::message(channel, &port.to_le_bytes())).await;
            }
            let (take, waiting) = mpsc::channel(PIECES_WAITING);
            bytes.push(take);
            let teller = Teller::Channels { out: out.clone(), data, error };
            tasks.spawn(connection(ports.clone(), port, waiting, teller));
        }
        Channels { bytes, _tasks: tasks }
    }

    async fn take(&self, mut message: Bytes) {
        if message.is_empty() {
            return;
        }
        let channel = message.split_to(1)[0];
        if channel.is_multiple_of(2)
            && let Some(connection) = self.bytes.get(usize::from(channel / 2))
        {
            let _ = connection.send(message).await;
        }
    }
}

/// A channel's number is one byte, and each port has two.
pub(super) const CHANNEL_PORTS_MAX: usize = 127;

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
