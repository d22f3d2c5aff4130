//! Writes the status of budgets.
//!
//! Invariant: a status is written over the very version that it was judged from, so that an eviction that was allowed in
//! between is never forgotten.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::ObjectReference;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::Value;
use tracing::warn;

use super::expected::{Expected, Unknown, expected};
use super::plan::{Wish, failed, plan, selector_of};
use crate::client::{Api, Cached, Error};
use crate::controller_manager::caches::{Caches, kind};
use crate::controller_manager::pod::{Pod, PodRef};
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, EventType, ReconcileError, Reconciler, reference_to};

/// A budget that could not be counted is looked at again after this, if nothing changes before.
const RETRY: Duration = Duration::from_secs(30);

/// Reconciles budgets.
pub struct DisruptionReconciler {
    caches: Caches,
    tools: Tools,
    budgets: Api<Object>,
}

impl DisruptionReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools) -> Self {
        let budgets = tools.api("policy", "poddisruptionbudgets");
        DisruptionReconciler { caches, tools, budgets }
    }

    /// The pods that a budget speaks of.
    fn pods(&self, budget: &Cached<Object>) -> Vec<PodRef> {
        let Some(selector) = selector_of(&budget.object) else { return Vec::new() };
        let mut pods = self.caches.pods.in_namespace(&budget.key.namespace);
        pods.retain(|pod| selector.matches(|key| pod.label(key)));
        pods
    }

    async fn wanted(&self, budget: &Cached<Object>, pods: &[PodRef]) -> Result<i64, Unknown> {
        if !Wish::of(&budget.object).needs_scale() {
            return Ok(0);
        }
        let Expected { wanted, unmanaged } = expected(&self.caches, &self.tools, pods).await?;
        if !unmanaged.is_empty() {
            let selector = budget.object.at(&["spec", "selector"]).unwrap_or(&Value::Null);
            let message = format!(
                "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, \
                 the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account \
                 for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
            );
            self.tools.tell(budget, EventType::Warning, "UnmanagedPods", message);
        }
        Ok(wanted)
    }

    async fn write(&self, budget: &Cached<Object>, status: Value) -> Result<(), Error> {
        let mut object = budget.object.clone();
        object.set(&["metadata", "resourceVersion"], budget.revision.to_string());
        object.0.insert("status".to_owned(), status);
        match self.budgets.update_status(&object).await {
            Err(error) if error.is_not_found() => Ok(()),
            answer => answer.map(drop),
        }
    }

    fn tell_not_deleted(&self, budget: &Cached<Object>, pod: &Cached<Pod>) {
        let resource_version = Some(pod.revision.to_string());
        let about = ObjectReference { resource_version, ..reference_to(kind("", "pods"), &pod.key, &pod.uid) };
        let (namespace, name) = (&budget.key.namespace, &budget.key.name);
        let message = format!("Pod was expected by PDB {namespace}/{name} to be deleted but it wasn't");
        self.tools.recorder.event_about(about, EventType::Warning, "NotDeleted", message);
    }
}

#[async_trait]
impl Reconciler for DisruptionReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let Some(budget) = self.caches.budgets.get(key) else { return Ok(Action::Done) };
        let pods = self.pods(&budget);
        if pods.is_empty() {
            self.tools.tell(&budget, EventType::Normal, "NoPods", "No matching pods found");
        }
        let wanted = match self.wanted(&budget, &pods).await {
            Ok(wanted) => wanted,
            Err(why) => {
                warn!(budget = %key, %why, "the pods of a disruption budget cannot be counted");
                let message = format!("Failed to calculate the number of expected pods: {why}");
                self.tools.tell(&budget, EventType::Warning, "CalculateExpectedPodCountFailed", message);
                let status = failed(&budget.object, &why.to_string(), self.tools.clock.now());
                if budget.object.at(&["status"]) != Some(&status) {
                    self.write(&budget, status).await?;
                }
                return Ok(Action::RequeueAfter(RETRY));
            }
        };
        let plan = plan(&budget.object, &pods, wanted, self.tools.clock.now());
        for pod in &plan.not_deleted {
            self.tell_not_deleted(&budget, pod);
        }
        if let Some(status) = plan.status {
            self.write(&budget, status).await?;
        }
        Ok(plan.recheck.map_or(Action::Done, Action::RequeueAfter))
    }
}
