//! Leases of a whole process: on time, over a kill, and over a standstill.

use std::time::{Duration, Instant};

use bytes::Bytes;
use listwatch_integration_tests::Server;
use listwatch_proto::etcd::etcdserverpb::kv_client::KvClient;
use listwatch_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use listwatch_proto::etcd::etcdserverpb::watch_client::WatchClient;
use listwatch_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use listwatch_proto::etcd::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseTimeToLiveRequest, PutRequest, WatchCreateRequest, WatchRequest,
};
use listwatch_proto::etcd::mvccpb::event::EventType;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};

/// The end of a lease must be seen within this, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Client {
    channel: Channel,
    lease: LeaseClient<Channel>,
}

impl Client {
    async fn connect(server: &Server) -> anyhow::Result<Client> {
        let channel = Endpoint::from_shared(server.endpoint())?.connect().await?;
        Ok(Client { lease: LeaseClient::new(channel.clone()), channel })
    }

    async fn grant(&mut self, id: i64, ttl: i64) -> anyhow::Result<()> {
        let granted = self.lease.lease_grant(LeaseGrantRequest { ttl, id }).await?.into_inner();
        anyhow::ensure!((granted.id, granted.ttl) == (id, ttl), "{granted:?}");
        Ok(())
    }

    async fn put(&self, key: &str, lease: i64) -> anyhow::Result<i64> {
        let put = PutRequest { key: Bytes::copy_from_slice(key.as_bytes()), lease, ..PutRequest::default() };
        let answer = KvClient::new(self.channel.clone()).put(put).await?.into_inner();
        Ok(answer.header.unwrap_or_default().revision)
    }

    /// Renews once; 0 = the lease is gone.
    async fn keep_alive(&mut self, id: i64) -> anyhow::Result<i64> {
        let requests = tokio_stream::once(LeaseKeepAliveRequest { id });
        let mut answers = self.lease.lease_keep_alive(requests).await?.into_inner();
        let answer = answers.next().await.ok_or_else(|| anyhow::anyhow!("the stream ended"))??;
        Ok(answer.ttl)
    }

    async fn left(&mut self, id: i64) -> anyhow::Result<i64> {
        let ask = LeaseTimeToLiveRequest { id, keys: false };
        Ok(self.lease.lease_time_to_live(ask).await?.into_inner().ttl)
    }

    /// Waits until a key is deleted, seen by a watch from `revision` on.
    async fn deleted(&self, key: &str, revision: i64) -> anyhow::Result<Instant> {
        let create = WatchCreateRequest {
            key: Bytes::copy_from_slice(key.as_bytes()),
            start_revision: revision,
            ..WatchCreateRequest::default()
        };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let requests = tokio_stream::once(create).chain(tokio_stream::pending());
        let mut answers = WatchClient::new(self.channel.clone()).watch(requests).await?.into_inner();
        loop {
            let answer = tokio::time::timeout(PATIENCE, answers.next()).await?;
            let answer = answer.ok_or_else(|| anyhow::anyhow!("the watch ended"))??;
            if answer.events.iter().any(|event| event.r#type() == EventType::Delete) {
                return Ok(Instant::now());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_ends_on_time() -> anyhow::Result<()> {
    let server = Server::start(&[])?;
    let mut client = Client::connect(&server).await?;
    let asked = Instant::now();
    client.grant(7, 2).await?;
    let answered = Instant::now();
    let revision = client.put("key", 7).await?;
    let ended = client.deleted("key", revision).await?;
    assert!(ended - asked >= Duration::from_secs(2), "ended after {:?}", ended - asked);
    // Due after two seconds; the rest is for a machine that does other things too.
    assert!(ended - answered < Duration::from_secs(4), "ended after {:?}", ended - answered);
    assert_eq!(client.keep_alive(7).await?, 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_goes_on_with_what_was_left() -> anyhow::Result<()> {
    let mut server = Server::start(&[])?;
    let mut client = Client::connect(&server).await?;
    let granted = Instant::now();
    client.grant(1, 60).await?;
    client.grant(2, 2).await?;
    let revision = client.put("key", 2).await?;
    // Whole seconds must pass for the clocks to show.
    client.deleted("key", revision).await?;
    client.grant(3, 60).await?;
    assert_eq!(client.keep_alive(3).await?, 60);
    let renewed = Instant::now();
    server.kill_and_restart()?;
    let mut client = Client::connect(&server).await?;
    let at_most = 60 - granted.elapsed().as_secs() as i64;
    let left = client.left(1).await?;
    assert!((at_most - 2..=at_most).contains(&left), "{left} s left of a lease that was never renewed, not {at_most}");
    let left = client.left(3).await?;
    assert!(left >= 59 - renewed.elapsed().as_secs() as i64, "{left} s left of a renewed lease");
    assert_eq!(client.left(2).await?, -1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stood_still_lets_renewals_come_first() -> anyhow::Result<()> {
    let mut server = Server::start(&[])?;
    let mut client = Client::connect(&server).await?;
    client.grant(5, 3).await?;
    let revision = client.put("key", 5).await?;
    server.process().pause();
    // The standstill is what the test is about: longer than the lease and the stall rule together.
    tokio::time::sleep(Duration::from_secs(6)).await;
    server.process().resume();
    let resumed = Instant::now();
    assert_eq!(client.keep_alive(5).await?, 3, "the lease ended before its owner could renew it");
    let ended = client.deleted("key", revision).await?;
    assert!(ended - resumed >= Duration::from_secs(3), "ended {:?} after the standstill", ended - resumed);
    Ok(())
}
