//! What the scheduler believes the cluster to be: nodes, the pods on them, and the pods it has just placed there itself.
//!
//! All of it is cache: after a restart it is read anew from the API server.

mod nominations;
mod snapshot;
mod store;
mod zones;

pub use nominations::Nominations;
pub use snapshot::Snapshot;
pub use store::Cache;
