//! Random operations over few keys, so that they meet each other often, and answers evened out for comparison.

use bytes::Bytes;
use listwatch_integration_tests::etcd::{Client, guard, revision};
use listwatch_proto::etcd::etcdserverpb::compare::{CompareResult, TargetUnion};
use listwatch_proto::etcd::etcdserverpb::range_request::{SortOrder, SortTarget};
use listwatch_proto::etcd::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest, LeaseLeasesRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp,
    ResponseHeader, TxnRequest, TxnResponse, request_op::Request,
};
use rand::Rng;
use rand::rngs::StdRng;
use tonic::{Code, Status};

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Range(RangeRequest),
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(CompactionRequest),
    Grant(LeaseGrantRequest),
    Revoke(LeaseRevokeRequest),
    TimeToLive(LeaseTimeToLiveRequest),
    Leases,
}

/// What a server answered, evened out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Range(RangeResponse),
    Put(PutResponse),
    Delete(DeleteRangeResponse),
    Txn(TxnResponse),
    /// The revision in the header.
    Compact(i64),
    /// Revision, id, seconds.
    Grant(i64, i64, i64),
    Revoke(i64),
    /// Revision, whether it lives, seconds granted, keys.
    TimeToLive(i64, bool, i64, Vec<Bytes>),
    Leases(Vec<i64>),
    Refused(Code, String),
}

impl Call {
    pub(crate) fn put(key: &'static str, value: &'static str) -> Call {
        Call::Put(PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() })
    }

    /// Asks one server.
    pub(crate) async fn ask(&self, client: &Client) -> Answer {
        let answer = self.answer(client).await;
        answer.unwrap_or_else(|status| Answer::Refused(status.code(), status.message().to_owned()))
    }

    async fn answer(&self, client: &Client) -> Result<Answer, Status> {
        let (mut kv, mut lease) = (client.kv.clone(), client.lease.clone());
        Ok(match self.clone() {
            Call::Range(request) => {
                let mut response = kv.range(request.clone()).await?.into_inner();
                even(&mut response.header);
                sort_alike(&request, &mut response);
                Answer::Range(response)
            }
            Call::Put(request) => {
                let mut response = kv.put(request).await?.into_inner();
                even(&mut response.header);
                Answer::Put(response)
            }
            Call::Delete(request) => {
                let mut response = kv.delete_range(request).await?.into_inner();
                even(&mut response.header);
                Answer::Delete(response)
            }
            Call::Txn(request) => {
                let mut response = kv.txn(request).await?.into_inner();
                even(&mut response.header);
                Answer::Txn(response)
            }
            Call::Compact(request) => Answer::Compact(revision(&kv.compact(request).await?.into_inner().header)),
            Call::Grant(request) => {
                let response = lease.lease_grant(request).await?.into_inner();
                Answer::Grant(revision(&response.header), response.id, response.ttl)
            }
            Call::Revoke(request) => Answer::Revoke(revision(&lease.lease_revoke(request).await?.into_inner().header)),
            Call::TimeToLive(request) => {
                let mut response = lease.lease_time_to_live(request).await?.into_inner();
                response.keys.sort();
                let alive = response.ttl > 0;
                Answer::TimeToLive(revision(&response.header), alive, response.granted_ttl, response.keys)
            }
            Call::Leases => {
                let response = lease.lease_leases(LeaseLeasesRequest {}).await?.into_inner();
                let mut ids: Vec<i64> = response.leases.iter().map(|lease| lease.id).collect();
                ids.sort_unstable();
                Answer::Leases(ids)
            }
        })
    }
}

