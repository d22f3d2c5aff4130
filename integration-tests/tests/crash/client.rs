//! The etcd calls of the test, in its own words.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use listwatch_proto::etcd::etcdserverpb::kv_client::KvClient;
use listwatch_proto::etcd::etcdserverpb::lease_client::LeaseClient;
use listwatch_proto::etcd::etcdserverpb::request_op::Request;
use listwatch_proto::etcd::etcdserverpb::watch_client::WatchClient;
use listwatch_proto::etcd::etcdserverpb::watch_request::RequestUnion;
use listwatch_proto::etcd::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest,
    RangeRequest, RequestOp, TxnRequest, WatchCreateRequest, WatchRequest,
};
use listwatch_proto::etcd::mvccpb::KeyValue;
use listwatch_proto::etcd::mvccpb::event::EventType;
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};

/// No single answer may take longer.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);

/// Keys changed by one revision: the new value, or `None` for a deletion.
pub(crate) type Changes = BTreeMap<Bytes, Option<Bytes>>;

/// Time to live of the leases: none ends during the test.
const LEASE_SECS: i64 = 5_000;

/// A connection to the server under test.
#[derive(Clone)]
pub(crate) struct Client {
    channel: Channel,
    kv: KvClient<Channel>,
    lease: LeaseClient<Channel>,
}

/// A read of everything.
pub(crate) struct Snapshot {
    pub(crate) revision: i64,
    pub(crate) kvs: BTreeMap<Bytes, KeyValue>,
}

impl Client {
    pub(crate) async fn connect(endpoint: &str) -> anyhow::Result<Client> {
        let channel = Endpoint::from_shared(endpoint.to_owned())?.timeout(ANSWER_LIMIT).connect().await?;
        let kv = KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
        let lease = LeaseClient::new(channel.clone());
        Ok(Client { channel, kv, lease })
    }

    /// Puts or deletes the keys in one transaction; answers its revision.
    pub(crate) async fn write(&mut self, changes: &Changes) -> Result<i64, tonic::Status> {
        let success = changes.iter().map(|(key, value)| RequestOp { request: Some(request(key, value.as_ref())) });
        let txn = TxnRequest { success: success.collect(), ..TxnRequest::default() };
        let answer = self.kv.txn(txn).await?.into_inner();
        Ok(answer.header.unwrap_or_default().revision)
    }

    /// Puts one key without a transaction.
    pub(crate) async fn put(&mut self, key: &Bytes, value: &Bytes) -> Result<i64, tonic::Status> {
        let put = PutRequest { key: key.clone(), value: value.clone(), ..PutRequest::default() };
        Ok(self.kv.put(put).await?.into_inner().header.unwrap_or_default().revision)
    }

    /// Puts one key on a lease.
    pub(crate) async fn put_leased(&mut self, key: &Bytes, value: &Bytes, lease: i64) -> Result<i64, tonic::Status> {
        let put = PutRequest { key: key.clone(), value: value.clone(), lease, ..PutRequest::default() };
        Ok(self.kv.put(put).await?.into_inner().header.unwrap_or_default().revision)
    }

    /// A new lease.
    pub(crate) async fn grant(&mut self) -> Result<i64, tonic::Status> {
        Ok(self.lease.lease_grant(LeaseGrantRequest { ttl: LEASE_SECS, id: 0 }).await?.into_inner().id)
    }

    /// Ends a lease; answers the revision that deleted its keys.
    pub(crate) async fn revoke(&mut self, id: i64) -> Result<i64, tonic::Status> {
        let answer = self.lease.lease_revoke(LeaseRevokeRequest { id }).await?.into_inner();
        Ok(answer.header.unwrap_or_default().revision)
    }

    /// The keys of a lease; `None` if it is gone.
    pub(crate) async fn lease_keys(&self, id: i64) -> anyhow::Result<Option<Vec<Bytes>>> {
        let ask = LeaseTimeToLiveRequest { id, keys: true };
        let answer = self.lease.clone().lease_time_to_live(ask).await?.into_inner();
        if answer.ttl < 0 {
            return Ok(None);
        }
        anyhow::ensure!(answer.granted_ttl == LEASE_SECS, "lease {id} was granted {} s", answer.granted_ttl);
        anyhow::ensure!(answer.ttl > LEASE_SECS - 1_000, "lease {id} has only {} s left", answer.ttl);
        Ok(Some(answer.keys))
    }

    pub(crate) async fn compact(&mut self, revision: i64, physical: bool) -> Result<(), tonic::Status> {
        self.kv.compact(CompactionRequest { revision, physical }).await.map(drop)
    }

    /// Everything at `revision`, 0 for now.
    pub(crate) async fn read_all(&self, revision: i64) -> Result<Snapshot, tonic::Status> {
        let everything = Bytes::from_static(&[0]);
        let range =
            RangeRequest { key: everything.clone(), range_end: everything, revision, ..RangeRequest::default() };
        let answer = self.kv.clone().range(range).await?.into_inner();
        let revision = answer.header.unwrap_or_default().revision;
        Ok(Snapshot { revision, kvs: answer.kvs.into_iter().map(|kv| (kv.key.clone(), kv)).collect() })
    }

    /// What every revision from `from` to `to` changed, by a watch.
    pub(crate) async fn history(&self, from: i64, to: i64) -> anyhow::Result<BTreeMap<i64, Changes>> {
        let mut history: BTreeMap<i64, Changes> = BTreeMap::new();
        if from > to {
            return Ok(history);
        }
        let everything = Bytes::from_static(&[0]);
        let create = WatchCreateRequest {
            key: everything.clone(),
            range_end: everything,
            start_revision: from,
            ..WatchCreateRequest::default()
        };
        let create = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        let requests = tokio_stream::once(create).chain(tokio_stream::pending());
        let mut watch = WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        let mut answers = watch.watch(requests).await?.into_inner();
        let mut last = from - 1;
        while last < to {
            let answer = tokio::time::timeout(ANSWER_LIMIT, answers.next()).await;
            let answer = answer.with_context(|| format!("the watch stands still at {last} of {to}"))?;
            let answer = answer.context("the watch ended")??;
            anyhow::ensure!(!answer.canceled, "the watch from {from} was cancelled: {answer:?}");
            for event in answer.events {
                let kind = event.r#type();
                let kv = event.kv.context("an event without a key")?;
                anyhow::ensure!(kv.mod_revision >= last, "revision {} after {last}", kv.mod_revision);
                last = kv.mod_revision;
                let value = (kind == EventType::Put).then_some(kv.value);
                let twice = history.entry(last).or_default().insert(kv.key.clone(), value);
                anyhow::ensure!(twice.is_none(), "revision {last} tells {:?} twice", kv.key);
            }
        }
        Ok(history)
    }
}

fn request(key: &Bytes, value: Option<&Bytes>) -> Request {
    match value {
        Some(value) => {
            Request::RequestPut(PutRequest { key: key.clone(), value: value.clone(), ..PutRequest::default() })
        }
        None => Request::RequestDeleteRange(DeleteRangeRequest { key: key.clone(), ..DeleteRangeRequest::default() }),
    }
}
