//! The header of every answer.

use listwatch_proto::etcd::etcdserverpb::ResponseHeader;

use crate::storage::EngineStatus;

/// Makes headers; what it knows stays the same while the server runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderSource {
    cluster_id: u64,
    member_id: u64,
    raft_term: u64,
}

impl HeaderSource {
    pub(super) fn new(status: &EngineStatus) -> Self {
        Self { cluster_id: status.cluster_id, member_id: status.member_id, raft_term: status.raft_term }
    }

    /// The header of an answer given at `revision`.
    pub(super) fn at(&self, revision: i64) -> ResponseHeader {
        ResponseHeader { cluster_id: self.cluster_id, member_id: self.member_id, revision, raft_term: self.raft_term }
    }

    pub(super) fn member_id(&self) -> u64 {
        self.member_id
    }
}

/// The header of an answer within a transaction: the revision alone (etcd 3.6).
pub(super) fn inner(revision: i64) -> ResponseHeader {
    ResponseHeader { revision, ..ResponseHeader::default() }
}
