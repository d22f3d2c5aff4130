//! Claims and ingresses that name no class get the default one (upstream's DefaultStorageClass and DefaultIngressClass
//! plugins, Kubernetes 1.36).

use listwatch_proto::resource::{Object, Status};
use serde_json::Value;

use super::super::Registry;

/// An older way for a claim to name its class.
const STORAGE: &str = "volume.beta.kubernetes.io/storage-class";
/// An older way for an ingress to name its class.
const INGRESS: &str = "kubernetes.io/ingress.class";
/// Marks of a default class of storage, today's and an older one.
const DEFAULT_STORAGE: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// The mark of a default class of ingresses.
const DEFAULT_INGRESS: [&str; 1] = ["ingressclass.kubernetes.io/is-default-class"];

impl Registry {
    /// Gives a claim the default class of storage, if it names none.
    pub(super) async fn admit_storage_class(&self, claim: &mut Object) -> Result<(), Status> {
        self.admit_class(claim, "StorageClass", "storageClassName", STORAGE, &DEFAULT_STORAGE).await
    }

    /// Gives an ingress the default class, if it names none.
    pub(super) async fn admit_ingress_class(&self, ingress: &mut Object) -> Result<(), Status> {
        self.admit_class(ingress, "IngressClass", "ingressClassName", INGRESS, &DEFAULT_INGRESS).await
    }

    async fn admit_class(
        &self,
        object: &mut Object,
        kind: &str,
        field: &str,
        older: &str,
        marks: &[&str],
    ) -> Result<(), Status> {
        let named = object.at(&["spec", field]).is_some_and(|class| !class.is_null());
        if named || object.annotation(older).is_some() {
            return Ok(());
        }
        let classes = self.all_of(kind, "").await?;
        if let Some(class) = newest(&classes, marks) {
            object.set(&["spec", field], Value::from(class));
        }
        Ok(())
    }
}

/// The class that is marked; of several the newest, and of those the first by name.
fn newest<'a>(classes: &'a [Object], marks: &[&str]) -> Option<&'a str> {
    let marked = classes.iter().filter(|class| marks.iter().any(|mark| class.annotation(mark) == Some("true")));
    marked
        .min_by(|a, b| b.creation_timestamp().cmp(a.creation_timestamp()).then_with(|| a.name().cmp(b.name())))
        .map(Object::name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_default_wins_then_the_first_by_name() {
        let class = |name: &str, born: &str, marked: bool| {
            let mark = if marked { "true" } else { "false" };
            let metadata = json!({"name": name, "creationTimestamp": born,
                "annotations": {"storageclass.kubernetes.io/is-default-class": mark}});
            Object::from_value(json!({"metadata": metadata})).expect("a map")
        };
        let (old, new) = ("2030-01-01T00:00:00Z", "2030-01-02T00:00:00Z");
        let classes = [class("a", old, true), class("c", new, true), class("b", new, true), class("d", new, false)];
        assert_eq!(newest(&classes, &DEFAULT_STORAGE), Some("b"));
        assert_eq!(newest(&classes[3..], &DEFAULT_STORAGE), None);
    }
}
