//! What the gRPC layer refuses by itself, told in the form of everything else.
//!
//! A request that is too large or is no message never reaches a verb: tonic answers it with a bare code, of which a
//! client could not tell a message too large from history that has gone. Both answers are heads without a body, and the
//! door's own errors all carry details, so they can be told apart and put right here.

use http::{HeaderMap, Response};
use listwatch_proto::resource::{Reason, Status};
use tonic::Code;
use tonic::body::Body;

/// The same answer, or the typed error that it stands for.
pub(super) fn typed(response: Response<Body>) -> Response<Body> {
    match refusal(response.headers()) {
        Some(status) => tonic::Status::from(status).into_http(),
        None => response,
    }
}

fn refusal(head: &HeaderMap) -> Option<Status> {
    // Looked at first, so that answers that succeed cost one look.
    if !head.contains_key("grpc-status") || head.contains_key("grpc-status-details-bin") {
        return None;
    }
    let bare = tonic::Status::from_header_map(head)?;
    match bare.code() {
        Code::OutOfRange | Code::ResourceExhausted => {
            let message = format!("Request entity too large: {}", bare.message());
            Some(Status::new(Reason::RequestEntityTooLarge, message))
        }
        Code::Internal => Some(Status::bad_request(format!("the request cannot be read: {}", bare.message()))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: tonic::Status) -> Status {
        let answer = typed(status.into_http());
        Status::from_grpc(&tonic::Status::from_header_map(answer.headers()).expect("a head with a status"))
    }

    #[test]
    fn bare_refusals_become_typed_and_others_stay() {
        assert_eq!(told(tonic::Status::out_of_range("9 bytes")).reason, Reason::RequestEntityTooLarge);
        assert_eq!(told(tonic::Status::internal("no message")).reason, Reason::BadRequest);
        assert_eq!(told(tonic::Status::unimplemented("no method")).grpc_code(), Code::Unimplemented);
        let expired = Status::expired(1, 2, 3);
        assert_eq!(told(expired.clone().into()), expired);
        let internal = Status::internal("a fault of the server");
        assert_eq!(told(internal.clone().into()), internal);
        assert!(refusal(&HeaderMap::new()).is_none());
    }
}
