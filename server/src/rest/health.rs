//! Health over plain HTTP, as kube-apiserver answers it: `/livez`, `/readyz` and the older `/healthz`, each with its checks
//! below it (`/livez/ping`), `?verbose` and `?exclude=NAME`.
//!
//! Invariant: why a check failed is told to the log and to who asks for that check, never to who asks for all of them.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use axum::routing::any;
use http::{HeaderValue, StatusCode, header};
use listwatch_proto::go_quote::quote;
use tokio_util::sync::CancellationToken;

use super::form::answer;
use crate::storage::Engine;

/// What the checks look at.
#[derive(Clone, Debug)]
struct Probe {
    engine: Engine,
    stopping: CancellationToken,
}

type Check = (&'static str, fn(&Probe) -> Result<(), String>);

/// Whether the process answers, and its store works: reads and writes are served.
const LIVE: &[Check] = &[("ping", |_| Ok(())), ("etcd", Probe::store)];
/// And whether it takes new work.
const READY: &[Check] =
    &[("ping", |_| Ok(())), ("etcd", Probe::store), ("etcd-readiness", Probe::room), ("shutdown", Probe::not_stopping)];

const SETS: &[(&str, &[Check])] = &[("healthz", LIVE), ("livez", LIVE), ("readyz", READY)];

impl Probe {
    fn store(&self) -> Result<(), String> {
        match self.engine.status().poisoned {
            None => Ok(()),
            Some(reason) => Err(format!("the store takes no writes: {reason}")),
        }
    }

    /// A restart would not cure it, so that it is not asked of what lives.
    fn room(&self) -> Result<(), String> {
        self.store()?;
        if self.engine.status().no_room {
            Err("no space left on the disk: no write is taken".to_owned())
        } else {
            Ok(())
        }
    }

    fn not_stopping(&self) -> Result<(), String> {
        if self.stopping.is_cancelled() { Err("process is shutting down".to_owned()) } else { Ok(()) }
    }
}

/// The paths.
pub(super) fn router(engine: Engine, stopping: CancellationToken) -> Router {
    let probe = Arc::new(Probe { engine, stopping });
    let mut router = Router::new();
    for (name, checks) in SETS {
        router = router
            .route(
                &format!("/{name}"),
                any(move |State(probe): State<Arc<Probe>>, RawQuery(query): RawQuery| async move {
                    all(&probe, name, checks, query.as_deref().unwrap_or_default())
                }),
            )
            .route(
                &format!("/{name}/{{*check}}"),
                any(move |State(probe): State<Arc<Probe>>, Path(check): Path<String>| async move {
                    one(&probe, checks, &check)
                }),
            );
    }
    router.with_state(probe)
}

fn one(probe: &Probe, checks: &[Check], name: &str) -> Response {
    match checks.iter().find(|(own, _)| *own == name) {
        None => answer::page_not_found(),
        Some((_, check)) => match check(probe) {
            Ok(()) => answer::plain("ok"),
            Err(why) => {
                let text = format!("internal server error: {why}\n");
                answer::plain_error(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
        },
    }
}

fn all(probe: &Probe, set: &str, checks: &[Check], query: &str) -> Response {
    let asked = |name: &str| -> Vec<String> {
        form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name).map(|(_, v)| v.into_owned()).collect()
    };
    let report = report(checks, &asked("exclude"), |(name, check)| {
        check(probe).inspect_err(|why| tracing::warn!(check = name, set, %why, "a health check failed")).is_ok()
    });
    if report.failed {
        let text = format!("{}{set} check failed\n", report.lines);
        return answer::plain_error(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    let verbose = !asked("verbose").is_empty();
    let text = if verbose { format!("{}{set} check passed\n", report.lines) } else { "ok".to_owned() };
    let mut response = answer::plain(text);
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

struct Report {
    /// One for each check.
    lines: String,
    failed: bool,
}

fn report(checks: &[Check], excluded: &[String], passes: impl Fn(&Check) -> bool) -> Report {
    let mut report = Report { lines: String::new(), failed: false };
    for check in checks {
        let name = check.0;
        let line = if excluded.iter().any(|e| e == name) {
            format!("[+]{name} excluded: ok\n")
        } else if passes(check) {
            format!("[+]{name} ok\n")
        } else {
            report.failed = true;
            format!("[-]{name} failed: reason withheld\n")
        };
        report.lines.push_str(&line);
    }
    let mut strange: Vec<String> =
        excluded.iter().filter(|e| !checks.iter().any(|(name, _)| name == e)).map(|e| quote(&e)).collect();
    strange.sort_unstable();
    strange.dedup();
    if !strange.is_empty() {
        let line = format!("warn: some health checks cannot be excluded: no matches for {}\n", strange.join(","));
        report.lines.push_str(&line);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_reported_one_a_line_without_reasons() {
        let all_well = report(LIVE, &[], |_| true);
        assert_eq!((all_well.lines.as_str(), all_well.failed), ("[+]ping ok\n[+]etcd ok\n", false));
        let store_broken = report(READY, &[], |(name, _)| *name != "etcd");
        assert!(store_broken.failed && store_broken.lines.contains("[-]etcd failed: reason withheld\n"));
        let excluded = report(LIVE, &["etcd".into(), "x".into()], |(name, _)| *name == "ping");
        assert!(!excluded.failed);
        assert_eq!(
            excluded.lines,
            "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"x\"\n"
        );
    }
}
