//! The eviction of a pod: a deletion that disruption budgets have a say in.
//!
//! Invariant: a budget is spent and the pod marked in one commit, under guards that neither has changed since they were
//! judged, and only then the pod is deleted. Nobody sees a budget spent for a pod that was not to go.

use listwatch_proto::resource::{Cause, Kind, Object, Reason, Status, time};
use serde_json::json;

use crate::registry::body::{self, Expected};
use crate::registry::current::{Current, ROUNDS_MAX};
use crate::registry::delete::check_preconditions;
use crate::registry::kinds::{covers_pod, goes_free, needs_no_budget, spend_budget};
use crate::registry::schema::json::Node;
use crate::registry::stored::encode;
use crate::registry::update::too_busy;
use crate::registry::{
    Change, ChangeVerb, Commit, DeleteOptions, Registry, RequestContext, StoredObject, Target, Write, WriteOptions,
    Written,
};
use crate::storage::KeyRange;

const EVICTION: Expected<'static> =
    Expected { api_version: "policy/v1", kind: "Eviction", schema: "policy/v1.Eviction", custom: None };

/// The older form, which is read the same (Kubernetes 1.36).
const EVICTION_BETA: Expected<'static> = Expected { api_version: "policy/v1beta1", ..EVICTION };

/// How a pod may go.
enum Leave {
    /// No budget is spent; the pod must not change until it goes, since it might become healthy.
    Free,
    /// This budget is written as spent.
    Spends(Current, Object),
    /// No budget speaks of it.
    Uncovered,
}

impl Registry {
    /// Evicts a pod. The answer is a Status of success.
    pub(in crate::registry) async fn evict(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let is_beta = Node::parse(body).is_ok_and(|node| match node.get("apiVersion") {
            Some(Node::String(version)) => version == EVICTION_BETA.api_version,
            _ => false,
        });
        let expected = if is_beta { EVICTION_BETA } else { EVICTION };
        let body = body::read(expected, body, options.field_validation)?;
        let mut eviction = body.object;
        self.place(target, &mut eviction)?;
        if eviction.name() != target.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let deletion = delete_options(&eviction, options.dry_run)?;
        for _ in 0..ROUNDS_MAX {
            let Some(current) = self.current(target.kind, &target.namespace, &target.name).await? else {
                return Err(Status::not_found(target.kind, &target.name));
            };
            check_preconditions(target.kind, &current, &deletion)?;
            let (verb, kind, old) = (ChangeVerb::Create, target.kind, Some(&current.object));
            let change =
                Change { verb, kind, subresource: "eviction", asked_name: &target.name, new: Some(&eviction), old };
            self.admit_change(context, &change).await?;
            let leave = self.leave(target, &current.object).await?;
            if self.let_go(context, target, &current, leave, &deletion).await? {
                let object = StoredObject::success(target.kind);
                return Ok(Written { revision: self.revision(), object, created: true, warnings: body.warnings });
            }
        }
        Err(too_busy(target.kind, &target.name))
    }

