//! From what went wrong to gRPC codes: the only place of the door that knows them.
//!
//! Invariant: code and text of every [`Refusal`] equal etcd 3.6's to the letter, since clients rebuild typed errors from
//! the text. What etcd does not have is said in our own words behind its prefix.

use tonic::{Code, Status};

use crate::storage::Error;

/// An error that etcd has, with its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    EmptyKey,
    KeyNotFound,
    ValueProvided,
    LeaseProvided,
    TooManyOps,
    DuplicateKey,
    InvalidSortOption,
    Compacted,
    FutureRevision,
    RequestTooLarge,
    TooManyRequests,
    LeaseNotFound,
    LeaseExists,
    LeaseTtlTooLarge,
    MemberNotFound,
    NotLearner,
    NotEnoughStartedMembers,
    BadLeaderTransferee,
    UserNotFound,
    RoleNotFound,
    AuthNotEnabled,
    Stopped,
    Corrupt,
}

impl Refusal {
    const fn parts(self) -> (Code, &'static str) {
        match self {
            Self::EmptyKey => (Code::InvalidArgument, "etcdserver: key is not provided"),
            Self::KeyNotFound => (Code::InvalidArgument, "etcdserver: key not found"),
            Self::ValueProvided => (Code::InvalidArgument, "etcdserver: value is provided"),
            Self::LeaseProvided => (Code::InvalidArgument, "etcdserver: lease is provided"),
            Self::TooManyOps => (Code::InvalidArgument, "etcdserver: too many operations in txn request"),
            Self::DuplicateKey => (Code::InvalidArgument, "etcdserver: duplicate key given in txn request"),
            Self::InvalidSortOption => (Code::InvalidArgument, "etcdserver: invalid sort option"),
            Self::Compacted => (Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted"),
            Self::FutureRevision => (Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision"),
            Self::RequestTooLarge => (Code::InvalidArgument, "etcdserver: request is too large"),
            Self::TooManyRequests => (Code::ResourceExhausted, "etcdserver: too many requests"),
            Self::LeaseNotFound => (Code::NotFound, "etcdserver: requested lease not found"),
            Self::LeaseExists => (Code::FailedPrecondition, "etcdserver: lease already exists"),
            Self::LeaseTtlTooLarge => (Code::OutOfRange, "etcdserver: too large lease TTL"),
            Self::MemberNotFound => (Code::NotFound, "etcdserver: member not found"),
            Self::NotLearner => (Code::FailedPrecondition, "etcdserver: can only promote a learner member"),
            Self::NotEnoughStartedMembers => {
                (Code::FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members")
            }
            Self::BadLeaderTransferee => (Code::FailedPrecondition, "etcdserver: bad leader transferee"),
            Self::UserNotFound => (Code::FailedPrecondition, "etcdserver: user name not found"),
            Self::RoleNotFound => (Code::FailedPrecondition, "etcdserver: role name not found"),
            Self::AuthNotEnabled => (Code::FailedPrecondition, "etcdserver: authentication is not enabled"),
            Self::Stopped => (Code::Unavailable, "etcdserver: server stopped"),
            Self::Corrupt => (Code::DataLoss, "etcdserver: corrupt cluster"),
        }
    }

    /// The text, which a watch carries in `cancel_reason`.
    pub(super) fn text(self) -> &'static str {
        self.parts().1
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let (code, text) = refusal.parts();
        Status::new(code, text)
    }
}

/// The answer to a request that the store could not serve.
pub(super) fn status(error: Error) -> Status {
    let refusal = match error {
        Error::Compacted { .. } => Refusal::Compacted,
        Error::FutureRevision { .. } => Refusal::FutureRevision,
        Error::KeyNotFound => Refusal::KeyNotFound,
        Error::EmptyKey => Refusal::EmptyKey,
        Error::LeaseNotFound(_) => Refusal::LeaseNotFound,
        Error::LeaseExists(_) => Refusal::LeaseExists,
        Error::LeaseTtlTooLarge(_) => Refusal::LeaseTtlTooLarge,
        Error::DuplicateKey => Refusal::DuplicateKey,
        Error::TooLarge { .. } => Refusal::RequestTooLarge,
        Error::Busy => Refusal::TooManyRequests,
        Error::Closed => Refusal::Stopped,
        Error::Damaged { .. } => {
            tracing::error!(%error, "a request met damaged data");
            Refusal::Corrupt
        }
        // etcd ends its process where these arise, so it has no texts for them.
        Error::Poisoned { .. } => return Status::unavailable(format!("etcdserver: {error}")),
        // As etcd tells of a full disk.
        Error::NoSpace { .. } => return Status::resource_exhausted(format!("etcdserver: {}", error.told())),
        other => {
            tracing::error!(error = other.detail(), "a request failed in the store");
            return Status::internal(format!("etcdserver: {}", other.told()));
        }
    };
    refusal.into()
}

/// The answer to a method or an option that etcd has and this server does not.
pub(super) fn unsupported(what: &str) -> Status {
    Status::unimplemented(format!("etcdserver: {what} is not supported by this server"))
}

/// The answer to a number that names nothing in one of etcd's enumerations.
pub(super) fn unknown_enum(what: &str, number: i32) -> Status {
    Status::invalid_argument(format!("etcdserver: unknown {what} {number}"))
}

/// The answer to a message above what the transport accepts (grpc-go's text, since clients look for it).
pub(super) fn message_too_large(bytes: &str, limit: usize) -> Status {
    Status::resource_exhausted(format!("grpc: received message larger than max ({bytes} vs. {limit})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_errors_have_etcds_codes_and_texts() {
        let check = |error: Error, code: Code, text: &str| {
            let status = status(error);
            assert_eq!((status.code(), status.message()), (code, text));
        };
        check(
            Error::Compacted { requested: 1, compacted: 2 },
            Code::OutOfRange,
            "etcdserver: mvcc: required revision has been compacted",
        );
        check(Error::KeyNotFound, Code::InvalidArgument, "etcdserver: key not found");
        check(Error::LeaseNotFound(7), Code::NotFound, "etcdserver: requested lease not found");
        check(Error::LeaseExists(7), Code::FailedPrecondition, "etcdserver: lease already exists");
        check(Error::Closed, Code::Unavailable, "etcdserver: server stopped");
    }
}
