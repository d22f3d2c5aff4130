//! `lw describe`: all there is to know of an object, for a person.
//!
//! * [`command`]: the command
//! * [`gather`]: what is asked for besides the object
//! * [`pod`], [`containers`], [`volumes`]: the description of a pod
//! * [`template`]: the description of a pod template
//! * [`workload`]: those of Deployments and ReplicaSets
//! * [`node`]: that of a node
//! * [`small`]: those of namespaces, ConfigMaps and PriorityClasses
//! * [`generic`]: that of every other kind
//! * [`text`]: the parts that every description has
//! * [`tabs`]: elastic tab stops

mod command;
mod containers;
mod gather;
mod generic;
mod node;
mod pod;
mod small;
mod tabs;
mod template;
mod text;
mod volumes;
mod workload;

pub(crate) use command::{DescribeArgs, run};
pub(crate) use tabs::align;
pub(crate) use template::pod_template;
