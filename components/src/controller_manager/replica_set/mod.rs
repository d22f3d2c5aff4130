//! ReplicaSet: as many pods as are wanted, no more and no fewer (Kubernetes 1.36).
//!
//! * [`plan`]: state in, acts out; pure
//! * [`rank`]: who goes first when there are too many
//! * [`throttle`]: pods that fail as soon as they are made are made slowly
//! * [`create`]: names, batches, and how many creates may be on their way
//! * [`status`]: what is said of the set
//! * [`reconciler`]: reads the caches, carries out a plan, writes the status last
//!
//! # Never too many
//!
//! Pods have random names, so a create that is done twice is two pods. Upstream counts expected events and forgets the
//! count after five minutes or a restart. Here nothing is counted; instead no plan is made from a cache that may lack an
//! own write:
//!
//! * *In one process*, the next run of a set waits until the cache shows every pod that the last run made or deleted,
//!   however long that takes (a stalled watch makes no pods). After a create of unknown outcome the cache must first
//!   come to where the server is, and the next create is done under the same name: if the first was carried out after
//!   all, the second is refused.
//! * *Across a restart*, a new leader first lets its caches come to its own first write, the one on the Lease. Every
//!   write of its predecessor that was carried out before is seen.
//! * *What is left* are creates that the predecessor had sent and the server carries out after that. A write is sent
//!   only while the Lease is certainly held (`client::Fence`, which a process that was stopped and wakes finds shut), so
//!   these are the ones that were on their way when the process was killed or stopped: at most
//!   [`IN_FLIGHT_MAX`](create::IN_FLIGHT_MAX) over all sets.
//!
//! Where a process may die, and what then is:
//!
//! | It dies | Left behind | The next leader |
//! |---|---|---|
//! | before the first create | nothing | plans the same |
//! | in a batch of creates | any part of the batch, some of it perhaps yet to be carried out | counts what it sees and makes the rest; what comes later is too many, at most a batch, and is deleted by rank |
//! | between two batches | the pods made | makes the rest |
//! | in the deletes | any part of them | counts again and deletes the rest; a late delete names a uid, so it hits no other pod; if it hits one that is wanted by now, that one is replaced |
//! | while adopting or releasing | any part of it | goes on: each patch names uid and version |
//! | before the status | pods without a status | writes it; nobody decides on it but the deployment, which looks again when it changes |
//!
//! So there are never more pods without a deletion timestamp than the largest number asked for since the count was last
//! right, plus [`IN_FLIGHT_MAX`](create::IN_FLIGHT_MAX). The excesses of several deaths do not add up: each new leader
//! counts the pods of all before it, and only its direct predecessor can still have creates on their way.

pub mod create;
mod plan;
mod rank;
mod reconciler;
mod status;
mod throttle;

pub use plan::{Plan, Set, plan};
pub use rank::deletion_order;
pub use reconciler::{ReplicaSetReconciler, sets_of};
pub use status::{Failure, News, PODS_FAIL, Status, status};
pub use throttle::{FAILURES_FREE, PAUSE_MAX, PAUSE_MIN, Throttle, throttle};
