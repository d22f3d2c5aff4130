//! Watches as streams of bounded messages.
//!
//! The stream pulls: the next events are taken when the connection has room for them, so a slow client holds nothing
//! but its place in history.

use std::collections::VecDeque;

use futures::Stream;
use futures::stream;
use listwatch_proto::resource::{Reason, Status};
use listwatch_proto::v1;
use tokio_util::sync::CancellationToken;

use super::view::{Viewer, wire_bytes};
use crate::registry::{EventType, Registry, RegistryEvent, RegistryWatch, WatchBatch};

/// Bytes of one message, about; a single revision that is bigger still goes as one. A reader that stands still holds one.
const MESSAGE_BYTES_MAX: usize = 256 << 10;

/// What a watch needs to know of its request.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) viewer: Viewer,
    pub(super) allow_bookmarks: bool,
    pub(super) send_initial_events: bool,
    /// The revision the stream ends at by its own; 0 = live.
    pub(super) until_revision: i64,
}

/// The messages of a watch, to its end or to the server's.
pub(super) fn messages(
    watch: RegistryWatch,
    registry: &Registry,
    shape: Shape,
    stopping: CancellationToken,
) -> impl Stream<Item = Result<v1::WatchResponse, tonic::Status>> + Send + use<> {
    let cutter = Cutter {
        incarnation: registry.incarnation().to_owned(),
        columns: Some(shape.viewer.columns()),
        in_initial: shape.send_initial_events,
        sent: 0,
        shape,
    };
    let state = State { watch, cutter, stopping, waiting: VecDeque::new(), is_over: false };
    stream::unfold(state, |mut state| async move { state.next().await.map(|item| (item, state)) })
}

struct State {
    watch: RegistryWatch,
    cutter: Cutter,
    stopping: CancellationToken,
    /// Messages cut from one batch, at most as big as the batch.
    waiting: VecDeque<v1::WatchResponse>,
    is_over: bool,
}

impl State {
    async fn next(&mut self) -> Option<Result<v1::WatchResponse, tonic::Status>> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Some(Ok(message));
            }
            if self.is_over {
                return None;
            }
            let taken = tokio::select! {
                biased;
                () = self.stopping.cancelled() => Err(stopping()),
                taken = self.watch.next() => taken,
            };
            match taken {
                Ok(Some(batch)) => self.waiting = self.cutter.cut(batch),
                Ok(None) => {
                    self.is_over = true;
                    if self.cutter.shape.until_revision == 0 {
                        return Some(Err(stopping().into()));
                    }
                }
                Err(status) => {
                    self.is_over = true;
                    return Some(Err(status.into()));
                }
            }
        }
    }
}

fn stopping() -> Status {
    let mut status =
        Status::new(Reason::ServiceUnavailable, "the server is stopping; watch again from the last revision");
    status.retry_after_seconds = 1;
    status
}

/// Turns batches into messages.
struct Cutter {
    shape: Shape,
    incarnation: String,
    /// For the first message.
    columns: Option<Vec<v1::Column>>,
    /// The state is still being sent: its objects come by name, so their revisions tell no progress.
    in_initial: bool,
    /// The revision in the last message's header.
    sent: i64,
}

impl Cutter {
    /// The messages of a batch: cut between revisions, a header never ahead of what follows.
    fn cut(&mut self, batch: WatchBatch) -> VecDeque<v1::WatchResponse> {
        let mut messages = VecDeque::new();
        let mut events: Vec<v1::WatchEvent> = Vec::new();
        let mut bytes = 0;
        for event in batch.events {
            let is_border = self.in_initial || events.last().is_some_and(|last| last.revision < event.revision);
            if bytes >= MESSAGE_BYTES_MAX && is_border {
                let upto = if self.in_initial { self.sent } else { events.last().map_or(self.sent, |e| e.revision) };
                messages.push_back(self.message(upto, std::mem::take(&mut events)));
                bytes = 0;
            }
            if event.initial_events_end {
                self.in_initial = false;
            }
            if event.event_type == EventType::Bookmark && !event.initial_events_end && !self.shape.allow_bookmarks {
                continue;
            }
            let event = self.event(&event);
            bytes += event.object.as_ref().map_or(16, |object| wire_bytes(object, event.row.as_ref()));
            events.push(event);
        }
        // A message without events still says that the stream lives, and how far it has come.
        let upto = if self.in_initial { self.sent } else { batch.revision };
        messages.push_back(self.message(upto, events));
        messages
    }

    fn message(&mut self, revision: i64, events: Vec<v1::WatchEvent>) -> v1::WatchResponse {
        self.sent = self.sent.max(revision);
        v1::WatchResponse {
            header: Some(v1::Header { revision: self.sent, incarnation: self.incarnation.clone() }),
            events,
            columns: self.columns.take().unwrap_or_default(),
        }
    }

    fn event(&self, event: &RegistryEvent) -> v1::WatchEvent {
        let kind = match event.event_type {
            EventType::Added => v1::EventType::Added,
            EventType::Modified => v1::EventType::Modified,
            EventType::Deleted => v1::EventType::Deleted,
            EventType::Bookmark => v1::EventType::Bookmark,
        };
        let (object, row) = match &event.object {
            Some(object) => {
                let (object, row) = self.shape.viewer.object(object);
                (Some(object), row)
            }
            None => (None, None),
        };
        v1::WatchEvent {
            r#type: kind.into(),
            revision: event.revision,
            object,
            row,
            initial_events_end: event.initial_events_end,
        }
    }
}
