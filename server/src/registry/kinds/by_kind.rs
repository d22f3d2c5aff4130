//! From a kind to its rules. A new kind is named in the module of its group; a new group is named here.

use listwatch_proto::resource::Kind;

use super::strategy::Strategy;
use super::{
    apps, autoscaling, batch, certificates, coordination, core, discovery, events, extensions, networking, policy,
    rbac, resource, review, runtime, scheduling, storage,
};
use crate::registry::custom::custom;

/// The rules of a kind.
pub(crate) fn strategy(kind: &'static Kind) -> &'static dyn Strategy {
    if let Some(rules) = custom(kind) {
        return rules;
    }
    let rules = match kind.group {
        "" => core::strategy(kind.kind),
        "apiextensions.k8s.io" => extensions::strategy(kind.kind),
        "apps" => apps::strategy(kind.kind),
        "authentication.k8s.io" | "authorization.k8s.io" => review::strategy(kind.kind),
        "autoscaling" => autoscaling::strategy(kind.version, kind.kind),
        "batch" => batch::strategy(kind.kind),
        "certificates.k8s.io" => certificates::strategy(kind.kind),
        "coordination.k8s.io" => coordination::strategy(kind.kind),
        "discovery.k8s.io" => discovery::strategy(kind.kind),
        "events.k8s.io" => events::strategy(kind.kind),
        "networking.k8s.io" => networking::strategy(kind.kind),
        "node.k8s.io" => runtime::strategy(kind.kind),
        "policy" => policy::strategy(kind.kind),
        "rbac.authorization.k8s.io" => rbac::strategy(kind.kind),
        "resource.k8s.io" => resource::strategy(kind.kind),
        "scheduling.k8s.io" => scheduling::strategy(kind.kind),
        "storage.k8s.io" => storage::strategy(kind.kind),
        _ => None,
    };
    rules.unwrap_or_else(|| unreachable!("{} of {:?} is listed as served and has no strategy", kind.kind, kind.group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_proto::resource::KINDS;

    #[test]
    fn every_served_kind_has_a_strategy_and_a_schema() {
        for kind in KINDS {
            let name = strategy(kind).schema();
            assert!(crate::registry::schema::schema().find(name).is_some(), "{name}");
            assert!(name.ends_with(kind.kind), "{name}");
        }
    }
}
