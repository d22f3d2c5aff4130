//! Channels to a pod over a WebSocket: commands, what runs, forwarded ports (Kubernetes 1.36's `v5.channel.k8s.io`,
//! `v4.channel.k8s.io`).
//!
//! Every message begins with a byte that names its channel; version 5 has one more, by which a client closes another.

use std::fmt;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{Client, Error};

/// Standard input of a command; the data of a forwarded connection, both ways.
pub const STDIN: u8 = 0;
/// Standard output; the fault of a forwarded connection.
pub const STDOUT: u8 = 1;
/// Standard error.
pub const STDERR: u8 = 2;
/// How a command ended, as a Status.
pub const ENDED: u8 = 3;
/// The size of the client's terminal.
pub const RESIZE: u8 = 4;
/// Closes another channel.
const CLOSE: u8 = 255;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// What speaks of a command's channels.
pub const COMMAND: &str = "v5.channel.k8s.io";
/// What speaks of a port's channels.
pub const PORT: &str = "v4.channel.k8s.io";

/// The end that sends.
pub struct ChannelWriter(SplitSink<Socket, Message>);

/// The end that receives.
pub struct ChannelReader(SplitStream<Socket>);

impl fmt::Debug for ChannelWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelWriter")
    }
}

impl fmt::Debug for ChannelReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelReader")
    }
}

impl Client {
    /// Opens channels at this path, in this protocol. Only the opening has a deadline.
    ///
    /// # Errors
    /// A failure that the server answered, or the way to it.
    pub async fn channels(&self, path: &str, protocol: &'static str) -> Result<(ChannelWriter, ChannelReader), Error> {
        let socket = self.upgrade(path, protocol).await?;
        let (writer, reader) = socket.split();
        Ok((ChannelWriter(writer), ChannelReader(reader)))
    }
}

impl ChannelWriter {
    /// Sends bytes on a channel.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn send(&mut self, channel: u8, bytes: &[u8]) -> Result<(), Error> {
        let mut message = Vec::with_capacity(bytes.len() + 1);
        message.push(channel);
        message.extend_from_slice(bytes);
        self.0.send(Message::Binary(message.into())).await.map_err(super::raw::broken)
    }

    /// Says that nothing more comes on a channel.
    ///
    /// # Errors
    /// When the connection is gone.
    pub async fn end(&mut self, channel: u8) -> Result<(), Error> {
        self.send(CLOSE, &[channel]).await
    }

    /// Says that nothing more comes at all.
    pub async fn close(&mut self) {
        // The other end may be gone already: then there is nobody to tell.
        drop(self.0.close().await);
    }
}

impl ChannelReader {
    /// The next bytes and their channel; `None` at the end.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn next(&mut self) -> Result<Option<(u8, Bytes)>, Error> {
        loop {
            let mut bytes = match self.0.next().await {
                None | Some(Ok(Message::Close(_))) => return Ok(None),
                Some(Ok(Message::Binary(bytes))) => bytes,
                Some(Ok(Message::Text(text))) => Bytes::copy_from_slice(text.as_bytes()),
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(super::raw::broken(error)),
            };
            if bytes.is_empty() {
                continue;
            }
            let channel = bytes.split_to(1)[0];
            return Ok(Some((channel, bytes)));
        }
    }
}
