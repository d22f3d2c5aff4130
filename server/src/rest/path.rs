//! The grammar of paths.
//!
//! ```text
//! /api  /apis  /apis/GROUP                                      discovery
//! /api/v1/…  /apis/GROUP/VERSION/…                              a group version, and below it:
//!   [watch/][namespaces/NS/]RESOURCE[/NAME[/SUBRESOURCE]]
//! ```

use std::borrow::Cow;

use listwatch_proto::resource::{Kind, Storage};

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
    /// A prefix of old, `watch` or `proxy`, with nothing behind it.
    PrefixOfNothing,
    /// No path of this API.
    Nothing,
}

/// Whether every percent sign stands before two hexadecimal digits; a path where one does not is no request for Go.
pub(super) fn is_well_formed(path: &str) -> bool {
    let is_code = |rest: &str| rest.as_bytes().get(..2).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit));
    path.split('%').skip(1).all(is_code)
}

/// Reads a path, percent-encoded as it came. It is decoded before it is taken apart, here as in the judgement of what is
/// asked, so that both see the same parts whatever a client writes for its slashes.
pub(super) fn read(kinds: &Kinds, path: &str) -> Named {
    let path = decoded(path);
    let Some(parts) = path.strip_prefix('/').map(|p| p.trim_end_matches('/').split('/').collect::<Vec<_>>()) else {
        return Named::Nothing;
    };
    match parts.as_slice() {
        ["api"] => Named::CoreVersions,
        // Upstream's own handlers of these two know the path to the letter.
        ["apis"] if matches!(&*path, "/apis" | "/apis/") => Named::Groups,
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
        ["watch" | "proxy"] => Named::PrefixOfNothing,
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
        // What is only sent, and to a namespace, has no collection of all namespaces.
        [] if namespace.is_empty() && kind.namespaced && kind.storage == Storage::Nothing => None,
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

/// A path without its percent signs.
fn decoded(path: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy()
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
            ("/api/v1/namespaces/default/pods///", "pods default/ ", false),
            ("/api/v1/namespaces/default/pods/a%20b", "pods default/a b ", false),
            ("/api%2fv1/namespaces/default%2Fpods", "pods default/ ", false),
            ("/api/v1/namespaces/de%66ault/pods%2Fa", "pods default/a ", false),
            ("/api/v1/namespaces/default/pods/..", "pods default/.. ", false),
            ("/api/v1/namespaces/default/pods/a%2fstatus", "pods default/a status", false),
            ("/api/v1/namespaces/default/bindings", "bindings default/ ", false),
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
            "/api/v1/bindings",
            "/api/v1/namespaces/%2f/pods",
            "/api/v1/namespaces/default/pods/a%2fb",
            "/api/v1/namespaces/default/pods//a",
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
        for path in ["/", "/apis//", "/nosuch", "//api/v1/pods", "/apis/nosuch.io", "/apis/nosuch.io/v1/x", "api"] {
            assert_eq!(read(&Kinds::default(), path), Named::Nothing, "{path}");
        }
        assert_eq!(read(&Kinds::default(), "/apis/apps/v1"), Named::GroupVersion("apps", "v1"));
        assert_eq!(read(&Kinds::default(), "/api/"), Named::CoreVersions);
        for path in ["/api/v1/watch/", "/api/v1/watch//", "/api/v1/proxy"] {
            assert_eq!(read(&Kinds::default(), path), Named::PrefixOfNothing, "{path}");
        }
    }

    #[test]
    fn a_percent_sign_stands_before_two_digits() {
        for path in ["/api", "/a%20b", "/%fF%00", "/a%25"] {
            assert!(is_well_formed(path), "{path}");
        }
        for path in ["/a%", "/a%2", "/a%zz", "/%%20", "/a%2\u{e9}"] {
            assert!(!is_well_formed(path), "{path}");
        }
    }
}
