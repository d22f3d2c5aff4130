//! A range in chunks, all read at one revision (etcd 3.7).
//!
//! Invariants: the chunks joined equal the answer of `Range`; header, `more` and `count` come with the last one only; a
//! chunk holds at most about [`CHUNK_BYTES`], so a large list costs the server little memory whatever the reader does.

use std::pin::Pin;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use futures::Stream;
use listwatch_proto::etcd::etcdserverpb::{RangeResponse, RangeStreamResponse};
use tokio::task::block_in_place;
use tonic::Status;

use super::front::Front;
use super::{error, translate};
use crate::storage::{RangeOp, RangeResult};

/// What a chunk aims at, in bytes of keys and values.
const CHUNK_BYTES: usize = 512 * 1024;
/// How many keys the first chunk brings; later ones double or halve towards [`CHUNK_BYTES`] (etcd 3.7).
const FIRST_KEYS: usize = 10;
/// The most keys of one chunk, however small they are.
const KEYS_MAX: usize = 10_000;

/// The stream of chunks.
pub(super) type Chunks = Pin<Box<dyn Stream<Item = Result<RangeStreamResponse, Status>> + Send>>;

/// Begins the stream; nothing is read before it is polled.
pub(super) fn open(front: Arc<Front>, op: RangeOp) -> Result<Chunks, Status> {
    let filtered = op.min_mod_revision != 0
        || op.max_mod_revision != 0
        || op.min_create_revision != 0
        || op.max_create_revision != 0;
    if op.sort.is_some() || filtered {
        return Err(error::unsupported("a sorted or filtered RangeStream"));
    }
    let left = (op.limit > 0).then_some(op.limit);
    let reader = Reader { front, op, left, keys: FIRST_KEYS, first: None, done: false };
    Ok(Box::pin(futures::stream::unfold(reader, |mut reader| async move {
        if reader.done {
            return None;
        }
        let chunk = block_in_place(|| reader.chunk());
        reader.done |= chunk.is_err();
        Some((chunk, reader))
    })))
}

/// Where a stream stands.
struct Reader {
    front: Arc<Front>,
    op: RangeOp,
    /// Keys that the caller's limit still allows.
    left: Option<usize>,
    /// Keys to ask for next.
    keys: usize,
    /// What the first read told: the count of the whole range and the store's revision.
    first: Option<(i64, i64)>,
    done: bool,
}

impl Reader {
    fn chunk(&mut self) -> Result<RangeStreamResponse, Status> {
        let result = self.read()?;
        let (count, revision) = *self.first.get_or_insert((result.count, result.revision));
        let sent: usize = result.kvs.iter().map(|kv| kv.size()).sum();
        if let Some(left) = &mut self.left {
            *left -= result.kvs.len();
        }
        let cut = self.left == Some(0);
        let last = !result.more || cut || self.op.count_only;
        self.keys = if sent < CHUNK_BYTES / 2 {
            self.keys * 2
        } else if sent > CHUNK_BYTES {
            self.keys / 2
        } else {
            self.keys
        }
        .clamp(1, KEYS_MAX);
        if let Some(kv) = result.kvs.last() {
            let mut next = BytesMut::with_capacity(kv.key.len() + 1);
            next.put_slice(&kv.key);
            next.put_u8(0);
            self.op.range.key = next.freeze();
        }
        self.done = last;
        let response = if last {
            let more = result.more && cut;
            translate::range_response(RangeResult { more, count, ..result }, self.front.headers.at(revision))
        } else {
            RangeResponse { kvs: result.kvs.into_iter().map(translate::key_value).collect(), ..Default::default() }
        };
        Ok(RangeStreamResponse { range_response: Some(response) })
    }

    /// Reads the next keys. All but the first read may go below the promised floor: the revision was readable when the
    /// stream began, and is physically kept for a while after.
    fn read(&mut self) -> Result<RangeResult, Status> {
        self.op.limit = self.left.map_or(self.keys, |left| left.min(self.keys));
        let engine = &self.front.engine;
        if self.first.is_some() {
            return engine.range_retained(&self.op).map_err(error::status);
        }
        if self.op.revision == 0 {
            self.op.revision = engine.revision();
        }
        engine.range(&self.op).map_err(error::status)
    }
}
