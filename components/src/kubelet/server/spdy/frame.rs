//! Frames to and from bytes. Pure: no IO, and input of any kind is an error at worst.
//!
//! Invariant: the header blocks of one direction share one compressed stream, so each must be read, in order, wanted or
//! not. Ours are written as stored blocks, which need no compressor and no dictionary.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flate2::{Decompress, FlushDecompress, Status};

use super::dictionary::dictionary;

/// The longest frame that is taken; clients send 32 KiB at a time.
const FRAME_BYTES_MAX: usize = 1 << 20;

/// The longest header block, unpacked; a stream has three headers of some letters.
const HEADER_BYTES_MAX: usize = 64 << 10;

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GO_AWAY: u16 = 7;
const HEADERS: u16 = 8;
const FIN: u8 = 1;

/// What one end says to the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Frame {
    /// A new stream.
    Open {
        /// Its number: odd if the client opens it.
        stream: u32,
        /// Nothing comes on it from the one who opens it.
        fin: bool,
        /// What it is for; names in lower case.
        headers: Vec<(String, String)>,
    },
    /// The other end's answer to [`Frame::Open`].
    Reply {
        /// Which.
        stream: u32,
    },
    /// Bytes on a stream.
    Data {
        /// Which.
        stream: u32,
        /// The last ones.
        fin: bool,
        /// They.
        data: Bytes,
    },
    /// A stream ends at once.
    Reset {
        /// Which.
        stream: u32,
    },
    /// A sign of life is wanted, or given: the same number comes back.
    Ping {
        /// The number.
        id: u32,
    },
    /// No more streams will be opened.
    GoAway,
    /// Settings, windows, later headers: nothing that forwarding needs.
    Other,
}

/// Bytes that are no SPDY/3.1.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum FrameError {
    /// Another version.
    #[error("SPDY version {0} is not served, only 3")]
    Version(u16),
    /// A frame beyond the bound.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// A frame that ends before it should.
    #[error("a frame is cut short")]
    Short,
    /// A header block that does not unpack.
    #[error("a header block cannot be unpacked")]
    Headers,
}

/// Reads frames out of bytes as they come.
#[derive(Debug)]
pub(in super::super) struct Decoder {
    bytes: BytesMut,
    unpack: Decompress,
    dictionary: Vec<u8>,
}

impl Decoder {
    /// At the beginning of a connection.
    pub(in super::super) fn new() -> Self {
        Decoder { bytes: BytesMut::new(), unpack: Decompress::new(true), dictionary: dictionary() }
    }

    /// More bytes have come.
    pub(in super::super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame.
    pub(in super::super) fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<8>().copied() else { return Ok(None) };
        let [.., a, b, c] = head;
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        if length > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        if self.bytes.len() < 8 + length {
            return Ok(None);
        }
        self.bytes.advance(8);
        let payload = self.bytes.split_to(length).freeze();
        let word = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let fin = head[4] & FIN != 0;
        if word >> 31 == 0 {
            return Ok(Some(Frame::Data { stream: word, fin, data: payload }));
        }
        let version = u16::from_be_bytes([head[0] & 0x7f, head[1]]);
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        self.control(u16::from_be_bytes([head[2], head[3]]), fin, payload).map(Some)
    }

