//! Watches: one JSON object a line, for as long as the client listens.
//!
//! The stream pulls: the next events are taken when the connection has room for them, so a slow client holds nothing but
//! its place in history. What goes wrong after the stream has begun is told in it, as an event of type ERROR.

use std::pin::Pin;
use std::time::Duration;
use std::vec;

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures::{Stream, stream};
use http::{HeaderValue, header};
use listwatch_proto::resource::{Reason, Status};
use rand::Rng;
use serde_json::Value;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

use super::form::answer;
use super::form::negotiate::{Encoding, Form, Shape};
use super::form::table::{self, Carried};
use super::list::{not_acceptable, table_with_row};
use super::metrics::Counts;
use super::query::Watching;
use crate::registry::{
    EventType, Registry, RegistryEvent, RegistryWatch, RequestContext, StoredObject, Target, protobuf_write,
};

/// The usual silence before a bookmark.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// Bytes of one piece, about: a batch of many events is written in several, so that a slow reader holds little.
const PIECE_BYTES: usize = 64 << 10;
/// A bookmark comes this long before the end, so that the next watch begins near it.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The annotation of the bookmark behind the initial events.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// In which form a watch is shown, and who counts its events.
pub(super) struct Shown {
    pub(super) form: Form,
    pub(super) carried: Carried,
    pub(super) counts: Counts,
    /// How long a watch lasts that names no limit: this, up to twice of it, at random so that clients do not come back all
    /// at once.
    pub(super) lasts_min: Duration,
}

/// What a watch is written with.
struct Lines {
    registry: Registry,
    target: Target,
    form: Form,
    carried: Carried,
    counts: Counts,
    bookmarks: bool,
    /// Sent with the first event only.
    columns: Option<Value>,
}

/// Answers a watch.
pub(super) async fn watch(
    registry: &Registry,
    context: &RequestContext,
    target: &Target,
    mut watching: Watching,
    Shown { form, carried, counts, lasts_min }: Shown,
    stopping: CancellationToken,
) -> Result<Response, Status> {
    if form.encoding == Encoding::Yaml {
        let types = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        let message = format!("only the following media types are accepted: {types}");
        return Err(Status::new(Reason::NotAcceptable, message));
    }
    if form.shape == Shape::MetadataList {
        return Err(not_acceptable(
            "PartialObjectMetadataList",
            &format!("a list (*core.{})", target.kind.kind),
            "is not",
        ));
    }
    let lasts = match watching.timeout_seconds {
        Some(seconds) => Duration::from_secs(seconds),
        None => lasts_min.mul_f64(rand::rng().random_range(1.0..2.0)),
    };
    let quiet = lasts.saturating_sub(BOOKMARK_BEFORE_END).clamp(Duration::from_secs(1), BOOKMARK_INTERVAL);
    watching.options.progress_interval = Some(quiet);
    let columns = (form.shape == Shape::Table).then(|| table::columns(registry, target.kind));
    let bookmarks = watching.bookmarks;
    let lines = Lines { registry: registry.clone(), target: target.clone(), form, carried, counts, bookmarks, columns };
    let source = match registry.watch(context, target, &watching.options).await {
        // Less than no time: it is over before it begins.
        Ok(_) if lasts.is_zero() => Source::Over,
        Ok(watch) => Source::Open(Box::new(watch)),
        // The client has asked well; that its revision is gone is an event of the stream.
        Err(status) if matches!(status.reason, Reason::Expired | Reason::Timeout) => Source::Failed(Box::new(status)),
        Err(status) => return Err(status),
    };
    let end = Box::pin(tokio::time::sleep(lasts));
    let mut response = Response::new(Body::from_stream(pieces(State {
        lines,
        source,
        events: Vec::new().into_iter(),
        end,
        stopping,
    })));
    let content_type = match form.encoding {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        _ => "application/json",
    };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

enum Source {
    Open(Box<RegistryWatch>),
    Failed(Box<Status>),
    Over,
}

struct State {
    lines: Lines,
    source: Source,
    /// Of the batch that is being written: what has not been.
    events: vec::IntoIter<RegistryEvent>,
    end: Pin<Box<Sleep>>,
    stopping: CancellationToken,
}

fn pieces(state: State) -> impl Stream<Item = Result<Bytes, std::convert::Infallible>> + Send {
    stream::unfold(state, |mut state| async move { state.next().await.map(|piece| (Ok(piece), state)) })
}

impl State {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // What was begun is written to its end: a revision is not torn apart by the end of the watch.
            if let Some(piece) = self.piece() {
                return Some(piece);
            }
            let watch = match &mut self.source {
                Source::Open(watch) => watch,
                Source::Failed(status) => {
                    let line = failure(status, self.lines.form.encoding);
                    self.source = Source::Over;
                    return Some(line);
                }
                Source::Over => return None,
            };
            let taken = tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                () = &mut self.end => return None,
                taken = watch.next() => taken,
            };
            match taken {
                Ok(Some(batch)) => self.events = batch.events.into_iter(),
                Ok(None) => return None,
                Err(status) => self.source = Source::Failed(Box::new(status)),
            }
        }
    }

    /// The next events of the batch, as many as make a piece; `None` if the client wants to see none of what is left.
    fn piece(&mut self) -> Option<Bytes> {
        if self.events.len() == 0 {
            return None;
        }
        let (mut out, mut sent) = (BytesMut::with_capacity(1024), 0);
        while out.len() < PIECE_BYTES {
            let Some(event) = self.events.next() else { break };
            sent += u64::from(self.lines.put(&mut out, &event));
        }
        self.lines.counts.sent(self.lines.target.kind, sent);
        (!out.is_empty()).then(|| out.freeze())
    }
}

