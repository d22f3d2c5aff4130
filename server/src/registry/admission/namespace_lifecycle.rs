//! Nothing new comes into a namespace that is missing or going (upstream's NamespaceLifecycle plugin, Kubernetes 1.36). That
//! some namespaces cannot be deleted stands with their kind.

use bytes::Bytes;
use listwatch_proto::resource::{Cause, Kind, Object, Status};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::current::Current;
use super::super::{Guard, Registry};

impl Registry {
    /// Refuses an object of a namespace that is missing or going. The guard holds the
    /// answer until the object is written, so that nothing appears in a namespace that is being emptied.
    pub(in crate::registry) async fn admit_into_namespace(
        &self,
        kind: &'static Kind,
        object: &Object,
    ) -> Result<Option<Guard>, Status> {
        if !kind.namespaced {
            return Ok(None);
        }
        let namespaces = Kind::by_api_version("v1", "Namespace").expect("Namespace is a served kind");
        let name = object.namespace();
        let key = Bytes::from(namespaces.key("", name));
        if let Some(mod_revision) = self.shared.living.at(name)
            && self.shared.store.mod_revision(&key).await? == Some(mod_revision)
        {
            return Ok(Some(Guard { key, mod_revision }));
        }
        let Some(namespace) = self.shared.store.get(&key).await?.0 else {
            return Err(Status::not_found(namespaces, name));
        };
        let is_terminating = match serde_json::from_slice::<Lived>(&namespace.value) {
            Ok(lived) => lived.metadata.deletion_timestamp.is_some(),
            // Its owner is told what is wrong with it.
            Err(_) => Current::of(namespace.clone())?.object.is_terminating(),
        };
        if is_terminating {
            let why = format!("unable to create new content in namespace {name} because it is being terminated");
            let mut status = Status::forbidden(kind, object.name(), &why);
            status.causes = vec![Cause {
                reason: "NamespaceTerminating".into(),
                message: format!("namespace {name} is being terminated"),
                field: "metadata.namespace".into(),
            }];
            return Err(status);
        }
        self.shared.living.note(name, namespace.mod_revision);
        Ok(Some(Guard { key, mod_revision: namespace.mod_revision }))
    }
}

/// Whether an object is on its way out, read without the rest of it.
#[derive(Deserialize)]
struct Lived {
    metadata: LivedMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LivedMetadata {
    deletion_timestamp: Option<IgnoredAny>,
}
