//! One watch stream: a single loop over the client's requests, the watches' events and the clock of progress.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::SelectAll;
use listwatch_proto::etcd::etcdserverpb::{
    WatchCreateRequest, WatchRequest, watch_create_request::FilterType, watch_request::RequestUnion,
};
use tokio::sync::watch;
use tokio::time::{Duration, Interval, MissedTickBehavior, sleep};
use tonic::{Status, Streaming};

use super::events::Answer;
use super::watching::{Stop, Watching, Wishes};
use crate::etcd::error::{self, Refusal};
use crate::etcd::front::{Front, OVERHEAD_BYTES, REQUEST_BYTES_MAX};
use crate::etcd::translate;
use crate::storage::{Event, Floor, WatchError, WatchMessage, WatchOptions, WatcherLabel};

/// From how many encoded bytes on a revision is split for a client that allows it (etcd 3.6).
const FRAGMENT_BYTES: usize = REQUEST_BYTES_MAX + OVERHEAD_BYTES;

/// How soon a request for progress is looked at again while some watch is still behind.
const PROGRESS_RETRY: Duration = Duration::from_millis(10);

/// The id of answers that concern the whole stream, and of watches that were refused (etcd 3.6).
const NO_WATCH: i64 = -1;

/// What a refused id is called in etcd 3.6.
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";
/// What a range without keys is called in etcd 3.6.
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";

/// The state of one stream.
#[derive(Debug)]
pub(super) struct Session {
    front: Arc<Front>,
    label: WatcherLabel,
    requests: Streaming<WatchRequest>,
    /// The client sent its last request; events still flow.
    half_closed: bool,
    watches: SelectAll<Watching>,
    stops: HashMap<i64, Arc<Stop>>,
    next_id: i64,
    /// Answers made and not yet taken by the wire. Bounded: nothing is polled while it holds something.
    ready: VecDeque<Answer>,
    /// The revision the store had when the client asked for progress that it has not been told yet.
    asked: Option<i64>,
    ticks: Interval,
    compacting: watch::Receiver<i64>,
    ended: bool,
}

/// What the loop woke for.
enum Wake {
    Request(Option<Result<WatchRequest, Status>>),
    Events(Wishes, Result<WatchMessage, WatchError>),
    Tick,
    Compacting,
    Retry,
    Shutdown,
}

impl Session {
    pub(super) fn new(front: Arc<Front>, label: WatcherLabel, requests: Streaming<WatchRequest>) -> Self {
        let interval = front.options.progress_interval;
        let mut ticks = tokio::time::interval(interval);
        // The first tick comes after an interval, not at once.
        ticks.reset();
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let compacting = front.compacting.subscribe();
        Self {
            front,
            label,
            requests,
            half_closed: false,
            watches: SelectAll::new(),
            stops: HashMap::new(),
            next_id: 0,
            ready: VecDeque::new(),
            asked: None,
            ticks,
            compacting,
            ended: false,
        }
    }