    fn control(&mut self, kind: u16, fin: bool, mut payload: Bytes) -> Result<Frame, FrameError> {
        let number = |payload: &mut Bytes| payload.try_get_u32().map_err(|_| FrameError::Short);
        Ok(match kind {
            SYN_STREAM => {
                let stream = number(&mut payload)? & 0x7fff_ffff;
                // The stream it belongs to, its priority and its slot.
                let block = payload.get(6..).ok_or(FrameError::Short)?;
                Frame::Open { stream, fin, headers: self.headers(block)? }
            }
            SYN_REPLY | HEADERS => {
                let stream = number(&mut payload)? & 0x7fff_ffff;
                self.headers(&payload)?;
                if kind == SYN_REPLY { Frame::Reply { stream } } else { Frame::Other }
            }
            RST_STREAM => Frame::Reset { stream: number(&mut payload)? & 0x7fff_ffff },
            PING => Frame::Ping { id: number(&mut payload)? },
            GO_AWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }

    fn headers(&mut self, block: &[u8]) -> Result<Vec<(String, String)>, FrameError> {
        let plain = self.unpack(block)?;
        let mut rest = Bytes::from(plain);
        let number = |rest: &mut Bytes| rest.try_get_u32().map(|n| n as usize).map_err(|_| FrameError::Short);
        let text = |rest: &mut Bytes| {
            let length = number(rest)?;
            if rest.len() < length {
                return Err(FrameError::Short);
            }
            Ok(String::from_utf8_lossy(&rest.split_to(length)).into_owned())
        };
        let mut headers = Vec::new();
        for _ in 0..number(&mut rest)? {
            headers.push((text(&mut rest)?, text(&mut rest)?));
        }
        Ok(headers)
    }

    fn unpack(&mut self, block: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut plain = Vec::with_capacity(1024);
        let mut rest = block;
        loop {
            if plain.len() > HEADER_BYTES_MAX {
                return Err(FrameError::Headers);
            }
            plain.reserve(1024);
            let before = (self.unpack.total_in(), plain.len());
            let outcome = self.unpack.decompress_vec(rest, &mut plain, FlushDecompress::Sync);
            let taken = usize::try_from(self.unpack.total_in() - before.0).map_err(|_| FrameError::Headers)?;
            rest = rest.get(taken..).ok_or(FrameError::Headers)?;
            match outcome {
                Ok(Status::Ok) if !rest.is_empty() && taken == 0 && plain.len() == before.1 => {
                    return Err(FrameError::Headers);
                }
                Ok(Status::Ok) if !rest.is_empty() || plain.len() == plain.capacity() => {}
                Ok(Status::Ok | Status::BufError) if rest.is_empty() => return Ok(plain),
                Ok(_) => return Err(FrameError::Headers),
                Err(error) if error.needs_dictionary().is_some() => {
                    self.unpack.set_dictionary(&self.dictionary).map_err(|_| FrameError::Headers)?;
                }
                Err(_) => return Err(FrameError::Headers),
            }
        }
    }
}

/// Writes frames.
#[derive(Debug, Default)]
pub(in super::super) struct Encoder {
    /// The compressed stream of our headers has begun.
    begun: bool,
}

impl Encoder {
    /// The bytes of a frame; none for what is never sent.
    pub(in super::super) fn encode(&mut self, frame: &Frame) -> Bytes {
        let mut out = BytesMut::new();
        match frame {
            Frame::Data { stream, fin, data } => {
                out.put_u32(stream & 0x7fff_ffff);
                out.put_u8(if *fin { FIN } else { 0 });
                out.put_uint(data.len() as u64, 3);
                out.extend_from_slice(data);
            }
            Frame::Reply { stream } => {
                let mut payload = stream.to_be_bytes().to_vec();
                payload.extend(self.pack(&0u32.to_be_bytes()));
                control(&mut out, SYN_REPLY, 0, &payload);
            }
            Frame::Open { stream, fin, headers } => {
                let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
                for text in headers.iter().flat_map(|(name, value)| [name, value]) {
                    plain.extend((text.len() as u32).to_be_bytes());
                    plain.extend(text.as_bytes());
                }
                let mut payload = stream.to_be_bytes().to_vec();
                payload.extend([0; 6]);
                payload.extend(self.pack(&plain));
                control(&mut out, SYN_STREAM, if *fin { FIN } else { 0 }, &payload);
            }
            Frame::Reset { stream } => {
                // Status 5: cancel.
                let payload = [stream.to_be_bytes(), 5u32.to_be_bytes()].concat();
                control(&mut out, RST_STREAM, 0, &payload);
            }
            Frame::Ping { id } => control(&mut out, PING, 0, &id.to_be_bytes()),
            Frame::GoAway => control(&mut out, GO_AWAY, 0, &[0; 8]),
            Frame::Other => {}
        }
        out.freeze()
    }

    /// A header block as one stored block (RFC 1951, section 3.2.4) of the stream, which begins with its head (RFC 1950).
    fn pack(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(plain.len() + 7);
        if !std::mem::replace(&mut self.begun, true) {
            out.extend([0x78, 0x01]);
        }
        for piece in plain.chunks(usize::from(u16::MAX)) {
            let length = piece.len() as u16;
            out.push(0);
            out.extend(length.to_le_bytes());
            out.extend((!length).to_le_bytes());
            out.extend(piece);
        }
        // An empty block: readers take it as the sign to give out what they have (Go's waits for more without it).
        out.extend([0, 0, 0, 0xff, 0xff]);
        out
    }
}

fn control(out: &mut BytesMut, kind: u16, flags: u8, payload: &[u8]) {
    out.put_u16(0x8000 | VERSION);
    out.put_u16(kind);
    out.put_u8(flags);
    out.put_uint(payload.len() as u64, 3);
    out.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compress, Compression, FlushCompress};

    fn open(stream: u32, kind: &str) -> Frame {
        let headers = [("streamtype", kind), ("port", "8080"), ("requestid", "0")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Frame::Open { stream, fin: kind == "error", headers }
    }

    fn read_all(decoder: &mut Decoder) -> Vec<Frame> {
        std::iter::from_fn(|| decoder.next().expect("frames")).collect()
    }

    #[test]
    fn what_is_written_reads_back_however_it_is_cut() {
        let frames = [
            open(1, "error"),
            open(3, "data"),
            Frame::Data { stream: 3, fin: false, data: Bytes::from_static(b"GET /") },
            Frame::Ping { id: 7 },
            Frame::Reply { stream: 3 },
            Frame::Data { stream: 3, fin: true, data: Bytes::new() },
            Frame::Reset { stream: 3 },
            Frame::GoAway,
        ];
        let mut encoder = Encoder::default();
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| encoder.encode(frame)).collect();
        for cut in [1, 3, 8, bytes.len()] {
            let mut decoder = Decoder::new();
            let mut seen = Vec::new();
            for piece in bytes.chunks(cut) {
                decoder.push(piece);
                seen.extend(read_all(&mut decoder));
            }
            assert_eq!(seen, frames, "in pieces of {cut}");
        }
    }

    #[test]
    fn header_blocks_end_with_an_empty_block() {
        let mut encoder = Encoder::default();
        let first = encoder.encode(&Frame::Reply { stream: 1 });
        let end = [0, 0, 0, 0xff, 0xff];
        let block = [0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0];
        assert_eq!(first[12..], [&[0x78, 1][..], &block, &end].concat());
        assert_eq!(encoder.encode(&Frame::Reply { stream: 3 })[12..], [&block[..], &end].concat());
    }

    /// A stream as clients open it: packed against the dictionary, one compressed stream over all headers.
    fn packed(compress: &mut Compress, frame: &Frame) -> Vec<u8> {
        let Frame::Open { stream, fin, headers } = frame else { panic!("only streams") };
        let mut plain = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.extend((text.len() as u32).to_be_bytes());
            plain.extend(text.as_bytes());
        }
        let mut block = Vec::with_capacity(4096);
        compress.compress_vec(&plain, &mut block, FlushCompress::Sync).expect("packed");
        let mut payload = stream.to_be_bytes().to_vec();
        payload.extend([0; 6]);
        payload.extend(block);
        let mut out = BytesMut::new();
        control(&mut out, SYN_STREAM, u8::from(*fin), &payload);
        out.to_vec()
    }

