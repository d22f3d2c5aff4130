//! A client of HTTP/2 that costs next to nothing: one request at a time on a connection of its own, its headers written
//! beforehand, and nothing of the answer read but its frames and its first bytes.
//!
//! Client and server share the machine, so what a client spends is missing to both servers alike and presses their
//! figures together. A server sees the same requests as from any other client. Windows are those of Go's client.

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::server::ApiServer;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// What may be under way of one answer.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
/// What may be under way of all.
const CONNECTION_WINDOW_BYTES: u32 = 1 << 30;
/// So much is taken before the server is told that it may send on.
const UPDATE_BYTES: u32 = 1 << 20;
/// TLS reads in small steps; the system is asked for more at once.
const READ_BYTES: usize = 128 << 10;
/// The largest frame there may be without asking for larger ones.
const FRAME_BYTES_MAX: usize = 16 << 10;
const FRAME_HEAD_BYTES: usize = 9;
/// What is kept of an answer.
const HEAD_BYTES: usize = 160;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    Post,
}

/// A connection.
pub(crate) struct Wire {
    stream: TlsStream<BufReader<TcpStream>>,
    /// The fields of every request behind its path, in HPACK.
    fields: Vec<u8>,
    /// Of the next request.
    stream_id: u32,
    out: Vec<u8>,
    buffer: Vec<u8>,
    /// What of the buffer is not read yet.
    unread: std::ops::Range<usize>,
    /// Taken, and not yet told to the server.
    taken: u32,
    head: Vec<u8>,
}

impl Wire {
    /// Opens one.
    pub(crate) async fn open(server: &ApiServer) -> anyhow::Result<Wire> {
        let tcp =
            TcpStream::connect(&server.address).await.with_context(|| format!("connect to {}", server.address))?;
        tcp.set_nodelay(true)?;
        let host = server.address.rsplit_once(':').map_or(server.address.as_str(), |(host, _)| host).to_owned();
        let tcp = BufReader::with_capacity(READ_BYTES, tcp);
        let mut stream = TlsConnector::from(server.tls.clone()).connect(ServerName::try_from(host)?, tcp).await?;
        let mut out = PREFACE.to_vec();
        frame(&mut out, SETTINGS, 0, 0, 12);
        // No pushes (2), and the window of a stream (4).
        for (name, value) in [(2_u16, 0), (4, STREAM_WINDOW_BYTES)] {
            out.extend(name.to_be_bytes());
            out.extend(value.to_be_bytes());
        }
        window_update(&mut out, 0, CONNECTION_WINDOW_BYTES);
        stream.write_all(&out).await?;
        stream.flush().await?;
        // By their places in the static table: :authority, authorization, accept, user-agent.
        let mut fields = Vec::new();
        field(&mut fields, 1, &server.address);
        field(&mut fields, 23, &format!("Bearer {}", server.token));
        field(&mut fields, 19, "application/json");
        field(&mut fields, 58, "listwatch-bench");
        let buffer = vec![0; READ_BYTES];
        Ok(Wire { stream, fields, stream_id: 1, out, buffer, unread: 0..0, taken: 0, head: Vec::new() })
    }

    /// Sends a request and takes the answer; its size in bytes.
    ///
    /// # Errors
    /// An answer that does not tell in its first bytes that it is of `kind`, as a refusal does not.
    pub(crate) async fn exchange(&mut self, verb: Verb, path: &str, body: &[u8], kind: &str) -> anyhow::Result<u64> {
        let stream_id = self.begin(verb, path, body).await?;
        let size = self.answer(stream_id).await?;
        let wanted = format!("\"kind\":\"{kind}\"");
        let is_wanted = self.head.windows(wanted.len()).any(|part| part == wanted.as_bytes());
        ensure!(is_wanted, "{verb:?} {path}: {}", String::from_utf8_lossy(&self.head));
        Ok(size)
    }

    async fn begin(&mut self, verb: Verb, path: &str, body: &[u8]) -> anyhow::Result<u32> {
        let stream_id = self.stream_id;
        self.stream_id += 2;
        let mut fields = Vec::with_capacity(256);
        // :method and :scheme stand in the static table as they are.
        fields.extend([if verb == Verb::Get { 0x82 } else { 0x83 }, 0x87]);
        field(&mut fields, 4, path);
        fields.extend(&self.fields);
        if verb == Verb::Post {
            field(&mut fields, 31, "application/json");
            field(&mut fields, 28, &body.len().to_string());
        }
        ensure!(fields.len() <= FRAME_BYTES_MAX && body.len() <= FRAME_BYTES_MAX, "a request of more than a frame");
        let ends = if body.is_empty() { END_STREAM } else { 0 };
        self.out.clear();
        frame(&mut self.out, HEADERS, END_HEADERS | ends, stream_id, fields.len());
        self.out.extend(fields);
        if !body.is_empty() {
            frame(&mut self.out, DATA, END_STREAM, stream_id, body.len());
            self.out.extend(body);
        }
        self.send().await?;
        Ok(stream_id)
    }

