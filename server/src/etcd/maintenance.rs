//! The Maintenance service.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use listwatch_proto::etcd::etcdserverpb::{
    AlarmRequest, AlarmResponse, DefragmentRequest, DefragmentResponse, DowngradeInfo, DowngradeRequest,
    DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest, HashResponse, MoveLeaderRequest, MoveLeaderResponse,
    SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse, alarm_request::AlarmAction, maintenance_server,
};
use tokio::task::block_in_place;
use tonic::{Request, Response, Status};

use super::error::{self, Refusal};
use super::front::{Front, SERVER_VERSION};

/// The service.
#[derive(Debug)]
pub(super) struct Maintenance {
    front: Arc<Front>,
}

impl Maintenance {
    pub(super) fn new(front: Arc<Front>) -> Self {
        Self { front }
    }
}

#[tonic::async_trait]
impl maintenance_server::Maintenance for Maintenance {
    /// The store has no quota, so no alarm is ever raised: the list is empty and there is nothing to disarm.
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let request = request.into_inner();
        match AlarmAction::try_from(request.action) {
            Ok(AlarmAction::Get | AlarmAction::Deactivate) => {
                let header = Some(self.front.headers.at(self.front.engine.revision()));
                Ok(Response::new(AlarmResponse { header, alarms: Vec::new() }))
            }
            Ok(AlarmAction::Activate) => Err(error::unsupported("Alarm ACTIVATE")),
            Err(_) => Err(error::unknown_enum("alarm action", request.action)),
        }
    }

    async fn status(&self, _request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let status = self.front.engine.status();
        Ok(Response::new(StatusResponse {
            header: Some(self.front.headers.at(status.revision)),
            version: SERVER_VERSION.to_owned(),
            db_size: status.db_size,
            leader: status.member_id,
            raft_index: status.raft_index,
            raft_term: status.raft_term,
            raft_applied_index: status.raft_index,
            errors: status.poisoned.iter().map(ToString::to_string).collect(),
            db_size_in_use: status.db_size_in_use,
            is_learner: false,
            storage_version: SERVER_VERSION.to_owned(),
            db_size_quota: 0,
            downgrade_info: Some(DowngradeInfo::default()),
        }))
    }

    /// Space is given back as compaction goes on, so there is nothing to do and nobody is stopped meanwhile.
    async fn defragment(&self, _request: Request<DefragmentRequest>) -> Result<Response<DefragmentResponse>, Status> {
        Ok(Response::new(DefragmentResponse { header: None }))
    }

    async fn hash(&self, _request: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        let engine = &self.front.engine;
        let hash = block_in_place(|| engine.hash()).map_err(error::status)?;
        Ok(Response::new(HashResponse { header: Some(self.front.headers.at(engine.revision())), hash }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        let engine = &self.front.engine;
        let hashed = block_in_place(|| engine.hash_kv(request.into_inner().revision)).map_err(error::status)?;
        Ok(Response::new(HashKvResponse {
            header: Some(self.front.headers.at(engine.revision())),
            hash: hashed.hash,
            compact_revision: hashed.compact_revision,
            hash_revision: hashed.hash_revision,
        }))
    }

    type SnapshotStream = Pin<Box<dyn Stream<Item = Result<SnapshotResponse, Status>> + Send>>;

    async fn snapshot(&self, _request: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        Err(error::unsupported("Snapshot"))
    }

    async fn move_leader(&self, _request: Request<MoveLeaderRequest>) -> Result<Response<MoveLeaderResponse>, Status> {
        Err(Refusal::BadLeaderTransferee.into())
    }

    async fn downgrade(&self, _request: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        Err(error::unsupported("Downgrade"))
    }
}