    #[test]
    fn headers_are_unpacked_against_the_dictionary() {
        let mut compress = Compress::new(Compression::best(), true);
        compress.set_dictionary(&dictionary()).expect("set");
        let mut decoder = Decoder::new();
        for (stream, kind) in [(1, "error"), (3, "data"), (5, "error"), (7, "data")] {
            let frame = open(stream, kind);
            decoder.push(&packed(&mut compress, &frame));
            assert_eq!(read_all(&mut decoder), [frame]);
        }
    }

    #[test]
    fn what_is_no_spdy_is_an_error_and_never_a_panic() {
        let next = |bytes: &[u8]| {
            let mut decoder = Decoder::new();
            decoder.push(bytes);
            decoder.next()
        };
        assert_eq!(next(&[0x80, 2, 0, 1, 0, 0, 0, 0]), Err(FrameError::Version(2)));
        assert_eq!(next(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]), Err(FrameError::TooLong(0xff_ffff)));
        assert_eq!(next(&[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0]), Err(FrameError::Short));
        assert_eq!(next(&[0x80, 3, 0, 6, 0, 0, 0, 0]), Err(FrameError::Short));
        let mut garbage = vec![0x80, 3, 0, 1, 0, 0, 0, 14];
        garbage.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(next(&garbage), Err(FrameError::Headers));
        // A count of headers that are not there.
        let mut lying = vec![0x80, 3, 0, 1, 0, 0, 0, 21];
        lying.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x78, 0x01, 0, 4, 0, 0xfb, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(next(&lying), Err(FrameError::Short));
    }
}
