//! One watch, from the side of its owner.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::task::AtomicWaker;
use parking_lot::{Mutex, RwLock};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

use super::hub::{FromWindow, Hub};
use super::stream::{Chunk, History};
use crate::storage::commit::in_place;
use crate::storage::mvcc::{Reader, Store};
use crate::storage::{Event, EventKind, KeyRange};

/// Which floor bounds how far back a watch may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floor {
    /// What is promised to etcd's clients: the last compaction.
    Compacted,
    /// What is physically there, which is at least five minutes more.
    Retained,
}

/// Who watches; shown by `watchers`, not otherwise looked at.
#[derive(Clone, Debug, Default)]
pub struct WatcherLabel {
    /// Through which door: `etcd`, `resources`, ….
    pub door: &'static str,
    /// The authenticated user.
    pub user: Arc<str>,
    /// The name the client gave itself.
    pub client: Option<Arc<str>>,
    /// What is watched, in the door's words.
    pub target: Option<Arc<str>>,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// The keys.
    pub range: KeyRange,
    /// The first revision wanted; 0 = whatever comes after now. A future one waits in silence.
    pub start: i64,
    /// Fill in the state before each write.
    pub prev_kv: bool,
    /// Leave puts out.
    pub no_put: bool,
    /// Leave deletions out.
    pub no_delete: bool,
    /// How far back `start` may lie.
    pub floor: Floor,
    /// Who asks.
    pub label: WatcherLabel,
}

impl WatchOptions {
    /// All events of a range from a revision on, with the states before.
    pub fn new(range: KeyRange, start: i64) -> Self {
        Self {
            range,
            start,
            prev_kv: true,
            no_put: false,
            no_delete: false,
            floor: Floor::Compacted,
            label: WatcherLabel::default(),
        }
    }
}

/// A watcher as an operator sees it.
#[derive(Clone, Debug)]
pub struct WatcherInfo {
    /// The watcher's number, unique while the engine is open.
    pub id: u64,
    /// Who watches.
    pub label: WatcherLabel,
    /// The keys.
    pub range: KeyRange,
    /// Every matching event at or below this revision has been handed over.
    pub progress: i64,
    /// How many revisions it is behind the store.
    pub lag: i64,
    /// Whether it gets live events.
    pub synced: bool,
    /// Events that wait in its queue.
    pub queued: usize,
    /// Events handed over so far.
    pub delivered: u64,
}

/// What a watcher is given.
#[derive(Clone, Debug)]
pub enum WatchMessage {
    /// Events of whole revisions, in order.
    Events {
        /// The highest revision among the events: a reader may resume after it.
        revision: i64,
        /// The events, by (revision, sub).
        events: Vec<Arc<Event>>,
    },
}