impl Answer {
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self, Answer::Refused(..))
    }

    /// The store's revision as the answer tells it; 0 if it does not.
    pub(crate) fn revision(&self) -> i64 {
        match self {
            Answer::Range(response) => revision(&response.header),
            Answer::Put(response) => revision(&response.header),
            Answer::Delete(response) => revision(&response.header),
            Answer::Txn(response) => revision(&response.header),
            Answer::Compact(at) | Answer::Grant(at, ..) | Answer::Revoke(at) | Answer::TimeToLive(at, ..) => *at,
            Answer::Leases(_) | Answer::Refused(..) => 0,
        }
    }
}

/// Leaves only the revision.
fn even(header: &mut Option<ResponseHeader>) {
    if let Some(header) = header {
        *header = ResponseHeader { revision: header.revision, ..ResponseHeader::default() };
    }
}

/// Puts keys that sort equal into key order; fails if the order is not the one asked for.
fn sort_alike(request: &RangeRequest, response: &mut RangeResponse) {
    let target = request.sort_target();
    if target == SortTarget::Key {
        return;
    }
    let property = |kv: &listwatch_proto::etcd::mvccpb::KeyValue| match target {
        SortTarget::Version => kv.version.to_be_bytes().to_vec(),
        SortTarget::Create => kv.create_revision.to_be_bytes().to_vec(),
        SortTarget::Mod => kv.mod_revision.to_be_bytes().to_vec(),
        SortTarget::Key | SortTarget::Value => kv.value.to_vec(),
    };
    let descends = request.sort_order() == SortOrder::Descend;
    let ordered = response.kvs.is_sorted_by(|a, b| {
        let (a, b) = (property(a), property(b));
        if descends { a >= b } else { a <= b }
    });
    // Values that were left out cannot be looked at.
    assert!(ordered || request.keys_only, "not in the order asked for: {request:?} {response:?}");
    response.kvs.sort_by(|a, b| a.key.cmp(&b.key));
}

/// What the generator knows of the stores.
pub(crate) struct State {
    revision: i64,
    compacts: bool,
}

/// Leases that the traffic uses.
const LEASES: i64 = 6;

impl State {
    pub(crate) fn new() -> State {
        State { revision: 1, compacts: true }
    }

    pub(crate) fn without_compaction() -> State {
        State { revision: 1, compacts: false }
    }

    pub(crate) fn learn(&mut self, revision: i64) {
        self.revision = self.revision.max(revision);
    }

    /// The next operation.
    pub(crate) fn next(&self, random: &mut StdRng) -> Call {
        match random.random_range(0..100) {
            0..30 => Call::Put(self.put(random)),
            30..50 => Call::Range(self.range(random, false)),
            50..60 => Call::Delete(self.delete(random)),
            60..85 => Call::Txn(self.txn(random, 2)),
            85..87 if self.compacts => {
                let revision = random.random_range(self.revision - 30..=self.revision + 1);
                Call::Compact(CompactionRequest { revision, physical: random.random() })
            }
            87..91 => {
                // Long enough never to end during the test, with some that the server must raise or refuse.
                let ttl = [600, 3600, 9_000_000_001][random.random_range(0..3)];
                Call::Grant(LeaseGrantRequest { ttl, id: lease(random) })
            }
            91..94 => Call::Revoke(LeaseRevokeRequest { id: lease(random) }),
            94..97 => Call::TimeToLive(LeaseTimeToLiveRequest { id: lease(random), keys: true }),
            97 => Call::Leases,
            _ => Call::Range(self.range(random, false)),
        }
    }

    fn put(&self, random: &mut StdRng) -> PutRequest {
        let ignore_value = random.random_bool(0.1);
        let ignore_lease = random.random_bool(0.1);
        PutRequest {
            key: key(random),
            value: if ignore_value && random.random_bool(0.8) { Bytes::new() } else { value(random) },
            lease: if !ignore_value && random.random_bool(0.2) { lease(random) } else { 0 },
            prev_kv: random.random(),
            ignore_value,
            ignore_lease,
        }
    }

