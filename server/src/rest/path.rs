//! The grammar of paths.
//!
//! ```text
//! /api  /apis  /apis/GROUP                                      discovery
//! /api/v1/…  /apis/GROUP/VERSION/…                              a group version, and below it:
//!   [watch/][namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]
//! ```

use std::borrow::Cow;

use listwatch_proto::resource::Kind;

use crate::registry::{Kinds, Target};

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: the groups.
    Groups,
    /// `/apis/apps`.
    Group(&'static str),
    /// `/api/v1`, `/apis/apps/v1`: the resources of a group version.
    GroupVersion(&'static str, &'static str),
    /// A collection, an object or a part of one.
    Resource {
        /// Which.
        target: Target,
        /// Asked for under the old prefix `watch/`.
        watch: bool,
    },
    /// A served group, but nothing that it has.
    UnknownResource,
    /// The prefix of watches, with nothing to watch behind it.
    WatchOfNothing,
    /// No path of this API.
    Nothing,
}

/// Reads a path, percent-encoded as it came.
pub(super) fn read(kinds: &Kinds, path: &str) -> Named {
    let path = path.strip_suffix('/').filter(|p| !p.is_empty()).unwrap_or(path);
    let Some(parts) = path.strip_prefix('/').map(|p| p.split('/').map(decoded).collect::<Vec<_>>()) else {
        return Named::Nothing;
    };
    let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
    match parts.as_slice() {
        ["api"] => Named::CoreVersions,
        ["apis"] => Named::Groups,
        ["apis", group] => known_group(kinds, group).map_or(Named::Nothing, Named::Group),
        ["api", version, rest @ ..] => below(kinds, "", version, rest),
        ["apis", group, version, rest @ ..] if !group.is_empty() => below(kinds, group, version, rest),
        _ => Named::Nothing,
    }
}

fn known_group(kinds: &Kinds, group: &str) -> Option<&'static str> {
    kinds.all().map(|k| k.group).find(|g| *g == group && !g.is_empty())
}

fn below(kinds: &Kinds, group: &str, version: &str, rest: &[&str]) -> Named {
    let Some(kind) = kinds.all().find(|k| k.group == group && k.version == version) else {
        let known = group.is_empty() || known_group(kinds, group).is_some();
        return if known { Named::UnknownResource } else { Named::Nothing };
    };
    let (group, version) = (kind.group, kind.version);
    match rest {
        [] => Named::GroupVersion(group, version),
        ["watch"] => Named::WatchOfNothing,
        ["watch", rest @ ..] => resource(kinds, group, version, rest, true),
        rest => resource(kinds, group, version, rest, false),
    }
}

fn resource(kinds: &Kinds, group: &'static str, version: &'static str, parts: &[&str], watch: bool) -> Named {
    let found =
        |target: Option<Target>| target.map_or(Named::UnknownResource, |target| Named::Resource { target, watch });
    if let ["namespaces", namespace, plural, rest @ ..] = parts
        && let Some(kind) = kinds.by_plural(group, version, plural)
    {
        return found(target(kind, namespace, rest).filter(|_| kind.namespaced));
    }
    let [plural, rest @ ..] = parts else { return Named::UnknownResource };
    let Some(kind) = kinds.by_plural(group, version, plural) else { return Named::UnknownResource };
    // An object of a namespaced kind is only below its namespace.
    found(target(kind, "", rest).filter(|t| !kind.namespaced || t.name.is_empty()))
}

fn target(kind: &'static Kind, namespace: &str, rest: &[&str]) -> Option<Target> {
    match rest {
        [] => Some(Target::collection(kind, namespace)),
        // A cluster-wide path has no namespace between its slashes; a collection may.
        [name] if !name.is_empty() => Some(Target::object(kind, namespace, *name)),
        [name, part] if !name.is_empty() && kind.has_subresource(part) => {
            Some(Target::object(kind, namespace, *name).with_subresource(*part))
        }
        // Whatever follows is meant for whom the request would be passed on to.
        [name, "proxy", ..] if !name.is_empty() && kind.has_subresource("proxy") => {
            Some(Target::object(kind, namespace, *name).with_subresource("proxy"))
        }
        _ => None,
    }
}

/// A part of a path without its percent signs; what does not decode stays as it is.
fn decoded(part: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(part).decode_utf8().unwrap_or(Cow::Borrowed(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource_of(path: &str) -> Option<(String, bool)> {
        match read(&Kinds::default(), path) {
            Named::Resource { target: t, watch } => {
                Some((format!("{} {}/{} {}", t.kind.plural, t.namespace, t.name, t.subresource), watch))
            }
            _ => None,
        }
    }

    #[test]
    fn paths_name_collections_objects_and_their_parts() {
        for (path, expected, watch) in [
            ("/api/v1/pods", "pods / ", false),
            ("/api/v1/pods/", "pods / ", false),
            ("/api/v1/namespaces/default/pods", "pods default/ ", false),
            ("/api/v1/namespaces//pods", "pods / ", false),
            ("/api/v1/namespaces/default/pods/a%20b", "pods default/a b ", false),
            ("/api/v1/namespaces/default/pods/a/status", "pods default/a status", false),
            ("/api/v1/nodes/n/proxy/logs/x", "nodes /n proxy", false),
            ("/api/v1/namespaces/default", "namespaces /default ", false),
            ("/api/v1/namespaces/default/finalize", "namespaces /default finalize", false),
            ("/api/v1/watch/namespaces/default/pods/a", "pods default/a ", true),
            ("/apis/apps/v1/namespaces/n/deployments/d/scale", "deployments n/d scale", false),
        ] {
            assert_eq!(resource_of(path), Some((expected.to_owned(), watch)), "{path}");
        }
    }

    #[test]
    fn other_paths_are_told_apart() {
        for path in [
            "/api/v1/gizmos",
            "/api/v1//pods",
            "/api/v1/pods/a",
            "/api/v1/namespaces/n/nodes",
            "/apis/apps/v1/pods",
            "/api/v2",
            "/api/V1/pods",
            "/apis/apps/v9/deployments",
        ] {
            assert_eq!(read(&Kinds::default(), path), Named::UnknownResource, "{path}");
        }
        for path in ["/", "/nosuch", "//api/v1/pods", "/apis/nosuch.io", "/apis/nosuch.io/v1/x", "api"] {
            assert_eq!(read(&Kinds::default(), path), Named::Nothing, "{path}");
        }
        assert_eq!(read(&Kinds::default(), "/apis/apps/v1"), Named::GroupVersion("apps", "v1"));
        assert_eq!(read(&Kinds::default(), "/api/"), Named::CoreVersions);
        assert_eq!(read(&Kinds::default(), "/api/v1/watch/"), Named::WatchOfNothing);
    }
}
