//! The Auth service of a store without users of its own: who may enter is decided at the connection, by certificate.
//!
//! Invariant: every answer is true of a store in which authentication is off and no user or role exists; what would
//! change that is refused by name.

use std::sync::Arc;

use listwatch_proto::etcd::etcdserverpb::{
    AuthDisableRequest, AuthDisableResponse, AuthEnableRequest, AuthEnableResponse, AuthRoleAddRequest,
    AuthRoleAddResponse, AuthRoleDeleteRequest, AuthRoleDeleteResponse, AuthRoleGetRequest, AuthRoleGetResponse,
    AuthRoleGrantPermissionRequest, AuthRoleGrantPermissionResponse, AuthRoleListRequest, AuthRoleListResponse,
    AuthRoleRevokePermissionRequest, AuthRoleRevokePermissionResponse, AuthStatusRequest, AuthStatusResponse,
    AuthUserAddRequest, AuthUserAddResponse, AuthUserChangePasswordRequest, AuthUserChangePasswordResponse,
    AuthUserDeleteRequest, AuthUserDeleteResponse, AuthUserGetRequest, AuthUserGetResponse, AuthUserGrantRoleRequest,
    AuthUserGrantRoleResponse, AuthUserListRequest, AuthUserListResponse, AuthUserRevokeRoleRequest,
    AuthUserRevokeRoleResponse, AuthenticateRequest, AuthenticateResponse, ResponseHeader, auth_server,
};
use tonic::{Request, Response, Status};

use super::error::{self, Refusal};
use super::front::Front;

/// The revision of a user store that was never changed (etcd 3.6).
const AUTH_REVISION: u64 = 1;

/// The service.
#[derive(Debug)]
pub(super) struct Auth {
    front: Arc<Front>,
}

impl Auth {
    pub(super) fn new(front: Arc<Front>) -> Self {
        Self { front }
    }

    fn header(&self) -> Option<ResponseHeader> {
        Some(self.front.headers.at(self.front.engine.revision()))
    }
}

#[tonic::async_trait]
impl auth_server::Auth for Auth {
    async fn auth_enable(&self, _request: Request<AuthEnableRequest>) -> Result<Response<AuthEnableResponse>, Status> {
        Err(error::unsupported("AuthEnable"))
    }

    async fn auth_disable(
        &self,
        _request: Request<AuthDisableRequest>,
    ) -> Result<Response<AuthDisableResponse>, Status> {
        Ok(Response::new(AuthDisableResponse { header: self.header() }))
    }

    async fn auth_status(&self, _request: Request<AuthStatusRequest>) -> Result<Response<AuthStatusResponse>, Status> {
        Ok(Response::new(AuthStatusResponse { header: self.header(), enabled: false, auth_revision: AUTH_REVISION }))
    }

    async fn authenticate(
        &self,
        _request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        Err(Refusal::AuthNotEnabled.into())
    }

    async fn user_add(&self, _request: Request<AuthUserAddRequest>) -> Result<Response<AuthUserAddResponse>, Status> {
        Err(error::unsupported("UserAdd"))
    }

    async fn user_get(&self, _request: Request<AuthUserGetRequest>) -> Result<Response<AuthUserGetResponse>, Status> {
        Err(Refusal::UserNotFound.into())
    }

    async fn user_list(
        &self,
        _request: Request<AuthUserListRequest>,
    ) -> Result<Response<AuthUserListResponse>, Status> {
        Ok(Response::new(AuthUserListResponse { header: self.header(), users: Vec::new() }))
    }

    async fn user_delete(
        &self,
        _request: Request<AuthUserDeleteRequest>,
    ) -> Result<Response<AuthUserDeleteResponse>, Status> {
        Err(Refusal::UserNotFound.into())
    }

    async fn user_change_password(
        &self,
        _request: Request<AuthUserChangePasswordRequest>,
    ) -> Result<Response<AuthUserChangePasswordResponse>, Status> {
        Err(Refusal::UserNotFound.into())
    }

    async fn user_grant_role(
        &self,
        _request: Request<AuthUserGrantRoleRequest>,
    ) -> Result<Response<AuthUserGrantRoleResponse>, Status> {
        Err(Refusal::UserNotFound.into())
    }

    async fn user_revoke_role(
        &self,
        _request: Request<AuthUserRevokeRoleRequest>,
    ) -> Result<Response<AuthUserRevokeRoleResponse>, Status> {
        Err(Refusal::UserNotFound.into())
    }

    async fn role_add(&self, _request: Request<AuthRoleAddRequest>) -> Result<Response<AuthRoleAddResponse>, Status> {
        Err(error::unsupported("RoleAdd"))
    }

    async fn role_get(&self, _request: Request<AuthRoleGetRequest>) -> Result<Response<AuthRoleGetResponse>, Status> {
        Err(Refusal::RoleNotFound.into())
    }

    async fn role_list(
        &self,
        _request: Request<AuthRoleListRequest>,
    ) -> Result<Response<AuthRoleListResponse>, Status> {
        Ok(Response::new(AuthRoleListResponse { header: self.header(), roles: Vec::new() }))
    }

    async fn role_delete(
        &self,
        _request: Request<AuthRoleDeleteRequest>,
    ) -> Result<Response<AuthRoleDeleteResponse>, Status> {
        Err(Refusal::RoleNotFound.into())
    }

    async fn role_grant_permission(
        &self,
        _request: Request<AuthRoleGrantPermissionRequest>,
    ) -> Result<Response<AuthRoleGrantPermissionResponse>, Status> {
        Err(Refusal::RoleNotFound.into())
    }

    async fn role_revoke_permission(
        &self,
        _request: Request<AuthRoleRevokePermissionRequest>,
    ) -> Result<Response<AuthRoleRevokePermissionResponse>, Status> {
        Err(Refusal::RoleNotFound.into())
    }
}
