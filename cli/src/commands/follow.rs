//! Follows one object, or the objects of a selection, for as long as somebody waits.
//!
//! Invariants: what is there at the start comes first; nothing is asked for again and again, changes come by watch; a
//! server that goes away and comes back is waited out, from the last revision seen or, where its history has gone, with
//! the state anew. An object that was made anew under its name is told as gone first.

use std::collections::VecDeque;
use std::time::Duration;

use listwatch_components::client::{Api, Backoff, BackoffPolicy, Error, Watch, WatchEvent, WatchParams};
use listwatch_proto::resource::{Kind, Object, ObjectKey};

use super::session::Session;

/// Pauses while a server is away.
const REWATCH: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(50), factor: 2.0, cap: Duration::from_secs(1), jitter: 0.5 };
/// Silence that makes a watch look whether the server is still there.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// What is known now.
#[derive(Debug)]
pub(crate) enum Sighting {
    /// An object, as it is now.
    There(Box<Object>),
    /// The object is not there, or no object of the selection was there when the watch began.
    Gone,
}

/// A watch that heals itself.
pub(crate) struct Follow {
    api: Api<Object>,
    params: WatchParams,
    watch: Option<Watch<Object>>,
    backoff: Backoff,
    sightings: VecDeque<Sighting>,
    /// The uid of the one object; of a selection none is kept.
    uid: Option<String>,
    /// Whether the state that is coming in has held anything so far; `None` once it is whole.
    state_held: Option<bool>,
}

impl Follow {
    /// Follows one object.
    pub(crate) fn object(session: &Session, kind: &'static Kind, key: &ObjectKey) -> Self {
        Self::new(
            session,
            kind,
            WatchParams { namespace: key.namespace.clone(), name: key.name.clone(), ..WatchParams::default() },
        )
    }

    /// Follows the objects of a kind in the session's namespace.
    pub(crate) fn selection(session: &Session, kind: &'static Kind, labels: &str, fields: &str) -> Self {
        Self::new(
            session,
            kind,
            WatchParams {
                namespace: session.namespace_of(kind).to_owned(),
                label_selector: labels.to_owned(),
                field_selector: fields.to_owned(),
                ..WatchParams::default()
            },
        )
    }

    fn new(session: &Session, kind: &'static Kind, params: WatchParams) -> Self {
        Follow {
            api: session.api(kind),
            params: WatchParams { progress_interval: PROGRESS_INTERVAL, ..params },
            watch: None,
            backoff: Backoff::new(REWATCH),
            sightings: VecDeque::new(),
            uid: None,
            state_held: None,
        }
    }

    /// What is known next. Cancel safe.
    ///
    /// # Errors
    /// What waiting does not cure: the request is refused.
    pub(crate) async fn next(&mut self) -> Result<Sighting, Error> {
        loop {
            if let Some(sighting) = self.sightings.pop_front() {
                return Ok(sighting);
            }
            match self.step().await {
                Ok(()) => self.backoff.reset(),
                Err(error) if error.is_expired() => {
                    self.watch = None;
                    self.params.start_revision = 0;
                    self.params.incarnation.clear();
                }
                Err(error) if error.is_transient() => {
                    self.watch = None;
                    tokio::time::sleep(self.backoff.next_delay()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn step(&mut self) -> Result<(), Error> {
        let watch = match &mut self.watch {
            Some(watch) => watch,
            none => {
                self.params.send_initial_events = self.params.start_revision == 0;
                let watch = self.api.watch(&self.params).await?;
                self.state_held = self.params.send_initial_events.then_some(false);
                none.insert(watch)
            }
        };
        // Never silent for that long unless the connection is dead.
        let Ok(batch) = tokio::time::timeout(PROGRESS_INTERVAL * 2, watch.next()).await else {
            self.watch = None;
            return Ok(());
        };
        let Some(batch) = batch? else {
            self.watch = None;
            return Ok(());
        };
        for event in batch.events {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => self.there(object.object),
                WatchEvent::Deleted(_) => self.gone(),
                WatchEvent::Bookmark { initial_events_end: true, .. } => {
                    if self.state_held.take() == Some(false) {
                        self.gone();
                    }
                }
                // What cannot be read is there all the same.
                WatchEvent::Unreadable { .. } => self.state_held = self.state_held.map(|_| true),
                WatchEvent::Bookmark { .. } => {}
            }
        }
        if self.state_held.is_none() {
            self.params.start_revision = batch.revision;
            self.params.incarnation = batch.incarnation;
        }
        Ok(())
    }

    fn there(&mut self, object: Object) {
        self.state_held = self.state_held.map(|_| true);
        if !self.params.name.is_empty() {
            let before = self.uid.replace(object.uid().to_owned());
            if before.is_some_and(|uid| uid != object.uid()) {
                self.sightings.push_back(Sighting::Gone);
            }
        }
        self.sightings.push_back(Sighting::There(Box::new(object)));
    }

    fn gone(&mut self) {
        self.uid = None;
        self.sightings.push_back(Sighting::Gone);
    }
}
