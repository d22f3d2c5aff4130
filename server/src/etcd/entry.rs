//! Who may enter the door, by what the connection has proved.
//!
//! etcd lets in every certificate of its authority. Where that authority also signs the certificates of nodes and
//! components, as under `lw up`, this would give each of them every key and so every object, past the rules of the
//! resource API: then only members of one group enter. Invariants: a refusal is an answer (gRPC's `PermissionDenied`, or
//! HTTP's 403), never a broken handshake, and names who was refused and why; what tells nothing of the keys (health and
//! version) is open to whoever the handshake lets in.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use tonic::Status;

use crate::transport::{Peer, PeerIdentity};

/// How much of the body of a refused request is read, and for how long: one message, not a stream that stays open.
const REFUSED_BODY_BYTES_MAX: usize = 64 << 10;
const REFUSED_BODY_WAIT_MAX: Duration = Duration::from_millis(200);

/// What is open to everybody: probes must work with any certificate.
const OPEN: [&str; 6] =
    ["/version", "/health", "/livez", "/readyz", "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"];

/// Who may enter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// Whoever the handshake lets in, as with etcd.
    #[default]
    Anybody,
    /// Of those who come by TLS, who holds a certificate of this group (an organization in its subject).
    Group(&'static str),
}

impl Entry {
    /// Why a peer may not enter; `Ok` = it may. Plain text proves nothing and is opened by its own flag.
    fn judge(self, peer: Option<&Peer>) -> Result<(), String> {
        let Entry::Group(group) = self else { return Ok(()) };
        let who = match peer.map(|peer| &peer.identity) {
            Some(PeerIdentity::Plain) => return Ok(()),
            Some(PeerIdentity::Certificate(user)) if user.groups.iter().any(|own| own == group) => return Ok(()),
            Some(PeerIdentity::Certificate(user)) => {
                format!("user {:?} (groups=[{}])", user.name, user.groups.join(" "))
            }
            Some(PeerIdentity::Refused(why)) => format!("a client without a name ({why})"),
            Some(PeerIdentity::Nobody) | None => "a client without a certificate".to_owned(),
        };
        Err(format!(
            "etcdserver: permission denied: {who} is not of the group {group:?}, the only one that may use this port: \
             it gives every key without further rules"
        ))
    }
}

/// Middleware: lets a request through, or answers why not.
pub(super) async fn guard(State(entry): State<Entry>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if OPEN.iter().any(|open| path == *open || is_check_of(path, open)) {
        return next.run(request).await;
    }
    match entry.judge(request.extensions().get::<Peer>()) {
        Ok(()) => next.run(request).await,
        Err(why) => refuse(request, why).await,
    }
}

/// `/livez/NAME` and `/readyz/NAME`.
fn is_check_of(path: &str, open: &str) -> bool {
    matches!(open, "/livez" | "/readyz") && path.strip_prefix(open).is_some_and(|rest| rest.starts_with('/'))
}

async fn refuse(request: Request, why: String) -> Response {
    let (parts, body) = request.into_parts();
    // An answer ahead of the body resets the stream, and some clients then show the reset instead of the answer.
    let drained = axum::body::to_bytes(body, REFUSED_BODY_BYTES_MAX);
    let _ = tokio::time::timeout(REFUSED_BODY_WAIT_MAX, drained).await;
    let is_grpc =
        parts.headers.get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        return Status::permission_denied(why).into_http::<tonic::body::Body>().map(Body::new);
    }
    (StatusCode::FORBIDDEN, why).into_response()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::transport::CertificateUser;

    fn peer(identity: PeerIdentity) -> Peer {
        Peer { address: ([127, 0, 0, 1], 1).into(), identity }
    }

    fn holder(name: &str, groups: &[&str]) -> Peer {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        peer(PeerIdentity::Certificate(Arc::new(CertificateUser { name: name.to_owned(), groups })))
    }

    #[test]
    fn one_group_enters_and_everybody_else_is_named() {
        let entry = Entry::Group("system:masters");
        let judge = |peer: &Peer| entry.judge(Some(peer));
        assert_eq!(judge(&holder("kubernetes-admin", &["x", "system:masters"])), Ok(()));
        assert_eq!(judge(&peer(PeerIdentity::Plain)), Ok(()));
        assert_eq!(
            judge(&holder("system:node:node01", &["system:nodes"])).expect_err("a node"),
            "etcdserver: permission denied: user \"system:node:node01\" (groups=[system:nodes]) is not of the group \
             \"system:masters\", the only one that may use this port: it gives every key without further rules"
        );
        // A name is no group, and part of a group's name is not the group.
        for refused in [
            holder("system:masters", &[]),
            holder("x", &["system:masters:x", "system:master", "System:Masters"]),
            peer(PeerIdentity::Nobody),
            peer(PeerIdentity::Refused("client certificate: the certificate has no common name".into())),
        ] {
            assert!(judge(&refused).is_err(), "{refused:?}");
        }
        assert!(entry.judge(None).is_err());
        assert_eq!(Entry::Anybody.judge(Some(&holder("system:node:node01", &["system:nodes"]))), Ok(()));
    }

    #[test]
    fn only_checks_stand_below_what_is_open() {
        assert!(is_check_of("/livez/serializable_read", "/livez") && is_check_of("/readyz/x", "/readyz"));
        assert!(!is_check_of("/livezx", "/livez") && !is_check_of("/version/x", "/version"));
    }
}
