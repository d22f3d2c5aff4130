//! The objects that are there from the start.
//!
//! An untouched store stays at revision 1: they are written at the first use of a resource door, not before.

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Status, time};
use serde_json::json;

use super::stored::encode;
use super::{Guard, Registry, Write};
use crate::storage::Origin;

/// The namespaces that are there from the start.
pub(super) const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The namespaces that cannot be deleted (Kubernetes 1.36).
pub(super) const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

impl Registry {
    /// Writes the first objects if they are not there. Each verb begins with this; after the first time it costs one
    /// look at a flag.
    pub(super) async fn ready(&self) -> Result<(), Status> {
        self.shared.ready.get_or_try_init(|| self.write_first_objects()).await.map(|_| ())
    }

    async fn write_first_objects(&self) -> Result<(), Status> {
        let kind = Kind::by_api_version("v1", "Namespace").expect("Namespace is a served kind");
        let origin = Origin::user("system:registry");
        for name in NAMESPACES {
            if self.current(kind, "", name).await?.is_some() {
                continue;
            }
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {
                    "name": name, "uid": uuid::Uuid::new_v4().to_string(), "creationTimestamp": time(self.now()),
                    "labels": {"kubernetes.io/metadata.name": name},
                },
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            let object = listwatch_proto::resource::Object::from_value(namespace).expect("a literal map");
            let key = Bytes::from(kind.key("", name));
            let guard = Guard { key: key.clone(), mod_revision: 0 };
            let write = Write::Put { key, value: encode(&object), lease: 0 };
            // Refused means that another server has just written it, which is as good.
            self.shared.store.commit(vec![guard], vec![write], &origin).await?;
        }
        Ok(())
    }
}
