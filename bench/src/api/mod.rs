//! The Kubernetes API under load: ours beside a kube-apiserver that runs already, in turns, over HTTP/2 and TLS.
//!
//! * [`server`]: the two servers; [`connection`]: one connection to one of them; [`wire`]: one that costs
//!   next to nothing
//! * [`loads`]: creates, gets, lists and pages in a closed loop
//! * [`scenes`]: two writers on one object, conflicts of apply, a streaming list under writes, many watchers
//! * [`command`]: the command line, and what is printed

mod command;
mod connection;
mod loads;
mod scenes;
mod server;
mod wire;

pub(crate) use command::ApiArgs;
