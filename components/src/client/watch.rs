//! The events of a collection, decoded.

use std::marker::PhantomData;

use listwatch_proto::resource::ObjectKey;
use listwatch_proto::v1::{self, EventType};
use tonic::Streaming;

use super::lanes::Seat;
use super::{Cached, Client, Decode, Error};

/// An open watch whose events are left as they came (for table views). Dropping it closes the stream.
pub struct WireWatch {
    stream: Streaming<v1::WatchResponse>,
    client: Client,
    _seat: Seat,
}

/// An open watch. Dropping it closes the stream.
pub struct Watch<T> {
    wire: WireWatch,
    decoded: PhantomData<fn() -> T>,
}

/// One message of the stream: whole revisions, in order.
#[derive(Debug)]
pub struct WatchBatch<T> {
    /// Where the stream stands: every event of it at or below this revision has been delivered, this batch included.
    pub revision: i64,
    /// The history this revision belongs to.
    pub incarnation: String,
    /// Events in order of revision.
    pub events: Vec<WatchEvent<T>>,
}

/// What happened to an object.
#[derive(Debug)]
pub enum WatchEvent<T> {
    /// It came into being, or into the selection; under initial events: it is there.
    Added(Cached<T>),
    /// It changed.
    Modified(Cached<T>),
    /// It is gone, or left the selection: as it last was, with the revision of its deletion.
    Deleted(Cached<T>),
    /// An object that does not read as `T`. One such object must not hold up all others.
    Unreadable {
        /// Namespace and name.
        key: ObjectKey,
        /// The revision of the event.
        revision: i64,
        /// What is wrong with it.
        error: Error,
    },
    /// Nothing: the stream has come to this revision.
    Bookmark {
        /// Where the stream stands.
        revision: i64,
        /// The initial events are complete, as of this revision.
        initial_events_end: bool,
    },
}

impl<T> WatchEvent<T> {
    /// The revision of the event.
    pub fn revision(&self) -> i64 {
        match self {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => object.revision,
            WatchEvent::Unreadable { revision, .. } | WatchEvent::Bookmark { revision, .. } => *revision,
        }
    }
}

impl WireWatch {
    pub(super) fn new(stream: Streaming<v1::WatchResponse>, client: Client, seat: Seat) -> Self {
        WireWatch { stream, client, _seat: seat }
    }

    /// The next message; `None` when the server has ended the stream cleanly. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<v1::WatchResponse>, Error> {
        let message = self.stream.message().await.map_err(Error::from_grpc)?;
        let header = message.as_ref().and_then(|m| m.header.as_ref());
        self.client.note_seen(header.map_or(0, |h| h.revision));
        Ok(message)
    }
}

impl<T: Decode> Watch<T> {
    pub(super) fn new(wire: WireWatch) -> Self {
        Watch { wire, decoded: PhantomData }
    }

    /// The next batch; `None` when the server has ended the stream cleanly. Cancel safe: a dropped call loses nothing.
    pub async fn next(&mut self) -> Result<Option<WatchBatch<T>>, Error> {
        let Some(message) = self.wire.next().await? else { return Ok(None) };
        let header = message.header.unwrap_or_default();
        let mut revision = header.revision;
        let mut events = Vec::with_capacity(message.events.len());
        for event in message.events {
            let event = decode(event)?;
            revision = revision.max(event.revision());
            events.push(event);
        }
        Ok(Some(WatchBatch { revision, incarnation: header.incarnation, events }))
    }
}

fn decode<T: Decode>(event: v1::WatchEvent) -> Result<WatchEvent<T>, Error> {
    let kind = event.r#type();
    if kind == EventType::Bookmark {
        let v1::WatchEvent { revision, initial_events_end, .. } = event;
        return Ok(WatchEvent::Bookmark { revision, initial_events_end });
    }
    let wire = event.object.ok_or(Error::Incomplete("the object of an event"))?;
    let key = ObjectKey::new(wire.namespace.as_str(), wire.name.as_str());
    let mut object = match Cached::from_wire(wire) {
        Ok(object) => object,
        Err(error) => return Ok(WatchEvent::Unreadable { key, revision: event.revision, error }),
    };
    if kind == EventType::Deleted {
        // The object comes as it last was; what counts is when it went.
        object.revision = event.revision;
    }
    match kind {
        EventType::Added => Ok(WatchEvent::Added(object)),
        EventType::Modified => Ok(WatchEvent::Modified(object)),
        EventType::Deleted => Ok(WatchEvent::Deleted(object)),
        EventType::Bookmark | EventType::Unspecified => Err(Error::Incomplete("the type of an event")),
    }
}
