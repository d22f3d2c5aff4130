//! `lw describe`: all there is to know of an object, for a person.
//!
//! * [`command`]: the command
//! * [`pod`], [`containers`], [`volumes`]: the description of a pod
//! * [`template`]: the description of a pod template
//! * [`text`]: the parts that every description has
//! * [`tabs`]: elastic tab stops

mod command;
mod containers;
mod pod;
mod tabs;
mod template;
mod text;
mod volumes;

pub(crate) use command::{DescribeArgs, run};
pub(crate) use tabs::align;
pub(crate) use template::pod_template;
