//! The answer to a range of many keys, written piece by piece.
//!
//! One message holds all of it, and its length stands before it. Encoded in one go it would be in memory twice, for as
//! long as a slow reader takes; so only its length is reckoned up at first, and the bytes are made when there is room for
//! them. Large values are handed on as they lie in the store.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::StreamBody;
use hyper::body::Frame;
use listwatch_proto::etcd::etcdserverpb::ResponseHeader;
use listwatch_proto::etcd::mvccpb;
use parking_lot::Mutex;
use prost::Message;
use prost::encoding::{self, WireType};
use tonic::Status;

use super::translate;
use crate::storage::RangeResult;
use crate::transport::expiring;

/// From so many bytes of keys and values on an answer is written piece by piece.
const LONG_BYTES_MIN: usize = 256 << 10;

/// Bytes of one piece, about: as much as goes out at a time.
const PIECE_BYTES: usize = 64 << 10;

/// A value of so many bytes is a piece of its own, and not copied.
const LARGE_BYTES_MIN: usize = 16 << 10;

/// Who has not read the answer by then is not waited for.
const READ_TIME_MAX: Duration = Duration::from_secs(180);

/// The fields of `RangeResponse`.
const HEADER: u32 = 1;
const KVS: u32 = 2;
const MORE: u32 = 3;
const COUNT: u32 = 4;
/// The last two of `KeyValue`, in this order.
const VALUE: u32 = 5;
const LEASE: u32 = 6;

/// Put into the extensions of an answer in place of its message. Cheap to clone, and good for one use.
#[derive(Clone, Debug)]
pub(super) struct LongRange(Arc<Mutex<Option<Writer>>>);

impl LongRange {
    /// The answer, if it is long.
    ///
    /// # Errors
    /// `ResourceExhausted` for one beyond what a message of gRPC can hold.
    pub(super) fn of(result: &mut RangeResult, header: ResponseHeader) -> Result<Option<Self>, Status> {
        let mut bytes = 0;
        if !result.kvs.iter().any(|kv| {
            bytes += kv.size();
            bytes >= LONG_BYTES_MIN
        }) {
            return Ok(None);
        }
        let kvs: Vec<_> = std::mem::take(&mut result.kvs).into_iter().map(translate::key_value).collect();
        let writer = Writer::new(kvs, header, result.more, result.count)?;
        Ok(Some(LongRange(Arc::new(Mutex::new(Some(writer))))))
    }

    /// The answer with this as its body.
    pub(super) fn fill<B>(self, response: Response<B>) -> Response<Body> {
        let (parts, _) = response.into_parts();
        let writer = self.0.lock().take();
        let frames = stream::unfold((writer, false), |(writer, is_over)| async move {
            match writer {
                Some(mut writer) => match writer.piece() {
                    Some(piece) => Some((Ok::<_, Status>(Frame::data(piece)), (Some(writer), false))),
                    None => Some((Ok(Frame::trailers(success())), (None, true))),
                },
                None if is_over => None,
                None => Some((Err(Status::internal("an answer was used twice")), (None, true))),
            }
        });
        Response::from_parts(parts, expiring(Body::new(StreamBody::new(frames)), READ_TIME_MAX))
    }
}

fn success() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    trailers
}

/// Writes the message.
#[derive(Debug)]
struct Writer {
    /// What stands before the keys; taken by the first piece.
    head: Option<BytesMut>,
    kvs: vec::IntoIter<mvccpb::KeyValue>,
    /// A value that comes next, before any key, and the lease that stands behind it.
    next: Option<(Bytes, i64)>,
    more: bool,
    count: i64,
    is_done: bool,
}

impl Writer {
    fn new(kvs: Vec<mvccpb::KeyValue>, header: ResponseHeader, more: bool, count: i64) -> Result<Self, Status> {
        let mut head = BytesMut::new();
        encoding::message::encode(HEADER, &header, &mut head);
        let mut writer = Writer { head: None, kvs: Vec::new().into_iter(), next: None, more, count, is_done: false };
        let mut tail = BytesMut::new();
        writer.put_tail(&mut tail);
        let keys: usize = kvs.iter().map(|kv| encoding::message::encoded_len(KVS, kv)).sum();
        let length = head.len() + keys + tail.len();
        let Ok(length) = u32::try_from(length) else {
            return Err(Status::resource_exhausted(format!(
                "grpc: trying to send message larger than max ({length} vs. {})",
                u32::MAX
            )));
        };
        let mut framed = BytesMut::with_capacity(5 + head.len());
        framed.put_u8(0);
        framed.put_u32(length);
        framed.put(head);
        (writer.head, writer.kvs) = (Some(framed), kvs.into_iter());
        Ok(writer)
    }

