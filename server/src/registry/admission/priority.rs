//! A pod's priority comes from its class, and one class at most is the default (upstream's Priority plugin, Kubernetes
//! 1.36).

use listwatch_proto::resource::{Kind, Object, Status};

use super::super::Registry;
use super::super::current::Current;
use crate::storage::KeyRange;

impl Registry {
    /// One class at most is the default (`old`: what this one replaces).
    pub(super) async fn admit_default_class(
        &self,
        kind: &'static Kind,
        object: &Object,
        old: Option<&Object>,
    ) -> Result<(), Status> {
        if !object.flag(&["globalDefault"]) {
            return Ok(());
        }
        match self.default_priority_class().await? {
            Some(other) if old.is_none_or(|old| old.name() != other.name()) => Err(Status::forbidden(
                kind,
                object.name(),
                &format!("PriorityClass {} is already marked as default. Only one default can exist", other.name()),
            )),
            _ => Ok(()),
        }
    }

    /// Gives a pod the priority of its class.
    pub(super) async fn admit_priority(&self, kind: &'static Kind, pod: &mut Object) -> Result<(), Status> {
        let forbidden = |pod: &Object, why: String| Err(Status::forbidden(kind, pod.name(), &why));
        let name = pod.text(&["spec", "priorityClassName"]).to_owned();
        let class = if name.is_empty() {
            self.default_priority_class().await?
        } else {
            let class = self.current(priority_classes(), "", &name).await?;
            if class.is_none() {
                return forbidden(pod, format!("no PriorityClass with name {name} was found"));
            }
            class.map(|class| class.object)
        };
        let value = class.as_ref().map_or(0, |class| class.int(&["value"]).unwrap_or(0));
        let policy = match &class {
            None => "PreemptLowerPriority",
            Some(class) => class.text(&["preemptionPolicy"]),
        };
        if let Some(own) = pod.int(&["spec", "priority"]).filter(|own| *own != value) {
            return forbidden(
                pod,
                format!(
                    "the integer value of priority ({own}) must not be provided in pod spec; priority admission \
                     controller computed {value} from the given PriorityClass name"
                ),
            );
        }
        let own = pod.text(&["spec", "preemptionPolicy"]);
        if !own.is_empty() && !policy.is_empty() && own != policy {
            return forbidden(
                pod,
                format!(
                    "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority admission \
                     controller computed {policy} from the given PriorityClass name"
                ),
            );
        }
        if let Some(class) = class.as_ref().filter(|_| name.is_empty()) {
            pod.set(&["spec", "priorityClassName"], class.name());
        }
        pod.set(&["spec", "priority"], value);
        if !policy.is_empty() {
            pod.set(&["spec", "preemptionPolicy"], policy);
        }
        Ok(())
    }

    /// The class of pods that name none; of several, the lowest.
    async fn default_priority_class(&self) -> Result<Option<Object>, Status> {
        let kind = priority_classes();
        let page = self.shared.store.range(&KeyRange::prefix(kind.collection_key("")), 0, 0).await?;
        // A value that is no object is no class; whoever asks for it by name is told so.
        let classes = page.kvs.into_iter().filter_map(|kv| Current::of(kv).ok()).map(|current| current.object);
        Ok(classes
            .filter(|class| class.flag(&["globalDefault"]))
            .min_by_key(|class| class.int(&["value"]).unwrap_or(0)))
    }
}

fn priority_classes() -> &'static Kind {
    Kind::by_api_version("scheduling.k8s.io/v1", "PriorityClass").expect("PriorityClass is a served kind")
}
