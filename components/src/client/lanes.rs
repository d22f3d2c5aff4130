//! The connections that streams go over.
//!
//! A server takes so many streams over one connection (100, as kube-apiserver does) and a further one waits, without a
//! word, until another ends: of watches, for ever. So each connection carries a part of that, and when there are more
//! watches there are more connections. The first one carries the calls as well.

use std::sync::Arc;

use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};

use super::connector::Connector;

/// Streams that stay open on one connection. Calls have what is left of the 100 that servers take.
const STREAMS_MAX: usize = 64;

/// The connections of a client.
pub(super) struct Lanes {
    endpoint: Endpoint,
    connector: Connector,
    first: Arc<Lane>,
    /// In use beside the first.
    more: Mutex<Vec<Arc<Lane>>>,
}

/// One connection. Each stream on it holds it.
#[derive(Debug)]
struct Lane(Channel);

/// A place on a connection for a stream; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat(Arc<Lane>);

impl Lanes {
    /// Nothing is dialled before the first call.
    pub(super) fn new(endpoint: Endpoint, connector: Connector) -> Self {
        let first = Arc::new(Lane(endpoint.connect_with_connector_lazy(connector.clone())));
        Lanes { endpoint, connector, first, more: Mutex::default() }
    }

    /// The connection of the calls.
    pub(super) fn first(&self) -> Channel {
        self.first.0.clone()
    }

    /// A place for a stream that stays open.
    pub(super) fn seat(&self) -> Seat {
        let mut more = self.more.lock();
        more.retain(|lane| Arc::strong_count(lane) > 1);
        let has_room = |lane: &&Arc<Lane>| Arc::strong_count(lane) <= STREAMS_MAX;
        if let Some(lane) = std::iter::once(&self.first).chain(more.iter()).find(has_room) {
            return Seat(lane.clone());
        }
        let lane = Arc::new(Lane(self.endpoint.connect_with_connector_lazy(self.connector.clone())));
        more.push(lane.clone());
        Seat(lane)
    }
}

impl Seat {
    /// The connection.
    pub(super) fn channel(&self) -> Channel {
        self.0.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn streams_beyond_what_a_connection_carries_get_another() {
        let lanes = Lanes::new(Endpoint::from_static("http://127.0.0.1:1"), Connector::new("127.0.0.1:1", None));
        let mut seats: Vec<_> = (0..STREAMS_MAX * 3).map(|_| lanes.seat()).collect();
        assert_eq!(lanes.more.lock().len(), 2);
        let on_first = seats.iter().filter(|seat| Arc::ptr_eq(&seat.0, &lanes.first)).count();
        assert_eq!(on_first, STREAMS_MAX);
        // Places that are free are taken first, and a connection that nobody needs is given up.
        seats.truncate(STREAMS_MAX + 1);
        seats.remove(0);
        let again = lanes.seat();
        assert!(Arc::ptr_eq(&again.0, &lanes.first));
        assert_eq!(lanes.more.lock().len(), 1);
        seats.clear();
        drop(again);
        drop(lanes.seat());
        assert!(lanes.more.lock().is_empty());
    }
}
