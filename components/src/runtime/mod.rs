//! What every controller is made of.
//!
//! The flow: a [`Reflector`] keeps a cache equal to a collection of the server (list, watch, resume, resync); the cache
//! is an [`indexer`](Writer) with one writer and many readers ([`Store`]); an [`Informer`] tells handlers of each
//! change, and handlers only put keys into a work queue; a [`Controller`] takes keys from the queue, never one key
//! twice at once, and calls a [`Reconciler`], which reads the store, compares and acts. Invariants: a reconcile gets a
//! name and nothing else; no reconcile sees a cache older than its own last write; all memory here may be lost at any
//! time; every task is owned by the future that runs it, so dropping that future ends it.
//!
//! In reading order:
//!
//! * [`Store`], [`Writer`]: the cache and its indices
//! * [`Reflector`]: the state machine that feeds it
//! * [`Informer`]: cache and handlers together; [`catch_up`]: brings a cache up to a revision at once
//! * [`Queue`], [`DelayingQueue`], [`RateLimitedQueue`]: the wall between noticing and acting
//! * [`Controller`], [`Reconciler`], [`Action`]
//! * [`LeaderElection`], [`SlotLock`]
//! * [`Recorder`], which tells Events
//! * [`Backoff`], from the client

mod bounded;
mod catch_up;
mod controller;
mod delaying;
mod event_correlator;
mod event_series;
mod indexer;
mod informer;
mod leader_election;
mod queue;
mod rate_limited;
mod recorder;
mod reflector;
mod slot_lock;
mod unseen;

pub use crate::client::{Backoff, BackoffPolicy};
pub(crate) use bounded::Bounded;
pub use catch_up::catch_up;
pub use controller::{Action, Controller, ReconcileError, Reconciler};
pub use delaying::DelayingQueue;
pub use indexer::{BY_OWNER, Change, IndexerBuilder, Progress, Stopped, Store, Writer, owner_uids};
pub use informer::Informer;
pub use leader_election::{ElectionConfig, ElectionError, LeaderElection, Outcome};
pub use queue::Queue;
pub use rate_limited::RateLimitedQueue;
pub use recorder::{Doing, EventType, Recorder, RecorderTask, reference, reference_to};
pub use reflector::{Reflector, ReflectorConfig};
pub use slot_lock::{SlotLock, SlotLockError};
