//! What can be asked of the store: etcd's operations without its protocol.
//!
//! The doors check what is a matter of the protocol (op limits, duplicate keys, unknown enum numbers); what needs the
//! state (leases, existing keys, revisions) is checked by the engine, before anything is written.

use bytes::Bytes;

/// Where a range of keys ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RangeEnd {
    /// The range is the one key.
    Single,
    /// All keys below this one.
    Before(Bytes),
    /// All keys to the last.
    Unbounded,
}

/// A set of neighbouring keys, from `key` on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRange {
    /// The first key.
    pub key: Bytes,
    /// Where it ends.
    pub end: RangeEnd,
}

impl KeyRange {
    /// One key.
    pub fn single(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), end: RangeEnd::Single }
    }

    /// Every key there is.
    pub fn all() -> Self {
        Self { key: Bytes::new(), end: RangeEnd::Unbounded }
    }

    /// `key` and everything up to, not including, `end`.
    pub fn between(key: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self { key: key.into(), end: RangeEnd::Before(end.into()) }
    }

    /// All keys that begin with `prefix`: the end is the prefix with its last byte raised by one, after dropping
    /// trailing 0xff bytes; nothing left means no end (etcd 3.6).
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let key: Bytes = prefix.into();
        let kept = key.iter().rposition(|byte| *byte != 0xff).map(|last| last + 1).unwrap_or(0);
        if kept == 0 {
            return Self { key, end: RangeEnd::Unbounded };
        }
        let mut end = key[..kept].to_vec();
        end[kept - 1] += 1;
        Self { key, end: RangeEnd::Before(end.into()) }
    }

    /// etcd's pair: an empty end is the single key, an end of one zero byte has no end (etcd 3.6).
    pub fn from_etcd(key: Bytes, range_end: Bytes) -> Self {
        let end = match &range_end[..] {
            [] => RangeEnd::Single,
            [0] => RangeEnd::Unbounded,
            _ => RangeEnd::Before(range_end),
        };
        Self { key, end }
    }

    /// Whether the key belongs to the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            RangeEnd::Single => self.key == key,
            RangeEnd::Before(end) => self.key <= key && key < &end[..],
            RangeEnd::Unbounded => self.key <= key,
        }
    }

    /// Whether no key can belong to the range.
    pub fn is_empty(&self) -> bool {
        matches!(&self.end, RangeEnd::Before(end) if end <= &self.key)
    }

    /// Whether the range names one key.
    pub fn is_single(&self) -> bool {
        self.end == RangeEnd::Single
    }
}

/// By what a range answer is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortTarget {
    /// By key.
    Key,
    /// By version.
    Version,
    /// By create revision.
    Create,
    /// By mod revision.
    Mod,
    /// By value.
    Value,
}

/// In which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortOrder {
    /// Smallest first.
    Ascend,
    /// Largest first.
    Descend,
}

/// A read of keys at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeOp {
    /// The keys.
    pub range: KeyRange,
    /// At which revision; 0 (or below) = the latest.
    pub revision: i64,
    /// How many at most; 0 = all.
    pub limit: usize,
    /// The order; `None` = by key, ascending. Equal ones stay in key order.
    pub sort: Option<(SortTarget, SortOrder)>,
    /// Leave values out.
    pub keys_only: bool,
    /// Leave everything but the count out; the four filters are not looked at (etcd 3.6).
    pub count_only: bool,
    /// Inclusive; 0 = off.
    pub min_mod_revision: i64,
    /// Inclusive; 0 = off.
    pub max_mod_revision: i64,
    /// Inclusive; 0 = off.
    pub min_create_revision: i64,
    /// Inclusive; 0 = off.
    pub max_create_revision: i64,
}

impl RangeOp {
    /// The whole range at the latest revision.
    pub fn new(range: KeyRange) -> Self {
        Self {
            range,
            revision: 0,
            limit: 0,
            sort: None,
            keys_only: false,
            count_only: false,
            min_mod_revision: 0,
            max_mod_revision: 0,
            min_create_revision: 0,
            max_create_revision: 0,
        }
    }

    /// One key at the latest revision.
    pub fn get(key: impl Into<Bytes>) -> Self {
        Self::new(KeyRange::single(key))
    }

    /// Whether any of the four revision filters is on.
    pub fn is_filtered(&self) -> bool {
        self.min_mod_revision != 0
            || self.max_mod_revision != 0
            || self.min_create_revision != 0
            || self.max_create_revision != 0
    }
}

/// The answer to a [`RangeOp`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeResult {
    /// What was found.
    pub kvs: Vec<crate::storage::KeyValue>,
    /// Whether the limit cut something off.
    pub more: bool,
    /// How many keys the range holds at that revision, whatever limit and filters say.
    pub count: i64,
    /// The store's current revision, also when an older one was read.
    pub revision: i64,
}

