//! The answer of a watch on the wire. An event is encoded once and its bytes are shared by all who receive it.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use listwatch_proto::etcd::etcdserverpb::{ResponseHeader, WatchRequest};
use listwatch_proto::etcd::mvccpb;
use prost::encoding::{self, WireType};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

use crate::etcd::translate;
use crate::storage::record::Encoding;
use crate::storage::{Event, EventKind};

/// What a stream's buffer begins with, in bytes: idle streams are many.
const BUFFER_BYTES: usize = 1024;
/// How much is gathered into one write, in bytes.
const WRITE_BYTES: usize = 32 * 1024;

/// `WatchResponse`, with the events still in the store's form.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) header: ResponseHeader,
    pub(super) watch_id: i64,
    pub(super) created: bool,
    pub(super) canceled: bool,
    pub(super) compact_revision: i64,
    pub(super) cancel_reason: String,
    pub(super) fragment: bool,
    pub(super) prev_kv: bool,
    pub(super) events: Vec<Arc<Event>>,
}

/// The field numbers of `WatchResponse` (etcd 3.6).
mod tag {
    pub(super) const HEADER: u32 = 1;
    pub(super) const WATCH_ID: u32 = 2;
    pub(super) const CREATED: u32 = 3;
    pub(super) const CANCELED: u32 = 4;
    pub(super) const COMPACT_REVISION: u32 = 5;
    pub(super) const CANCEL_REASON: u32 = 6;
    pub(super) const FRAGMENT: u32 = 7;
    pub(super) const EVENTS: u32 = 11;
}

impl Answer {
    /// Bytes of the events on the wire.
    pub(super) fn event_bytes(event: &Event, prev_kv: bool) -> &Bytes {
        if prev_kv {
            event.encoded(Encoding::WithPrev, |event| field(event, true))
        } else {
            event.encoded(Encoding::Plain, |event| field(event, false))
        }
    }

    fn encode(&self, out: &mut EncodeBuf<'_>) {
        let events: usize = self.events.iter().map(|event| Self::event_bytes(event, self.prev_kv).len()).sum();
        out.reserve(events + 64 + self.cancel_reason.len());
        encoding::message::encode(tag::HEADER, &self.header, out);
        for (tag, number) in [(tag::WATCH_ID, self.watch_id), (tag::COMPACT_REVISION, self.compact_revision)] {
            if number != 0 {
                encoding::int64::encode(tag, &number, out);
            }
        }
        for (tag, flag) in
            [(tag::CREATED, self.created), (tag::CANCELED, self.canceled), (tag::FRAGMENT, self.fragment)]
        {
            if flag {
                encoding::bool::encode(tag, &flag, out);
            }
        }
        if !self.cancel_reason.is_empty() {
            encoding::string::encode(tag::CANCEL_REASON, &self.cancel_reason, out);
        }
        for event in &self.events {
            out.put_slice(Self::event_bytes(event, self.prev_kv));
        }
    }
}

/// One event as field `events` of the answer, tag and length included.
fn field(event: &Event, prev_kv: bool) -> Bytes {
    let kind = match event.kind {
        EventKind::Put => mvccpb::event::EventType::Put,
        EventKind::Delete => mvccpb::event::EventType::Delete,
    };
    let prev = if prev_kv { event.prev.as_ref() } else { None };
    let message = mvccpb::Event {
        r#type: kind.into(),
        kv: Some(translate::key_value(event.kv.clone())),
        prev_kv: prev.map(|kv| translate::key_value((**kv).clone())),
    };
    let length = prost::Message::encoded_len(&message);
    let mut bytes = Vec::with_capacity(length + 8);
    encoding::encode_key(tag::EVENTS, WireType::LengthDelimited, &mut bytes);
    encoding::encode_varint(length as u64, &mut bytes);
    prost::Message::encode_raw(&message, &mut bytes);
    bytes.into()
}

/// Decodes requests as usual and encodes [`Answer`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WatchCodec;

impl Codec for WatchCodec {
    type Encode = Answer;
    type Decode = WatchRequest;
    type Encoder = AnswerEncoder;
    type Decoder = ProstDecoder<WatchRequest>;

    fn encoder(&mut self) -> Self::Encoder {
        AnswerEncoder
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<WatchRequest, WatchRequest>::raw_decoder(settings())
    }
}

fn settings() -> BufferSettings {
    BufferSettings::new(BUFFER_BYTES, WRITE_BYTES)
}

/// See [`WatchCodec`].
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerEncoder;

impl Encoder for AnswerEncoder {
    type Item = Answer;
    type Error = Status;

    fn encode(&mut self, answer: Answer, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.encode(out);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        settings()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::KeyValue;

    fn kv(value: &'static str, version: i64) -> KeyValue {
        KeyValue {
            key: "k".into(),
            value: value.into(),
            create_revision: 5,
            mod_revision: 4 + version,
            version,
            lease: -3,
        }
    }

    #[test]
    fn the_shared_bytes_are_the_field_of_the_answer() {
        use listwatch_proto::etcd::etcdserverpb::WatchResponse;
        use prost::Message;
        let event = Event::new(EventKind::Put, kv("new", 2), Some(Arc::new(kv("old", 1))), 0);
        let mut bytes = Vec::new();
        encoding::int64::encode(tag::WATCH_ID, &7, &mut bytes);
        bytes.extend_from_slice(Answer::event_bytes(&event, true));
        bytes.extend_from_slice(Answer::event_bytes(&event, false));
        let answer = WatchResponse::decode(&*bytes).expect("decodes");
        assert_eq!(answer.watch_id, 7);
        assert_eq!(answer.events.len(), 2);
        assert_eq!(answer.events[0].kv, Some(translate::key_value(kv("new", 2))));
        assert_eq!(answer.events[0].prev_kv, Some(translate::key_value(kv("old", 1))));
        assert_eq!(answer.events[1].prev_kv, None);
    }
}
