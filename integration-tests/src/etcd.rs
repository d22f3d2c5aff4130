//! A plain etcd v3 client for tests: the generated stubs, with short ways to say the usual.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use listwatch_proto::etcd::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest,
    RangeResponse, RequestOp, TxnRequest, TxnResponse, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest,
    WatchRequest, WatchResponse,
    auth_client::AuthClient,
    cluster_client::ClusterClient,
    compare::{CompareResult, CompareTarget, TargetUnion},
    kv_client::KvClient,
    lease_client::LeaseClient,
    maintenance_client::MaintenanceClient,
    request_op::Request,
    watch_client::WatchClient,
    watch_request::RequestUnion,
};
use listwatch_proto::etcd::mvccpb::{Event, event::EventType};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

/// Within this time whatever a test waits for must come.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Stubs of every service on one connection.
#[derive(Clone, Debug)]
pub struct Client {
    /// The connection.
    pub channel: Channel,
    /// KV, without a limit on what it receives.
    pub kv: KvClient<Channel>,
    /// Lease.
    pub lease: LeaseClient<Channel>,
    /// Maintenance.
    pub maintenance: MaintenanceClient<Channel>,
    /// Cluster.
    pub cluster: ClusterClient<Channel>,
    /// Auth.
    pub auth: AuthClient<Channel>,
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// If nobody answers.
    pub async fn connect(endpoint: &str) -> anyhow::Result<Client> {
        let channel = Endpoint::from_shared(endpoint.to_owned())?.tcp_nodelay(true).connect().await;
        let channel = channel.with_context(|| format!("connect to {endpoint}"))?;
        Ok(Client {
            kv: KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            lease: LeaseClient::new(channel.clone()),
            maintenance: MaintenanceClient::new(channel.clone()),
            cluster: ClusterClient::new(channel.clone()),
            auth: AuthClient::new(channel.clone()),
            channel,
        })
    }

    /// Writes a key.
    ///
    /// # Errors
    /// What the server answers.
    pub async fn put(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<PutResponse, Status> {
        let request = PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() };
        Ok(self.kv.clone().put(request).await?.into_inner())
    }

    /// Writes a key; answers the revision.
    ///
    /// # Errors
    /// What the server answers.
    pub async fn put_at(&self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Result<i64, Status> {
        Ok(revision(&self.put(key, value).await?.header))
    }

    /// Reads.
    ///
    /// # Errors
    /// What the server answers.
    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Status> {
        Ok(self.kv.clone().range(request).await?.into_inner())
    }

    /// Deletes a key, or up to an end.
    ///
    /// # Errors
    /// What the server answers.
    pub async fn delete(
        &self,
        key: impl Into<Bytes>,
        range_end: impl Into<Bytes>,
    ) -> Result<DeleteRangeResponse, Status> {
        let request = DeleteRangeRequest { key: key.into(), range_end: range_end.into(), prev_kv: true };
        Ok(self.kv.clone().delete_range(request).await?.into_inner())
    }

    /// Runs a transaction.
    ///
    /// # Errors
    /// What the server answers.
    pub async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Status> {
        Ok(self.kv.clone().txn(request).await?.into_inner())
    }

    /// Compacts.
    ///
    /// # Errors
    /// What the server answers.
    pub async fn compact(&self, revision: i64) -> Result<(), Status> {
        self.kv.clone().compact(CompactionRequest { revision, physical: false }).await.map(drop)
    }

    /// The store's revision.
    ///
    /// # Errors
    /// What the server answers.
    pub async fn revision(&self) -> Result<i64, Status> {
        Ok(revision(&self.range(get("revision?")).await?.header))
    }

    /// Opens a stream for watches.
    pub fn watch_stream(&self) -> WatchStream {
        let (requests, receiver) = mpsc::channel(16);
        let mut client = WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        // A server may hold its headers back until it has an answer, so the first request must not wait for them.
        let opening = tokio::spawn(async move { Ok(client.watch(ReceiverStream::new(receiver)).await?.into_inner()) });
        WatchStream { requests: Some(requests), answers: Answers::Opening(opening) }
    }

    /// A stream with one watch, created.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn watch(&self, request: WatchCreateRequest) -> anyhow::Result<WatchStream> {
        let mut stream = self.watch_stream();
        let created = stream.create(request).await?;
        anyhow::ensure!(!created.canceled, "refused: {}", created.cancel_reason);
        Ok(stream)
    }
}

/// A stream of watches.
#[derive(Debug)]
pub struct WatchStream {
    requests: Option<mpsc::Sender<WatchRequest>>,
    answers: Answers,
}

/// The half of a stream that the server writes.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a test holds a handful of them")]
enum Answers {
    Opening(JoinHandle<Result<Streaming<WatchResponse>, Status>>),
    Open(Streaming<WatchResponse>),
}

impl Answers {
    async fn message(&mut self) -> anyhow::Result<Option<WatchResponse>> {
        if let Answers::Opening(opening) = self {
            *self = Answers::Open(opening.await??);
        }
        match self {
            Answers::Open(answers) => Ok(answers.message().await?),
            Answers::Opening(_) => anyhow::bail!("still opening"),
        }
    }
}

impl WatchStream {
    /// Sends a request.
    ///
    /// # Errors
    /// If the stream is over.
    pub async fn send(&self, request: RequestUnion) -> anyhow::Result<()> {
        let requests = self.requests.as_ref().context("half-closed")?;
        requests.send(WatchRequest { request_union: Some(request) }).await.context("the stream is over")
    }

