//! The log's own housekeeper: prepares the next segment and seals full ones, so that no commit waits for either.
//!
//! It is one thread, owned and joined by the appender. Without a thread (tests that must repeat exactly) the same work
//! is done where it is asked for.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};
use rand::Rng;

use super::segment::{self, Segment, SegmentHeader, SegmentId};
use crate::clock::Clock;
use crate::storage::Error;
use crate::storage::disk::Disk;

/// What it takes to make a segment.
#[derive(Debug)]
pub(super) struct Maker {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) dir: PathBuf,
    pub(super) incarnation: [u8; 16],
    pub(super) preallocate: bool,
}

impl Maker {
    /// Makes a segment, durable with its name.
    pub(super) fn make(&self, id: SegmentId, size: u64) -> Result<Arc<Segment>, Error> {
        let salt = rand::rng().random();
        let header = SegmentHeader { id, salt, wall_ms: self.clock.wall_ms(), incarnation: self.incarnation };
        let segment = Segment::create(&*self.disk, &self.dir, header, size, self.preallocate).inspect_err(|_| {
            // What there was of it takes room that the state may need; it has no frame and no durable name.
            let _ = self.disk.remove(&self.dir.join(id.file_name()));
        })?;
        self.disk.sync_dir(&self.dir).map_err(|source| Error::io("sync the folder", &self.dir, source))?;
        Ok(Arc::new(segment))
    }
}

#[derive(Debug)]
pub(super) struct Keeper {
    maker: Arc<Maker>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    changed: Condvar,
}

/// What lies on the housekeeper's desk.
#[derive(Debug, Default)]
struct Desk {
    wanted: Option<(SegmentId, u64)>,
    making: Option<SegmentId>,
    ready: Option<Result<Arc<Segment>, Error>>,
    to_seal: VecDeque<Arc<Segment>>,
    stop: bool,
}

impl Keeper {
    pub(super) fn new(maker: Maker, background: bool) -> Self {
        let maker = Arc::new(maker);
        let shared = Arc::new(Shared::default());
        let spawn = || {
            let (maker, shared) = (maker.clone(), shared.clone());
            std::thread::Builder::new().name("log-keeper".into()).spawn(move || run(&maker, &shared))
        };
        let thread = if background { spawn().ok() } else { None };
        Self { maker, shared, thread }
    }

    /// Asks for a segment to be made in advance. A segment that was asked for is always the next one.
    pub(super) fn want(&self, id: SegmentId, size: u64) {
        if self.thread.is_none() {
            return;
        }
        let mut desk = self.shared.desk.lock();
        if desk.making.is_none() && desk.ready.is_none() && desk.wanted.is_none() {
            desk.wanted = Some((id, size));
            self.shared.changed.notify_all();
        }
    }

    /// The next segment: the prepared one, or one made now.
    pub(super) fn take(&self, id: SegmentId, size: u64) -> Result<Arc<Segment>, Error> {
        let mut desk = self.shared.desk.lock();
        desk.wanted = None;
        while desk.making == Some(id) {
            self.shared.changed.wait(&mut desk);
        }
        let ready = desk.ready.take();
        drop(desk);
        match ready {
            Some(Ok(segment)) if segment.id == id => Ok(segment),
            _ => self.maker.make(id, size),
        }
    }

    /// Hands over a full segment.
    pub(super) fn seal(&self, full: Arc<Segment>) {
        if self.thread.is_none() {
            seal_or_warn(&full);
            return;
        }
        self.shared.desk.lock().to_seal.push_back(full);
        self.shared.changed.notify_all();
    }

    /// Ends the thread after the work on its desk.
    pub(super) fn stop(&mut self) {
        self.shared.desk.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the log's housekeeper panicked");
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run(maker: &Maker, shared: &Shared) {
    let mut desk = shared.desk.lock();
    loop {
        if let Some((id, size)) = desk.wanted.take() {
            desk.making = Some(id);
            drop(desk);
            let made = maker.make(id, size);
            desk = shared.desk.lock();
            desk.making = None;
            desk.ready = Some(made);
            shared.changed.notify_all();
        } else if let Some(full) = desk.to_seal.pop_front() {
            drop(desk);
            seal_or_warn(&full);
            desk = shared.desk.lock();
        } else if desk.stop {
            return;
        } else {
            shared.changed.wait(&mut desk);
        }
    }
}

/// A segment without a footer costs the next start some time and nothing else, so a failure is told and survived.
fn seal_or_warn(full: &Segment) {
    if let Err(error) = segment::seal(full) {
        tracing::warn!(segment = full.id.0, %error, "a full segment of the log could not be sealed");
    }
}