    async fn send(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.out).await?;
        Ok(self.stream.flush().await?)
    }

    /// Reads frames up to the end of the answer.
    async fn answer(&mut self, stream_id: u32) -> anyhow::Result<u64> {
        self.head.clear();
        let mut size = 0;
        loop {
            self.have(FRAME_HEAD_BYTES).await?;
            let head = &self.buffer[self.unread.start..];
            let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let (kind, flags) = (head[3], head[4]);
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
            ensure!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
            self.have(FRAME_HEAD_BYTES + length).await?;
            let from = self.unread.start + FRAME_HEAD_BYTES;
            self.unread.start = from + length;
            let payload = &self.buffer[from..from + length];
            match kind {
                DATA => {
                    size += length as u64;
                    let rest = HEAD_BYTES - self.head.len();
                    self.head.extend(&payload[..length.min(rest)]);
                    self.taken += length as u32;
                    if self.taken >= UPDATE_BYTES {
                        self.take(stream_id, flags & END_STREAM != 0).await?;
                    }
                }
                SETTINGS if flags & ACK == 0 => {
                    self.out.clear();
                    frame(&mut self.out, SETTINGS, ACK, 0, 0);
                    self.send().await?;
                }
                PING if flags & ACK == 0 => {
                    self.out.clear();
                    frame(&mut self.out, PING, ACK, 0, length);
                    self.out.extend(payload);
                    self.send().await?;
                }
                RESET | GO_AWAY => bail!("the server ends the connection: {payload:?}"),
                HEADERS | CONTINUATION | SETTINGS | PING | WINDOW_UPDATE => {}
                other => bail!("a frame of type {other}"),
            }
            if id == stream_id && matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                return Ok(size);
            }
        }
    }

    /// Lets the server send on.
    async fn take(&mut self, stream_id: u32, is_over: bool) -> anyhow::Result<()> {
        let taken = std::mem::take(&mut self.taken);
        self.out.clear();
        window_update(&mut self.out, 0, taken);
        if !is_over {
            window_update(&mut self.out, stream_id, taken);
        }
        self.send().await
    }

    /// Reads until so many bytes are at hand.
    async fn have(&mut self, bytes: usize) -> anyhow::Result<()> {
        if self.unread.len() >= bytes {
            return Ok(());
        }
        if self.unread.start + bytes > self.buffer.len() || self.unread.is_empty() {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        while self.unread.len() < bytes {
            let read = self.stream.read(&mut self.buffer[self.unread.end..]).await?;
            ensure!(read > 0, "the server has closed the connection");
            self.unread.end += read;
        }
        Ok(())
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream_id: u32, length: usize) {
    out.extend(&(length as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream_id.to_be_bytes());
}

fn window_update(out: &mut Vec<u8>, stream_id: u32, bytes: u32) {
    frame(out, WINDOW_UPDATE, 0, stream_id, 4);
    out.extend(bytes.to_be_bytes());
}

/// A field whose name is in the static table, its value as it is (RFC 7541, section 6.2.2).
fn field(out: &mut Vec<u8>, name: usize, value: &str) {
    integer(out, 0, 4, name);
    integer(out, 0, 7, value.len());
    out.extend(value.as_bytes());
}

/// An integer with a prefix of so many bits (RFC 7541, section 5.1).
fn integer(out: &mut Vec<u8>, high: u8, bits: u32, value: usize) {
    let most = (1_usize << bits) - 1;
    if value < most {
        out.push(high | value as u8);
        return;
    }
    out.push(high | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_standard_has_them() {
        // RFC 7541, C.2.2, and C.1.2 within a longer value.
        let mut out = Vec::new();
        field(&mut out, 4, "/sample/path");
        assert_eq!(out, b"\x04\x0c/sample/path");
        let mut out = Vec::new();
        integer(&mut out, 0, 5, 1337);
        assert_eq!(out, [0x1f, 0x9a, 0x0a]);
        let mut out = Vec::new();
        field(&mut out, 23, "x");
        assert_eq!(out, [0x0f, 0x08, 1, b'x']);
    }

    #[test]
    fn frames_have_their_head() {
        let mut out = Vec::new();
        window_update(&mut out, 5, 0x0102_0304);
        assert_eq!(out, [0, 0, 4, 8, 0, 0, 0, 0, 5, 1, 2, 3, 4]);
    }
}
