//! Evictions: tells less important pods to go for a more important one.
//!
//! Invariants: a victim's condition says why before it is deleted; only that very pod is deleted, with the grace it asks for;
//! a victim that is gone already is no failure.

use std::sync::Arc;

use listwatch_proto::resource::{Kind, Object, time};
use serde_json::{Value, json};

use super::Pod;
use super::pod::PREEMPTION_BY_SCHEDULER;
use crate::client::{Api, Client, DeleteParams, Error, Patch};
use crate::clock::SharedClock;

/// How often a condition is computed anew because the victim has changed under it.
const CONFLICTS_MAX: usize = 5;

/// Writes evictions.
#[derive(Clone)]
pub(super) struct Evictor {
    pods: Api<Object>,
    scheduler_name: String,
    clock: SharedClock,
}

impl Evictor {
    pub(super) fn new(client: &Client, pods: &'static Kind, scheduler_name: &str, clock: SharedClock) -> Self {
        Evictor { pods: Api::of_kind(client, pods), scheduler_name: scheduler_name.to_owned(), clock }
    }

    /// Tells one pod to go.
    pub(super) async fn evict(&self, victim: &Arc<Pod>) -> Result<(), Error> {
        for _ in 0..CONFLICTS_MAX {
            match self.try_evict(victim).await {
                Err(error) if error.is_conflict() => {}
                Err(error) if error.is_not_found() => return Ok(()),
                outcome => return outcome,
            }
        }
        Err(Error::Incomplete("a victim that stands still for its condition to be written"))
    }

    async fn try_evict(&self, victim: &Arc<Pod>) -> Result<(), Error> {
        let Some(live) = self.pods.get_opt(&victim.key).await? else { return Ok(()) };
        if *live.uid != *victim.uid {
            return Ok(());
        }
        let held = live.object.at(&["status", "conditions"]).and_then(Value::as_array).cloned().unwrap_or_default();
        let message = format!("{}: preempting to accommodate a higher priority pod", self.scheduler_name);
        if let Some(conditions) = condition(held, &message, live.object.generation(), &time(self.clock.now())) {
            let patch = json!({
                "metadata": {"uid": victim.uid, "resourceVersion": live.revision.to_string()},
                "status": {"conditions": conditions},
            });
            self.pods.patch_status(&victim.key, &Patch::Merge(patch)).await?;
        }
        self.pods.delete(&victim.key, &DeleteParams::uid(&*victim.uid)).await.map(drop)
    }
}

/// The conditions with `DisruptionTarget` True; `None` if they say so already.
fn condition(mut held: Vec<Value>, message: &str, generation: i64, now: &str) -> Option<Vec<Value>> {
    let mut condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": PREEMPTION_BY_SCHEDULER, "message": message,
        "lastProbeTime": null, "lastTransitionTime": now,
    });
    if generation > 0 {
        condition["observedGeneration"] = generation.into();
    }
    match held.iter_mut().find(|c| c["type"] == "DisruptionTarget") {
        Some(old) if ["status", "reason", "message"].iter().all(|field| old[*field] == condition[*field]) => {
            return None;
        }
        Some(old) => {
            if old["status"] == "True" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => held.push(condition),
    }
    Some(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_is_told_why_once() {
        let ready = json!({"type": "Ready", "status": "True"});
        let told = condition(vec![ready.clone()], "m", 2, "t1").expect("news");
        assert_eq!((told.len(), &told[0], &told[1]["observedGeneration"]), (2, &ready, &json!(2)));
        assert_eq!(condition(told.clone(), "m", 2, "t2"), None);
        let other = condition(told, "other", 2, "t2").expect("other words");
        assert_eq!((&other[1]["message"], &other[1]["lastTransitionTime"]), (&json!("other"), &json!("t1")));
    }
}
