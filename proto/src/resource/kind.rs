//! What is known of every kind: one row of facts each (`rows.rs`).
//!
//! Invariant: a row holds only facts that every program needs (names, scope, key, subresources); what a kind means
//! (defaults, validation, columns) stands in the registry.

use std::borrow::Cow;
use std::fmt;

use super::learned::{self, Extension};
use super::rows::KINDS;

/// Facts about one kind of object (Kubernetes 1.36).
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// API group, empty for the core group.
    pub group: &'static str,
    /// The served version.
    pub version: &'static str,
    /// `Pod`.
    pub kind: &'static str,
    /// `PodList`; empty = the kind with `List` behind it.
    pub list_kind: &'static str,
    /// `pods`, as in paths and in [`crate::v1::ResourceRef::resource`].
    pub plural: &'static str,
    /// `pod`.
    pub singular: &'static str,
    /// `po`.
    pub short_names: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Where objects are stored, with the slashes at both ends: `/registry/minions/`. Kubernetes' own keys.
    pub key_prefix: &'static str,
    /// `status`, `scale`, `binding`, `log`.
    pub subresources: &'static [&'static str],
    /// `all`.
    pub categories: &'static [&'static str],
    /// What stands behind the name.
    pub storage: Storage,
    /// Whether all objects of a collection can be deleted with one request.
    pub deletes_collections: bool,
    /// What a program that learned the kind while it ran has hung on it; `None` for the kinds of the table.
    pub extension: Option<Extension>,
}

/// What stands behind a kind's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storage {
    /// Objects are kept under the kind's key.
    Own,
    /// Another form of objects that a kind of another group or version keeps under the same key.
    View,
    /// Nothing: an object is answered at its creation, and not kept.
    Nothing,
    /// Nothing: objects are made out of how things stand when they are read.
    Computed,
}

/// A row of a kind that lives in namespaces.
pub(super) const fn namespaced(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    singular: &'static str,
    plural: &'static str,
    key_prefix: &'static str,
) -> Kind {
    Kind {
        group,
        version,
        kind,
        list_kind: "",
        plural,
        singular,
        short_names: &[],
        namespaced: true,
        key_prefix,
        subresources: &[],
        categories: &[],
        storage: Storage::Own,
        deletes_collections: true,
        extension: None,
    }
}

/// A row of a kind of the whole cluster.
pub(super) const fn cluster(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    singular: &'static str,
    plural: &'static str,
    key_prefix: &'static str,
) -> Kind {
    let mut row = namespaced(group, version, kind, singular, plural, key_prefix);
    row.namespaced = false;
    row
}

/// What a row has beside that.
impl Kind {
    pub(super) const fn short(mut self, names: &'static [&'static str]) -> Kind {
        self.short_names = names;
        self
    }

    /// Its objects are those of another kind under the same key.
    pub(super) const fn view(mut self) -> Kind {
        self.storage = Storage::View;
        self
    }

    pub(super) const fn with(mut self, subresources: &'static [&'static str]) -> Kind {
        self.subresources = subresources;
        self
    }

    pub(super) const fn deleted_one_by_one(mut self) -> Kind {
        self.deletes_collections = false;
        self
    }

    /// Answered when it is made, and not kept.
    pub(super) const fn unkept(mut self) -> Kind {
        self.storage = Storage::Nothing;
        self
    }

    /// Made when it is read, and not kept.
    pub(super) const fn computed(mut self) -> Kind {
        self.storage = Storage::Computed;
        self
    }

    pub(super) const fn categories(mut self, categories: &'static [&'static str]) -> Kind {
        self.categories = categories;
        self
    }
}

/// How a kind is named in messages: `deployments.apps`, `pods`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindName(&'static Kind);

