//! Reads, writes, deletions and compaction.

use listwatch_integration_tests::etcd::{get, list, prefix_end, revision};
use listwatch_proto::etcd::etcdserverpb::range_request::{SortOrder, SortTarget};
use listwatch_proto::etcd::etcdserverpb::{PutRequest, RangeRequest, RangeResponse};
use tonic::Code;

use crate::{Target, refused};

const COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
const FUTURE: &str = "etcdserver: mvcc: required revision is a future revision";

fn keys(target: &Target, response: &RangeResponse) -> Vec<String> {
    let name = |key: &[u8]| String::from_utf8_lossy(key).trim_start_matches(&target.prefix).to_owned();
    response.kvs.iter().map(|kv| name(&kv.key)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_store_is_at_one_and_each_write_adds_one() {
    let target = Target::start("fresh").await;
    let before = target.client.revision().await.unwrap();
    if target.is_ours() {
        assert_eq!(before, 1);
    }
    let put = target.client.put_at(target.key("a"), "1").await.unwrap();
    assert_eq!(put, before + 1);
    assert_eq!(target.client.put_at(target.key("a"), "1").await.unwrap(), before + 2, "an equal value still counts");
    let deleted = target.client.delete(target.key("nobody"), "").await.unwrap();
    assert_eq!((deleted.deleted, revision(&deleted.header)), (0, before + 2), "nothing was deleted");
    let deleted = target.client.delete(target.key("a"), "").await.unwrap();
    assert_eq!((deleted.deleted, revision(&deleted.header)), (1, before + 3));
    assert_eq!(deleted.prev_kvs[0].value, "1");
    assert_eq!(target.client.revision().await.unwrap(), before + 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_of_a_key_begin_again_after_its_deletion() {
    let target = Target::start("counters").await;
    let key = target.key("k");
    let first = target.client.put_at(key.clone(), "1").await.unwrap();
    let second = target.client.put_at(key.clone(), "2").await.unwrap();
    let kv = target.client.range(get(key.clone())).await.unwrap().kvs.remove(0);
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (first, second, 2));
    target.client.delete(key.clone(), "").await.unwrap();
    let third = target.client.put_at(key.clone(), "3").await.unwrap();
    let kv = target.client.range(get(key)).await.unwrap().kvs.remove(0);
    assert_eq!((kv.create_revision, kv.mod_revision, kv.version), (third, third, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_count_cut_and_page() {
    let target = Target::start("pages").await;
    for name in ["a", "b", "c", "d", "e"] {
        target.client.put(target.key(name), name).await.unwrap();
    }
    let all = list(&target.prefix);
    let page = target.client.range(RangeRequest { limit: 2, ..all.clone() }).await.unwrap();
    assert_eq!((keys(&target, &page), page.more, page.count), (vec!["a".into(), "b".into()], true, 5));
    let page = target.client.range(RangeRequest { limit: 5, ..all.clone() }).await.unwrap();
    assert_eq!((page.kvs.len(), page.more, page.count), (5, false, 5));
    let page = target.client.range(RangeRequest { limit: -1, ..all.clone() }).await.unwrap();
    assert_eq!((page.kvs.len(), page.more), (5, false), "a negative limit is none");
    let count = target.client.range(RangeRequest { count_only: true, limit: 2, ..all.clone() }).await.unwrap();
    assert_eq!((count.kvs.len(), count.count), (0, 5));
    let names = target.client.range(RangeRequest { keys_only: true, ..all.clone() }).await.unwrap();
    assert!(names.kvs.iter().all(|kv| kv.value.is_empty() && kv.mod_revision > 0));
    let next = RangeRequest { key: format!("{}b\0", target.prefix).into(), limit: 2, ..all.clone() };
    let page = target.client.range(next).await.unwrap();
    assert_eq!((keys(&target, &page), page.more, page.count), (vec!["c".into(), "d".into()], true, 3));
    let turned = RangeRequest { key: target.key("d").into(), range_end: target.key("b").into(), ..all };
    let none = target.client.range(turned).await.unwrap();
    assert_eq!((none.kvs.len(), none.count), (0, 0), "an end before the key is an empty answer, no error");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_without_end_reach_to_the_last_key() {
    let target = Target::start("\u{10ffff}unbounded").await;
    target.client.put(target.key("a"), "").await.unwrap();
    target.client.put(target.key("b"), "").await.unwrap();
    let from = RangeRequest { key: target.key("b").into(), range_end: "\0".into(), ..RangeRequest::default() };
    assert_eq!(keys(&target, &target.client.range(from).await.unwrap()), ["b"]);
    let everything = RangeRequest { key: "\0".into(), range_end: "\0".into(), count_only: true, ..Default::default() };
    assert!(target.client.range(everything).await.unwrap().count >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_sort_by_any_property() {
    let target = Target::start("sort").await;
    for (name, value) in [("a", "2"), ("b", "3"), ("c", "1"), ("a", "2")] {
        target.client.put(target.key(name), value).await.unwrap();
    }
    for (sort, order, expected) in [
        (SortTarget::Key, SortOrder::None, "abc"),
        (SortTarget::Key, SortOrder::Descend, "cba"),
        (SortTarget::Version, SortOrder::Descend, "a"),
        (SortTarget::Create, SortOrder::Descend, "cba"),
        (SortTarget::Mod, SortOrder::Ascend, "bca"),
        (SortTarget::Mod, SortOrder::None, "bca"),
        (SortTarget::Value, SortOrder::Ascend, "cab"),
    ] {
        let limit = expected.len() as i64;
        let request =
            RangeRequest { sort_target: sort.into(), sort_order: order.into(), limit, ..list(&target.prefix) };
        let response = target.client.range(request).await.unwrap();
        assert_eq!(keys(&target, &response).concat(), expected, "{sort:?} {order:?}");
        assert_eq!((response.count, response.more), (3, limit < 3));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn revision_filters_come_before_the_limit_and_not_before_the_count() {
    let target = Target::start("filters").await;
    let first = target.client.put_at(target.key("a"), "").await.unwrap();
    for name in ["b", "c", "d"] {
        target.client.put(target.key(name), "").await.unwrap();
    }
    let filtered = RangeRequest { min_mod_revision: first + 1, limit: 2, ..list(&target.prefix) };
    let response = target.client.range(filtered).await.unwrap();
    assert_eq!((keys(&target, &response).concat(), response.more, response.count), ("bc".into(), true, 4));
    let filtered = RangeRequest { max_create_revision: first, ..list(&target.prefix) };
    let response = target.client.range(filtered).await.unwrap();
    assert_eq!((keys(&target, &response).concat(), response.more, response.count), ("a".into(), false, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_revisions_are_read_until_they_are_compacted() {
    let target = Target::start("history").await;
    let key = target.key("k");
    let first = target.client.put_at(key.clone(), "1").await.unwrap();
    let second = target.client.put_at(key.clone(), "2").await.unwrap();
    target.client.delete(key.clone(), "").await.unwrap();
    let at = |revision| RangeRequest { revision, ..get(key.clone()) };
    let old = target.client.range(at(first)).await.unwrap();
    assert_eq!((&old.kvs[0].value[..], revision(&old.header)), (&b"1"[..], second + 1), "the header is of now");
    assert_eq!(target.client.range(at(-5)).await.unwrap().count, 0, "a negative revision is the latest");
    refused(target.client.range(at(second + 2)).await, Code::OutOfRange, FUTURE);
    target.client.compact(second).await.unwrap();
    assert_eq!(target.client.range(at(second)).await.unwrap().kvs[0].value, "2", "the compacted revision is readable");
    refused(target.client.range(at(first)).await, Code::OutOfRange, COMPACTED);
    refused(target.client.compact(second).await, Code::OutOfRange, COMPACTED);
    refused(target.client.compact(second + 2).await, Code::OutOfRange, FUTURE);
    refused(target.client.compact(-1).await, Code::OutOfRange, COMPACTED);
    assert_eq!(target.client.revision().await.unwrap(), second + 1, "compaction does not move the revision");
}

#[tokio::test(flavor = "multi_thread")]
async fn compact_to_zero_works_once_on_a_fresh_store() {
    let target = Target::start("zero").await;
    if target.is_ours() {
        target.client.compact(0).await.unwrap();
        refused(target.client.compact(0).await, Code::OutOfRange, COMPACTED);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn puts_keep_value_or_lease_when_told() {
    let target = Target::start("ignore").await;
    let key = target.key("k");
    let put = |request: PutRequest| {
        let mut kv = target.client.kv.clone();
        async move { kv.put(request).await.map(tonic::Response::into_inner) }
    };
    let of = |key: &str| PutRequest { key: key.to_owned().into(), ..PutRequest::default() };
    let missing = PutRequest { ignore_value: true, ..of(&key) };
    refused(put(missing.clone()).await, Code::InvalidArgument, "etcdserver: key not found");
    let missing = PutRequest { ignore_lease: true, ..of(&key) };
    refused(put(missing).await, Code::InvalidArgument, "etcdserver: key not found");
    let both = PutRequest { ignore_value: true, value: "v".into(), ..of(&key) };
    refused(put(both).await, Code::InvalidArgument, "etcdserver: value is provided");
    let both = PutRequest { ignore_lease: true, lease: 1, ..of(&key) };
    refused(put(both).await, Code::InvalidArgument, "etcdserver: lease is provided");
    refused(put(of("")).await, Code::InvalidArgument, "etcdserver: key is not provided");
    let unknown = PutRequest { lease: 4711, ..of(&key) };
    refused(put(unknown).await, Code::NotFound, "etcdserver: requested lease not found");

    let first = put(PutRequest { value: "v".into(), prev_kv: true, ..of(&key) }).await.unwrap();
    assert_eq!(first.prev_kv, None, "there was nothing before");
    let second = put(PutRequest { ignore_value: true, prev_kv: true, ..of(&key) }).await.unwrap();
    assert_eq!(second.prev_kv.map(|kv| kv.value), Some("v".into()));
    let kv = target.client.range(get(key)).await.unwrap().kvs.remove(0);
    assert_eq!((&kv.value[..], kv.version, kv.mod_revision), (&b"v"[..], 2, revision(&second.header)));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_etcd_refuses_are_refused_in_its_words() {
    let target = Target::start("refusals").await;
    refused(target.client.range(get("")).await, Code::InvalidArgument, "etcdserver: key is not provided");
    refused(target.client.delete("", "").await, Code::InvalidArgument, "etcdserver: key is not provided");
    for request in [RangeRequest { sort_order: 7, ..get("k") }, RangeRequest { sort_target: 7, ..get("k") }] {
        refused(target.client.range(request).await, Code::InvalidArgument, "etcdserver: invalid sort option");
    }
    let large = vec![b'x'; 1_572_864];
    let answer = target.client.put(target.key("large"), large).await;
    refused(answer, Code::InvalidArgument, "etcdserver: request is too large");
    let fits = vec![b'x'; 1_572_864 - 512];
    target.client.put(target.key("fits"), fits).await.unwrap();
    let status = target.client.put(target.key("huge"), vec![b'x'; 3 << 20]).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().starts_with("grpc: received message larger than max ("), "{status:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_of_ranges_answer_in_key_order() {
    let target = Target::start("delete").await;
    for name in ["c", "a", "b"] {
        target.client.put(target.key(name), name).await.unwrap();
    }
    let deleted = target.client.delete(target.key("a"), prefix_end(&target.prefix)).await.unwrap();
    let values: Vec<_> = deleted.prev_kvs.iter().map(|kv| kv.value.clone()).collect();
    assert_eq!((deleted.deleted, values), (3, vec!["a".into(), "b".into(), "c".into()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_range_joined_is_the_range() {
    let target = Target::start("stream").await;
    if !target.is_ours() {
        return println!("skipped: etcd has RangeStream from 3.7 on");
    }
    for number in 0..500 {
        target.client.put(target.key(&format!("{number:04}")), vec![b'v'; 3000]).await.unwrap();
    }
    for limit in [0, 7, 499, 500, 501] {
        let request = RangeRequest { limit, ..list(&target.prefix) };
        let whole = target.client.range(request.clone()).await.unwrap();
        let mut stream = target.client.kv.clone().range_stream(request).await.unwrap().into_inner();
        let mut joined = RangeResponse::default();
        let mut chunks = 0;
        while let Some(chunk) = stream.message().await.unwrap() {
            assert!(joined.header.is_none(), "the header comes last");
            let chunk = chunk.range_response.unwrap();
            joined.kvs.extend(chunk.kvs);
            (joined.header, joined.more, joined.count) = (chunk.header, chunk.more, chunk.count);
            chunks += 1;
        }
        assert_eq!(joined, whole, "limit {limit}");
        assert!(limit == 7 || chunks > 2, "{chunks} chunks");
    }
    let sorted = RangeRequest { sort_order: SortOrder::Descend.into(), ..list(&target.prefix) };
    assert_eq!(target.client.kv.clone().range_stream(sorted).await.unwrap_err().code(), Code::Unimplemented);
}
