//! Which objects of a kind a list or a watch is about.

use bytes::Bytes;
use listwatch_proto::resource::{FieldSelector, Kind, LabelSelector, Object, Status};
use tracing::warn;

use super::Target;
use super::facts::Facts;
use super::kinds::strategy;
use crate::storage::KeyRange;

/// A collection seen through selectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) kind: &'static Kind,
    /// Empty = all namespaces.
    pub(super) namespace: String,
    /// Empty = all names.
    pub(super) name: String,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Reads the selectors of a request.
    ///
    /// # Errors
    /// `BadRequest` for a selector that does not parse, or names a field that the kind does not offer.
    pub(super) fn read(target: &Target, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = LabelSelector::parse(labels).map_err(|e| Status::bad_request(e.to_string()))?;
        let mut fields = FieldSelector::parse(fields).map_err(|e| Status::bad_request(e.to_string()))?;
        let rules = strategy(target.kind);
        for (path, _, _) in &fields.terms {
            let known = matches!(path.as_str(), "metadata.name" | "metadata.namespace");
            if !known && !rules.fields().contains(&path.as_str()) {
                return Err(Status::bad_request(rules.unknown_field(path)));
            }
        }
        let (mut namespace, mut name) = (target.namespace.clone(), target.name.clone());
        narrow(&mut fields, "metadata.name", &mut name);
        if target.kind.namespaced {
            narrow(&mut fields, "metadata.namespace", &mut namespace);
        }
        Ok(Self { kind: target.kind, namespace, name, labels, fields })
    }

    /// Whether it leaves objects out by what is in them, not only by where they are.
    pub(super) fn has_selectors(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// The keys to read.
    pub(super) fn range(&self) -> KeyRange {
        match self.single_key() {
            Some(key) => KeyRange::single(key),
            None => KeyRange::prefix(Bytes::from(self.kind.collection_key(&self.namespace))),
        }
    }

    /// The key, if it is about one object.
    pub(super) fn single_key(&self) -> Option<Bytes> {
        let named = !self.name.is_empty() && (!self.kind.namespaced || !self.namespace.is_empty());
        named.then(|| Bytes::from(self.kind.key(&self.namespace, &self.name)))
    }

    /// The value that a path must equal, if the selector pins it.
    pub(super) fn pinned(&self, path: &str) -> Option<&str> {
        self.fields.pinned(path)
    }

    /// Whether a namespace and a name are among those selected.
    pub(super) fn holds(&self, (namespace, name): (&str, &str)) -> bool {
        (self.name.is_empty() || self.name == name) && (self.namespace.is_empty() || self.namespace == namespace)
    }

    /// Whether an object, of which these are the facts, is selected.
    pub(super) fn matches(&self, facts: &Facts) -> bool {
        self.holds((&facts.namespace, &facts.name))
            && self.labels.matches(|key| facts.label(key))
            && self.fields.terms.iter().all(|(path, value, equal)| (facts.field(self.kind, path) == value) == *equal)
    }
}

/// A term that pins name or namespace narrows what is read at all.
fn narrow(fields: &mut FieldSelector, path: &str, place: &mut String) {
    let pinned = fields.pinned(path).filter(|value| !value.is_empty() && !value.contains('/')).map(str::to_owned);
    if let Some(pinned) = pinned.filter(|_| place.is_empty()) {
        fields.terms.retain(|(own, value, equal)| !(*equal && own == path && *value == pinned));
        *place = pinned;
    }
}

/// Namespace and name of a key under a kind's prefix; a key that names no object is reported.
pub(super) fn place_of<'k>(kind: &'static Kind, key: &'k [u8]) -> Option<(&'k str, &'k str)> {
    let place = std::str::from_utf8(key).ok().and_then(|key| kind.parse_key(key));
    if place.is_none() {
        warn!(key = %key.escape_ascii(), kind = kind.kind, "a key under the kind's prefix names no object; it is left out");
    }
    place
}

/// The facts of a stored value; one that is no object is reported.
pub(super) fn facts_of(kind: &'static Kind, key: &[u8], value: &[u8], revision: i64) -> Option<Facts> {
    let (namespace, name) = place_of(kind, key)?;
    match Object::from_slice(value) {
        Ok(object) if object.0.get("metadata").is_some_and(serde_json::Value::is_object) => {
            Some(Facts::of(kind, namespace, name, &object))
        }
        Ok(_) => {
            warn!(key = %key.escape_ascii(), revision, "a stored value has no metadata; it is left out");
            None
        }
        Err(error) => {
            warn!(key = %key.escape_ascii(), revision, %error, "a stored value is no object; it is left out");
            None
        }
    }
}
