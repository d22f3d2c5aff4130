//! Between etcd's messages and the store's operations.
//!
//! Invariant: only requests that passed [`super::validate`] come here, so every number of an enumeration is known.

use bytes::Bytes;
use listwatch_proto::etcd::{etcdserverpb as pb, mvccpb};

use super::header;
use crate::storage::{
    Compare, CompareResult, CompareTarget, DeleteOp, DeleteResult, KeyRange, KeyValue, Op, OpResult, PutOp, PutResult,
    RangeOp, RangeResult, SortOrder, SortTarget, Txn, TxnResult,
};

/// A copy that stands alone. What the transport hands out is a slice of its receive buffer; kept in the store it would
/// keep the whole buffer alive.
fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// A range that outlives its request.
pub(super) fn key_range(key: &Bytes, range_end: &Bytes) -> KeyRange {
    KeyRange::from_etcd(own(key), own(range_end))
}

pub(super) fn range(request: pb::RangeRequest) -> RangeOp {
    use pb::range_request::{SortOrder as Order, SortTarget as Target};
    let target = match Target::try_from(request.sort_target).unwrap_or(Target::Key) {
        Target::Key => SortTarget::Key,
        Target::Version => SortTarget::Version,
        Target::Create => SortTarget::Create,
        Target::Mod => SortTarget::Mod,
        Target::Value => SortTarget::Value,
    };
    let order = match Order::try_from(request.sort_order).unwrap_or(Order::None) {
        Order::Descend => SortOrder::Descend,
        Order::Ascend | Order::None => SortOrder::Ascend,
    };
    // Ascending by key is the store's own order; anything else needs a sort.
    let sort = ((target, order) != (SortTarget::Key, SortOrder::Ascend)).then_some((target, order));
    RangeOp {
        range: KeyRange::from_etcd(request.key, request.range_end),
        revision: request.revision.max(0),
        limit: usize::try_from(request.limit).unwrap_or(0),
        sort,
        keys_only: request.keys_only,
        count_only: request.count_only,
        min_mod_revision: request.min_mod_revision,
        max_mod_revision: request.max_mod_revision,
        min_create_revision: request.min_create_revision,
        max_create_revision: request.max_create_revision,
    }
}

pub(super) fn put(request: pb::PutRequest) -> PutOp {
    PutOp {
        key: own(&request.key),
        value: own(&request.value),
        lease: request.lease,
        prev_kv: request.prev_kv,
        ignore_value: request.ignore_value,
        ignore_lease: request.ignore_lease,
    }
}

pub(super) fn delete_range(request: pb::DeleteRangeRequest) -> DeleteOp {
    DeleteOp { range: key_range(&request.key, &request.range_end), prev_kv: request.prev_kv }
}

pub(super) fn txn(request: pb::TxnRequest) -> Txn {
    Txn {
        compares: request.compare.into_iter().map(compare).collect(),
        success: request.success.into_iter().filter_map(op).collect(),
        failure: request.failure.into_iter().filter_map(op).collect(),
    }
}

fn op(op: pb::RequestOp) -> Option<Op> {
    use pb::request_op::Request;
    Some(match op.request? {
        Request::RequestRange(request) => Op::Range(range(request)),
        Request::RequestPut(request) => Op::Put(put(request)),
        Request::RequestDeleteRange(request) => Op::Delete(delete_range(request)),
        Request::RequestTxn(request) => Op::Txn(txn(request)),
    })
}

/// A guard. A value given for another property than the one compared counts as zero or empty (etcd 3.6).
fn compare(guard: pb::Compare) -> Compare {
    use pb::compare::{CompareResult as Relation, CompareTarget as Target, TargetUnion};
    let union = guard.target_union;
    let target = match Target::try_from(guard.target).unwrap_or(Target::Version) {
        Target::Version => CompareTarget::Version(match union {
            Some(TargetUnion::Version(number)) => number,
            _ => 0,
        }),
        Target::Create => CompareTarget::Create(match union {
            Some(TargetUnion::CreateRevision(number)) => number,
            _ => 0,
        }),
        Target::Mod => CompareTarget::Mod(match union {
            Some(TargetUnion::ModRevision(number)) => number,
            _ => 0,
        }),
        Target::Value => CompareTarget::Value(match union {
            Some(TargetUnion::Value(value)) => value,
            _ => Bytes::new(),
        }),
        Target::Lease => CompareTarget::Lease(match union {
            Some(TargetUnion::Lease(number)) => number,
            _ => 0,
        }),
    };
    let result = match Relation::try_from(guard.result).unwrap_or(Relation::Equal) {
        Relation::Equal => CompareResult::Equal,
        Relation::Greater => CompareResult::Greater,
        Relation::Less => CompareResult::Less,
        Relation::NotEqual => CompareResult::NotEqual,
    };
    Compare { range: KeyRange::from_etcd(guard.key, guard.range_end), target, result }
}

