//! `lw describe`: all there is to know of an object, for a person.
//!
//! * [`command`]: the command
//! * [`gather`]: what is asked for besides the object
//! * [`pod`], [`containers`], [`volumes`]: the description of a pod
//! * [`template`]: the description of a pod template
//! * [`workload`], [`sets`], [`batch`]: those of controllers of pods; [`autoscaler`]: of autoscalers
//! * [`network`], [`endpoints`]: those of Ingresses, policies and endpoints; [`storage`]: of volumes and what is about them
//! * [`node`]: that of a node
//! * [`small`]: those of namespaces, ConfigMaps and PriorityClasses; [`limits`]: of quotas and limit ranges
//! * [`access`]: those of Secrets, service accounts and roles; [`service`]: of Services and disruption budgets
//! * [`generic`]: that of every other kind
//! * [`text`]: the parts that every description has
//! * [`tabs`]: elastic tab stops

mod access;
mod autoscaler;
mod batch;
mod command;
mod containers;
mod endpoints;
mod gather;
mod generic;
mod limits;
mod network;
mod node;
mod pod;
mod service;
mod sets;
mod small;
mod storage;
mod tabs;
mod template;
mod text;
mod volumes;
mod workload;

pub(crate) use command::{DescribeArgs, run};
pub(crate) use tabs::align;
pub(crate) use template::pod_template;
