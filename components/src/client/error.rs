//! What may go wrong in a call, and what a caller may do about it.

use std::path::PathBuf;
use std::time::Duration;

use listwatch_proto::resource::{Reason, STATUS_TYPE_URL, Status};

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server has answered with a failure. Retry if [`Error::is_transient`].
    #[error("{0}")]
    Status(Box<Status>),
    /// The server was not reached, or the connection broke before the answer: the call may or may not have been done.
    #[error("the server is not reachable: {reason}")]
    Transport {
        /// What the transport says, with its causes.
        reason: String,
        /// The error as it came.
        #[source]
        source: Box<tonic::Status>,
    },
    /// No answer in time: the call may or may not have been done.
    #[error("no answer from the server within {after:?}")]
    Deadline {
        /// The time that was given.
        after: Duration,
    },
    /// An object does not read as the type that was asked for. Retrying does not help.
    #[error("cannot read {kind} {name:?} from the server")]
    Decode {
        /// Kind of the object.
        kind: String,
        /// Namespace and name.
        name: String,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// An object cannot be written as JSON. Retrying does not help.
    #[error("cannot write the object as JSON")]
    Encode(#[source] serde_json::Error),
    /// The write was not sent: this process may have lost the Lease by which it leads.
    #[error("not written: the lease of this leader may have run out")]
    NotLeading,
    /// The server serves no such kind, or no longer: nothing can be said about its objects.
    #[error("the server does not serve {0}")]
    NotServed(String),
    /// The answer breaks the contract (a part that must be there is missing).
    #[error("the server's answer lacks {0}")]
    Incomplete(&'static str),
}

impl Error {
    /// The error of a gRPC call that was given so long: the transport may notice the end of it before we do.
    pub(super) fn from_grpc_within(error: tonic::Status, after: Duration) -> Self {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(cause) = next {
            if cause.is::<tonic::TimeoutExpired>() {
                return Error::Deadline { after };
            }
            next = cause.source();
        }
        Self::from_grpc(error)
    }

    /// The error of a gRPC call.
    pub(super) fn from_grpc(error: tonic::Status) -> Self {
        if is_from_server(&error) {
            return Error::Status(Box::new(Status::from_grpc(&error)));
        }
        Error::Transport { reason: causes(&error), source: Box::new(error) }
    }

    /// The server's status, if it answered with one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Error::Status(status) => Some(status),
            _ => None,
        }
    }

    /// Whether the server gave this reason.
    pub fn is(&self, reason: Reason) -> bool {
        self.status().is_some_and(|s| s.reason == reason)
    }

    /// The object does not exist (any more).
    pub fn is_not_found(&self) -> bool {
        self.is(Reason::NotFound)
    }

    /// The server knows no such resource, or serves it no longer: its answer names no object, so that it says nothing of
    /// one. (That an object is not there is told by its name.)
    pub fn is_not_served(&self) -> bool {
        self.status().is_some_and(|s| s.reason == Reason::NotFound && s.kind.is_empty() && s.name.is_empty())
    }

    /// The identity may not do this, or not as things are.
    pub fn is_forbidden(&self) -> bool {
        self.is(Reason::Forbidden)
    }

    /// The namespace goes, so nothing new may come into it.
    pub fn is_namespace_terminating(&self) -> bool {
        self.status().is_some_and(|status| status.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
    }

    /// The object has changed or a precondition does not hold: read again and decide anew.
    pub fn is_conflict(&self) -> bool {
        self.is(Reason::Conflict)
    }

    /// An object of that name exists.
    pub fn is_already_exists(&self) -> bool {
        self.is(Reason::AlreadyExists)
    }

    /// History no longer reaches back so far: list again.
    pub fn is_expired(&self) -> bool {
        self.is(Reason::Expired)
    }

    /// The object breaks the rules of its kind.
    pub fn is_invalid(&self) -> bool {
        self.is(Reason::Invalid)
    }

    /// The write was not sent, because this process may lead no more.
    pub fn is_not_leading(&self) -> bool {
        matches!(self, Error::NotLeading)
    }

    /// The call may succeed when repeated as it is, later: the server is away, starting, stopping or busy. Whether it
    /// has been done already is not known.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Transport { .. } | Error::Deadline { .. } => true,
            Error::Status(status) => {
                matches!(status.reason, Reason::Timeout | Reason::TooManyRequests | Reason::ServiceUnavailable)
            }
            Error::Decode { .. }
            | Error::Encode(_)
            | Error::NotLeading
            | Error::NotServed(_)
            | Error::Incomplete(_) => false,
        }
    }
}

/// A status with our details was made by the server; so were the codes that the transport itself never makes.
fn is_from_server(error: &tonic::Status) -> bool {
    use std::error::Error as _;
    use tonic::Code;
    let has_details = error.details().windows(STATUS_TYPE_URL.len()).any(|w| w == STATUS_TYPE_URL.as_bytes());
    let transport_code = matches!(error.code(), Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled);
    has_details || (!transport_code && error.source().is_none())
}

/// The error with its causes, in one line, without repeating what a cause's own text already says.
fn causes(error: &tonic::Status) -> String {
    let mut text = error.message().to_owned();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let words = cause.to_string();
        if !text.contains(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
        next = cause.source();
    }
    text
}

/// A client that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The address is not `https://host:port` or `http://host:port`.
    #[error("server address {address:?}: {reason}")]
    Address {
        /// As given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificates that cannot be used.
    #[error("{what}: {reason}")]
    Tls {
        /// `certificate authority`, `client certificate`, `client key`.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A text that cannot travel as gRPC metadata.
    #[error("{what} holds characters that cannot be sent in a header")]
    Header {
        /// `token`, `client name`.
        what: &'static str,
    },
    /// A file that cannot be read.
    #[error("read {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A kubeconfig that does not say what is needed.
    #[error("kubeconfig {path}: {reason}", path = path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is wrong or missing.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::resource::Kind;

    #[test]
    fn a_missing_kind_is_told_from_a_missing_object() {
        let pods = Kind::by_name("pods").expect("known");
        let answered = |status: Status| Error::from_grpc(status.into());
        let object = answered(Status::not_found(pods, "a"));
        assert!(object.is_not_found() && !object.is_not_served(), "{object}");
        let kind =
            answered(Status::new(Reason::NotFound, "the server could not find the requested resource: x of y/v1"));
        assert!(kind.is_not_found() && kind.is_not_served(), "{kind}");
        assert!(!answered(Status::internal("x")).is_not_served());
    }
}