    fn range(&self, random: &mut StdRng, within: bool) -> RangeRequest {
        let (key, range_end) = span(random, within);
        let near = |random: &mut StdRng| {
            if random.random_bool(0.15) { random.random_range(1..=self.revision + 1) } else { 0 }
        };
        let sort_target = if random.random_bool(0.3) { random.random_range(0..=4) } else { 0 };
        let at = if random.random_bool(0.3) { random.random_range(self.revision - 20..=self.revision + 1) } else { 0 };
        // What sorts equal may be cut differently by a limit.
        let limit = if sort_target == 0 && random.random_bool(0.4) { random.random_range(-1..6) } else { 0 };
        RangeRequest {
            key,
            range_end,
            limit,
            revision: if within { at.max(0) } else { at },
            sort_order: random.random_range(0..=2),
            sort_target,
            serializable: random.random(),
            keys_only: random.random_bool(0.2),
            count_only: random.random_bool(0.15),
            min_mod_revision: near(random),
            max_mod_revision: near(random),
            min_create_revision: near(random),
            max_create_revision: near(random),
        }
    }

    fn delete(&self, random: &mut StdRng) -> DeleteRangeRequest {
        let (key, range_end) = span(random, true);
        DeleteRangeRequest { key, range_end, prev_kv: random.random() }
    }

    fn txn(&self, random: &mut StdRng, depth: usize) -> TxnRequest {
        let ops = |random: &mut StdRng| -> Vec<RequestOp> {
            (0..random.random_range(0..4)).map(|_| self.op(random, depth)).collect()
        };
        TxnRequest {
            compare: (0..random.random_range(0..3)).map(|_| self.compare(random)).collect(),
            success: ops(random),
            failure: ops(random),
        }
    }

    fn op(&self, random: &mut StdRng, depth: usize) -> RequestOp {
        let request = match random.random_range(0..100) {
            0..40 => Some(Request::RequestPut(self.put(random))),
            40..65 => {
                // Sorting within a transaction would need the evening out of ties there.
                let range = RangeRequest { sort_target: 0, ..self.range(random, true) };
                Some(Request::RequestRange(range))
            }
            65..85 => Some(Request::RequestDeleteRange(self.delete(random))),
            85..99 if depth > 0 => Some(Request::RequestTxn(self.txn(random, depth - 1))),
            85..99 => Some(Request::RequestPut(self.put(random))),
            _ => None,
        };
        RequestOp { request }
    }

    fn compare(&self, random: &mut StdRng) -> Compare {
        let number = |random: &mut StdRng| random.random_range(self.revision - 5..=self.revision);
        let value = match random.random_range(0..5) {
            0 => TargetUnion::Version(random.random_range(0..4)),
            1 => TargetUnion::CreateRevision(number(random)),
            2 => TargetUnion::ModRevision(number(random)),
            3 => TargetUnion::Value(value(random)),
            _ => TargetUnion::Lease(lease(random) * random.random_range(0..2)),
        };
        let result = [CompareResult::Equal, CompareResult::Greater, CompareResult::Less, CompareResult::NotEqual];
        let (key, range_end) = span(random, true);
        Compare { range_end, ..guard(key, result[random.random_range(0..4)], value) }
    }
}

fn key(random: &mut StdRng) -> Bytes {
    match random.random_range(0..60) {
        0 => Bytes::new(),
        number => format!("k{}", number % 10).into(),
    }
}

fn value(random: &mut StdRng) -> Bytes {
    format!("{}", random.random_range(0..20)).into()
}

fn lease(random: &mut StdRng) -> i64 {
    random.random_range(1..=LEASES)
}

/// A key, or a range of keys; ranges without end only outside of transactions and deletions.
fn span(random: &mut StdRng, bounded: bool) -> (Bytes, Bytes) {
    let end = match random.random_range(0..10) {
        0..5 => Bytes::new(),
        5 if !bounded => Bytes::from_static(b"\0"),
        _ => format!("k{}", random.random_range(0..12)).into(),
    };
    (key(random), end)
}
