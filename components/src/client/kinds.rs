//! Which types objects are read into.
//!
//! A type that can be read is [`Decode`]; one that stands for exactly one kind and can be written is a [`Resource`].
//! The types of `k8s-openapi` are both, [`Object`] (any kind, dynamic) is the first and writable. A program may cache
//! a slim type of its own by implementing [`Decode`] for it.

use std::ops::Deref;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use listwatch_proto::v1;
use serde::Serialize;

/// A type that an object of the wire is read into, once.
pub trait Decode: Sized + Send + Sync + 'static {
    /// Reads the object's JSON (and whatever else of the message is useful).
    fn decode(wire: &v1::Object) -> Result<Self, serde_json::Error>;

    /// Drops what no cache needs: who owns which fields, which is often half of an object. An update that does not name
    /// the owners leaves them as they are (Kubernetes 1.36).
    fn forget_managers(&mut self) {}
}

/// A type that stands for one kind, with its whole content.
pub trait Resource: Decode + Clone + Serialize {
    /// The kind's row of facts.
    fn kind() -> &'static Kind;
    /// The object's metadata.
    fn metadata(&self) -> &ObjectMeta;
    /// The object's metadata.
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// Namespace and name.
    fn key(&self) -> ObjectKey {
        let meta = self.metadata();
        ObjectKey::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

/// An object as the server gave it: what identifies it, and the decoded content (which it dereferences to).
#[derive(Debug, Clone, PartialEq)]
pub struct Cached<T> {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its uid: an object made anew under the same name has another one.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub revision: i64,
    /// The content.
    pub object: T,
}

impl<T: Decode> Cached<T> {
    /// Reads an object of the wire.
    pub fn from_wire(wire: v1::Object) -> Result<Self, super::Error> {
        let object = T::decode(&wire).map_err(|source| super::Error::Decode {
            kind: wire.kind.clone(),
            name: ObjectKey::new(wire.namespace.as_str(), wire.name.as_str()).to_string(),
            source,
        })?;
        let v1::Object { namespace, name, uid, revision, .. } = wire;
        Ok(Cached { key: ObjectKey { namespace, name }, uid, revision, object })
    }
}

impl<T> Deref for Cached<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.object
    }
}

impl Decode for Object {
    fn decode(wire: &v1::Object) -> Result<Self, serde_json::Error> {
        Object::from_slice(&wire.json)
    }

    fn forget_managers(&mut self) {
        self.remove(&["metadata", "managedFields"]);
    }
}

macro_rules! resources {
    ($($module:ident::$version:ident::$type:ident),* $(,)?) => {$(
        impl Decode for k8s_openapi::api::$module::$version::$type {
            fn decode(wire: &v1::Object) -> Result<Self, serde_json::Error> {
                serde_json::from_slice(&wire.json)
            }

            fn forget_managers(&mut self) {
                self.metadata.managed_fields = None;
            }
        }

        impl Resource for k8s_openapi::api::$module::$version::$type {
            fn kind() -> &'static Kind {
                Kind::by_api_version(
                    <Self as k8s_openapi::Resource>::API_VERSION,
                    <Self as k8s_openapi::Resource>::KIND,
                )
                .expect("a test checks that every kind in this list has its row in KINDS")
            }

            fn metadata(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*

    #[cfg(test)]
    fn every_kind() -> Vec<&'static Kind> {
        vec![$(<k8s_openapi::api::$module::$version::$type as Resource>::kind()),*]
    }};
}

resources![
    core::v1::Namespace,
    core::v1::Node,
    core::v1::Pod,
    core::v1::Event,
    core::v1::ConfigMap,
    apps::v1::Deployment,
    apps::v1::ReplicaSet,
    coordination::v1::Lease,
    events::v1::Event,
    scheduling::v1::PriorityClass,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_stands_for_a_served_kind() {
        assert!(!every_kind().is_empty());
    }

    #[test]
    fn a_cache_holds_no_managers() {
        let json = br#"{"metadata":{"name":"a","managedFields":[{"manager":"m","fieldsV1":{}}]}}"#;
        let wire = v1::Object { json: json.to_vec().into(), ..v1::Object::default() };
        let mut object = <Object as Decode>::decode(&wire).expect("an object");
        object.forget_managers();
        assert_eq!(object.at(&["metadata"]), Some(&serde_json::json!({"name": "a"})));
        let mut map = k8s_openapi::api::core::v1::ConfigMap::decode(&wire).expect("a ConfigMap");
        assert!(map.metadata.managed_fields.is_some());
        map.forget_managers();
        assert_eq!((map.metadata.managed_fields, map.metadata.name.as_deref()), (None, Some("a")));
    }
}