    /// The next answer; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Option<Result<Answer, Status>> {
        loop {
            if let Some(answer) = self.ready.pop_front() {
                return Some(Ok(answer));
            }
            if self.ended {
                return None;
            }
            match self.wake().await {
                Wake::Request(Some(Ok(request))) => self.request(request),
                // The connection broke, or the client gave up: nobody reads any more.
                Wake::Request(Some(Err(_))) => self.ended = true,
                Wake::Request(None) => self.half_closed = true,
                Wake::Events(wishes, Ok(message)) => self.events(wishes, message),
                Wake::Events(wishes, Err(error)) => {
                    if let Some(status) = self.failed(wishes, error) {
                        self.ended = true;
                        return Some(Err(status));
                    }
                }
                Wake::Tick => self.tell_progress(true),
                Wake::Compacting => self.tell_progress(false),
                Wake::Retry => self.answer_progress(),
                Wake::Shutdown => {
                    self.ended = true;
                    return Some(Err(Refusal::Stopped.into()));
                }
            }
        }
    }

    /// Waits for something to do. Each branch is safe to cancel: requests and watches keep what they have not handed out.
    async fn wake(&mut self) -> Wake {
        let retry = self.asked.is_some() && !self.watches.is_empty();
        tokio::select! {
            biased;
            // The server stops.
            () = self.front.options.shutdown.cancelled() => Wake::Shutdown,
            // The client wants something.
            request = self.requests.next(), if !self.half_closed => Wake::Request(request),
            // A compaction begins.
            Ok(()) = self.compacting.changed() => Wake::Compacting,
            // Progress is due; before events, since a busy watch must not starve an idle one of its news.
            _ = self.ticks.tick() => Wake::Tick,
            // Events, or the end of a watch.
            Some((wishes, result)) = self.watches.next(), if !self.watches.is_empty() => Wake::Events(wishes, result),
            // A request for progress waits for a watch that is behind.
            () = sleep(PROGRESS_RETRY), if retry => Wake::Retry,
            // No branch is left when the client half-closed a stream without watches; the clock above goes on.
        }
    }

    fn request(&mut self, request: WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(request)) => self.create(request),
            Some(RequestUnion::CancelRequest(request)) => self.cancel(request.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => {
                self.asked = Some(self.front.engine.revision());
                self.answer_progress();
            }
            // etcd 3.6 lets an empty request pass in silence.
            None => {}
        }
    }

    fn create(&mut self, mut request: WatchCreateRequest) {
        // An empty key is the smallest one (etcd 3.6).
        if request.key.is_empty() {
            request.key = bytes::Bytes::from_static(b"\0");
        }
        let range = translate::key_range(&request.key, &request.range_end);
        if range.is_empty() {
            return self.refuse(EMPTY_RANGE.to_owned());
        }
        if request.start_revision < 0 {
            return self.refuse(Refusal::Compacted.text().to_owned());
        }
        if let Some(unknown) = request.filters.iter().find(|number| FilterType::try_from(**number).is_err()) {
            return self.refuse(error::unknown_enum("watch filter", *unknown).message().to_owned());
        }
        let id = match request.watch_id {
            0 => self.free_id(),
            taken if self.stops.contains_key(&taken) => return self.refuse(DUPLICATE_ID.to_owned()),
            id => id,
        };
        let options = WatchOptions {
            range,
            start: request.start_revision,
            prev_kv: request.prev_kv,
            no_put: request.filters.contains(&(FilterType::Noput as i32)),
            no_delete: request.filters.contains(&(FilterType::Nodelete as i32)),
            floor: Floor::Compacted,
            label: WatcherLabel { target: Some(Arc::from(&*printable(&request))), ..self.label.clone() },
        };
        let wishes = Wishes {
            id,
            start: request.start_revision,
            prev_kv: request.prev_kv,
            fragment: request.fragment,
            progress_notify: request.progress_notify,
        };
        self.open(wishes, options);
    }

    fn open(&mut self, wishes: Wishes, options: WatchOptions) {
        let mut created = Answer { watch_id: wishes.id, created: true, ..Answer::default() };
        match self.front.engine.watch(options) {
            Ok(watcher) => {
                // A watch from now on begins exactly where the watcher does; any other is told the store's revision, as
                // in etcd 3.6.
                let revision = match wishes.start {
                    0 => watcher.created_at().max(watcher.progress()),
                    _ => self.front.engine.revision(),
                };
                created.header = self.front.headers.at(revision);
                let (watching, stop) = Watching::new(wishes, watcher);
                self.stops.insert(wishes.id, stop);
                self.watches.push(watching);
                self.ready.push_back(created);
            }
            Err(crate::storage::Error::Compacted { compacted, .. }) => {
                created.header = self.front.headers.at(self.front.engine.revision());
                self.ready.push_back(created);
                self.ready.push_back(self.compacted(wishes.id, compacted));
            }
            Err(error) => self.refuse(error::status(error).message().to_owned()),
        }
    }

    /// Says that a watch was not made, and why.
    fn refuse(&mut self, cancel_reason: String) {
        let header = self.front.headers.at(self.front.engine.revision());
        let (watch_id, created, canceled) = (NO_WATCH, true, true);
        self.ready.push_back(Answer { header, watch_id, created, canceled, cancel_reason, ..Answer::default() });
    }

    /// The end of a watch whose history is gone. Its header has no revision (etcd 3.6).
    fn compacted(&self, watch_id: i64, compact_revision: i64) -> Answer {
        Answer { header: self.front.headers.at(0), watch_id, canceled: true, compact_revision, ..Answer::default() }
    }

    fn free_id(&mut self) -> i64 {
        while self.stops.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    /// Ends a watch; one that is not known is passed over in silence (etcd 3.6).
    fn cancel(&mut self, watch_id: i64) {
        if let Some(stop) = self.stops.remove(&watch_id) {
            stop.stop();
            let header = self.front.headers.at(self.front.engine.revision());
            self.ready.push_back(Answer { header, watch_id, canceled: true, ..Answer::default() });
        }
    }

    /// Takes a message of the store for the wire. The header's revision is that of the last event, so that a client
    /// which resumes after it misses nothing.
    fn events(&mut self, wishes: Wishes, message: WatchMessage) {
        let WatchMessage::Events { revision, events } = message;
        let answer = |events: Vec<Arc<Event>>, fragment: bool| Answer {
            header: self.front.headers.at(revision),
            watch_id: wishes.id,
            fragment,
            prev_kv: wishes.prev_kv,
            events,
            ..Answer::default()
        };
        if !wishes.fragment {
            self.ready.push_back(answer(events, false));
            return;
        }
        let mut parts = fragments(events, wishes.prev_kv).into_iter().peekable();
        while let Some(part) = parts.next() {
            self.ready.push_back(answer(part, parts.peek().is_some()));
        }
    }

    /// A watch has ended by itself; answers the error if the whole stream has to end with it.
    fn failed(&mut self, wishes: Wishes, error: WatchError) -> Option<Status> {
        self.stops.remove(&wishes.id);
        match error {
            WatchError::Compacted { compacted, .. } => {
                self.ready.push_back(self.compacted(wishes.id, compacted));
                None
            }
            WatchError::Closed => Some(Refusal::Stopped.into()),
            WatchError::Engine(error) => Some(error::status(error)),
        }
    }

    /// Tells the watches that wished for it and are in step where they are; `idle_only` leaves out those that spoke
    /// since the last time.
    fn tell_progress(&mut self, idle_only: bool) {
        let headers = self.front.headers;
        for watching in self.watches.iter_mut() {
            let spoke = mem::take(&mut watching.spoke);
            if !watching.wishes.progress_notify || watching.stopped() || (idle_only && spoke) {
                continue;
            }
            if let Some(revision) = watching.in_step() {
                let (header, watch_id) = (headers.at(revision), watching.wishes.id);
                self.ready.push_back(Answer { header, watch_id, ..Answer::default() });
            }
        }
    }

    /// Answers a request for progress, as soon as every watch of the stream has all there was when it came. A stream
    /// without watches has nothing to say (etcd 3.6).
    fn answer_progress(&mut self) {
        let Some(asked) = self.asked else { return };
        let mut reached = None;
        for watching in self.watches.iter().filter(|watching| !watching.stopped()) {
            match watching.in_step() {
                Some(revision) if revision >= asked => {
                    reached = Some(reached.map_or(revision, |least: i64| least.min(revision)));
                }
                _ => return,
            }
        }
        self.asked = None;
        if let Some(revision) = reached {
            let header = self.front.headers.at(revision);
            self.ready.push_back(Answer { header, watch_id: NO_WATCH, ..Answer::default() });
        }
    }
}

