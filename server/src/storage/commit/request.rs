//! What can be asked of the log, and the answers.

use bytes::Bytes;

use crate::storage::state::LeaseRecord;
use crate::storage::{Origin, Txn, TxnResult};

/// A request that goes through the log.
#[derive(Debug)]
pub enum Request {
    /// A transaction.
    Txn {
        /// What to do.
        txn: Txn,
        /// Who asks.
        origin: Origin,
    },
    /// A lease is to begin.
    LeaseGrant {
        /// Its id; 0 = draw one.
        id: i64,
        /// Its time to live in seconds.
        ttl_secs: i64,
    },
    /// A lease lives on; the record must be durable before the answer.
    LeaseRenew(LeaseRecord),
    /// Leases end, each with its keys in one revision.
    LeaseRevoke {
        /// Their ids.
        ids: Vec<i64>,
        /// Who asks.
        origin: Origin,
        /// Whether leases that were renewed meanwhile are passed over.
        only_due: bool,
    },
    /// History below a revision is given up.
    Compact {
        /// The new floor.
        revision: i64,
        /// Whether the physical floor goes along at once, and an older revision is no error.
        expire: bool,
    },
    /// A fact about the store is kept.
    Meta {
        /// Its name.
        name: Bytes,
        /// Its content.
        content: Bytes,
    },
}

/// Which requests may share a frame: the evaluation of one kind must not depend on what another has not published yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Transactions, with each other.
    Txn,
    /// Grants and renewals, with each other.
    Lease,
    /// Anything else, alone.
    Alone,
}

impl Request {
    /// The request's class.
    pub fn class(&self) -> Class {
        match self {
            Request::Txn { .. } => Class::Txn,
            Request::LeaseGrant { .. } | Request::LeaseRenew(_) => Class::Lease,
            Request::LeaseRevoke { .. } | Request::Compact { .. } | Request::Meta { .. } => Class::Alone,
        }
    }
}

/// The answer to a [`Request`].
#[derive(Debug)]
pub enum Reply {
    /// To a transaction.
    Txn(TxnResult),
    /// To a grant.
    Lease(LeaseRecord),
    /// To anything else: where the store stands.
    Done {
        /// The revision after it.
        revision: i64,
    },
}
