//! `lw exec`, `lw attach` and `lw port-forward`: into what runs in a pod.
//!
//! * [`command`]: a command in a container; [`attach`]: what runs there already
//! * [`forward`]: connections to ports of this machine, on to ports of a pod
//! * [`target`]: which pod and which container
//! * [`session`]: the streams between here and there
//! * [`keyboard`]: standard input and the terminal

mod attach;
mod command;
mod forward;
mod keyboard;
mod session;
mod target;

pub(crate) use attach::{AttachArgs, run as attach};
pub(crate) use command::{ExecArgs, run};
pub(crate) use forward::{PortForwardArgs, run as port_forward};
