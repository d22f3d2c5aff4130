//! The harness of the black-box tests: whole processes of `lw`, started, killed, paused and restarted.
//!
//! * [`binary`]: builds `lw` once and says where it is
//! * [`process`]: one process with its ready line, its log and its end
//! * [`server`]: an `lw server` on a data directory, restarted as often as a test wants
//! * [`cluster`]: a whole cluster under `lw up`
//! * [`plane`]: a server and a controller manager, without nodes
//! * [`cutter`]: a proxy whose connections a test cuts
//! * [`foreign`]: programs of others; [`kubectl`]: real kubectl in front of a cluster
//! * [`etcd`]: a plain etcd v3 client
//! * [`objects`]: objects of any kind, over the resource API
//! * [`wait`]: waiting for conditions, and the seed of a test
//!
//! Invariants: a process that a test started never outlives it; nothing sleeps for a fixed time; whatever is random
//! prints the seed that replays it.

pub mod binary;
pub mod cluster;
pub mod cutter;
pub mod etcd;
pub mod foreign;
pub mod kubectl;
pub mod objects;
pub mod plane;
pub mod process;
pub mod server;
pub mod wait;

pub use cluster::Cluster;
pub use cutter::Cutter;
pub use objects::Objects;
pub use process::Process;
pub use server::Server;
pub use wait::{eventually, seed};