/// What is watched, for people.
fn printable(request: &WatchCreateRequest) -> String {
    let key = request.key.escape_ascii();
    if request.range_end.is_empty() {
        return format!("{key}");
    }
    format!("[{key}, {})", request.range_end.escape_ascii())
}

/// Cuts events into parts that stay below [`FRAGMENT_BYTES`] where more than one event is left to cut.
fn fragments(events: Vec<Arc<Event>>, prev_kv: bool) -> Vec<Vec<Arc<Event>>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for event in events {
        let size = Answer::event_bytes(&event, prev_kv).len();
        if !part.is_empty() && bytes + size >= FRAGMENT_BYTES {
            parts.push(mem::take(&mut part));
            bytes = 0;
        }
        bytes += size;
        part.push(event);
    }
    parts.push(part);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{EventKind, KeyValue};

    #[test]
    fn large_revisions_are_cut_between_events() {
        let event = |bytes: usize| {
            let kv = KeyValue { key: "k".into(), value: vec![b'x'; bytes].into(), ..KeyValue::default() };
            Arc::new(Event::new(EventKind::Put, kv, None, 0))
        };
        let check = |sizes: &[usize], expected: &[usize]| {
            let parts = fragments(sizes.iter().map(|bytes| event(*bytes)).collect(), false);
            assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{sizes:?}");
        };
        check(&[10], &[1]);
        check(&[1 << 20, 1 << 20, 1 << 20], &[1, 1, 1]);
        check(&[900_000, 900_000, 900_000, 10], &[2, 2]);
        check(&[3 << 20, 10], &[1, 1]);
    }
}
