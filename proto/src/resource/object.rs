//! An object: a JSON map with typed access to its metadata.
//!
//! Invariant: what is not asked for by name is kept as it came, so that a program that knows less than the server
//! never loses a field when it writes back.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Kind;

/// A Kubernetes object as JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Object(pub Map<String, Value>);

/// Namespace and name: what a reconcile request carries. The namespace is empty for cluster-scoped kinds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct ObjectKey {
    /// Empty for cluster-scoped kinds.
    pub namespace: String,
    /// Unique within the namespace and kind.
    pub name: String,
}

impl ObjectKey {
    /// A key of these two.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() { f.write_str(&self.name) } else { write!(f, "{}/{}", self.namespace, self.name) }
    }
}

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// `apps/v1`.
    pub api_version: String,
    /// `ReplicaSet`.
    pub kind: String,
    /// The owner's name, in the same namespace or cluster-scoped.
    pub name: String,
    /// The owner's uid: an object of the same name made anew is not the owner.
    pub uid: String,
    /// Whether this owner manages the object; at most one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether foreground deletion of the owner waits for this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl Object {
    /// Decodes JSON that must be a map.
    pub fn from_slice(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// Takes a value that must be a map; anything else comes back.
    pub fn from_value(value: Value) -> Result<Self, Value> {
        match value {
            Value::Object(map) => Ok(Object(map)),
            other => Err(other),
        }
    }

    /// The object as a JSON value.
    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    /// Compact JSON.
    pub fn to_vec(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).expect("a JSON map always serializes")
    }

    /// Reads a typed struct out of the object.
    pub fn decode<T: for<'de> Deserialize<'de>>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(Value::Object(self.0.clone()))
    }

    /// An object of a typed struct.
    pub fn encode<T: Serialize>(value: &T) -> Result<Self, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(value)?)
    }

    /// The value at a path of map keys.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.0.get(*first)?, |value, key| value.get(key))
    }

    /// The value at a path of map keys; missing or non-map steps are made maps.
    pub fn at_mut(&mut self, path: &[&str]) -> &mut Value {
        let mut map = &mut self.0;
        let (last, steps) = path.split_last().expect("a path names at least one key");
        for key in steps {
            let value = map.entry(*key).or_insert_with(|| Value::Object(Map::new()));
            if !value.is_object() {
                *value = Value::Object(Map::new());
            }
            map = value.as_object_mut().expect("made a map above");
        }
        map.entry(*last).or_insert(Value::Null)
    }

    /// Sets the value at a path of map keys.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        *self.at_mut(path) = value.into();
    }

    /// Takes away the value at a path of map keys.
    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, steps) = path.split_last()?;
        let mut map = &mut self.0;
        for key in steps {
            map = map.get_mut(*key)?.as_object_mut()?;
        }
        map.remove(*last)
    }

    /// The text at a path, empty if there is none.
    pub fn text(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    /// The number at a path.
    pub fn int(&self, path: &[&str]) -> Option<i64> {
        self.at(path).and_then(Value::as_i64)
    }

    /// The truth at a path, false if there is none.
    pub fn flag(&self, path: &[&str]) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> &str {
        self.text(&["apiVersion"])
    }

    /// `kind`.
    pub fn kind_name(&self) -> &str {
        self.text(&["kind"])
    }

    /// The served kind of `apiVersion` and `kind`.
    pub fn kind(&self) -> Option<&'static Kind> {
        Kind::by_api_version(self.api_version(), self.kind_name())
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }

    /// Namespace and name.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.namespace(), self.name())
    }

    /// `metadata.resourceVersion` as a revision; 0 if absent or not a number.
    pub fn revision(&self) -> i64 {
        self.text(&["metadata", "resourceVersion"]).parse().unwrap_or(0)
    }

    /// `metadata.generation`; 0 if absent.
    pub fn generation(&self) -> i64 {
        self.int(&["metadata", "generation"]).unwrap_or(0)
    }

    /// `metadata.deletionTimestamp`, if the object is being deleted.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        self.at(&["metadata", "deletionTimestamp"]).and_then(Value::as_str)
    }

    /// Whether the object is marked for deletion.
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp().is_some()
    }

    /// `metadata.creationTimestamp`, empty if absent.
    pub fn creation_timestamp(&self) -> &str {
        self.text(&["metadata", "creationTimestamp"])
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "labels"])?.get(key)?.as_str()
    }

    /// `metadata.labels`.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.at(&["metadata", "labels"]))
    }

    /// The value of an annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.at(&["metadata", "annotations"])?.get(key)?.as_str()
    }

    /// `metadata.annotations`.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.at(&["metadata", "annotations"]))
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.at(&["metadata", "finalizers"])
            .and_then(Value::as_array)
            .map_or(&[][..], Vec::as_slice)
            .iter()
            .filter_map(Value::as_str)
    }

    /// `metadata.ownerReferences`; entries that are not well formed are left out.
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        self.at(&["metadata", "ownerReferences"])
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(|v| OwnerReference::deserialize(v).ok()).collect())
            .unwrap_or_default()
    }

    /// The owner that manages this object.
    pub fn controller(&self) -> Option<OwnerReference> {
        self.owner_references().into_iter().find(|o| o.controller == Some(true))
    }

    /// A condition of `status.conditions` by type.
    pub fn condition(&self, kind: &str) -> Option<&Value> {
        self.at(&["status", "conditions"])?.as_array()?.iter().find(|c| c["type"] == kind)
    }
}

fn pairs(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    map.and_then(Value::as_object).into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_survive_a_change() {
        let mut object = Object::from_value(json!({"metadata": {"name": "a"}, "future": {"x": [1]}})).expect("a map");
        object.set(&["metadata", "labels", "app"], "web");
        assert_eq!(object.label("app"), Some("web"));
        assert_eq!(object.at(&["future", "x"]), Some(&json!([1])));
        assert_eq!(object.remove(&["metadata", "labels", "app"]), Some(json!("web")));
        assert_eq!(object.label("app"), None);
    }

    #[test]
    fn only_a_map_is_an_object() {
        assert!(Object::from_slice(b"[1]").is_err());
        assert_eq!(Object::from_value(json!(3)), Err(json!(3)));
    }
}