/// Why a watch ended.
#[derive(Clone, Debug, Error)]
pub enum WatchError {
    /// History the watcher had not yet read is gone.
    #[error("the watch fell behind: history before revision {compacted} is gone, the store is at {current}")]
    Compacted {
        /// The oldest revision a new watch may start at.
        compacted: i64,
        /// Where the store stands.
        current: i64,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// History could not be read.
    #[error(transparent)]
    Engine(#[from] crate::storage::Error),
}

/// Events that wait for a watcher before it is sent to read history instead.
const QUEUE_EVENTS_MAX: usize = 1024;
/// Bytes of keys and values of them.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Bytes of one message, but for a revision that is larger alone: clients with gRPC's default limit of 4 MiB can read it.
const MESSAGE_BYTES_MAX: usize = 2 << 20;
/// Bytes of a message read from the log; a frame is taken whole, and a usual one is below the rest of the limit.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// What hub and owner share of a watch.
#[derive(Debug)]
pub(super) struct WatcherShared {
    pub(super) id: u64,
    pub(super) options: WatchOptions,
    waker: AtomicWaker,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    /// Events not yet handed over; only while live.
    queue: VecDeque<Arc<Event>>,
    queue_bytes: usize,
    /// Every matching event at or below this revision has been handed over, or was not wanted.
    position: i64,
    /// The group, by the revision before it, of which the owner will last be told.
    announced: i64,
    delivered: u64,
}

#[derive(Debug)]
enum Mode {
    /// The hub offers events; the next to hand over is in the queue.
    Live,
    /// The hub passes it by; the owner reads history from `position` on, then attaches again.
    Behind,
    /// It is over; the owner is told and nothing else happens.
    Ended(WatchError),
}

/// What the owner finds when it looks.
enum Look {
    Message(WatchMessage),
    Behind { from: i64 },
    Ended(WatchError),
    Nothing,
}

impl WatcherShared {
    /// A watcher; `current` is where the store stands.
    pub(super) fn new(id: u64, options: WatchOptions, current: i64) -> Self {
        let (mode, position) = match options.start {
            0 => (Mode::Live, current),
            start if start > current => (Mode::Live, start - 1),
            start => (Mode::Behind, start - 1),
        };
        let state = State { mode, queue: VecDeque::new(), queue_bytes: 0, position, announced: 0, delivered: 0 };
        Self { id, options, waker: AtomicWaker::new(), state: Mutex::new(state) }
    }

    /// Whether an event of the range is one that the watcher wants.
    pub(super) fn wants(&self, event: &Event) -> bool {
        self.wants_record(&event.kv.key, event.kind)
    }

    /// The same, before there is an event.
    pub(super) fn wants_record(&self, key: &[u8], kind: EventKind) -> bool {
        let filtered = match kind {
            EventKind::Put => self.options.no_put,
            EventKind::Delete => self.options.no_delete,
        };
        !filtered && self.options.range.contains(key)
    }

    /// Takes a live event of the group that follows the revision `group`; answers whether the owner must be woken when
    /// the group is in: once for each group, since the owner may empty its queue of earlier groups, and go to sleep,
    /// while this one is still coming in.
    pub(super) fn offer(&self, event: &Arc<Event>, group: i64) -> bool {
        let filtered = match event.kind {
            EventKind::Put => self.options.no_put,
            EventKind::Delete => self.options.no_delete,
        };
        let mut state = self.state.lock();
        if filtered || !matches!(state.mode, Mode::Live) || event.revision() <= state.position {
            return false;
        }
        let size = event.size();
        if state.queue.len() >= QUEUE_EVENTS_MAX
            || state.queue_bytes + size > QUEUE_BYTES_MAX && !state.queue.is_empty()
        {
            state.mode = Mode::Behind;
            state.queue = VecDeque::new();
            state.queue_bytes = 0;
            return true;
        }
        state.queue.push_back(event.clone());
        state.queue_bytes += size;
        std::mem::replace(&mut state.announced, group) != group
    }

    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// The watcher has, or is about to be handed, everything up to a revision: the hub offers events again. The hub's
    /// lock is held.
    pub(super) fn attach(&self, through: i64) {
        let mut state = self.state.lock();
        if matches!(state.mode, Mode::Behind) {
            state.mode = Mode::Live;
            state.position = state.position.max(through);
        }
    }

    /// Ends it.
    pub(super) fn end(&self, reason: WatchError) {
        let mut state = self.state.lock();
        if !matches!(state.mode, Mode::Ended(_)) {
            state.mode = Mode::Ended(reason);
        }
        drop(state);
        self.wake();
    }

    fn look(&self, dispatched: i64) -> Look {
        let mut state = self.state.lock();
        match &state.mode {
            Mode::Ended(reason) => return Look::Ended(reason.clone()),
            Mode::Behind => return Look::Behind { from: state.position + 1 },
            Mode::Live => {}
        }
        let mut events = Vec::new();
        let (mut bytes, mut last) = (0, 0);
        while let Some(event) = state.queue.front() {
            let revision = event.revision();
            if revision > dispatched || (revision != last && bytes >= MESSAGE_BYTES_MAX) {
                break;
            }
            let event = state.queue.pop_front().expect("there is a front");
            bytes += event.size();
            last = revision;
            events.push(event);
        }
        if events.is_empty() {
            return Look::Nothing;
        }
        state.queue_bytes -= bytes;
        state.position = state.position.max(last);
        state.delivered += events.len() as u64;
        if state.queue.is_empty() && state.queue.capacity() > IDLE_CAPACITY {
            state.queue = VecDeque::new();
        }
        Look::Message(WatchMessage::Events { revision: last, events })
    }

    /// Notes that history was looked at up to a revision; `None` if there was nothing in it.
    fn advance(&self, events: Vec<Arc<Event>>, through: i64) -> Option<WatchMessage> {
        let mut state = self.state.lock();
        state.position = state.position.max(through);
        state.delivered += events.len() as u64;
        let revision = events.last()?.revision();
        Some(WatchMessage::Events { revision, events })
    }

    /// See [`Watcher::progress`]; `dispatched` must have been read before.
    fn progress(&self, dispatched: i64) -> i64 {
        let state = self.state.lock();
        match (&state.mode, state.queue.front()) {
            (Mode::Live, None) => dispatched,
            (Mode::Live, Some(next)) => dispatched.min(next.revision() - 1),
            _ => state.position.min(dispatched),
        }
    }

    pub(super) fn info(&self, dispatched: i64) -> WatcherInfo {
        let progress = self.progress(dispatched);
        let state = self.state.lock();
        WatcherInfo {
            id: self.id,
            label: self.options.label.clone(),
            range: self.options.range.clone(),
            progress,
            lag: dispatched - progress,
            synced: matches!(state.mode, Mode::Live),
            queued: state.queue.len(),
            delivered: state.delivered,
        }
    }
}

/// What a step through history brought.
enum Step {
    Message(WatchMessage),
    /// Look again at once.
    Again,
    /// Look again when others have had their turn.
    Later,
}

/// Slots an idle watcher's queue may keep.
const IDLE_CAPACITY: usize = 16;

/// What a watcher needs to read history.
#[derive(Clone, Debug)]
pub(in crate::storage) struct Past {
    pub(in crate::storage) hub: Arc<Hub>,
    pub(in crate::storage) reader: Reader,
    pub(in crate::storage) store: Arc<RwLock<Store>>,
    /// So many watchers read the log at once; each holds a chunk in memory.
    pub(in crate::storage) readers: Arc<Semaphore>,
}

/// One watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<WatcherShared>,
    past: Past,
    history: Option<History>,
    /// Its turn to read the log.
    turn: PollSemaphore,
    created_at: i64,
}

impl Watcher {
    pub(in crate::storage) fn new(options: WatchOptions, past: Past) -> Result<Self, crate::storage::Error> {
        let floor_kind = options.floor;
        let start = options.start;
        // The watcher joins before the floor is looked at: what compaction takes afterwards it is told of.
        let current = past.store.read().revision;
        let shared = past.hub.join(options, current).map_err(|_| crate::storage::Error::Closed)?;
        let turn = PollSemaphore::new(past.readers.clone());
        let watcher = Self { shared, past, history: None, turn, created_at: current };
        let floor = {
            let store = watcher.past.store.read();
            match floor_kind {
                Floor::Compacted => store.compacted,
                Floor::Retained => store.retained,
            }
        };
        if start != 0 && start < floor {
            return Err(crate::storage::Error::Compacted { requested: start, compacted: floor });
        }
        Ok(watcher)
    }

