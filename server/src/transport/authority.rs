//! Letting in clients that send a URL where the authority belongs.
//!
//! etcd's clients before 3.5 dial single members (`etcdctl endpoint status`) with `:authority: http://HOST:PORT`. Go's
//! HTTP/2 takes it; ours, rightly, resets the stream before any service sees it. [`Lenient`] rewrites the three bytes
//! `://` of such a value on their way in, so that it reads as a host name (`httpw--HOST:PORT`), which nothing here looks
//! at. Invariant: neither the length of the value nor that of its Huffman coding changes, so the compression state of
//! both ends stays the same. A value that arrives in two reads is left as it is: the client then gets the reset.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
/// `:authority` in HPACK's static table.
const AUTHORITY: usize = 1;

/// A connection whose client may name a URL as the authority.
#[derive(Debug)]
pub(super) struct Lenient<S> {
    stream: S,
    place: Place,
}

/// Where in the client's bytes the next one stands.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// So much of the preface has been seen.
    Preface(usize),
    /// In the head of a frame, so much of which has been seen.
    Head([u8; FRAME_HEAD_BYTES], usize),
    /// In the payload of a frame; the flags if it is one of headers and none of it has been seen.
    Payload { left: usize, unseen: Option<u8> },
    /// Not HTTP/2.
    Elsewhere,
}

impl<S> Lenient<S> {
    pub(super) fn new(stream: S) -> Self {
        Lenient { stream, place: Place::Preface(0) }
    }
}

impl Place {
    /// Follows the frames through the bytes and rewrites what is to be rewritten.
    fn pass(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let taken = match self {
                Place::Elsewhere => return,
                Place::Preface(seen) => {
                    let expected = &PREFACE[*seen..];
                    let taken = expected.len().min(bytes.len());
                    *seen += taken;
                    if bytes[..taken] != expected[..taken] {
                        *self = Place::Elsewhere;
                    } else if *seen == PREFACE.len() {
                        *self = Place::Head([0; FRAME_HEAD_BYTES], 0);
                    }
                    taken
                }
                Place::Head(head, seen) => {
                    let taken = (FRAME_HEAD_BYTES - *seen).min(bytes.len());
                    head[*seen..*seen + taken].copy_from_slice(&bytes[..taken]);
                    *seen += taken;
                    if *seen == FRAME_HEAD_BYTES {
                        let left = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
                        let unseen = (head[3] == HEADERS).then_some(head[4]);
                        *self = Place::of_payload(left, unseen);
                    }
                    taken
                }
                Place::Payload { left, unseen } => {
                    let taken = (*left).min(bytes.len());
                    if let Some(flags) = unseen.take() {
                        // Nothing found, or cut short: the bytes stay as they came.
                        let _ = rewrite(&mut bytes[..taken], flags);
                    }
                    *self = Place::of_payload(*left - taken, None);
                    taken
                }
            };
            bytes = &mut bytes[taken..];
        }
    }

    fn of_payload(left: usize, unseen: Option<u8>) -> Self {
        if left == 0 { Place::Head([0; FRAME_HEAD_BYTES], 0) } else { Place::Payload { left, unseen } }
    }
}

/// Looks through the fields of a header block (RFC 7541, section 6) for a literal `:authority` and rewrites it.
fn rewrite(payload: &mut [u8], flags: u8) -> Option<()> {
    let mut at = usize::from(flags & PADDED != 0) + if flags & PRIORITY != 0 { 5 } else { 0 };
    loop {
        let first = *payload.get(at)?;
        let (prefix, is_literal) = match first {
            0x80.. => (7, false),
            0x40..=0x7f => (6, true),
            0x20..=0x3f => (5, false),
            _ => (4, true),
        };
        let (index, next) = integer(payload, at, prefix)?;
        at = next;
        if is_literal {
            if index == 0 {
                (_, at) = string(payload, at)?;
            }
            let (value, next) = string(payload, at)?;
            if index == AUTHORITY {
                rewrite_value(payload.get_mut(value.start..value.end)?, value.is_coded);
                return Some(());
            }
            at = next;
        }
    }
}

/// An integer with a prefix of so many bits, and the place behind it (RFC 7541, section 5.1).
fn integer(bytes: &[u8], at: usize, prefix: u32) -> Option<(usize, usize)> {
    let most = (1usize << prefix) - 1;
    let mut value = usize::from(*bytes.get(at)?) & most;
    let mut at = at + 1;
    if value == most {
        let mut shift = 0;
        loop {
            let byte = *bytes.get(at)?;
            at += 1;
            value = value.checked_add(usize::from(byte & 0x7f).checked_shl(shift)?)?;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 21 {
                return None;
            }
        }
    }
    Some((value, at))
}

struct Text {
    start: usize,
    end: usize,
    is_coded: bool,
}

/// A string, and the place behind it (RFC 7541, section 5.2).
fn string(bytes: &[u8], at: usize) -> Option<(Text, usize)> {
    let is_coded = bytes.get(at)? & 0x80 != 0;
    let (length, start) = integer(bytes, at, 7)?;
    let end = start.checked_add(length)?;
    Some((Text { start, end, is_coded }, end))
}

