//! Leases: what grants, renewals and ends answer, and what happens to keys.

use std::time::{Duration, Instant};

use listwatch_integration_tests::etcd::{Client, LIMIT, get, list, revision, told, watch_prefix};
use listwatch_integration_tests::eventually;
use listwatch_proto::etcd::etcdserverpb::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseLeasesRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest,
};
use tonic::{Code, Status};

use crate::{Target, refused};

async fn grant(client: &Client, ttl: i64, id: i64) -> Result<LeaseGrantResponse, Status> {
    Ok(client.lease.clone().lease_grant(LeaseGrantRequest { ttl, id }).await?.into_inner())
}

async fn left(client: &Client, id: i64) -> LeaseTimeToLiveResponse {
    let request = LeaseTimeToLiveRequest { id, keys: true };
    client.lease.clone().lease_time_to_live(request).await.unwrap().into_inner()
}

async fn renew(client: &Client, id: i64) -> LeaseKeepAliveResponse {
    let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
    let mut answers = client.lease.clone().lease_keep_alive(requests).await.unwrap().into_inner();
    answers.message().await.unwrap().expect("an answer for each request")
}

async fn put(client: &Client, key: String, lease: i64) -> i64 {
    let request = PutRequest { key: key.into(), lease, ..PutRequest::default() };
    revision(&client.kv.clone().put(request).await.unwrap().into_inner().header)
}

#[tokio::test(flavor = "multi_thread")]
async fn grants_answer_what_was_granted() {
    let target = Target::start("grant").await;
    let before = target.client.revision().await.unwrap();
    let first = grant(&target.client, 60, 0).await.unwrap();
    assert!(first.id > 0 && first.ttl == 60 && first.error.is_empty(), "{first:?}");
    let chosen = grant(&target.client, 60, -77).await.unwrap();
    assert_eq!(chosen.id, -77, "any id but zero may be chosen");
    refused(grant(&target.client, 60, -77).await, Code::FailedPrecondition, "etcdserver: lease already exists");
    let short = grant(&target.client, 0, 0).await.unwrap();
    assert_eq!(short.ttl, 2, "raised to the least");
    let text = "etcdserver: too large lease TTL";
    refused(grant(&target.client, 9_000_000_001, 0).await, Code::OutOfRange, text);
    let leases = target.client.lease.clone().lease_leases(LeaseLeasesRequest {}).await.unwrap().into_inner().leases;
    assert!(leases.iter().any(|lease| lease.id == first.id) && leases.iter().any(|lease| lease.id == -77));
    assert_eq!(target.client.revision().await.unwrap(), before, "leases do not move the revision");
    target.client.lease.clone().lease_revoke(LeaseRevokeRequest { id: -77 }).await.unwrap();
    assert_eq!(target.client.revision().await.unwrap(), before, "nor does the end of one without keys");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_gone_has_no_time_and_is_no_error() {
    let target = Target::start("gone").await;
    assert_eq!(renew(&target.client, 4711).await.ttl, 0);
    let info = left(&target.client, 4711).await;
    assert_eq!((info.ttl, info.granted_ttl, info.id), (-1, 0, 4711));
    let answer = target.client.lease.clone().lease_revoke(LeaseRevokeRequest { id: 4711 }).await;
    refused(answer, Code::NotFound, "etcdserver: requested lease not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn renewal_restores_the_granted_time() {
    let target = Target::start("renew").await;
    let lease = grant(&target.client, 60, 0).await.unwrap().id;
    eventually(LIMIT, "a second passes", || async {
        let info = left(&target.client, lease).await;
        if info.ttl < 59 { Ok(()) } else { Err(info.ttl) }
    })
    .await;
    assert_eq!(renew(&target.client, lease).await.ttl, 60);
    let info = left(&target.client, lease).await;
    assert!(info.ttl >= 59 && info.granted_ttl == 60, "{info:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_lease_takes_its_keys_in_one_revision_in_key_order() {
    let target = Target::start("revoke").await;
    let lease = grant(&target.client, 60, 0).await.unwrap().id;
    for name in ["c", "a", "b", "moved", "detached"] {
        put(&target.client, target.key(name), lease).await;
    }
    let other = grant(&target.client, 60, 0).await.unwrap().id;
    put(&target.client, target.key("moved"), other).await;
    let last = put(&target.client, target.key("detached"), 0).await;
    let mut keys: Vec<String> =
        left(&target.client, lease).await.keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
    keys.sort();
    assert_eq!(keys, [target.key("a"), target.key("b"), target.key("c")]);
    let mut watch = target.client.watch(watch_prefix(&target.prefix, last + 1)).await.unwrap();
    let answer = target.client.lease.clone().lease_revoke(LeaseRevokeRequest { id: lease }).await.unwrap().into_inner();
    assert_eq!(revision(&answer.header), last + 1);
    let answer = watch.next().await.unwrap();
    let events: Vec<String> = answer.events.iter().map(told).collect();
    let expected = ["a", "b", "c"].map(|name| format!("DELETE {}@{}", target.key(name), last + 1));
    assert_eq!(events, expected);
    assert_eq!(target.client.range(list(&target.prefix)).await.unwrap().count, 2);
    assert_eq!(renew(&target.client, lease).await.ttl, 0, "renewing cannot bring it back");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unrenewed_lease_ends_soon_after_its_time() {
    let target = Target::start("expiry").await;
    let granted = Instant::now();
    let lease = grant(&target.client, 2, 0).await.unwrap().id;
    put(&target.client, target.key("k"), lease).await;
    eventually(LIMIT, "the key goes with its lease", || async {
        let count = target.client.range(get(target.key("k"))).await.unwrap().count;
        if count == 0 { Ok(()) } else { Err(count) }
    })
    .await;
    let lived = granted.elapsed();
    assert!(lived >= Duration::from_millis(1990), "ended early, after {lived:?}");
    assert!(lived < Duration::from_secs(5), "ended late, after {lived:?}");
    assert_eq!(left(&target.client, lease).await.ttl, -1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_gives_no_lease_more_time_than_it_had() {
    let mut target = Target::start("restart").await;
    let Some(server) = &mut target.server else { return println!("skipped: needs a server of its own") };
    let lease = grant(&target.client, 60, 0).await.unwrap().id;
    put(&target.client, target.prefix.clone() + "k", lease).await;
    eventually(LIMIT, "two seconds pass", || async {
        let info = left(&target.client, lease).await;
        if info.ttl < 58 { Ok(()) } else { Err(info.ttl) }
    })
    .await;
    server.kill_and_restart().unwrap();
    let client = Client::connect(&server.endpoint()).await.unwrap();
    let info = left(&client, lease).await;
    assert!(info.ttl <= 58 && info.ttl > 30 && info.granted_ttl == 60, "{info:?}");
    assert_eq!(info.keys, [target.prefix + "k"]);
}
