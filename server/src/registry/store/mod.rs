//! What the registry stands on: keys, values and revisions, and what it keeps there beside objects.
//!
//! * [`contract`]: the seam, one to one a transaction of an etcd; [`engine`]: the engine of this process behind it
//! * [`claims`]: what one object at a time may hold; [`event_leases`]: what Events expire by

pub(in crate::registry) mod claims;
mod contract;
mod engine;
pub(in crate::registry) mod event_leases;
#[cfg(test)]
mod memory;

pub use contract::{Commit, Guard, Page, Store, StoreError, StoreEvents, StoreWatch, StoreWatcher, Write};
pub use engine::EngineStore;
#[cfg(test)]
pub(crate) use memory::MemoryStore;
