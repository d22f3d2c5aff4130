//! etcd's checks of a request that need no state, in etcd's order (3.6, `v3rpc/key.go`).
//!
//! Invariant: what passes can be translated without loss and is refused by the store only for reasons of state.

use std::collections::HashSet;

use bytes::Bytes;
use listwatch_proto::etcd::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, compare, range_request, request_op::Request,
};
use prost::Message;
use tonic::Status;

use super::error::{Refusal, unknown_enum};
use super::front::{REQUEST_BYTES_MAX, TXN_OPS_MAX};
use crate::storage::KeyRange;

/// The size of a request that will be written to the log.
pub(super) fn size(request: &impl Message) -> Result<(), Refusal> {
    if request.encoded_len() > REQUEST_BYTES_MAX { Err(Refusal::RequestTooLarge) } else { Ok(()) }
}

pub(super) fn range(request: &RangeRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    let known = range_request::SortOrder::try_from(request.sort_order).is_ok()
        && range_request::SortTarget::try_from(request.sort_target).is_ok();
    if known { Ok(()) } else { Err(Refusal::InvalidSortOption) }
}

pub(super) fn put(request: &PutRequest) -> Result<(), Refusal> {
    if request.key.is_empty() {
        return Err(Refusal::EmptyKey);
    }
    if request.ignore_value && !request.value.is_empty() {
        return Err(Refusal::ValueProvided);
    }
    if request.ignore_lease && request.lease != 0 {
        return Err(Refusal::LeaseProvided);
    }
    Ok(())
}

pub(super) fn delete_range(request: &DeleteRangeRequest) -> Result<(), Refusal> {
    if request.key.is_empty() { Err(Refusal::EmptyKey) } else { Ok(()) }
}

/// A whole transaction: structure of both branches, then the keys each branch may write.
pub(super) fn txn(request: &TxnRequest) -> Result<(), Status> {
    structure(request, TXN_OPS_MAX)?;
    branch_writes(&request.success)?;
    branch_writes(&request.failure)?;
    Ok(())
}

/// Counts and single operations. A nested transaction may have as many operations as its parent left over, which also
/// bounds how deep they nest.
fn structure(request: &TxnRequest, ops_max: usize) -> Result<(), Status> {
    let ops = request.compare.len().max(request.success.len()).max(request.failure.len());
    if ops > ops_max {
        return Err(Refusal::TooManyOps.into());
    }
    for guard in &request.compare {
        if guard.key.is_empty() {
            return Err(Refusal::EmptyKey.into());
        }
        // etcd lets a guard it does not know pass as true; a guard that guards nothing is a trap.
        if compare::CompareTarget::try_from(guard.target).is_err() {
            return Err(unknown_enum("compare target", guard.target));
        }
        if compare::CompareResult::try_from(guard.result).is_err() {
            return Err(unknown_enum("compare result", guard.result));
        }
    }
    for op in request.success.iter().chain(&request.failure) {
        match &op.request {
            Some(Request::RequestRange(request)) => range(request)?,
            Some(Request::RequestPut(request)) => put(request)?,
            Some(Request::RequestDeleteRange(request)) => delete_range(request)?,
            Some(Request::RequestTxn(request)) => structure(request, ops_max - ops)?,
            None => return Err(Refusal::KeyNotFound.into()),
        }
    }
    Ok(())
}

/// What a branch may write, including the branches of transactions within it.
#[derive(Default)]
struct Writes {
    puts: HashSet<Bytes>,
    deletes: Vec<KeyRange>,
}

impl Writes {
    fn deletes(&self, key: &[u8]) -> bool {
        self.deletes.iter().any(|range| range.contains(key))
    }
}

