//! The store's one clock: a 64-bit counter that moves by one with each transaction that changes something.
//!
//! Invariants: an empty store stands at [`Revision::EMPTY`]; a revision is never used twice and never goes back, after
//! any crash (etcd 3.6).

use std::fmt;

/// A point in the store's history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub i64);

impl Revision {
    /// Where a store stands that was never written to; the first write makes the one after it.
    pub const EMPTY: Revision = Revision(1);

    /// The revision that follows.
    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A place inside history: the transaction (`main`) and the write within it (`sub`, from zero).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The transaction's revision.
    pub main: i64,
    /// The write's number within the transaction.
    pub sub: u32,
}
