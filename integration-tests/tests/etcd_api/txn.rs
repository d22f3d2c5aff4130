//! Transactions: guards, nesting, all or nothing, and what each operation sees.

use listwatch_integration_tests::etcd::{delete_op, get, guard, put_op, range_op, revision, txn_op};
use listwatch_proto::etcd::etcdserverpb::compare::{CompareResult, TargetUnion};
use listwatch_proto::etcd::etcdserverpb::response_op::Response;
use listwatch_proto::etcd::etcdserverpb::{
    Compare, PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest, request_op::Request,
};
use tonic::Code;

use crate::{Target, refused};

fn when(compare: Vec<Compare>, success: Vec<RequestOp>, failure: Vec<RequestOp>) -> TxnRequest {
    TxnRequest { compare, success, failure }
}

fn all(success: Vec<RequestOp>) -> TxnRequest {
    when(vec![], success, vec![])
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_compare_every_property() {
    let target = Target::start("guards").await;
    let key = target.key("k");
    let first = target.client.put_at(key.clone(), "m").await.unwrap();
    let second = target.client.put_at(key.clone(), "m").await.unwrap();
    use CompareResult::{Equal, Greater, Less, NotEqual};
    for (result, value, holds) in [
        (Equal, TargetUnion::Version(2), true),
        (Greater, TargetUnion::Version(1), true),
        (Greater, TargetUnion::Version(2), false),
        (Equal, TargetUnion::CreateRevision(first), true),
        (Less, TargetUnion::CreateRevision(first), false),
        (Equal, TargetUnion::ModRevision(second), true),
        (NotEqual, TargetUnion::ModRevision(second), false),
        (Equal, TargetUnion::Value("m".into()), true),
        (Less, TargetUnion::Value("n".into()), true),
        (Greater, TargetUnion::Value("n".into()), false),
        (Equal, TargetUnion::Lease(0), true),
        (NotEqual, TargetUnion::Lease(0), false),
    ] {
        let request = when(vec![guard(key.clone(), result, value.clone())], vec![], vec![]);
        let answer = target.client.txn(request).await.unwrap();
        assert_eq!(answer.succeeded, holds, "{result:?} {value:?}");
        assert_eq!(revision(&answer.header), second, "nothing was written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_counts_as_zero_and_has_no_value() {
    let target = Target::start("missing").await;
    let key = target.key("nobody");
    use CompareResult::{Equal, Greater, Less, NotEqual};
    for (result, value, holds) in [
        (Equal, TargetUnion::Version(0), true),
        (Equal, TargetUnion::CreateRevision(0), true),
        (Less, TargetUnion::ModRevision(1), true),
        (Greater, TargetUnion::Lease(-1), true),
        (Equal, TargetUnion::Value("".into()), false),
        (NotEqual, TargetUnion::Value("x".into()), false),
        (Less, TargetUnion::Value("x".into()), false),
    ] {
        let request = when(vec![guard(key.clone(), result, value.clone())], vec![], vec![]);
        assert_eq!(target.client.txn(request).await.unwrap().succeeded, holds, "{result:?} {value:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_on_a_range_must_hold_for_every_key() {
    let target = Target::start("ranges").await;
    target.client.put(target.key("a"), "x").await.unwrap();
    target.client.put(target.key("b"), "y").await.unwrap();
    let on = |from: &str, to: &str, result, value| Compare {
        range_end: target.key(to).into(),
        ..guard(target.key(from), result, value)
    };
    for (compare, holds) in [
        (on("a", "c", CompareResult::Equal, TargetUnion::Version(1)), true),
        (on("a", "c", CompareResult::Equal, TargetUnion::Value("x".into())), false),
        (on("a", "b", CompareResult::Equal, TargetUnion::Value("x".into())), true),
        (on("c", "d", CompareResult::Equal, TargetUnion::Version(0)), true),
        (on("c", "d", CompareResult::NotEqual, TargetUnion::Value("x".into())), false),
    ] {
        let answer = target.client.txn(when(vec![compare.clone()], vec![], vec![])).await.unwrap();
        assert_eq!(answer.succeeded, holds, "{compare:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_writes_share_a_revision_and_reads_see_what_came_before_them() {
    let target = Target::start("within").await;
    let before = target.client.put_at(target.key("a"), "old").await.unwrap();
    let answer = target
        .client
        .txn(all(vec![
            range_op(get(target.key("a"))),
            put_op(target.key("a"), "new"),
            range_op(get(target.key("a"))),
            put_op(target.key("b"), "new"),
            delete_op(target.key("nobody"), ""),
        ]))
        .await
        .unwrap();
    assert_eq!(revision(&answer.header), before + 1);
    let told: Vec<_> = answer
        .responses
        .into_iter()
        .map(|op| match op.response.unwrap() {
            Response::ResponseRange(range) => {
                let kv = &range.kvs[0];
                (range.header.unwrap(), String::from_utf8_lossy(&kv.value).into_owned(), kv.mod_revision)
            }
            Response::ResponsePut(put) => (put.header.unwrap(), "put".to_owned(), 0),
            Response::ResponseDeleteRange(delete) => (delete.header.unwrap(), "deleted".to_owned(), delete.deleted),
            Response::ResponseTxn(_) => unreachable!(),
        })
        .collect();
    let inner = |revision| ResponseHeader { revision, ..ResponseHeader::default() };
    assert_eq!(
        told,
        [
            (inner(before), "old".to_owned(), before),
            (inner(before + 1), "put".to_owned(), 0),
            (inner(before + 1), "new".to_owned(), before + 1),
            (inner(before + 1), "put".to_owned(), 0),
            (inner(before + 1), "deleted".to_owned(), 0),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_of_nested_transactions_see_the_state_before_everything() {
    let target = Target::start("nested").await;
    let exists = guard(target.key("a"), CompareResult::Greater, TargetUnion::Version(0));
    let inner = when(vec![exists], vec![put_op(target.key("then"), "")], vec![put_op(target.key("else"), "")]);
    let answer = target.client.txn(all(vec![put_op(target.key("a"), ""), txn_op(inner)])).await.unwrap();
    let Some(Response::ResponseTxn(nested)) = &answer.responses[1].response else { panic!("{answer:?}") };
    assert!(!nested.succeeded, "the outer write must not decide the inner guard");
    assert_eq!(nested.header, Some(ResponseHeader::default()));
    assert_eq!(target.client.range(get(target.key("else"))).await.unwrap().count, 1);
    assert_eq!(target.client.range(get(target.key("then"))).await.unwrap().count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_refused_operation_leaves_nothing_written() {
    let target = Target::start("atomic").await;
    let before = target.client.put_at(target.key("a"), "1").await.unwrap();
    target.client.put(target.key("a"), "2").await.unwrap();
    target.client.compact(before + 1).await.unwrap();
    let put = put_op(target.key("new"), "");
    let with = |other: RequestOp| all(vec![put.clone(), other]);
    let at = |revision| range_op(RangeRequest { revision, ..get(target.key("a")) });
    let text = "etcdserver: mvcc: required revision has been compacted";
    refused(target.client.txn(with(at(before))).await, Code::OutOfRange, text);
    let text = "etcdserver: mvcc: required revision is a future revision";
    refused(target.client.txn(with(at(before + 2))).await, Code::OutOfRange, text);
    let lease = PutRequest { key: target.key("b").into(), lease: 4711, ..PutRequest::default() };
    let lease = RequestOp { request: Some(Request::RequestPut(lease)) };
    let text = "etcdserver: requested lease not found";
    refused(target.client.txn(with(lease.clone())).await, Code::NotFound, text);
    refused(target.client.txn(with(txn_op(all(vec![lease])))).await, Code::NotFound, text);
    let missing = PutRequest { key: target.key("nobody").into(), ignore_value: true, ..PutRequest::default() };
    let missing = RequestOp { request: Some(Request::RequestPut(missing)) };
    refused(target.client.txn(with(missing)).await, Code::InvalidArgument, "etcdserver: key not found");
    assert_eq!(target.client.range(get(target.key("new"))).await.unwrap().count, 0);
    assert_eq!(target.client.revision().await.unwrap(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn both_branches_are_checked_before_anything_runs() {
    let target = Target::start("checks").await;
    let duplicate = vec![put_op("a", ""), put_op("a", "")];
    let text = "etcdserver: duplicate key given in txn request";
    refused(target.client.txn(all(duplicate.clone())).await, Code::InvalidArgument, text);
    refused(target.client.txn(when(vec![], vec![], duplicate)).await, Code::InvalidArgument, text);
    let covered = vec![delete_op("a", "c"), put_op("b", "")];
    refused(target.client.txn(all(covered)).await, Code::InvalidArgument, text);
    let empty = RequestOp { request: None };
    refused(target.client.txn(all(vec![empty])).await, Code::InvalidArgument, "etcdserver: key not found");
    let many = (0..129).map(|number| put_op(format!("k{number}"), "")).collect();
    let text = "etcdserver: too many operations in txn request";
    refused(target.client.txn(when(vec![], vec![], many)).await, Code::InvalidArgument, text);
    let most = (0..128).map(|number| put_op(target.key(&format!("{number}")), "")).collect();
    target.client.txn(all(most)).await.unwrap();
    let branches = txn_op(when(vec![], vec![put_op(target.key("x"), "")], vec![put_op(target.key("x"), "")]));
    target.client.txn(all(vec![branches])).await.expect("only one branch happens");
    let deletes = vec![delete_op(target.key("x"), ""), delete_op(target.key("x"), "")];
    let answer = target.client.txn(all(deletes)).await.unwrap();
    let deleted = |at: usize| match &answer.responses[at].response {
        Some(Response::ResponseDeleteRange(delete)) => delete.deleted,
        other => panic!("{other:?}"),
    };
    assert_eq!((deleted(0), deleted(1)), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_guard_is_refused_where_etcd_lets_it_pass() {
    let target = Target::start("unknown").await;
    if target.is_ours() {
        let compare = Compare { target: 9, key: "k".into(), ..Compare::default() };
        let status = target.client.txn(when(vec![compare], vec![], vec![])).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
    }
}
