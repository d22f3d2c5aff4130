//! Counts what quotas limit.
//!
//! Invariant: a quota is read before what it counts, and written only as it was read: what the server let in meanwhile
//! has changed it.

use std::time::Duration;

use async_trait::async_trait;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::Value;

use super::{counted_kinds, status};
use crate::client::{Api, Error, ListParams};
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, ReconcileError, Reconciler};

/// Every quota is counted anew so often: pods that are overdue hold nothing, and nobody tells (upstream's resync).
const PERIOD: Duration = Duration::from_secs(300);
/// After the limits have changed: what was let in before the server knew of the new ones was charged to nobody.
const SETTLE: Duration = Duration::from_secs(1);
/// Somebody else has changed the quota; it is counted again.
const AGAIN: Duration = Duration::from_millis(50);

/// Counts what quotas limit.
pub struct ResourceQuotaReconciler {
    tools: Tools,
    quotas: Api<Object>,
}

impl ResourceQuotaReconciler {
    /// A reconciler that writes by these tools.
    pub fn new(tools: Tools) -> Self {
        let quotas = tools.api("", "resourcequotas");
        ResourceQuotaReconciler { tools, quotas }
    }

    async fn count(&self, key: &ObjectKey) -> Result<Action, Error> {
        let Some(live) = self.quotas.get_opt(key).await? else { return Ok(Action::Done) };
        let mut counted = Vec::new();
        for kind in counted_kinds(&live.object) {
            let objects = Api::<Object>::of_kind(&self.tools.client, kind);
            let list = objects.list(&ListParams::in_namespace(&key.namespace)).await?;
            counted.push((kind, list.items.into_iter().map(|cached| cached.object).collect()));
        }
        let Some(status) = status(&live.object, &counted, self.tools.clock.now()) else {
            return Ok(Action::RequeueAfter(PERIOD));
        };
        let new_limits = live.object.at(&["status", "hard"]).unwrap_or(&Value::Null) != &status["hard"];
        let mut object = live.object;
        object.0.insert("status".to_owned(), status);
        object.set(&["metadata", "resourceVersion"], live.revision.to_string());
        match self.quotas.update_status(&object).await {
            Ok(_) => Ok(Action::RequeueAfter(if new_limits { SETTLE } else { PERIOD })),
            Err(error) if error.is_not_found() => Ok(Action::Done),
            Err(error) if error.is_conflict() => Ok(Action::RequeueAfter(AGAIN)),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Reconciler for ResourceQuotaReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        Ok(self.count(key).await?)
    }
}