    fn put_tail(&self, out: &mut BytesMut) {
        if self.more {
            encoding::bool::encode(MORE, &self.more, out);
        }
        if self.count != 0 {
            encoding::int64::encode(COUNT, &self.count, out);
        }
    }

    /// The next bytes; `None` at the end.
    fn piece(&mut self) -> Option<Bytes> {
        if let Some((value, lease)) = self.next.take() {
            if lease != 0 {
                let mut behind = BytesMut::new();
                encoding::int64::encode(LEASE, &lease, &mut behind);
                self.head = Some(behind);
            }
            return Some(value);
        }
        if self.is_done {
            return None;
        }
        let mut out = self.head.take().unwrap_or_default();
        if self.kvs.len() > 0 {
            out.reserve(PIECE_BYTES + LARGE_BYTES_MIN);
        }
        while out.len() < PIECE_BYTES {
            let Some(kv) = self.kvs.next() else {
                self.put_tail(&mut out);
                self.is_done = true;
                break;
            };
            if kv.value.len() < LARGE_BYTES_MIN {
                encoding::message::encode(KVS, &kv, &mut out);
                continue;
            }
            encoding::encode_key(KVS, WireType::LengthDelimited, &mut out);
            encoding::encode_varint(kv.encoded_len() as u64, &mut out);
            let (value, lease) = (kv.value, kv.lease);
            let rest = mvccpb::KeyValue { value: Bytes::new(), lease: 0, ..kv };
            rest.encode_raw(&mut out);
            encoding::encode_key(VALUE, WireType::LengthDelimited, &mut out);
            encoding::encode_varint(value.len() as u64, &mut out);
            self.next = Some((value, lease));
            break;
        }
        (!out.is_empty()).then(|| out.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use listwatch_proto::etcd::etcdserverpb::RangeResponse;

    use crate::storage::KeyValue;

    fn result(sizes: &[usize], more: bool) -> RangeResult {
        let kvs = sizes.iter().enumerate().map(|(number, size)| KeyValue {
            key: format!("key-{number}").into(),
            value: vec![b'v'; *size].into(),
            create_revision: 3,
            mod_revision: 5 + number as i64,
            version: 2,
            lease: (number % 2) as i64,
        });
        RangeResult { kvs: kvs.collect(), more, count: sizes.len() as i64 + 7, revision: 9 }
    }

    #[tokio::test]
    async fn the_pieces_are_the_message() {
        for (sizes, more) in [
            (vec![1000; 1000], false),
            (vec![300_000], true),
            (vec![20_000, 10, 20_001, 0, 400_000, 16 << 10, (16 << 10) - 1], true),
            (vec![1_500_000; 4], false),
        ] {
            let whole = result(&sizes, more);
            let expected =
                translate::range_response(whole.clone(), ResponseHeader { revision: 9, ..Default::default() });
            let mut taken = whole;
            let long = LongRange::of(&mut taken, ResponseHeader { revision: 9, ..Default::default() });
            let long = long.expect("not too long").expect("long");
            let body = long.fill(Response::new(())).into_body().collect().await.expect("whole");
            assert_eq!(body.trailers().expect("trailers")[Status::GRPC_STATUS], "0");
            let bytes = body.to_bytes();
            assert_eq!(bytes[0], 0);
            let length = u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
            assert_eq!(length as usize, bytes.len() - 5);
            assert_eq!(bytes[5..], expected.encode_to_vec(), "{sizes:?}");
            assert_eq!(RangeResponse::decode(&bytes[5..]).expect("a message"), expected);
        }
    }

    #[test]
    fn pieces_are_small_and_what_is_short_stays_whole() {
        let long = LongRange::of(&mut result(&[1000; 2000], false), ResponseHeader::default());
        let mut writer = long.expect("not too long").expect("long").0.lock().take().expect("fresh");
        let mut pieces = 0;
        while let Some(piece) = writer.piece() {
            assert!(piece.len() < PIECE_BYTES + 2000);
            pieces += 1;
        }
        assert!(pieces > 30, "{pieces}");
        let mut short = result(&[1000; 100], false);
        assert!(LongRange::of(&mut short, ResponseHeader::default()).expect("fine").is_none());
        assert_eq!(short.kvs.len(), 100);
    }
}
