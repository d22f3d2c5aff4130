//! The KV service: read, write, delete, transactions, compaction.

use std::sync::Arc;

use listwatch_proto::etcd::etcdserverpb::{
    CompactionRequest, CompactionResponse, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse,
    RangeRequest, RangeResponse, TxnRequest, TxnResponse, kv_server,
};
use tokio::task::block_in_place;
use tonic::{Request, Response, Status};

use super::front::Front;
use super::long_range::LongRange;
use super::{caller, error, range_stream, translate, validate};
use crate::storage::{Op, OpResult, RangeOp, RangeResult, Txn};

/// Up to how many keys a read may bring and still run on the reactor's thread. One that may bring more gives its thread
/// up to the runtime first.
const INLINE_KEYS_MAX: usize = 16;

/// The service.
#[derive(Debug)]
pub(super) struct Kv {
    front: Arc<Front>,
}

impl Kv {
    pub(super) fn new(front: Arc<Front>) -> Self {
        Self { front }
    }

    fn read(&self, op: &RangeOp) -> Result<RangeResult, Status> {
        let few =
            op.range.is_single() || op.count_only || (op.sort.is_none() && (1..=INLINE_KEYS_MAX).contains(&op.limit));
        let result = if few { self.front.engine.range(op) } else { block_in_place(|| self.front.engine.range(op)) };
        result.map_err(error::status)
    }

    /// Runs one operation as a transaction of its own; answers its result and the revision.
    async fn write<T>(&self, origin: &Request<T>, op: Op) -> Result<(Option<OpResult>, i64), Status> {
        let origin = caller::origin(origin);
        let mut done = self.front.engine.submit(Txn::of(op), &origin).await.map_err(error::status)?;
        Ok((done.results.pop(), done.revision))
    }
}

/// The request's message, with the rest of it kept for its caller.
fn split<T>(request: Request<T>) -> (Request<()>, T) {
    let (metadata, extensions, message) = request.into_parts();
    (Request::from_parts(metadata, extensions, ()), message)
}

/// An answer of another kind than its question: the store broke its word.
fn mismatch() -> Status {
    Status::internal("etcdserver: the store answered another operation than was asked")
}

#[tonic::async_trait]
impl kv_server::Kv for Kv {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let request = request.into_inner();
        validate::range(&request)?;
        let mut result = self.read(&translate::range(request))?;
        let header = self.front.headers.at(result.revision);
        if let Some(long) = LongRange::of(&mut result, header)? {
            let mut response = Response::new(RangeResponse::default());
            response.extensions_mut().insert(long);
            return Ok(response);
        }
        Ok(Response::new(translate::range_response(result, header)))
    }

    type RangeStreamStream = range_stream::Chunks;

    async fn range_stream(&self, request: Request<RangeRequest>) -> Result<Response<Self::RangeStreamStream>, Status> {
        let request = request.into_inner();
        validate::range(&request)?;
        Ok(Response::new(range_stream::open(self.front.clone(), translate::range(request))?))
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let (caller, request) = split(request);
        validate::put(&request)?;
        validate::size(&request)?;
        let (result, revision) = self.write(&caller, Op::Put(translate::put(request))).await?;
        let Some(OpResult::Put(put)) = result else { return Err(mismatch()) };
        Ok(Response::new(translate::put_response(put, self.front.headers.at(revision))))
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let (caller, request) = split(request);
        validate::delete_range(&request)?;
        validate::size(&request)?;
        let (result, revision) = self.write(&caller, Op::Delete(translate::delete_range(request))).await?;
        let Some(OpResult::Delete(delete)) = result else { return Err(mismatch()) };
        Ok(Response::new(translate::delete_response(delete, self.front.headers.at(revision))))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let (caller, request) = split(request);
        validate::txn(&request)?;
        validate::size(&request)?;
        let origin = caller::origin(&caller);
        let done = self.front.engine.submit(translate::txn(request), &origin).await.map_err(error::status)?;
        let header = self.front.headers.at(done.revision);
        Ok(Response::new(translate::txn_response(done, header)))
    }

    async fn compact(&self, request: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        let request = request.into_inner();
        let engine = &self.front.engine;
        if request.revision > engine.compacted() && request.revision <= engine.revision() {
            self.front.compacting.send_replace(request.revision);
        }
        block_in_place(|| engine.compact(request.revision, request.physical)).map_err(error::status)?;
        Ok(Response::new(CompactionResponse { header: Some(self.front.headers.at(engine.revision())) }))
    }
}
