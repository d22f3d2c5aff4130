//! Messages of gRPC that come in time: a client that stops in the middle of one is told so and holds nothing longer.
//!
//! A method that takes one message waits for it and for the end of the request; one that takes a stream of them waits
//! only while a message has begun and not ended: between messages the client may be silent for as long as it likes.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use prost::Message;
use prost_types::FileDescriptorSet;
use tokio::time::{Instant, Sleep};

use crate::clock::timer_now;

/// A body of which nothing comes for so long is not waited for: whoever sends it is gone, or means harm.
pub(crate) const BODY_SILENCE_MAX: Duration = Duration::from_secs(30);

/// All of a body must have come after so long; even the largest needs no more over a slow line.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(180);

/// Bytes before a message of gRPC: whether it is compressed, and its length.
const HEAD_BYTES: usize = 5;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// The methods whose clients send a stream of messages, by their paths. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct StreamingMethods(Arc<HashSet<String>>);

impl StreamingMethods {
    /// Those of all services in these encoded `FileDescriptorSet`s.
    ///
    /// # Errors
    /// One that does not decode.
    pub fn of(descriptors: &[&[u8]]) -> Result<Self, prost::DecodeError> {
        let mut paths = HashSet::new();
        for set in descriptors {
            for file in FileDescriptorSet::decode(*set)?.file {
                for service in &file.service {
                    for method in service.method.iter().filter(|method| method.client_streaming()) {
                        paths.insert(format!("/{}.{}/{}", file.package(), service.name(), method.name()));
                    }
                }
            }
        }
        Ok(StreamingMethods(Arc::new(paths)))
    }

    /// Whether the clients of this method send a stream.
    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains(path)
    }
}

/// The body of a request over gRPC whose messages come in time, or which ends with an error.
pub(super) struct Timely<B> {
    body: B,
    is_stream: bool,
    place: Place,
    /// Set while something is waited for.
    waiting: Option<Waiting>,
    silence_max: Duration,
    time_max: Duration,
}

struct Waiting {
    /// For the whole of it.
    until: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl<B> Timely<B> {
    pub(super) fn new(body: B, is_stream: bool) -> Self {
        Timely {
            body,
            is_stream,
            place: Place::default(),
            waiting: None,
            silence_max: BODY_SILENCE_MAX,
            time_max: BODY_TIME_MAX,
        }
    }

    /// Takes note of bytes that have come.
    fn pass(&mut self, data: &Bytes) {
        if data.is_empty() {
            return;
        }
        self.place.pass(data);
        if self.is_stream && self.place.is_between() {
            self.waiting = None;
        } else if let Some(waiting) = &mut self.waiting {
            let next = (timer_now() + self.silence_max).min(waiting.until);
            waiting.alarm.as_mut().reset(next);
        }
    }

    /// Nothing is there: whether it is too late for it.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.is_stream && self.place.is_between() {
            return Poll::Pending;
        }
        let (silence_max, time_max) = (self.silence_max, self.time_max);
        let waiting = self.waiting.get_or_insert_with(|| {
            let now = timer_now();
            Waiting { until: now + time_max, alarm: Box::pin(tokio::time::sleep_until(now + silence_max)) }
        });
        if waiting.alarm.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let limit = if timer_now() >= waiting.until { time_max } else { silence_max };
        let message = format!("the message did not come within {} seconds", limit.as_secs());
        Poll::Ready(Some(Err(tonic::Status::deadline_exceeded(message).into())))
    }
}

