//! Catching up from the log: matching events in chunks that end at revision borders.

use std::sync::Arc;

use crate::storage::log::record::KeyParts;
use crate::storage::log::{Cursor, FrameView};
use crate::storage::mvcc::Reader;
use crate::storage::{Error, Event, EventKind, KeyValue};

use super::watcher::WatcherShared;

/// Bytes of the log looked at for one chunk: a watcher of rare keys must let others have the thread now and then.
const SCAN_BYTES_MAX: usize = 4 << 20;

/// A watcher's place in the log, kept from chunk to chunk.
#[derive(Debug)]
pub(super) struct History {
    cursor: Cursor,
    /// The next revision wanted; the cursor stands at or before its frame.
    next: i64,
    /// A frame that was read although it was not yet published.
    ahead: Option<FrameView>,
}

/// Events found in the log.
#[derive(Debug)]
pub(super) struct Chunk {
    /// In order, whole revisions.
    pub(super) events: Vec<Arc<Event>>,
    /// Everything at or below this revision has been looked at.
    pub(super) through: i64,
}

impl History {
    /// A place at a revision; `None` if the log is empty.
    pub(super) fn at(reader: &Reader, revision: i64) -> Option<History> {
        Cursor::at_revision(&reader.fetcher().segments, revision).map(|cursor| History {
            cursor,
            next: revision,
            ahead: None,
        })
    }

    /// The next revision wanted.
    pub(super) fn next(&self) -> i64 {
        self.next
    }

    /// The next chunk, up to `bytes_max` of events or the revision `until`, whichever comes first.
    pub(super) fn read(
        &mut self,
        reader: &Reader,
        watcher: &WatcherShared,
        until: i64,
        bytes_max: usize,
    ) -> Result<Chunk, Error> {
        let mut chunk = Chunk { events: Vec::new(), through: self.next - 1 };
        let (mut bytes, mut scanned) = (0, 0);
        while bytes < bytes_max && scanned < SCAN_BYTES_MAX && chunk.through < until {
            let read = match self.ahead.take() {
                Some(frame) => Some(frame),
                None => self.cursor.next_frame()?,
            };
            // All that is published is in the log, so its end means that nothing is left to look at.
            let Some(frame) = read else {
                chunk.through = until;
                break;
            };
            // A group goes out as a whole, so one that has begun by `until` is published to its end; it must not be put
            // aside, for the revisions up to `until` are counted as looked at.
            if frame.header.first_revision > until {
                self.ahead = Some(frame);
                chunk.through = until;
                break;
            }
            scanned += frame.header.frame_len();
            if frame.header.last_revision < self.next || frame.header.first_revision == 0 {
                continue;
            }
            for record in frame.key_records() {
                let (record, parts, _) = record.map_err(|reason| Error::Damaged {
                    segment: u64::from(frame.at.segment),
                    revision: frame.header.first_revision,
                    reason: reason.into(),
                })?;
                if parts.place.main >= self.next && watcher.wants_record(&record[parts.key.clone()], parts.kind) {
                    let event = event_of(reader, watcher, &record, &parts)?;
                    bytes += event.size();
                    chunk.events.push(Arc::new(event));
                }
            }
            // A frame is taken whole: its revisions are not split, and its size is bounded by the commit group.
            chunk.through = frame.header.last_revision;
        }
        self.next = chunk.through + 1;
        Ok(chunk)
    }
}

fn event_of(reader: &Reader, watcher: &WatcherShared, record: &bytes::Bytes, parts: &KeyParts) -> Result<Event, Error> {
    let kv = match parts.kind {
        EventKind::Put => parts.key_value(record),
        EventKind::Delete => {
            KeyValue { key: record.slice(parts.key.clone()), mod_revision: parts.place.main, ..KeyValue::default() }
        }
    };
    let prev = match watcher.options.prev_kv && parts.prev.main > 0 {
        true => reader.state_at(&kv.key, parts.prev)?.map(Arc::new),
        false => None,
    };
    Ok(Event::new(parts.kind, kv, prev, i64::from(parts.place.sub)))
}
