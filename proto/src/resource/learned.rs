//! Kinds that a program learns while it runs: from a CustomResourceDefinition, or from a server that serves them.
//!
//! A row of such a kind lives as long as the program, as those of the table do: whoever holds a `&'static Kind` need not
//! know where it came from. So rows are never given back.
//!
//! A program that speaks to a server [`learn`]s what it serves; from then on [`Kind::by_name`] and its like find these
//! kinds behind those of the table.
//!
//! Invariant: learning is bounded ([`LEARNED_MAX`]), and the same facts learned again are the same row.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

use super::kind::{Kind, Storage};
use super::rows::KINDS;

/// Rows that are learned at most: far more than a cluster has kinds, and no more than some megabytes.
pub const LEARNED_MAX: usize = 10_000;

/// What a program has hung on the row of a kind it learned.
#[derive(Clone, Copy)]
pub struct Extension(pub &'static (dyn Any + Send + Sync));

impl Extension {
    /// What hangs there, if it is of this type.
    pub fn get<T: Any>(self) -> Option<&'static T> {
        self.0.downcast_ref()
    }
}

/// Two are the same if they are one thing.
impl PartialEq for Extension {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(self.0, other.0)
    }
}

impl Eq for Extension {}

impl fmt::Debug for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Extension")
    }
}

/// The facts of a kind, as they are learned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct LearnedKind {
    /// `stable.example.com`.
    pub group: String,
    /// `v1`.
    pub version: String,
    /// `CronTab`.
    pub kind: String,
    /// `CronTabList`.
    pub list_kind: String,
    /// `crontabs`.
    pub plural: String,
    /// `crontab`.
    pub singular: String,
    /// `ct`.
    pub short_names: Vec<String>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// `status`, `scale`.
    pub subresources: Vec<String>,
    /// `all`.
    pub categories: Vec<String>,
    /// Whether another version of the kind is looked at first: its objects are the same.
    pub is_view: bool,
}

impl LearnedKind {
    /// The row of these facts; `None` when too many have been learned.
    pub fn row(self) -> Option<&'static Kind> {
        static ROWS: OnceLock<Mutex<HashMap<LearnedKind, &'static Kind>>> = OnceLock::new();
        // A panic of another thread leaves the map whole: rows are put in as the last step.
        let mut rows = ROWS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.get(&self) {
            return Some(row);
        }
        if rows.len() >= LEARNED_MAX {
            return None;
        }
        let row = self.clone().leak(None);
        rows.insert(self, row);
        Some(row)
    }

    /// A row of these facts that is kept for good. Whoever calls this bounds how often.
    pub fn leak(self, extension: Option<Extension>) -> &'static Kind {
        let key_prefix = format!("/registry/{}/{}/", self.group, self.plural);
        Box::leak(Box::new(Kind {
            group: text(self.group),
            version: text(self.version),
            kind: text(self.kind),
            list_kind: text(self.list_kind),
            plural: text(self.plural),
            singular: text(self.singular),
            short_names: texts(self.short_names),
            namespaced: self.namespaced,
            key_prefix: text(key_prefix),
            subresources: texts(self.subresources),
            categories: texts(self.categories),
            deletes_collections: true,
            storage: if self.is_view { Storage::View } else { Storage::Own },
            extension,
        }))
    }
}

/// What was learned last.
static LEARNED: RwLock<Vec<&'static Kind>> = RwLock::new(Vec::new());

/// Takes note of the kinds that a server serves beside those of the table, in place of what was learned before.
pub fn learn(kinds: impl IntoIterator<Item = LearnedKind>) {
    let table = |kind: &LearnedKind| {
        KINDS.iter().any(|k| k.group == kind.group && k.version == kind.version && k.plural == kind.plural)
    };
    let rows: Vec<_> = kinds.into_iter().filter(|kind| !table(kind)).filter_map(LearnedKind::row).collect();
    *LEARNED.write().unwrap_or_else(PoisonError::into_inner) = rows;
}

/// The kinds that were learned last.
pub fn learned() -> Vec<&'static Kind> {
    LEARNED.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// The first of the learned kinds of which this holds.
pub(super) fn find(holds: impl Fn(&Kind) -> bool) -> Option<&'static Kind> {
    LEARNED.read().unwrap_or_else(PoisonError::into_inner).iter().copied().find(|kind| holds(kind))
}

impl From<crate::v1::ResourceInfo> for LearnedKind {
    /// What a server tells of a kind in its list.
    fn from(info: crate::v1::ResourceInfo) -> Self {
        LearnedKind {
            group: info.group,
            version: info.version,
            list_kind: String::new(),
            kind: info.kind,
            plural: info.plural,
            singular: info.singular,
            short_names: info.short_names,
            namespaced: info.namespaced,
            subresources: info.subresources,
            categories: info.categories,
            is_view: false,
        }
    }
}

/// A text that is kept for good.
pub fn text(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Texts that are kept for good.
pub fn texts(list: Vec<String>) -> &'static [&'static str] {
    Vec::leak(list.into_iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(kind: &str) -> LearnedKind {
        LearnedKind {
            group: "example.com".into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
            namespaced: true,
            ..LearnedKind::default()
        }
    }

    #[test]
    fn the_same_facts_are_the_same_row() {
        let (a, b) = (learned("Widget").row().expect("learned"), learned("Widget").row().expect("learned"));
        assert!(std::ptr::eq(a, b));
        assert_eq!(a.key("n", "x"), "/registry/example.com/widgets/n/x");
        assert_ne!(learned("Gadget").row(), Some(a));
    }

    #[test]
    fn what_was_learned_is_found_behind_the_table() {
        let pods =
            LearnedKind { kind: "Pod".into(), version: "v1".into(), plural: "pods".into(), ..LearnedKind::default() };
        learn([pods, LearnedKind { short_names: vec!["spr".into()], ..learned("Sprocket") }]);
        assert_eq!(Kind::by_name("spr").map(|k| k.kind), Some("Sprocket"));
        assert_eq!(Kind::by_api_version("example.com/v1", "Sprocket").map(|k| k.plural), Some("sprockets"));
        assert_eq!(super::learned().len(), 1, "the table's own kinds are not learned");
    }

    #[test]
    fn what_hangs_on_a_row_is_found_by_its_type() {
        let row = learned("Gizmo").leak(Some(Extension(Box::leak(Box::new(7u32)))));
        let extension = row.extension.expect("given");
        assert_eq!((extension.get::<u32>(), extension.get::<u64>()), (Some(&7), None));
        assert!(row != learned("Gizmo").leak(None), "what hangs on a row tells it from others");
    }
}