fn failure(status: &Status, encoding: Encoding) -> Bytes {
    if encoding == Encoding::Protobuf {
        return protobuf_write::frame("ERROR", &protobuf_write::write_status(status)).into();
    }
    Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", answer::status_text(&status.to_json())))
}

/// The annotations of a bookmark.
fn ends(event: &RegistryEvent) -> &'static [(&'static str, &'static str)] {
    if event.initial_events_end { &[(INITIAL_EVENTS_END, "true")] } else { &[] }
}

impl Lines {
    /// Writes an event; false = the client does not want to see it.
    fn put(&mut self, out: &mut BytesMut, event: &RegistryEvent) -> bool {
        let word = match event.event_type {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
            EventType::Bookmark if self.bookmarks => "BOOKMARK",
            EventType::Bookmark => return false,
        };
        if self.form.encoding == Encoding::Protobuf {
            let message = match &event.object {
                None => self.registry.blank(self.target.kind, event.revision, ends(event)).protobuf(),
                Some(object) => object.protobuf(),
            };
            // A kind without such a form is not watched in it.
            let Some(message) = message else { return false };
            out.put_slice(&protobuf_write::frame(word, &message));
            return true;
        }
        let object = match &event.object {
            // An object of the kind with nothing in it but a revision.
            None => {
                let blank = self.registry.blank(self.target.kind, event.revision, ends(event));
                self.shown(&blank)
            }
            Some(object) => self.shown(object),
        };
        out.reserve(object.len() + 32);
        out.put_slice(b"{\"type\":\"");
        out.put_slice(word.as_bytes());
        out.put_slice(b"\",\"object\":");
        out.put(object);
        out.put_slice(b"}\n");
        true
    }

    /// An object in the form that was asked for.
    fn shown(&mut self, object: &StoredObject) -> Bytes {
        match self.form.shape {
            Shape::Object => object.json(),
            Shape::Metadata | Shape::MetadataList => table::metadata(object, self.form.version),
            Shape::Table => {
                let columns = self.columns.take();
                let table = table::empty(columns.as_ref(), self.form.version, object.revision());
                table_with_row(&table, &table::row(&self.registry, object, self.carried, self.form.version))
            }
        }
    }
}