impl Kind {
    /// The verbs of the resource, in order.
    pub fn verbs(&self) -> &'static [&'static str] {
        match self.storage {
            Storage::Nothing => &["create"],
            Storage::Computed => &["get", "list"],
            _ if self.deletes_collections => {
                &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
            }
            _ => &["create", "delete", "get", "list", "patch", "update", "watch"],
        }
    }

    /// The kind of a plural in a group. An empty version means the served one.
    pub fn by_plural(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
        let is_meant =
            |k: &Kind| k.group == group && k.plural == plural && (version.is_empty() || version == k.version);
        KINDS.iter().find(|k| is_meant(k)).or_else(|| learned::find(is_meant))
    }

    /// The kind of an object's `apiVersion` and `kind`.
    pub fn by_api_version(api_version: &str, kind: &str) -> Option<&'static Kind> {
        let (group, version) = match api_version.split_once('/') {
            None => ("", api_version),
            Some(("", _)) => return None,
            Some(both) => both,
        };
        let is_meant = |k: &Kind| k.kind == kind && k.version == version && k.group == group;
        KINDS.iter().find(|k| is_meant(k)).or_else(|| learned::find(is_meant))
    }

    /// The kind that a person names: plural, singular, short name or kind in any case, alone or with `.group` or
    /// `.version.group` behind it.
    pub fn by_name(name: &str) -> Option<&'static Kind> {
        let lower = name.to_ascii_lowercase();
        let (word, rest) = lower.split_once('.').map_or((lower.as_str(), None), |(w, r)| (w, Some(r)));
        KINDS.iter().find(|k| k.answers_to(word, rest)).or_else(|| learned::find(|k| k.answers_to(word, rest)))
    }

    /// Whether a person means this kind by a name, as [`Kind::by_name`] has it.
    pub fn is_named(&self, name: &str) -> bool {
        let lower = name.to_ascii_lowercase();
        let (word, rest) = lower.split_once('.').map_or((lower.as_str(), None), |(w, r)| (w, Some(r)));
        self.answers_to(word, rest)
    }

    fn answers_to(&self, word: &str, rest: Option<&str>) -> bool {
        let named = self.plural == word
            || self.singular == word
            || self.kind.to_ascii_lowercase() == word
            || self.short_names.contains(&word);
        named
            && rest.is_none_or(|r| {
                // `pods.v1.` names the group that has no name.
                r == self.group
                    || r.trim_end_matches('.') == format!("{}.{}", self.version, self.group).trim_end_matches('.')
            })
    }

    /// `PodList`.
    pub fn list_name(&self) -> Cow<'static, str> {
        if self.list_kind.is_empty() { format!("{}List", self.kind).into() } else { self.list_kind.into() }
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The name for messages and for `-o name`: `pods`, `deployments.apps`.
    pub fn name(&'static self) -> KindName {
        KindName(self)
    }

    /// The storage key of one object.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{}{namespace}/{name}", self.key_prefix)
        } else {
            format!("{}{name}", self.key_prefix)
        }
    }

    /// The storage prefix of a collection; an empty namespace means all of them.
    pub fn collection_key(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.key_prefix)
        } else {
            self.key_prefix.to_owned()
        }
    }

    /// Namespace and name of a storage key, if the key is one of this kind.
    pub fn parse_key<'a>(&self, key: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = key.strip_prefix(self.key_prefix)?;
        if self.namespaced {
            let (namespace, name) = rest.split_once('/')?;
            (!namespace.is_empty() && !name.is_empty() && !name.contains('/')).then_some((namespace, name))
        } else {
            (!rest.is_empty() && !rest.contains('/')).then_some(("", rest))
        }
    }

    /// Whether its objects are kept, and under this name first: what looks after all objects goes through these kinds.
    pub fn is_kept(&self) -> bool {
        self.storage == Storage::Own
    }

    /// Whether objects of both are the same objects, whatever the versions.
    pub fn is_same_resource(&self, other: &Kind) -> bool {
        (self.group, self.plural) == (other.group, other.plural)
    }

    /// Whether it has this subresource.
    pub fn has_subresource(&self, subresource: &str) -> bool {
        self.subresources.contains(&subresource)
    }

    /// A reference to the collection (empty name) or to an object of it, for requests.
    pub fn reference(&self, namespace: &str, name: &str) -> crate::v1::ResourceRef {
        crate::v1::ResourceRef {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            resource: self.plural.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
        }
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.plural)?;
        if !self.0.group.is_empty() {
            write!(f, ".{}", self.0.group)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_every_name_a_person_uses() {
        for name in ["po", "pod", "pods", "Pod", "pods.v1"] {
            assert_eq!(Kind::by_name(name).map(|k| k.kind), Some("Pod"), "{name}");
        }
        for name in ["deploy", "deployments.apps", "deployment.v1.apps"] {
            assert_eq!(Kind::by_name(name).map(|k| k.kind), Some("Deployment"), "{name}");
        }
        assert_eq!(Kind::by_name("pods.apps"), None);
        assert_eq!(Kind::by_name("gizmo"), None);
    }

    #[test]
    fn keys_are_those_of_kubernetes() {
        let node = Kind::by_name("node").expect("known");
        assert_eq!(node.key("", "node01"), "/registry/minions/node01");
        let pod = Kind::by_name("pod").expect("known");
        assert_eq!(pod.key("default", "a"), "/registry/pods/default/a");
        assert_eq!(pod.parse_key("/registry/pods/default/a"), Some(("default", "a")));
        assert_eq!(pod.parse_key("/registry/pods/default/a/b"), None);
        assert_eq!(pod.parse_key("/registry/pods/default"), None);
    }
}