impl<B> Body for Timely<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Error>,
{
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = self.get_mut();
        match Pin::new(&mut this.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.pass(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(error.into()))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => this.wait(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Where in the messages the next byte stands.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    head: [u8; HEAD_BYTES],
    /// So much of the head has come.
    seen: usize,
    /// So much of the message is to come.
    left: usize,
}

impl Place {
    /// Whether no message has begun that has not ended.
    fn is_between(&self) -> bool {
        self.seen == 0 && self.left == 0
    }

    fn pass(&mut self, mut data: &[u8]) {
        while data.has_remaining() {
            if self.left > 0 {
                let taken = self.left.min(data.len());
                self.left -= taken;
                data.advance(taken);
                continue;
            }
            let taken = (HEAD_BYTES - self.seen).min(data.len());
            self.head[self.seen..self.seen + taken].copy_from_slice(&data[..taken]);
            self.seen += taken;
            data.advance(taken);
            if self.seen == HEAD_BYTES {
                self.seen = 0;
                let length = [self.head[1], self.head[2], self.head[3], self.head[4]];
                self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use futures::stream;
    use http_body_util::{BodyExt, StreamBody};

    /// A message of so many bytes.
    fn message(bytes: u8) -> Vec<u8> {
        let mut message = vec![0, 0, 0, 0, bytes];
        message.resize(HEAD_BYTES + usize::from(bytes), 7);
        message
    }

    const SILENCE_MAX: Duration = Duration::from_millis(20);

    fn timely(pieces: &[&[u8]], is_stream: bool) -> Timely<impl Body<Data = Bytes, Error = Error> + Unpin + use<>> {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok(Frame::data(Bytes::copy_from_slice(piece)))).collect();
        let body = StreamBody::new(stream::iter(pieces).chain(stream::pending()));
        Timely { silence_max: SILENCE_MAX, ..Timely::new(body, is_stream) }
    }

    #[test]
    fn messages_are_followed_over_any_border() {
        let mut bytes = message(3);
        bytes.extend(message(0));
        bytes.extend(message(200));
        for size in [1, 4, 5, 7, bytes.len()] {
            let mut place = Place::default();
            for piece in bytes.chunks(size) {
                place.pass(piece);
            }
            assert!(place.is_between(), "{size}");
        }
        let mut place = Place::default();
        place.pass(&bytes[..bytes.len() - 1]);
        assert!(!place.is_between());
    }

    #[test]
    fn methods_that_take_a_stream_are_known_by_their_descriptors() {
        let methods = StreamingMethods::of(&[
            listwatch_proto::DESCRIPTORS,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ]);
        let methods = methods.expect("they decode");
        let mut paths: Vec<_> = methods.0.iter().map(String::as_str).collect();
        paths.sort_unstable();
        let expected = [
            "/etcdserverpb.Lease/LeaseKeepAlive",
            "/etcdserverpb.Watch/Watch",
            "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        ];
        assert_eq!(paths, expected);
        assert!(methods.has("/etcdserverpb.Watch/Watch") && !methods.has("/etcdserverpb.KV/Range"));
    }

    #[tokio::test]
    async fn one_message_is_waited_for_until_the_client_falls_silent() {
        let whole = message(9);
        // Nothing; half of it; all of it without the end of the request.
        for pieces in [vec![], vec![&whole[..7]], vec![&whole[..3], &whole[3..]]] {
            let mut body = timely(&pieces, false);
            let began = Instant::now();
            for _ in &pieces {
                body.frame().await.expect("a piece").expect("read");
            }
            let error = body.frame().await.expect("an error").expect_err("too late");
            let status = error.downcast_ref::<tonic::Status>().expect("a status");
            assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
            assert!(status.message().starts_with("the message did not come within"), "{status}");
            assert!(began.elapsed() >= SILENCE_MAX);
        }
    }

    #[tokio::test]
    async fn a_drip_is_no_message() {
        let drip = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Some((Ok::<_, Error>(Frame::data(Bytes::from_static(&[0]))), ()))
        });
        let body = Timely::new(StreamBody::new(Box::pin(drip)), false);
        let time_max = Duration::from_millis(100);
        let mut body = Timely { time_max, silence_max: Duration::from_secs(30), ..body };
        let began = Instant::now();
        let error = loop {
            if let Err(error) = body.frame().await.expect("not the end") {
                break error;
            }
        };
        assert!(error.downcast_ref::<tonic::Status>().is_some(), "{error}");
        assert!(began.elapsed() >= time_max && began.elapsed() < Duration::from_secs(20));
    }

    #[tokio::test]
    async fn a_stream_may_be_silent_between_messages_but_not_within_one() {
        let whole = message(9);
        let mut body = timely(&[&whole], true);
        body.frame().await.expect("a piece").expect("read");
        assert!(tokio::time::timeout(SILENCE_MAX * 10, body.frame()).await.is_err());
        let mut body = timely(&[&whole, &whole[..6]], true);
        for _ in 0..2 {
            body.frame().await.expect("a piece").expect("read");
        }
        assert!(body.frame().await.expect("an error").is_err());
    }
}
