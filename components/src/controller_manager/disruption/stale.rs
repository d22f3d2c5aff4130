//! Takes back the announcement of a deletion that never came (Kubernetes 1.36).

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use listwatch_proto::resource::{Object, ObjectKey};
use serde_json::json;

use crate::client::Api;
use crate::controller_manager::caches::Caches;
use crate::controller_manager::pod::Pod;
use crate::controller_manager::pod_status::{Condition, DISRUPTION_TARGET, merge_status, with_condition};
use crate::controller_manager::tools::Tools;
use crate::runtime::{Action, ReconcileError, Reconciler};

/// How long an announced deletion is waited for.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The announcement taken back.
const NOT_GOING: Condition = Condition { kind: DISRUPTION_TARGET, status: false, reason: "", message: "" };

/// Reconciles pods whose deletion was announced.
pub struct StaleDisruptionReconciler {
    caches: Caches,
    tools: Tools,
    pods: Api<Object>,
}

impl StaleDisruptionReconciler {
    /// A reconciler over these caches.
    pub fn new(caches: Caches, tools: Tools) -> Self {
        let pods = tools.api("", "pods");
        StaleDisruptionReconciler { caches, tools, pods }
    }

    /// Whether the pod's deletion was announced and has not come.
    pub fn concerns(pod: &Pod) -> bool {
        pod.disrupted_since.is_some() && pod.is_active()
    }
}

/// What is left of the wait.
fn left(pod: &Pod, now: Timestamp) -> Option<Duration> {
    let since = pod.disrupted_since.filter(|_| StaleDisruptionReconciler::concerns(pod))?;
    let waited = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    Some(TIMEOUT.saturating_sub(waited))
}

#[async_trait]
impl Reconciler for StaleDisruptionReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let now = self.tools.clock.now();
        let Some(pod) = self.caches.pods.get(key) else { return Ok(Action::Done) };
        match left(&pod, now) {
            None => return Ok(Action::Done),
            Some(left) if !left.is_zero() => return Ok(Action::RequeueAfter(left)),
            Some(_) => {}
        }
        let Some(live) = self.pods.get_opt(key).await? else { return Ok(Action::Done) };
        if left(&Pod::of(&live.object)?, now).is_some_and(|left| left.is_zero())
            && let Some(conditions) = with_condition(&live.object, NOT_GOING, now)
        {
            merge_status(&self.pods, &live, json!({"conditions": conditions})).await?;
        }
        Ok(Action::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_waited_for() {
        let since: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
        let at = |seconds: i64| since + jiff::SignedDuration::from_secs(seconds);
        let mut pod = Pod { disrupted_since: Some(since), ..Pod::default() };
        assert_eq!(left(&pod, at(30)), Some(Duration::from_secs(90)));
        assert_eq!(left(&pod, at(130)), Some(Duration::ZERO));
        pod.terminating = true;
        assert_eq!(left(&pod, at(130)), None);
        assert_eq!(left(&Pod::default(), at(130)), None);
    }
}