    /// The next events; waits until there are some. Never splits a revision. Safe to cancel: nothing is lost.
    ///
    /// # Errors
    /// [`WatchError::Compacted`] when compaction has passed the watcher, [`WatchError::Closed`] at the end.
    pub async fn next(&mut self) -> Result<WatchMessage, WatchError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The same for those who poll many watchers in one task (the etcd door keeps all watches of a stream in one set, and
    /// must be able to ask each for its progress while it waits).
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<WatchMessage, WatchError>> {
        loop {
            match self.look(context) {
                Look::Message(message) => return Poll::Ready(Ok(message)),
                Look::Ended(reason) => return Poll::Ready(Err(reason)),
                Look::Nothing => return Poll::Pending,
                Look::Behind { from } => {
                    let step = std::task::ready!(self.poll_catch_up(from, context));
                    match step {
                        Ok(Step::Message(message)) => return Poll::Ready(Ok(message)),
                        Ok(Step::Again) => {}
                        Ok(Step::Later) => {
                            // Nothing found in a long stretch of history: others have the thread now.
                            context.waker().wake_by_ref();
                            return Poll::Pending;
                        }
                        Err(reason) => return Poll::Ready(Err(reason)),
                    }
                }
            }
        }
    }

    fn look(&self, context: &mut Context<'_>) -> Look {
        match self.shared.look(self.past.hub.dispatched()) {
            // What comes between the look and the registration is found by the second look.
            Look::Nothing => {
                self.shared.waker.register(context.waker());
                self.shared.look(self.past.hub.dispatched())
            }
            found => found,
        }
    }

    /// Takes one step through history.
    fn poll_catch_up(&mut self, from: i64, context: &mut Context<'_>) -> Poll<Result<Step, WatchError>> {
        match self.past.hub.read_window(&self.shared, from, MESSAGE_BYTES_MAX) {
            FromWindow::Attached => {
                self.history = None;
                Poll::Ready(Ok(Step::Again))
            }
            FromWindow::Part(events, through) => {
                let message = self.shared.advance(events, through);
                Poll::Ready(Ok(message.map_or(Step::Again, Step::Message)))
            }
            FromWindow::TooOld(until) => {
                let Some(permit) = std::task::ready!(self.turn.poll_acquire(context)) else {
                    return Poll::Ready(Err(WatchError::Closed));
                };
                let chunk = in_place(|| self.read_log(from, until))?;
                drop(permit);
                let message = self.shared.advance(chunk.events, chunk.through);
                Poll::Ready(Ok(message.map_or(Step::Later, Step::Message)))
            }
        }
    }

    fn read_log(&mut self, from: i64, until: i64) -> Result<Chunk, WatchError> {
        let history = self.history.take().filter(|history| history.next() == from);
        let history = history.or_else(|| History::at(&self.past.reader, from));
        self.check_floor(from)?;
        let Some(mut history) = history else {
            return Ok(Chunk { events: Vec::new(), through: until });
        };
        match history.read(&self.past.reader, &self.shared, until, CHUNK_BYTES_MAX) {
            Ok(chunk) => {
                self.history = Some(history);
                Ok(chunk)
            }
            Err(error) => {
                // A segment that compaction took from under the reader is not damage.
                self.check_floor(from)?;
                Err(error.into())
            }
        }
    }

    fn check_floor(&self, from: i64) -> Result<(), WatchError> {
        let store = self.past.store.read();
        if from < store.retained {
            return Err(WatchError::Compacted { compacted: store.retained, current: store.revision });
        }
        Ok(())
    }

    /// Every matching event at or below this revision has been returned by [`Watcher::next`].
    pub fn progress(&self) -> i64 {
        let dispatched = self.past.hub.dispatched();
        self.shared.progress(dispatched)
    }

    /// Whether the watcher has all there is to have: it gets live events and none wait.
    pub fn synced(&self) -> bool {
        let state = self.shared.state.lock();
        matches!(state.mode, Mode::Live) && state.queue.is_empty()
    }

    /// The watcher's number, as in [`WatcherInfo`].
    pub fn id(&self) -> u64 {
        self.shared.id
    }

    /// Where the store stood when the watch began; with start 0 all events are after it.
    pub fn created_at(&self) -> i64 {
        self.created_at
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.past.hub.leave(&self.shared);
    }
}