fn rewrite_value(value: &mut [u8], is_coded: bool) {
    for (url, host) in [("http://", "httpw--"), ("https://", "httpsw--")] {
        if is_coded {
            let ((from, bits), (to, _)) = (coded(url), coded(host));
            let mut head = [0; 8];
            let length = value.len().min(head.len());
            head[..length].copy_from_slice(&value[..length]);
            let mask = !(u64::MAX >> bits);
            let number = u64::from_be_bytes(head);
            if number & mask == from {
                value[..length].copy_from_slice(&(number & !mask | to).to_be_bytes()[..length]);
                return;
            }
        } else if value.starts_with(url.as_bytes()) {
            value[..host.len()].copy_from_slice(host.as_bytes());
            return;
        }
    }
}

/// The Huffman code of a text of these letters (RFC 7541, appendix B), from the highest bit down, and its bits.
/// `://` and `w--` have 19 bits each.
fn coded(text: &str) -> (u64, u32) {
    let mut number = 0;
    let mut bits = 0;
    for letter in text.bytes() {
        let (code, length): (u64, u32) = match letter {
            b'h' => (0b10_0111, 6),
            b't' => (0b0_1001, 5),
            b'p' => (0b10_1011, 6),
            b's' => (0b0_1000, 5),
            b':' => (0b101_1100, 7),
            b'/' => (0b01_1000, 6),
            b'w' => (0b111_1000, 7),
            _ => (0b01_0110, 6),
        };
        bits += length;
        number |= code << (64 - bits);
    }
    (number, bits)
}

impl<S: AsyncRead + Unpin> AsyncRead for Lenient<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        this.place.pass(&mut buf.filled_mut()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lenient<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `:method POST`, `:scheme http`, a literal `:path`, then the authority, then a field of its own name.
    fn connection(authority: &[u8], is_coded: bool) -> Vec<u8> {
        let mut block = vec![0x83, 0x86, 0x44, 2, b'/', b'x', 0x41];
        block.push(u8::try_from(authority.len()).unwrap() | if is_coded { 0x80 } else { 0 });
        block.extend_from_slice(authority);
        block.extend_from_slice(&[0x40, 1, b'a', 7]);
        block.extend_from_slice(b"http://");
        let mut bytes = PREFACE.to_vec();
        bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[0, 0, u8::try_from(block.len()).unwrap(), HEADERS, 4, 0, 0, 0, 1]);
        bytes.extend_from_slice(&block);
        bytes
    }

    /// Reads the bytes in pieces and returns what comes out.
    fn passed(bytes: &[u8], pieces: usize) -> Vec<u8> {
        let mut place = Place::Preface(0);
        let mut bytes = bytes.to_vec();
        for piece in bytes.chunks_mut(pieces) {
            place.pass(piece);
        }
        bytes
    }

    /// Huffman coding of what stands in such authorities, padded with ones.
    fn huffman(text: &str) -> Vec<u8> {
        let mut bits = String::new();
        for letter in text.chars() {
            bits.push_str(match letter {
                '0' => "00000",
                '1' => "00001",
                '2' => "00010",
                '3' => "011001",
                '7' => "011101",
                '9' => "011111",
                '.' => "010111",
                'h' => "100111",
                't' => "01001",
                'p' => "101011",
                's' => "01000",
                ':' => "1011100",
                '/' => "011000",
                'w' => "1111000",
                '-' => "010110",
                other => panic!("{other}"),
            });
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        bits.as_bytes().chunks(8).map(|b| u8::from_str_radix(std::str::from_utf8(b).unwrap(), 2).unwrap()).collect()
    }

    #[test]
    fn a_url_becomes_a_host_of_the_same_length() {
        for (url, host) in
            [("http://127.0.0.1:2379", "httpw--127.0.0.1:2379"), ("https://127.0.0.1:2379", "httpsw--127.0.0.1:2379")]
        {
            let plain = passed(&connection(url.as_bytes(), false), usize::MAX);
            assert_eq!(plain, connection(host.as_bytes(), false));
            let coded = passed(&connection(&huffman(url), true), usize::MAX);
            assert_eq!(coded, connection(&huffman(host), true));
        }
    }

    #[test]
    fn everything_else_stays_as_it_came() {
        for bytes in [
            connection(b"127.0.0.1:2379", false),
            connection(&huffman("127.0.0.1:2379"), true),
            b"GET http://x HTTP/1.1\r\nHost: http://x\r\n\r\n".to_vec(),
            PREFACE[..10].to_vec(),
            vec![0xff; 64],
        ] {
            for pieces in [1, 3, 16, usize::MAX] {
                assert_eq!(passed(&bytes, pieces), bytes);
            }
        }
    }

    #[test]
    fn frames_are_followed_over_any_border() {
        let url = connection(b"http://127.0.0.1:2379", false);
        let mut two = url.clone();
        two.extend_from_slice(&url[PREFACE.len()..]);
        let host = connection(b"httpw--127.0.0.1:2379", false);
        let mut expected = host.clone();
        expected.extend_from_slice(&host[PREFACE.len()..]);
        // The border lies in the preface, in heads, and behind the first block, never inside a value.
        for border in [5, PREFACE.len() + 4, PREFACE.len() + 12, url.len(), url.len() + 3] {
            let mut place = Place::Preface(0);
            let mut bytes = two.clone();
            let (first, second) = bytes.split_at_mut(border);
            place.pass(first);
            place.pass(second);
            assert_eq!(bytes, expected, "{border}");
        }
    }
}
