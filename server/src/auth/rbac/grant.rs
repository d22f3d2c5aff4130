//! Nobody gives what he has not: whoever writes a role must have every right in it, whoever binds one must have its
//! rights or be allowed to bind it (Kubernetes 1.36).

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Object, Status};

use super::{PolicyCache, Rule};
use crate::registry::{Asked, Attributes, Change, ChangeVerb, Decision, Registry, ResourceAttributes, User};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Judges the write of a role or binding; every other write passes.
pub(in super::super) async fn admit(
    cache: &PolicyCache,
    registry: &Registry,
    user: &User,
    change: &Change<'_>,
) -> Result<(), Status> {
    if change.kind.group != GROUP || change.verb == ChangeVerb::Delete || user.is_master() {
        return Ok(());
    }
    let Some(new) = change.new.filter(|new| !change.old.is_some_and(|old| is_only_for_collection(new, old))) else {
        return Ok(());
    };
    if change.kind.kind.ends_with("Binding") {
        admit_binding(cache, registry, user, change, new).await
    } else {
        admit_role(cache, registry, user, change, new).await
    }
}

async fn admit_role(
    cache: &PolicyCache,
    registry: &Registry,
    user: &User,
    change: &Change<'_>,
    role: &Object,
) -> Result<(), Status> {
    let kind = change.kind;
    // By the name that was asked for: a create has none yet, so that no right to some names alone covers it.
    if may(registry, user, "escalate", kind.plural, role.namespace(), change.asked_name).await?.allowed {
        return Ok(());
    }
    let forbidden = |why: String| Status::forbidden(kind, role.name(), &why);
    covered(cache, user, role.namespace(), &Rule::all_of(role)).await.map_err(forbidden)?;
    if aggregates(role) || change.old.is_some_and(aggregates) {
        // A role that takes rules in later can come to grant anything.
        let why = "must have cluster-admin privileges to use the aggregationRule";
        covered(cache, user, "", &Rule::everything()).await.map_err(|_| forbidden(why.to_owned()))?;
    }
    Ok(())
}

fn aggregates(role: &Object) -> bool {
    role.at(&["aggregationRule", "clusterRoleSelectors"])
        .and_then(|list| list.as_array())
        .is_some_and(|l| !l.is_empty())
}

async fn admit_binding(
    cache: &PolicyCache,
    registry: &Registry,
    user: &User,
    change: &Change<'_>,
    binding: &Object,
) -> Result<(), Status> {
    let kind = change.kind;
    let (role_kind, role) = (binding.text(&["roleRef", "kind"]), binding.text(&["roleRef", "name"]));
    let resource = match role_kind {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        // Upstream looks for the role before anything is validated, and has no reason for what it cannot look for.
        other => return Err(Status::without_reason(format!("unsupported role reference kind: {}", quote(other)))),
    };
    if may(registry, user, "bind", resource, binding.namespace(), role).await?.allowed {
        return Ok(());
    }
    if role_kind == "Role" && !kind.namespaced {
        return Err(Status::bad_request("Namespace parameter required."));
    }
    if role.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    match cache.role(role_kind, binding.namespace(), role).await? {
        Ok(rules) => covered(cache, user, binding.namespace(), &rules)
            .await
            .map_err(|why| Status::forbidden(kind, binding.name(), &why)),
        // Upstream's store tells what the request was about, not what it looked for.
        Err(_) => Err(Status::not_found(kind, role)),
    }
}

/// Whether a change touches nothing but what the garbage collector must be free to touch.
fn is_only_for_collection(new: &Object, old: &Object) -> bool {
    let rest = |object: &Object| {
        let mut rest = object.clone();
        for part in ["ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"] {
            rest.remove(&["metadata", part]);
        }
        rest
    };
    rest(new) == rest(old)
}

async fn may(
    registry: &Registry,
    user: &User,
    verb: &str,
    resource: &str,
    namespace: &str,
    name: &str,
) -> Result<Decision, Status> {
    let asked = ResourceAttributes {
        group: GROUP.to_owned(),
        version: "v1".to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..ResourceAttributes::default()
    };
    registry.decide(user, &Attributes { verb: verb.to_owned(), asked: Asked::Resource(asked) }).await
}

/// Upstream's words for what the user would give beyond what he has.
async fn covered(cache: &PolicyCache, user: &User, namespace: &str, wanted: &[Rule]) -> Result<(), String> {
    let (own, missing) = cache.rules_of(user, namespace).await.map_err(|status| status.message)?;
    let mut beyond: Vec<String> = Rule::beyond(&own, wanted).iter().map(ToString::to_string).collect();
    if beyond.is_empty() {
        return Ok(());
    }
    beyond.sort();
    beyond.dedup();
    let groups: Vec<String> = user.groups.iter().map(|group| quote(&group)).collect();
    let unresolved = match missing.as_slice() {
        [] => String::new(),
        several => format!("; resolution errors: [{}]", several.join(", ")),
    };
    Err(format!(
        "user {} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}{unresolved}",
        quote(&user.name),
        groups.join(" "),
        beyond.join("\n")
    ))
}
