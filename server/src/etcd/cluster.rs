//! The Cluster service of a store that has one member.

use std::sync::Arc;

use listwatch_proto::etcd::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest, MemberUpdateResponse,
    cluster_server,
};
use tonic::{Request, Response, Status};

use super::error::{self, Refusal};
use super::front::Front;

/// The service.
#[derive(Debug)]
pub(super) struct Cluster {
    front: Arc<Front>,
}

impl Cluster {
    pub(super) fn new(front: Arc<Front>) -> Self {
        Self { front }
    }

    /// Whether the id is ours; no other member exists.
    fn known(&self, id: u64) -> Result<(), Refusal> {
        if id == self.front.headers.member_id() { Ok(()) } else { Err(Refusal::MemberNotFound) }
    }
}

#[tonic::async_trait]
impl cluster_server::Cluster for Cluster {
    async fn member_add(&self, _request: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        Err(error::unsupported("MemberAdd"))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(Refusal::NotEnoughStartedMembers.into())
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(error::unsupported("MemberUpdate"))
    }

    async fn member_list(&self, _request: Request<MemberListRequest>) -> Result<Response<MemberListResponse>, Status> {
        let member = Member {
            id: self.front.headers.member_id(),
            name: self.front.options.name.clone(),
            peer_ur_ls: Vec::new(),
            client_ur_ls: self.front.options.client_urls.clone(),
            is_learner: false,
        };
        // Membership has no revision (etcd 3.6).
        Ok(Response::new(MemberListResponse { header: Some(self.front.headers.at(0)), members: vec![member] }))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        self.known(request.into_inner().id)?;
        Err(Refusal::NotLearner.into())
    }
}
