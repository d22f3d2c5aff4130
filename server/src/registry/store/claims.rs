//! Claims: what one object at a time may hold, each under a key of its own.
//!
//! Invariants: a claim's key is written in the commit that writes its holder, guarded that it was not there, and removed in
//! the commit that takes it from the holder. So two objects never hold the same, whatever races or crashes, with as many
//! servers as there are; and what is given back is free at once.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use listwatch_proto::resource::{KINDS, Kind, Object, Status, time};
use serde_json::json;

use crate::registry::current::{Beside, Current, ROUNDS_MAX};
use crate::registry::kinds::{Allocation, Claim, Draw, Ground, strategy};
use crate::registry::stored::encode;
use crate::registry::{Commit, Guard, Registry, Write};
use crate::storage::{KeyRange, Origin};

/// Where claims are kept. Kubernetes keeps its allocators' state below the same prefix.
const PREFIX: &str = "/registry/ranges/";
/// After so many draws that were taken, all that is taken is read.
const DRAWS_MAX: usize = 8;

/// Values known to be taken, by pool.
type Taken = HashSet<(&'static str, String)>;

impl Registry {
    /// Fills in what the server hands out, and looks whether what the object asks for is free. `old`: what it replaces.
    ///
    /// # Errors
    /// What the object asks for is taken or cannot be had.
    pub(in crate::registry) async fn allot(
        &self,
        kind: &'static Kind,
        object: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
    ) -> Result<(), Status> {
        let Some(allocation) = strategy(kind).allocation() else { return Ok(()) };
        let objects = self.ground(allocation).await?;
        let ground = Ground { pools: &self.shared.options.pools, objects: &objects, dry_run };
        let asked = object.clone();
        let before = old.map(|old| allocation.claims(old)).unwrap_or_default();
        let mut taken = Taken::new();
        for draws in 0.. {
            *object = asked.clone();
            let completed = {
                let mut chance = rand::rng();
                allocation.complete(object, old, &ground, &mut Draw { taken: &taken, chance: &mut chance })
            };
            completed?;
            let mut all_free = true;
            for claim in allocation.claims(object).into_iter().filter(|claim| !before.contains(claim)) {
                if !self.is_free(&claim).await? {
                    all_free = false;
                    taken.insert((claim.pool, claim.value));
                }
            }
            if all_free {
                break;
            }
            if draws == DRAWS_MAX {
                self.read_taken(allocation, object, &mut taken).await?;
            }
        }
        Ok(())
    }

    /// The objects that an allocation looks at.
    async fn ground(&self, allocation: &dyn Allocation) -> Result<Vec<Object>, Status> {
        let Some(kind) = allocation.looks_at() else { return Ok(Vec::new()) };
        let page = self.shared.store.range(&KeyRange::prefix(kind.collection_key("")), 0, 0).await?;
        Ok(page.kvs.into_iter().filter_map(|kv| Current::of(kv).ok()).map(|current| current.object).collect())
    }

    async fn is_free(&self, claim: &Claim) -> Result<bool, Status> {
        for key in keys(claim) {
            if self.shared.store.get(&key).await?.0.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Learns all that is taken of the pools that the object draws from.
    async fn read_taken(&self, allocation: &dyn Allocation, object: &Object, taken: &mut Taken) -> Result<(), Status> {
        let claims = allocation.claims(object);
        let pools: HashSet<&'static str> = claims.iter().map(|claim| claim.pool).collect();
        let mut prefixes: HashSet<(&'static str, String)> = HashSet::new();
        for pool in pools {
            prefixes.insert((pool, format!("{PREFIX}{pool}/")));
        }
        for claim in &claims {
            if let Some(sign) = &claim.sign {
                prefixes.insert((claim.pool, sign.kind.collection_key("")));
            }
        }
        for (pool, prefix) in prefixes {
            let page = self.shared.store.range(&KeyRange::prefix(prefix.clone()), 0, 0).await?;
            let values = page.kvs.iter().filter_map(|kv| std::str::from_utf8(&kv.key).ok()?.strip_prefix(&*prefix));
            taken.extend(values.map(|value| (pool, value.to_owned())));
        }
        Ok(())
    }

    /// What a change of an object takes and gives back; `None` = there is no such object before or after.
    pub(in crate::registry) fn exchange(
        &self,
        kind: &'static Kind,
        old: Option<&Object>,
        new: Option<&Object>,
    ) -> Beside {
        let Some(allocation) = strategy(kind).allocation() else { return Beside::default() };
        let of = |object: Option<&Object>| object.map(|object| allocation.claims(object)).unwrap_or_default();
        let (before, after) = (of(old), of(new));
        let mut exchange = Beside::default();
        for claim in after.iter().filter(|claim| !before.iter().any(|own| is_same(own, claim))) {
            self.take_claim(kind, new, claim, &mut exchange);
        }
        for claim in before.iter().filter(|claim| !after.iter().any(|own| is_same(own, claim))) {
            exchange.writes.extend(keys(claim).map(|key| Write::Delete { key }));
        }
        if let (Some(gone), None) = (old, new) {
            let keys = allocation.companions(gone).into_iter().map(Bytes::from);
            exchange.writes.extend(keys.map(|key| Write::Delete { key }));
        }
        exchange
    }

    fn take_claim(&self, kind: &'static Kind, holder: Option<&Object>, claim: &Claim, exchange: &mut Beside) {
        exchange.guards.extend(keys(claim).map(|key| Guard { key, mod_revision: 0 }));
        let (namespace, name) = holder.map_or(("", ""), |holder| (holder.namespace(), holder.name()));
        let held_by = json!({"resource": kind.name().to_string(), "namespace": namespace, "name": name});
        let value = Bytes::from(held_by.to_string());
        exchange.writes.push(Write::Put { key: claim_key(claim), value, lease: 0 });
        if let Some(sign) = &claim.sign {
            let mut object = sign.object.clone();
            object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
            object.set(&["metadata", "creationTimestamp"], time(self.now()));
            let key = Bytes::from(sign.kind.key("", object.name()));
            exchange.writes.push(Write::Put { key, value: encode(&object), lease: 0 });
        }
    }

    /// Makes the keys of claims agree with the objects, should somebody have written past the registry. What two objects
    /// hold stays with the first of them.
    ///
    /// Other servers may write meanwhile, and nothing of theirs is undone. The keys are read before the objects: what is
    /// taken after that has a key that is not looked at, and the removal of a key is guarded by the state that was read.
    /// A key is only made while its holder is as it was read.
    pub(in crate::registry) async fn settle_claims(&self) -> Result<(), Status> {
        for _ in 0..ROUNDS_MAX {
            if self.settle_claims_once().await? {
                break;
            }
        }
        Ok(())
    }

    /// Whether nothing that had to be made was refused because of somebody else's write.
    async fn settle_claims_once(&self) -> Result<bool, Status> {
        let known = self.shared.store.range(&KeyRange::prefix(PREFIX.to_owned()), 0, 0).await?;
        let mut known: HashMap<Bytes, i64> = known.kvs.into_iter().map(|kv| (kv.key, kv.mod_revision)).collect();
        let origin = Origin::user("system:registry");
        let mut is_settled = true;
        for kind in KINDS.iter().filter(|kind| kind.is_kept()) {
            let Some(allocation) = strategy(kind).allocation() else { continue };
            let page = self.shared.store.range(&KeyRange::prefix(kind.collection_key("")), 0, 0).await?;
            let mut held: HashMap<Bytes, (Guard, Object, Claim)> = HashMap::new();
            for current in page.kvs.into_iter().filter_map(|kv| Current::of(kv).ok()) {
                for claim in allocation.claims(&current.object) {
                    let holder = || (current.guard(), current.object.clone(), claim.clone());
                    held.entry(claim_key(&claim)).or_insert_with(holder);
                }
            }
            for (key, (holder, object, claim)) in held {
                if known.remove(&key).is_some() {
                    continue;
                }
                let mut exchange = Beside::default();
                self.take_claim(kind, Some(&object), &claim, &mut exchange);
                // The sign may be there already; it tells the same.
                exchange.guards.retain(|guard| guard.key == key);
                exchange.guards.push(holder);
                let commit = self.shared.store.commit(exchange.guards, exchange.writes, &origin).await?;
                is_settled &= commit != Commit::Refused;
            }
        }
        for (key, mod_revision) in known {
            let guard = Guard { key: key.clone(), mod_revision };
            self.shared.store.commit(vec![guard], vec![Write::Delete { key }], &origin).await?;
        }
        Ok(is_settled)
    }
}

/// Whether two claims are of the same value, whatever their signs say.
fn is_same(one: &Claim, other: &Claim) -> bool {
    (one.pool, &one.value) == (other.pool, &other.value)
}

fn claim_key(claim: &Claim) -> Bytes {
    Bytes::from(format!("{PREFIX}{}/{}", claim.pool, claim.value))
}

/// The keys that a claim takes: its own, and that of its sign.
fn keys(claim: &Claim) -> impl Iterator<Item = Bytes> {
    let sign = claim.sign.as_ref().map(|sign| Bytes::from(sign.kind.key("", sign.object.name())));
    std::iter::once(claim_key(claim)).chain(sign)
}