/// A write of one key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutOp {
    /// The key.
    pub key: Bytes,
    /// The new value; not looked at with `ignore_value`.
    pub value: Bytes,
    /// The lease to hang the key on; 0 = none, which also takes it off the one it hung on.
    pub lease: i64,
    /// Answer with what was there before.
    pub prev_kv: bool,
    /// Keep the value; an error if there is none.
    pub ignore_value: bool,
    /// Keep the lease; an error if there is no such key.
    pub ignore_lease: bool,
}

impl PutOp {
    /// A plain write.
    pub fn new(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self { key: key.into(), value: value.into(), ..Self::default() }
    }
}

/// The answer to a [`PutOp`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutResult {
    /// What was there before, if asked for.
    pub prev: Option<crate::storage::KeyValue>,
}

/// A deletion of all keys in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteOp {
    /// The keys.
    pub range: KeyRange,
    /// Answer with what was there before.
    pub prev_kv: bool,
}

/// The answer to a [`DeleteOp`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteResult {
    /// How many keys were deleted.
    pub deleted: i64,
    /// What was there before, in key order, if asked for.
    pub prevs: Vec<crate::storage::KeyValue>,
}

/// What a guard looks at, with the value it compares to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareTarget {
    /// The key's version; 0 if it does not exist.
    Version(i64),
    /// The key's create revision; 0 if it does not exist.
    Create(i64),
    /// The key's mod revision; 0 if it does not exist.
    Mod(i64),
    /// The key's value; a key that does not exist fails whatever the operator (etcd 3.6).
    Value(Bytes),
    /// The key's lease; 0 if it does not exist.
    Lease(i64),
}

/// How a guard compares: the key's property on the left, the given value on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareResult {
    /// Equal.
    Equal,
    /// The key's is greater.
    Greater,
    /// The key's is less.
    Less,
    /// Not equal.
    NotEqual,
}

/// A guard of a transaction. Over a range all keys must satisfy it; an empty range counts as one missing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The keys.
    pub range: KeyRange,
    /// What is looked at.
    pub target: CompareTarget,
    /// The operator.
    pub result: CompareResult,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// A read.
    Range(RangeOp),
    /// A write.
    Put(PutOp),
    /// A deletion.
    Delete(DeleteOp),
    /// A transaction within.
    Txn(Txn),
}

impl Op {
    /// Whether the operation could change something, whichever way guards are decided. A nested transaction counts as
    /// able to, if one of its operations is.
    pub fn may_write(&self) -> bool {
        match self {
            Op::Range(_) => false,
            Op::Put(_) | Op::Delete(_) => true,
            Op::Txn(txn) => txn.may_write(),
        }
    }
}

/// Guards, and what to do when all hold or one does not. All of it happens at one revision or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// The guards, judged on the state before the transaction; none means success.
    pub compares: Vec<Compare>,
    /// Done in order when all hold.
    pub success: Vec<Op>,
    /// Done in order otherwise.
    pub failure: Vec<Op>,
}

impl Txn {
    /// One operation without guards.
    pub fn of(op: Op) -> Self {
        Self { compares: Vec::new(), success: vec![op], failure: Vec::new() }
    }

    /// One plain write.
    pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        Self::of(Op::Put(PutOp::new(key, value)))
    }

    /// One deletion.
    pub fn delete(range: KeyRange) -> Self {
        Self::of(Op::Delete(DeleteOp { range, prev_kv: false }))
    }

    /// Whether the transaction could change something.
    pub fn may_write(&self) -> bool {
        self.success.iter().chain(&self.failure).any(Op::may_write)
    }
}

/// The answer to one [`Op`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpResult {
    /// To a read.
    Range(RangeResult),
    /// To a write.
    Put(PutResult),
    /// To a deletion.
    Delete(DeleteResult),
    /// To a transaction within.
    Txn(TxnResult),
}

/// The answer to a [`Txn`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnResult {
    /// Whether all guards held.
    pub succeeded: bool,
    /// The answers of that branch's operations, in order.
    pub results: Vec<OpResult>,
    /// The transaction's own revision if it changed something, else the store's current one.
    pub revision: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_prefix(prefix: &'static [u8], end: RangeEnd) {
        assert_eq!(KeyRange::prefix(prefix).end, end, "prefix {prefix:?}");
    }

    #[test]
    fn prefix_ends() {
        check_prefix(b"a", RangeEnd::Before(Bytes::from_static(b"b")));
        check_prefix(b"a\xff", RangeEnd::Before(Bytes::from_static(b"b")));
        check_prefix(b"\xff\xff", RangeEnd::Unbounded);
        check_prefix(b"", RangeEnd::Unbounded);
    }

    #[test]
    fn etcd_ends() {
        let from = |end: &'static [u8]| KeyRange::from_etcd(Bytes::from_static(b"k"), Bytes::from_static(end));
        assert_eq!(from(b""), KeyRange::single("k"));
        assert_eq!(from(b"\0").end, RangeEnd::Unbounded);
        assert!(from(b"k").is_empty());
        assert!(from(b"a").is_empty());
        assert!(from(b"l").contains(b"kk"));
        assert!(!from(b"l").contains(b"l"));
        assert!(!from(b"").contains(b"kk"));
    }
}
