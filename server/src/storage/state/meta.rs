//! The records under `meta/`: who the store is, how far it is, and what it must add up to.

use super::StateError;
use super::schema::{FORMAT, META_APPLIED, META_COMPACTIONS, META_FLOOR, META_FORMAT, META_IDENTITY, META_TOTALS};
use super::seam::{State, StateBatch};
use super::set_hash::SetHash;
use super::wire::{Decoder, Encoder};

/// Who this store is. Changed by a restore, so that a client of another history notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The incarnation id, a random text made when the store was created or restored.
    pub incarnation: String,
    /// etcd's cluster id.
    pub cluster_id: u64,
    /// etcd's member id.
    pub member_id: u64,
    /// etcd's raft term; moves with each change of identity.
    pub term: u64,
}

/// How far the log has been taken over.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// Last log sequence number whose changes are all in the tree.
    pub seq: u64,
    /// The store's revision there.
    pub revision: i64,
}

/// A compaction that was answered and has not yet moved the retained floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingFloor {
    /// The compacted revision.
    pub revision: i64,
    /// When it was asked for, by the wall clock, in milliseconds since 1970.
    pub wall_ms: i64,
}

/// The compactions promised at `applied`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Compactions {
    /// The compacted revision, as the etcd door promises it.
    pub compacted: i64,
    /// Those not yet old enough for the retained floor, oldest first.
    pub pending: Vec<PendingFloor>,
}

/// What is physically kept.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// The retained floor: every revision from it on can be read. Never goes back.
    pub retained: i64,
    /// The floor up to which `base/` and the tombstones are put right; the log is needed from here on. Behind
    /// `retained` only while a floor advance is under way or was cut by a crash.
    pub settled: i64,
}

/// What the tree must add up to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Live records under `cur/`.
    pub live: u64,
    /// Tombstones under `cur/`.
    pub tombstones: u64,
    /// Set hash of `cur/`.
    pub current: SetHash,
    /// Records under `base/`.
    pub bases: u64,
    /// Set hash of `base/`.
    pub base: SetHash,
    /// Records under `lease/`.
    pub leases: u64,
    /// Set hash of `lease/`.
    pub lease: SetHash,
}

/// Everything under `meta/`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is described at its type")]
pub struct StateMeta {
    pub identity: Identity,
    pub applied: Applied,
    pub compactions: Compactions,
    pub floor: Floor,
    pub totals: Totals,
}

impl StateMeta {
    /// Reads what an earlier run left; `None` if there is nothing at all.
    pub(super) fn load(state: &dyn State) -> Result<Option<Self>, StateError> {
        let Some(format) = state.get(META_FORMAT)? else { return Ok(None) };
        let mut d = Decoder::new(META_FORMAT, &format);
        let found = d.u32_fixed()?;
        if found > FORMAT {
            return Err(StateError::Format { found, supported: FORMAT });
        }
        d.finish()?;
        Ok(Some(StateMeta {
            identity: read(state, META_IDENTITY, decode_identity)?,
            applied: read(state, META_APPLIED, decode_applied)?,
            compactions: read(state, META_COMPACTIONS, decode_compactions)?,
            floor: read(state, META_FLOOR, decode_floor)?,
            totals: read(state, META_TOTALS, decode_totals)?,
        }))
    }

    /// Writes all of it, format included.
    pub(super) fn write_all(&self, batch: &mut StateBatch) {
        let mut e = Encoder(Vec::new());
        e.u32_fixed(FORMAT);
        batch.put(META_FORMAT.to_vec(), e.seal(META_FORMAT));
        self.identity.write(batch);
        self.applied.write(batch);
        self.compactions.write(batch);
        self.floor.write(batch);
        self.totals.write(batch);
    }
}

impl Identity {
    pub(super) fn write(&self, batch: &mut StateBatch) {
        let mut e = Encoder(Vec::new());
        e.bytes(self.incarnation.as_bytes());
        e.u64(self.cluster_id);
        e.u64(self.member_id);
        e.u64(self.term);
        batch.put(META_IDENTITY.to_vec(), e.seal(META_IDENTITY));
    }
}

impl Applied {
    pub(super) fn write(&self, batch: &mut StateBatch) {
        let mut e = Encoder(Vec::new());
        e.u64(self.seq);
        e.i64(self.revision);
        batch.put(META_APPLIED.to_vec(), e.seal(META_APPLIED));
    }
}

impl Compactions {
    pub(super) fn write(&self, batch: &mut StateBatch) {
        let mut e = Encoder(Vec::new());
        e.i64(self.compacted);
        e.u64(self.pending.len() as u64);
        for pending in &self.pending {
            e.i64(pending.revision);
            e.i64(pending.wall_ms);
        }
        batch.put(META_COMPACTIONS.to_vec(), e.seal(META_COMPACTIONS));
    }
}

impl Floor {
    pub(super) fn write(&self, batch: &mut StateBatch) {
        let mut e = Encoder(Vec::new());
        e.i64(self.retained);
        e.i64(self.settled);
        batch.put(META_FLOOR.to_vec(), e.seal(META_FLOOR));
    }
}

impl Totals {
    pub(super) fn write(&self, batch: &mut StateBatch) {
        let mut e = Encoder(Vec::new());
        e.u64(self.live);
        e.u64(self.tombstones);
        e.u128_fixed(self.current.0);
        e.u64(self.bases);
        e.u128_fixed(self.base.0);
        e.u64(self.leases);
        e.u128_fixed(self.lease.0);
        batch.put(META_TOTALS.to_vec(), e.seal(META_TOTALS));
    }
}

fn read<T>(
    state: &dyn State,
    key: &[u8],
    decode: fn(&mut Decoder<'_>) -> Result<T, StateError>,
) -> Result<T, StateError> {
    let entry = state.get(key)?;
    let entry = entry.ok_or_else(|| StateError::damaged(key.escape_ascii().to_string(), "the record is missing"))?;
    let mut d = Decoder::new(key, &entry);
    let value = decode(&mut d)?;
    d.finish()?;
    Ok(value)
}

fn decode_identity(d: &mut Decoder<'_>) -> Result<Identity, StateError> {
    Ok(Identity { incarnation: d.text()?.to_owned(), cluster_id: d.u64()?, member_id: d.u64()?, term: d.u64()? })
}

fn decode_applied(d: &mut Decoder<'_>) -> Result<Applied, StateError> {
    Ok(Applied { seq: d.u64()?, revision: d.i64()? })
}

fn decode_compactions(d: &mut Decoder<'_>) -> Result<Compactions, StateError> {
    let compacted = d.i64()?;
    let mut pending = Vec::new();
    for _ in 0..d.u64()? {
        pending.push(PendingFloor { revision: d.i64()?, wall_ms: d.i64()? });
    }
    Ok(Compactions { compacted, pending })
}

fn decode_floor(d: &mut Decoder<'_>) -> Result<Floor, StateError> {
    Ok(Floor { retained: d.i64()?, settled: d.i64()? })
}

fn decode_totals(d: &mut Decoder<'_>) -> Result<Totals, StateError> {
    Ok(Totals {
        live: d.u64()?,
        tombstones: d.u64()?,
        current: SetHash(d.u128_fixed()?),
        bases: d.u64()?,
        base: SetHash(d.u128_fixed()?),
        leases: d.u64()?,
        lease: SetHash(d.u128_fixed()?),
    })
}