pub(super) fn key_value(kv: KeyValue) -> mvccpb::KeyValue {
    mvccpb::KeyValue {
        key: kv.key,
        create_revision: kv.create_revision,
        mod_revision: kv.mod_revision,
        version: kv.version,
        value: kv.value,
        lease: kv.lease,
    }
}

pub(super) fn range_response(result: RangeResult, header: pb::ResponseHeader) -> pb::RangeResponse {
    pb::RangeResponse {
        header: Some(header),
        kvs: result.kvs.into_iter().map(key_value).collect(),
        more: result.more,
        count: result.count,
    }
}

pub(super) fn put_response(result: PutResult, header: pb::ResponseHeader) -> pb::PutResponse {
    pb::PutResponse { header: Some(header), prev_kv: result.prev.map(key_value) }
}

pub(super) fn delete_response(result: DeleteResult, header: pb::ResponseHeader) -> pb::DeleteRangeResponse {
    pb::DeleteRangeResponse {
        header: Some(header),
        deleted: result.deleted,
        prev_kvs: result.prevs.into_iter().map(key_value).collect(),
    }
}

pub(super) fn txn_response(result: TxnResult, header: pb::ResponseHeader) -> pb::TxnResponse {
    let mut walk = Walk { before: result.revision, after: result.revision, written: false };
    if wrote(&result) {
        walk.before -= 1;
    }
    let succeeded = result.succeeded;
    pb::TxnResponse { header: Some(header), succeeded, responses: walk.responses(result.results) }
}

/// Whether a transaction changed something.
fn wrote(result: &TxnResult) -> bool {
    result.results.iter().any(|result| match result {
        OpResult::Range(_) => false,
        OpResult::Put(_) => true,
        OpResult::Delete(delete) => delete.deleted > 0,
        OpResult::Txn(nested) => wrote(nested),
    })
}

/// The headers within a transaction: each operation shows the revision the store had, as seen from inside, once the
/// operation was done (etcd 3.6).
struct Walk {
    before: i64,
    after: i64,
    written: bool,
}

impl Walk {
    fn header(&self) -> pb::ResponseHeader {
        header::inner(if self.written { self.after } else { self.before })
    }

    fn responses(&mut self, results: Vec<OpResult>) -> Vec<pb::ResponseOp> {
        results.into_iter().map(|result| pb::ResponseOp { response: Some(self.response(result)) }).collect()
    }

    fn response(&mut self, result: OpResult) -> pb::response_op::Response {
        use pb::response_op::Response;
        match result {
            OpResult::Range(range) => Response::ResponseRange(range_response(range, self.header())),
            OpResult::Put(put) => {
                self.written = true;
                Response::ResponsePut(put_response(put, self.header()))
            }
            OpResult::Delete(delete) => {
                self.written |= delete.deleted > 0;
                Response::ResponseDeleteRange(delete_response(delete, self.header()))
            }
            OpResult::Txn(nested) => Response::ResponseTxn(pb::TxnResponse {
                header: Some(pb::ResponseHeader::default()),
                succeeded: nested.succeeded,
                responses: self.responses(nested.results),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_inside_a_transaction_follow_its_writes() {
        let result = TxnResult {
            succeeded: true,
            results: vec![
                OpResult::Range(RangeResult::default()),
                OpResult::Delete(DeleteResult::default()),
                OpResult::Put(PutResult::default()),
                OpResult::Range(RangeResult::default()),
            ],
            revision: 9,
        };
        let response = txn_response(result, header::inner(9));
        let revisions: Vec<i64> = response
            .responses
            .into_iter()
            .map(|op| match op.response.expect("set") {
                pb::response_op::Response::ResponseRange(r) => r.header.expect("set").revision,
                pb::response_op::Response::ResponsePut(r) => r.header.expect("set").revision,
                pb::response_op::Response::ResponseDeleteRange(r) => r.header.expect("set").revision,
                pb::response_op::Response::ResponseTxn(_) => 0,
            })
            .collect();
        assert_eq!(revisions, [8, 8, 9, 9]);
    }

    #[test]
    fn order_none_sorts_by_another_target_ascending() {
        let check = |order: i32, target: i32, expected| {
            let request =
                pb::RangeRequest { key: "k".into(), sort_order: order, sort_target: target, ..Default::default() };
            assert_eq!(range(request).sort, expected, "order {order}, target {target}");
        };
        check(0, 0, None);
        check(1, 0, None);
        check(2, 0, Some((SortTarget::Key, SortOrder::Descend)));
        check(0, 3, Some((SortTarget::Mod, SortOrder::Ascend)));
        check(2, 4, Some((SortTarget::Value, SortOrder::Descend)));
    }
}
