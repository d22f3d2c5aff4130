//! HTTP/2 by hand: a client that does what no library would.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The largest window there is.
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// The setting of the window that streams begin with, and of how many streams there may be.
const INITIAL_WINDOW_SIZE: u16 = 4;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;

/// A frame that the server has sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    /// The number at this place of the payload.
    pub(crate) fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().expect("four bytes"))
    }
}

/// A connection in plain text.
#[derive(Debug)]
pub(crate) struct Raw(pub(crate) TcpStream);

impl Raw {
    /// A connection that has said hello, with the largest windows.
    pub(crate) fn connect(address: SocketAddr) -> Raw {
        let mut raw = Raw(TcpStream::connect(address).expect("the server listens"));
        raw.0.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
        raw.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("sent");
        let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        setting.extend(WINDOW_MAX.to_be_bytes());
        raw.send(SETTINGS, 0, 0, &setting);
        raw.send(WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - 65_535).to_be_bytes());
        raw
    }

    /// Sends a frame.
    pub(crate) fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.try_send(kind, flags, stream, payload).expect("sent");
    }

    /// Sends a frame to a server that may have had enough.
    pub(crate) fn try_send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> std::io::Result<()> {
        let mut frame = u32::try_from(payload.len()).expect("a small frame").to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame)
    }

    /// Asks for a path.
    pub(crate) fn get(&mut self, stream: u32, path: &str) {
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &head("GET", path, &[("accept", "application/json")]));
    }

    /// Begins a call; the message is sent as it is, with its head.
    pub(crate) fn call(&mut self, stream: u32, path: &str, message: &[u8], is_all: bool) {
        let extra = [("content-type", "application/grpc"), ("te", "trailers")];
        self.send(HEADERS, END_HEADERS, stream, &head("POST", path, &extra));
        self.send(DATA, if is_all { END_STREAM } else { 0 }, stream, message);
    }

    /// The next frame; `None` when the server has closed the connection.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        if let Err(error) = self.0.read_exact(&mut head) {
            let is_closed = matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset);
            assert!(is_closed, "no frame in time: {error}");
            return None;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & WINDOW_MAX;
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.try_send(SETTINGS, ACK, 0, &[]).ok()?;
        }
        Some(frame)
    }

    /// The next frame that is of interest.
    pub(crate) fn until(&mut self, is_it: impl Fn(&Frame) -> bool) -> Option<Frame> {
        loop {
            let frame = self.next()?;
            if is_it(&frame) {
                return Some(frame);
            }
        }
    }
}

/// The head of a request, without any compression.
pub(crate) fn head(method: &str, path: &str, extra: &[(&str, &str)]) -> Vec<u8> {
    let own = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    let mut block = Vec::new();
    for (name, value) in own.iter().chain(extra) {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "a length of one byte");
            block.push(u8::try_from(text.len()).expect("short"));
            block.extend(text.bytes());
        }
    }
    block
}

/// The value of a setting in a frame of them.
pub(crate) fn setting(frame: &Frame, name: u16) -> Option<u32> {
    let mut settings = frame.payload.chunks_exact(6);
    settings.find(|own| own[..2] == name.to_be_bytes()).map(|own| u32::from_be_bytes([own[2], own[3], own[4], own[5]]))
}
