//! The kinds of a moment: those of the table, then those that definitions add.

use std::cmp::Ordering;

use listwatch_proto::resource::{KINDS, Kind};

use super::definition::Definition;

/// All kinds that are served. Never changes; when definitions do, there is another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kinds {
    /// The store's revision of which this is true.
    pub(super) revision: i64,
    /// By group and plural.
    pub(super) definitions: Vec<Definition>,
}

impl Kinds {
    /// The kinds that these definitions add to the table.
    pub(super) fn of(revision: i64, mut definitions: Vec<Definition>) -> Kinds {
        let key = |definition: &Definition| {
            let group = definition.head.text(&["spec", "group"]).to_owned();
            (group, definition.name.clone())
        };
        definitions.sort_by_cached_key(key);
        Kinds { revision, definitions }
    }

    /// Whether the same definitions stand behind both.
    pub(super) fn same_as(&self, other: &Kinds) -> bool {
        self.definitions.len() == other.definitions.len()
            && self.definitions.iter().zip(&other.definitions).all(|(a, b)| a.uid == b.uid && a.revision == b.revision)
    }

    /// Every kind, those of the table first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Kind> {
        KINDS.iter().chain(self.custom())
    }

    /// The kinds that definitions add.
    pub(crate) fn custom(&self) -> impl Iterator<Item = &'static Kind> {
        self.definitions.iter().flat_map(|definition| definition.kinds.iter().copied())
    }

    /// The kind of a plural in a group. An empty version means the preferred one.
    pub(crate) fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
        Kind::by_plural(group, version, plural).or_else(|| {
            self.custom()
                .find(|k| k.group == group && k.plural == plural && (version.is_empty() || version == k.version))
        })
    }

    /// The groups with a name, in the order of discovery: the table's, then those of definitions by name.
    pub(crate) fn groups(&self) -> Vec<&'static str> {
        let mut groups: Vec<&str> = Vec::new();
        for kind in self.all().filter(|kind| !kind.group.is_empty()) {
            if !groups.contains(&kind.group) {
                groups.push(kind.group);
            }
        }
        groups
    }

    /// The versions of a group, the preferred one first.
    pub(crate) fn versions(&self, group: &str) -> Vec<&'static str> {
        let mut versions: Vec<&str> = Vec::new();
        let table = KINDS.iter().filter(|kind| kind.group == group);
        table.for_each(|kind| add(&mut versions, kind.version));
        let known = versions.len();
        let custom = self.custom().filter(|kind| kind.group == group);
        custom.for_each(|kind| add(&mut versions, kind.version));
        versions[known..].sort_by(|a, b| version_order(a, b));
        versions
    }

    /// Whether a row is (still) served.
    pub(in super::super) fn serves(&self, kind: &'static Kind) -> bool {
        kind.extension.is_none() || self.custom().any(|own| std::ptr::eq(own, kind))
    }

    /// The definition behind a kind that is served.
    pub(super) fn definition_of(&self, kind: &'static Kind) -> Option<&Definition> {
        self.definitions.iter().find(|definition| definition.kinds.iter().any(|own| std::ptr::eq(*own, kind)))
    }

    /// Where the history of a kind's objects begins: 0 for the kinds of the table.
    pub(in super::super) fn begins(&self, kind: &'static Kind) -> i64 {
        self.definition_of(kind).map_or(0, |definition| definition.created)
    }

    /// A change of it means that another definition stands behind the kind; empty for the kinds of the table.
    pub(in super::super) fn identity(&self, kind: &'static Kind) -> &str {
        self.definition_of(kind).map_or("", |definition| &definition.uid)
    }

    /// Whether the definition of a kind is being deleted.
    pub(crate) fn is_ending(&self, kind: &'static Kind) -> bool {
        self.definition_of(kind).is_some_and(|definition| definition.is_terminating)
    }
}

fn add(versions: &mut Vec<&'static str>, version: &'static str) {
    if !versions.contains(&version) {
        versions.push(version);
    }
}

/// Kubernetes' order of versions, the most mature first: `v2`, `v1`, `v1beta1`, `v1alpha2`, then all others by name.
pub(super) fn version_order(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Maturity, major and minor number of a version such as `v1beta2`.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at(end);
    let major = major.parse().ok().filter(|_| !major.starts_with('0'))?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (maturity, minor) = match rest.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (0, rest.strip_prefix("alpha")?),
    };
    let digits = !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit());
    Some((maturity, major, minor.parse().ok().filter(|_| digits && !minor.starts_with('0'))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_mature_version_comes_first() {
        let mut versions =
            ["foo10", "v1alpha1", "v11beta2", "v10", "v1", "foo1", "v3beta1", "v2", "v11alpha2", "v10beta3"];
        versions.sort_by(|a, b| version_order(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v11alpha2", "v1alpha1", "foo1", "foo10"]
        );
    }

    #[test]
    fn without_definitions_the_table_is_served() {
        let kinds = Kinds::default();
        assert_eq!(kinds.all().count(), KINDS.len());
        assert_eq!(kinds.by_plural("", "v1", "pods").map(|k| k.kind), Some("Pod"));
        assert_eq!(kinds.versions("apps"), ["v1"]);
        assert!(kinds.groups().contains(&"apiextensions.k8s.io"));
    }
}
