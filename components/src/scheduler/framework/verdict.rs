//! What a plugin says when it refuses.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// One reason, as it is counted in messages.
pub type Reason = Cow<'static, str>;

/// The only nodes worth looking at, when a plugin knows them by name.
pub type NodeNames = BTreeSet<String>;

/// How final a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// Taking pods off the node could help.
    Unschedulable,
    /// It could not.
    Unresolvable,
}

/// A refusal of a node, or of a pod on any node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Who refuses; events that could change its mind bring the pod back.
    pub plugin: &'static str,
    /// How final it is.
    pub code: Code,
    /// Why; each is counted by itself.
    pub reasons: Vec<Reason>,
}

impl Rejection {
    /// A refusal that evictions could cure.
    pub fn unschedulable(plugin: &'static str, reason: impl Into<Reason>) -> Self {
        Rejection { plugin, code: Code::Unschedulable, reasons: vec![reason.into()] }
    }

    /// A refusal that no eviction could cure.
    pub fn unresolvable(plugin: &'static str, reason: impl Into<Reason>) -> Self {
        Rejection { plugin, code: Code::Unresolvable, reasons: vec![reason.into()] }
    }
}