    /// Creates a watch and takes the next answer, which must be about that.
    ///
    /// # Errors
    /// If the next answer is about something else.
    pub async fn create(&mut self, request: WatchCreateRequest) -> anyhow::Result<WatchResponse> {
        self.send(RequestUnion::CreateRequest(request)).await?;
        let created = self.next().await?;
        anyhow::ensure!(created.created, "not an answer to create: {created:?}");
        Ok(created)
    }

    /// Asks for the end of a watch.
    ///
    /// # Errors
    /// If the stream is over.
    pub async fn cancel(&self, watch_id: i64) -> anyhow::Result<()> {
        self.send(RequestUnion::CancelRequest(WatchCancelRequest { watch_id })).await
    }

    /// Asks for progress.
    ///
    /// # Errors
    /// If the stream is over.
    pub async fn ask_progress(&self) -> anyhow::Result<()> {
        self.send(RequestUnion::ProgressRequest(WatchProgressRequest {})).await
    }

    /// Says that no more requests come.
    pub fn half_close(&mut self) {
        self.requests = None;
    }

    /// The next answer.
    ///
    /// # Errors
    /// If none comes in [`LIMIT`], or the stream ends.
    pub async fn next(&mut self) -> anyhow::Result<WatchResponse> {
        let answer = tokio::time::timeout(LIMIT, self.answers.message()).await.context("no answer in time")?;
        answer?.context("the stream ended")
    }

    /// The next `count` events; answers without any are an error.
    ///
    /// # Errors
    /// As [`WatchStream::next`], and if the watch is cancelled.
    pub async fn events(&mut self, count: usize) -> anyhow::Result<Vec<Event>> {
        let mut events = Vec::new();
        while events.len() < count {
            let answer = self.next().await?;
            anyhow::ensure!(!answer.canceled && !answer.events.is_empty(), "no events: {answer:?}");
            events.extend(answer.events);
        }
        anyhow::ensure!(events.len() == count, "{} events instead of {count}", events.len());
        Ok(events)
    }

    /// The events of the next answer; progress has none.
    ///
    /// # Errors
    /// As [`WatchStream::next`], and if the watch is cancelled.
    pub async fn events_of_next(&mut self) -> anyhow::Result<Vec<Event>> {
        let answer = self.next().await?;
        anyhow::ensure!(!answer.canceled, "cancelled: {answer:?}");
        Ok(answer.events)
    }

    /// Whether nothing comes for this time.
    pub async fn silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.answers.message()).await.is_err()
    }
}

/// The revision in a header.
pub fn revision(header: &Option<listwatch_proto::etcd::etcdserverpb::ResponseHeader>) -> i64 {
    header.as_ref().map_or(0, |header| header.revision)
}

/// The end of the range of all keys with this beginning.
pub fn prefix_end(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("a prefix is not empty") += 1;
    end.into()
}

/// A read of one key.
pub fn get(key: impl Into<Bytes>) -> RangeRequest {
    RangeRequest { key: key.into(), ..RangeRequest::default() }
}

/// A read of all keys with a beginning.
pub fn list(prefix: &str) -> RangeRequest {
    RangeRequest { key: prefix.to_owned().into(), range_end: prefix_end(prefix), ..RangeRequest::default() }
}

/// A watch of all keys with a beginning.
pub fn watch_prefix(prefix: &str, start_revision: i64) -> WatchCreateRequest {
    WatchCreateRequest {
        key: prefix.to_owned().into(),
        range_end: prefix_end(prefix),
        start_revision,
        ..WatchCreateRequest::default()
    }
}

/// A write within a transaction.
pub fn put_op(key: impl Into<Bytes>, value: impl Into<Bytes>) -> RequestOp {
    op(Request::RequestPut(PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() }))
}

/// A read within a transaction.
pub fn range_op(request: RangeRequest) -> RequestOp {
    op(Request::RequestRange(request))
}

/// A deletion within a transaction.
pub fn delete_op(key: impl Into<Bytes>, range_end: impl Into<Bytes>) -> RequestOp {
    op(Request::RequestDeleteRange(DeleteRangeRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..DeleteRangeRequest::default()
    }))
}

/// A transaction within a transaction.
pub fn txn_op(request: TxnRequest) -> RequestOp {
    op(Request::RequestTxn(request))
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

/// A guard on one key.
pub fn guard(key: impl Into<Bytes>, result: CompareResult, value: TargetUnion) -> Compare {
    let target = match value {
        TargetUnion::Version(_) => CompareTarget::Version,
        TargetUnion::CreateRevision(_) => CompareTarget::Create,
        TargetUnion::ModRevision(_) => CompareTarget::Mod,
        TargetUnion::Value(_) => CompareTarget::Value,
        TargetUnion::Lease(_) => CompareTarget::Lease,
    };
    Compare {
        result: result.into(),
        target: target.into(),
        key: key.into(),
        target_union: Some(value),
        range_end: Bytes::new(),
    }
}

/// An event as `PUT key=value@revision` or `DELETE key@revision`.
pub fn told(event: &Event) -> String {
    let kv = event.kv.clone().unwrap_or_default();
    let key = kv.key.escape_ascii();
    match event.r#type() {
        EventType::Put => format!("PUT {key}={}@{}", kv.value.escape_ascii(), kv.mod_revision),
        EventType::Delete => format!("DELETE {key}@{}", kv.mod_revision),
    }
}
