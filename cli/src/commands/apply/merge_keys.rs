//! Which lists are merged item by item (Kubernetes 1.36: `patchMergeKey` and `patchStrategy` of the kinds we serve).
//!
//! A list that is not named here is replaced as a whole (tolerations, args, rules).

/// How a list is merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListMerge {
    /// As a whole.
    Replace,
    /// Items are objects, told apart by this field.
    ByKey(&'static str),
    /// Items are texts; what others added stays.
    Set,
}

/// How the list under a field is merged. The names are unambiguous among the kinds we serve.
pub(super) fn list_merge(field: &str) -> ListMerge {
    match field {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "resourceClaims"
        | "schedulingGates" => ListMerge::ByKey("name"),
        "ports" => ListMerge::ByKey("containerPort"),
        "volumeMounts" => ListMerge::ByKey("mountPath"),
        "volumeDevices" => ListMerge::ByKey("devicePath"),
        "hostAliases" => ListMerge::ByKey("ip"),
        "topologySpreadConstraints" => ListMerge::ByKey("topologyKey"),
        "conditions" => ListMerge::ByKey("type"),
        "ownerReferences" => ListMerge::ByKey("uid"),
        "finalizers" => ListMerge::Set,
        _ => ListMerge::Replace,
    }
}

/// Maps that are a choice between forms: when one is changed, what the manifest does not name goes
/// (`patchStrategy: retainKeys`).
pub(super) fn is_choice(field: &str) -> bool {
    matches!(field, "strategy" | "updateStrategy")
}
