//! Which objects of a kind a list or a watch is about.

use bytes::Bytes;
use listwatch_proto::resource::{FieldSelector, Kind, LabelSelector, Object, Status};
use tracing::warn;

use super::Target;
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
        // A term that pins name or namespace narrows what is read at all.
        let mut name = target.name.clone();
        let mut namespace = target.namespace.clone();
        for (path, place) in [("metadata.name", &mut name), ("metadata.namespace", &mut namespace)] {
            let pinned =
                fields.pinned(path).filter(|value| !value.is_empty() && !value.contains('/')).map(str::to_owned);
            if let Some(pinned) =
                pinned.filter(|_| place.is_empty() && (path == "metadata.name" || target.kind.namespaced))
            {
                fields.terms.retain(|(p, v, equal)| !(*equal && p == path && *v == pinned));
                *place = pinned;
            }
        }
        Ok(Self { kind: target.kind, namespace, name, labels, fields })
    }

    /// Whether it leaves objects out by what is in them, not only by where they are.
    pub(super) fn has_selectors(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// The keys to read.
    pub(super) fn range(&self) -> KeyRange {
        let kind = self.kind;
        if !self.name.is_empty() && (!kind.namespaced || !self.namespace.is_empty()) {
            return KeyRange::single(Bytes::from(kind.key(&self.namespace, &self.name)));
        }
        KeyRange::prefix(Bytes::from(kind.collection_key(&self.namespace)))
    }

    /// Whether a key of the range is one of an object of the kind; any other is reported.
    pub(super) fn owns(&self, key: &[u8]) -> bool {
        let place = std::str::from_utf8(key).ok().and_then(|key| self.kind.parse_key(key));
        if place.is_none() {
            warn!(key = %key.escape_ascii(), kind = self.kind.kind, "a key under the kind's prefix names no object; it is left out");
        }
        place.is_some_and(|(namespace, name)| {
            (self.name.is_empty() || self.name == name) && (self.namespace.is_empty() || self.namespace == namespace)
        })
    }

    /// Whether an object satisfies the selectors.
    pub(super) fn matches(&self, object: &Object) -> bool {
        self.labels.matches_object(object) && self.fields.matches(|path| self.field(object, path))
    }

    fn field(&self, object: &Object, path: &str) -> Option<String> {
        match path {
            "metadata.name" => Some(object.name().to_owned()),
            "metadata.namespace" => Some(object.namespace().to_owned()),
            _ => strategy(self.kind).field(object, path),
        }
    }
}