/// Refuses a branch that could put a key twice, or put a key it also deletes. The two branches of one nested transaction
/// never both happen, so they may put the same key.
fn branch_writes(ops: &[RequestOp]) -> Result<Writes, Refusal> {
    let mut writes = Writes::default();
    for op in ops {
        if let Some(Request::RequestDeleteRange(delete)) = &op.request {
            writes.deletes.push(KeyRange::from_etcd(delete.key.clone(), delete.range_end.clone()));
        }
    }
    for op in ops {
        let Some(Request::RequestTxn(nested)) = &op.request else { continue };
        let then = branch_writes(&nested.success)?;
        let otherwise = branch_writes(&nested.failure)?;
        for key in &then.puts {
            if writes.puts.contains(key) || writes.deletes(key) {
                return Err(Refusal::DuplicateKey);
            }
        }
        for key in &otherwise.puts {
            if writes.puts.contains(key) || writes.deletes(key) {
                return Err(Refusal::DuplicateKey);
            }
        }
        writes.puts.extend(then.puts);
        writes.puts.extend(otherwise.puts);
        writes.deletes.extend(then.deletes);
        writes.deletes.extend(otherwise.deletes);
    }
    for op in ops {
        let Some(Request::RequestPut(put)) = &op.request else { continue };
        if writes.deletes(&put.key) || !writes.puts.insert(put.key.clone()) {
            return Err(Refusal::DuplicateKey);
        }
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::etcd::etcdserverpb::Compare;

    fn op(request: Request) -> RequestOp {
        RequestOp { request: Some(request) }
    }

    fn put_op(key: &'static str) -> RequestOp {
        op(Request::RequestPut(PutRequest { key: key.into(), ..Default::default() }))
    }

    fn delete_op(key: &'static str, end: &'static str) -> RequestOp {
        op(Request::RequestDeleteRange(DeleteRangeRequest {
            key: key.into(),
            range_end: end.into(),
            ..Default::default()
        }))
    }

    fn nested(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
        op(Request::RequestTxn(TxnRequest { compare: vec![], success, failure }))
    }

    fn check(success: Vec<RequestOp>, expected: Result<(), Refusal>) {
        let expected = expected.map_err(|refusal| Status::from(refusal).message().to_owned());
        for (success, failure) in [(success.clone(), vec![]), (vec![], success)] {
            let request = TxnRequest { compare: vec![], success, failure };
            assert_eq!(txn(&request).map_err(|status| status.message().to_owned()), expected, "{request:?}");
        }
    }

    #[test]
    fn duplicate_keys_are_found_in_both_branches() {
        check(vec![put_op("a"), put_op("b")], Ok(()));
        check(vec![put_op("a"), put_op("a")], Err(Refusal::DuplicateKey));
        check(vec![put_op("b"), delete_op("a", "c")], Err(Refusal::DuplicateKey));
        check(vec![put_op("c"), delete_op("a", "c")], Ok(()));
        check(vec![put_op("c"), delete_op("a", "\0")], Err(Refusal::DuplicateKey));
        check(vec![delete_op("a", ""), delete_op("a", "c")], Ok(()));
    }

    #[test]
    fn duplicate_keys_are_found_across_nesting() {
        check(vec![nested(vec![put_op("a")], vec![put_op("a")])], Ok(()));
        check(vec![nested(vec![put_op("a")], vec![]), put_op("a")], Err(Refusal::DuplicateKey));
        check(vec![nested(vec![delete_op("a", "")], vec![]), put_op("a")], Err(Refusal::DuplicateKey));
        check(vec![nested(vec![], vec![put_op("a")]), delete_op("a", "")], Err(Refusal::DuplicateKey));
        check(vec![nested(vec![put_op("a")], vec![]), nested(vec![], vec![put_op("a")])], Err(Refusal::DuplicateKey));
        check(vec![nested(vec![nested(vec![put_op("a"), put_op("a")], vec![])], vec![])], Err(Refusal::DuplicateKey));
    }

    #[test]
    fn operations_share_one_budget_over_all_levels() {
        let keys: Vec<&'static str> = (0..128).map(|n| &*format!("k{n}").leak()).collect();
        let puts = |count: usize| keys[..count].iter().map(|key| put_op(key)).collect::<Vec<_>>();
        check(puts(128), Ok(()));
        let mut ops = puts(128);
        ops.push(put_op("one more"));
        check(ops, Err(Refusal::TooManyOps));
        let other =
            |count: usize| -> Vec<RequestOp> { (0..count).map(|n| delete_op(format!("x{n}").leak(), "")).collect() };
        let mut ops = other(63);
        ops.push(nested(puts(64), vec![]));
        check(ops, Ok(()));
        let mut ops = other(64);
        ops.push(nested(puts(64), vec![]));
        check(ops, Err(Refusal::TooManyOps));
    }

    #[test]
    fn single_operations_are_checked_wherever_they_stand() {
        check(vec![RequestOp { request: None }], Err(Refusal::KeyNotFound));
        check(vec![put_op("")], Err(Refusal::EmptyKey));
        check(vec![nested(vec![], vec![delete_op("", "")])], Err(Refusal::EmptyKey));
        let put = PutRequest { key: "a".into(), value: "v".into(), ignore_value: true, ..Default::default() };
        check(vec![op(Request::RequestPut(put))], Err(Refusal::ValueProvided));
        let put = PutRequest { key: "a".into(), lease: 1, ignore_lease: true, ..Default::default() };
        check(vec![op(Request::RequestPut(put))], Err(Refusal::LeaseProvided));
        let range = RangeRequest { key: "a".into(), sort_target: 9, ..Default::default() };
        check(vec![op(Request::RequestRange(range))], Err(Refusal::InvalidSortOption));
    }

    #[test]
    fn a_guard_that_is_not_known_is_refused() {
        let guard = Compare { key: "a".into(), target: 9, ..Default::default() };
        let request = TxnRequest { compare: vec![guard], ..Default::default() };
        assert_eq!(txn(&request).map_err(|s| s.code()), Err(tonic::Code::InvalidArgument));
    }
}
