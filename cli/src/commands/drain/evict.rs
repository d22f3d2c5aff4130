//! Asks for pods to go, again and again where a budget forbids it, and waits until they are gone.

use std::io::{self, Write};
use std::time::Duration;

use futures::future::join_all;
use listwatch_components::client::DeleteParams;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, Object, Reason};
use tokio::time::{Instant, sleep, timeout_at};

use crate::commands::delete::{Leaving, wait_gone};
use crate::commands::session::Session;
use crate::commands::writing::DryRun;
use crate::terminal::tell;

/// How long a pod that a budget keeps is left alone (kubectl's number).
const RETRY: Duration = Duration::from_secs(5);
/// What no limit comes to: longer than anybody waits, and still a time that can be counted.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// How pods are made to go.
pub(super) struct Eviction<'a> {
    pub(super) session: &'a Session,
    pub(super) pods: &'static Kind,
    /// Seconds given to end; `None`: the pod's own.
    pub(super) grace: Option<i64>,
    /// Zero: for ever.
    pub(super) limit: Duration,
    pub(super) dry_run: DryRun,
    /// Delete, whatever the budgets say.
    pub(super) by_delete: bool,
}

impl Eviction<'_> {
    /// Makes all of them go, at the same time; gives what went wrong.
    pub(super) async fn all(&self, pods: &[Object]) -> Vec<String> {
        let end = Instant::now() + if self.limit.is_zero() { FOR_EVER } else { self.limit };
        join_all(pods.iter().map(|pod| self.one(pod, end))).await.into_iter().filter_map(Result::err).collect()
    }

    async fn one(&self, pod: &Object, end: Instant) -> Result<(), String> {
        let (namespace, name) = (pod.namespace(), pod.name());
        let api = self.session.api(self.pods);
        let is_pretended = self.dry_run == DryRun::Server;
        if self.by_delete {
            let params =
                DeleteParams { grace_period_seconds: self.grace, dry_run: is_pretended, ..DeleteParams::any() };
            match api.delete(&pod.key(), &params).await {
                Ok(_) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.to_string()),
            }
        } else {
            let context = format!(
                "error when evicting pods/{name} -n {namespace}",
                name = quote(&name),
                namespace = quote(&namespace)
            );
            loop {
                self.say(&format!("evicting pod {namespace}/{name}{}", self.dry_run.suffix()));
                if Instant::now() >= end {
                    return Err(format!("{context}: global timeout reached: {}", in_go(self.limit)));
                }
                match api.evict_with(&pod.key(), self.grace, is_pretended).await {
                    Ok(()) => break,
                    Err(error) if error.is_not_found() => return Ok(()),
                    Err(error) if error.is(Reason::TooManyRequests) => {
                        tell!("{context} (will retry after {}): {error}", in_go(RETRY));
                        sleep(RETRY).await;
                    }
                    Err(error) => return Err(format!("{context}: {error}")),
                }
            }
        }
        if is_pretended {
            return Ok(());
        }
        let leaving = Leaving { kind: self.pods, key: pod.key(), uid: pod.text(&["metadata", "uid"]).to_owned() };
        let context = format!(
            "error when waiting for pod {name} in namespace {namespace} to terminate",
            name = quote(&name),
            namespace = quote(&namespace)
        );
        match timeout_at(end, wait_gone(self.session, &leaving)).await {
            Ok(Ok(())) => {
                self.say(&format!("pod/{name} {}", if self.by_delete { "deleted" } else { "evicted" }));
                Ok(())
            }
            Ok(Err(error)) => Err(format!("{context}: {error}")),
            Err(_) => Err(format!("{context}: global timeout reached: {}", in_go(self.limit))),
        }
    }

    /// What happens stands on standard output; that nobody reads it does not keep pods from going.
    fn say(&self, text: &str) {
        drop(writeln!(io::stdout().lock(), "{text}"));
    }
}

/// `1m30s`, as Go prints a duration.
fn in_go(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, minutes) => format!("{minutes}m{rest}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_stand_as_go_prints_them() {
        for (seconds, text) in [(7, "7s"), (60, "1m0s"), (90, "1m30s"), (3600, "1h0m0s"), (3725, "1h2m5s")] {
            assert_eq!(in_go(Duration::from_secs(seconds)), text);
        }
    }
}