    /// What the budgets of a pod say.
    async fn leave(&self, target: &Target, pod: &Object) -> Result<Leave, Status> {
        if needs_no_budget(pod) {
            // One that is yet to run might run before it goes; one that has ended or goes cannot come back.
            let pending = pod.text(&["status", "phase"]) == "Pending" && !pod.is_terminating();
            return Ok(if pending { Leave::Free } else { Leave::Uncovered });
        }
        let mut budgets = self.budgets(&target.namespace, pod).await?;
        if budgets.len() > 1 {
            // Upstream's own code: a client that is told to try again would never end.
            return Err(Status::without_reason(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
        let Some(budget) = budgets.pop() else { return Ok(Leave::Uncovered) };
        if goes_free(&budget.object, pod) {
            return Ok(Leave::Free);
        }
        let spent = spend_budget(&budget.object, pod.name(), &time(self.now()))?;
        Ok(Leave::Spends(budget, spent))
    }

    /// The budgets that speak of a pod. A value that is no object is passed over, as everywhere.
    async fn budgets(&self, namespace: &str, pod: &Object) -> Result<Vec<Current>, Status> {
        let kind = Kind::by_api_version("policy/v1", "PodDisruptionBudget").expect("a served kind");
        let range = KeyRange::prefix(kind.collection_key(namespace).into_bytes());
        let page = self.shared.store.range(&range, 0, 0).await?;
        let budgets = page.kvs.into_iter().filter_map(|kv| Current::of(kv).ok());
        Ok(budgets.filter(|budget| covers_pod(&budget.object, pod)).collect())
    }

    /// Marks the pod, spends the budget and deletes the pod. False = somebody else was faster; then it is judged anew.
    async fn let_go(
        &self,
        context: &RequestContext,
        target: &Target,
        current: &Current,
        leave: Leave,
        deletion: &DeleteOptions,
    ) -> Result<bool, Status> {
        let pod = Target::object(target.kind, target.namespace.as_str(), target.name.as_str());
        if deletion.dry_run {
            self.delete_object(context, &pod, deletion).await?;
            return Ok(true);
        }
        let unchanged = matches!(leave, Leave::Free);
        let Some(revision) = self.commit_leave(context, current, leave).await? else { return Ok(false) };
        let mut last = deletion.clone();
        if unchanged || last.resource_version.is_some() {
            last.resource_version = Some(revision.to_string());
        }
        match self.delete_object(context, &pod, &last).await {
            Err(status) if unchanged && status.reason == Reason::Conflict && deletion.resource_version.is_none() => {
                Ok(false)
            }
            Err(status) => Err(status),
            Ok(_) => Ok(true),
        }
    }

    /// Writes the pod with the reason why it goes, and the budget as spent. `None` = one of them has changed.
    async fn commit_leave(
        &self,
        context: &RequestContext,
        current: &Current,
        leave: Leave,
    ) -> Result<Option<i64>, Status> {
        let mut marked = current.object.clone();
        set_disruption_target(&mut marked, &time(self.now()));
        let mut guards = vec![current.guard()];
        let mut writes = Vec::new();
        if marked != current.object {
            writes.push(Write::Put { key: current.key.clone(), value: encode(&marked), lease: 0 });
        }
        let pod_written = !writes.is_empty();
        if let Leave::Spends(budget, spent) = leave {
            guards.push(budget.guard());
            writes.push(Write::Put { key: budget.key.clone(), value: encode(&spent), lease: 0 });
        }
        if writes.is_empty() {
            return Ok(Some(current.revision));
        }
        Ok(match self.shared.store.commit(guards, writes, &context.origin()).await? {
            Commit::Done(revision) if pod_written => Some(revision),
            Commit::Done(_) => Some(current.revision),
            Commit::Refused => None,
        })
    }
}

/// The condition that says why the pod goes.
fn set_disruption_target(pod: &mut Object, now: &str) {
    const TYPE: &str = "DisruptionTarget";
    let conditions = pod.at_mut(&["status", "conditions"]);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else { return };
    let mut condition = json!({
        "type": TYPE, "status": "True", "lastProbeTime": null, "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting",
    });
    match list.iter_mut().find(|c| c["type"] == TYPE) {
        Some(old) => {
            if old["status"] == "True" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}

/// How the pod shall be deleted.
fn delete_options(eviction: &Object, dry_run: bool) -> Result<DeleteOptions, Status> {
    const UNSAFE: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let asked = eviction.at(&["deleteOptions"]).cloned().and_then(|asked| Object::from_value(asked).ok());
    let asked = asked.unwrap_or_default();
    if asked.flag(&[UNSAFE]) {
        let cause = Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: "Invalid value: true: can not be set for pod eviction, try after removing the option".to_owned(),
            field: format!("deleteOptions.{UNSAFE}"),
        };
        return Err(Status::invalid_as("Eviction", "policy", eviction.name(), vec![cause]));
    }
    let mut options = DeleteOptions::judged(&asked)?;
    options.dry_run |= dry_run;
    Ok(options)
}
