//! A whole cluster on one machine: its supervisor and the commands that talk to it.
//!
//! * [`command`]: the commands and their flags
//! * [`prepare`]: folders, ports, certificates and kubeconfigs of a cluster, before anything starts
//! * [`place`]: whether a folder may be a cluster's
//! * [`ports`]: choosing ports, and who holds one that is taken
//! * [`spec`]: which processes a cluster has, with which flags
//! * [`lifeline`]: the socket whose end tells every process that the cluster is gone
//! * [`spawn`]: starting one process, reading its ready line, hearing of its end
//! * [`last_words`]: what a process said before it ended
//! * [`component`]: the states of one process, and when it is started again
//! * [`supervisor`]: the loop that keeps them running
//! * [`listen`]: the supervisor's socket
//! * [`front`]: what a person in front of it sees
//! * [`demo`]: the chain from a Deployment to Running pods, step by step
//! * [`orders`]: `status`, `start`, `stop`, `kill`, `restart`, `down`, `env`
//! * [`detach`]: `up --detach`
//!
//! Invariants: the supervisor knows no object of the API; it starts processes, watches them and passes orders on. Only
//! it holds the near end of the lifeline.

mod command;
mod component;
mod demo;
mod detach;
mod front;
mod last_words;
mod lifeline;
mod listen;
mod orders;
mod place;
mod ports;
mod prepare;
mod spawn;
mod spec;
mod supervisor;

pub(crate) use command::{Command, run};
