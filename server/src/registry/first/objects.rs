//! The objects that are there from the start.
//!
//! An untouched store stays at revision 1: they are written at the first use of a resource door, not before.

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Object, Status, time};
use serde_json::{Value, json};

use crate::registry::current::Current;
use crate::registry::kinds::{SYSTEM_CLASSES, system_class_object};
use crate::registry::stored::encode;
use crate::registry::{Guard, Registry, Security, Write};
use crate::storage::{KeyValue, Origin};

/// First objects in one commit: below what an etcd takes in a transaction (128 operations).
const FIRST_WRITES_MAX: usize = 100;

/// The namespaces that are there from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The ConfigMap that tells other servers whom the API believes.
const AUTHENTICATION: &str = "extension-apiserver-authentication";
/// Its key for who signs the certificates of clients.
const CLIENT_AUTHORITY: &str = "client-ca-file";

impl Registry {
    /// Writes the first objects if they are not there. Each verb begins with this; after the first time it costs one
    /// look at a flag.
    pub(in crate::registry) async fn ready(&self) -> Result<(), Status> {
        if self.shared.ready.initialized() && self.knows_kinds() {
            return Ok(());
        }
        // Apart, so that every later request does not carry the state of this work around with it.
        Box::pin(async {
            self.shared.ready.get_or_try_init(|| self.begin_service()).await?;
            self.kinds().await.map(|_| ())
        })
        .await
    }

    async fn begin_service(&self) -> Result<(), Status> {
        self.write_first_objects().await?;
        self.settle_claims().await?;
        self.write_api_service().await?;
        self.write_authentication().await
    }

    /// Tells other servers of the cluster whom this one believes: they know clients by the same certificates
    /// (kube-apiserver's cluster authentication trust).
    async fn write_authentication(&self) -> Result<(), Status> {
        let Some(authority) = &self.shared.options.client_authority else { return Ok(()) };
        let kind = Kind::by_api_version("v1", "ConfigMap").expect("ConfigMap is a served kind");
        let key = Bytes::from(kind.key("kube-system", AUTHENTICATION));
        let store = &self.shared.store;
        let (object, guard) = match store.get(&key).await?.0 {
            None => {
                let mut object = Object::default();
                object.set(&["apiVersion"], "v1");
                object.set(&["kind"], "ConfigMap");
                object.set(&["metadata"], json!({"name": AUTHENTICATION, "namespace": "kube-system"}));
                object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
                object.set(&["metadata", "creationTimestamp"], time(self.now()));
                (object, Guard { key: key.clone(), mod_revision: 0 })
            }
            // What is damaged stays, as above.
            Some(kv) => match Current::of(kv) {
                Ok(current) => (current.object.clone(), current.guard()),
                Err(_) => return Ok(()),
            },
        };
        if object.text(&["data", CLIENT_AUTHORITY]) == authority {
            return Ok(());
        }
        let mut told = object;
        told.set(&["data", CLIENT_AUTHORITY], authority.as_str());
        let write = Write::Put { key, value: encode(&told), lease: 0 };
        // Refused means that another server has just written it; the next start looks again.
        store.commit(vec![guard], vec![write], &Origin::user("system:registry")).await?;
        Ok(())
    }

    /// Writes those of the first objects that are missing.
    pub(in crate::registry) async fn write_first_objects(&self) -> Result<(), Status> {
        for name in NAMESPACES {
            let namespace = json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
                "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
            });
            self.write_first_object(namespace).await?;
        }
        for class in &SYSTEM_CLASSES {
            self.write_first_object(system_class_object(class)).await?;
        }
        match self.shared.security.get() {
            Some(security) => self.write_policy(&**security).await,
            None => Ok(()),
        }
    }

    /// Writes the objects of the default policy: all at once where none is there, else what is missing, and what is
    /// missing in those that are there.
    async fn write_policy(&self, security: &dyn Security) -> Result<(), Status> {
        let store = &self.shared.store;
        let mut missing = Vec::new();
        for wanted in security.first_objects() {
            let kind = Kind::by_api_version(wanted.api_version(), wanted.kind_name()).expect("a served kind");
            let key = Bytes::from(kind.key(wanted.namespace(), wanted.name()));
            match store.get(&key).await?.0 {
                None => missing.push((key, wanted)),
                // What is damaged stays, as above.
                Some(kv) => self.complete(security, kv, &wanted).await?,
            }
        }
        for objects in missing.chunks(FIRST_WRITES_MAX) {
            let guards = objects.iter().map(|(key, _)| Guard { key: key.clone(), mod_revision: 0 }).collect();
            let writes = objects.iter().map(|(key, wanted)| {
                let mut object = wanted.clone();
                object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
                object.set(&["metadata", "creationTimestamp"], time(self.now()));
                Write::Put { key: key.clone(), value: encode(&object), lease: 0 }
            });
            // Refused means that another server is writing them, which is as good.
            store.commit(guards, writes.collect(), &Origin::user("system:registry")).await?;
        }
        Ok(())
    }

    async fn complete(&self, security: &dyn Security, kv: KeyValue, wanted: &Object) -> Result<(), Status> {
        let Ok(current) = Current::of(kv) else { return Ok(()) };
        if let Some(completed) = security.completed(&current.object, wanted) {
            let write = Write::Put { key: current.key.clone(), value: encode(&completed), lease: 0 };
            // Refused means that somebody has just changed it; the next start looks again.
            self.shared.store.commit(vec![current.guard()], vec![write], &Origin::user("system:registry")).await?;
        }
        Ok(())
    }

    async fn write_first_object(&self, object: Value) -> Result<(), Status> {
        let mut object = Object::from_value(object).expect("a literal map");
        let kind = Kind::by_api_version(object.api_version(), object.kind_name()).expect("a served kind");
        let key = Bytes::from(kind.key("", object.name()));
        // Whatever is there stays, even if it is damaged: only its owner can say what it should be.
        if self.shared.store.get(&key).await?.0.is_some() {
            return Ok(());
        }
        object.set(&["metadata", "uid"], uuid::Uuid::new_v4().to_string());
        object.set(&["metadata", "creationTimestamp"], time(self.now()));
        let guard = Guard { key: key.clone(), mod_revision: 0 };
        let write = Write::Put { key, value: encode(&object), lease: 0 };
        // Refused means that another server has just written it, which is as good.
        self.shared.store.commit(vec![guard], vec![write], &Origin::user("system:registry")).await?;
        Ok(())
    }
}
