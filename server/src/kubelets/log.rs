//! The log of a container, fetched from its node's kubelet.

use std::fmt::Write as _;

use listwatch_proto::resource::{Kind, Reason, Status};

use super::client::{Answer, Endpoint};
use super::{Kubelets, containers};
use crate::registry::{Registry, RequestContext, Target};

/// Which part of a log is wanted (Kubernetes 1.36, `PodLogOptions`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogQuery {
    /// Empty: the only one.
    pub(crate) container: String,
    /// Go on as it grows.
    pub(crate) follow: bool,
    /// Of the container's run before this one.
    pub(crate) previous: bool,
    /// Each line with its time in front.
    pub(crate) timestamps: bool,
    /// So many lines from the end.
    pub(crate) tail_lines: Option<i64>,
    /// What was written in the last seconds.
    pub(crate) since_seconds: Option<i64>,
    /// At most so many bytes.
    pub(crate) limit_bytes: Option<i64>,
}

/// Opens the log of a pod's container; `None` for a pod that has no node yet: its log is empty (Kubernetes 1.36).
///
/// # Errors
/// `BadRequest` for a query that makes no sense, `ServiceUnavailable` if there is no way to the kubelet; its own refusal
/// otherwise.
pub(crate) async fn open_log(
    registry: &Registry,
    context: &RequestContext,
    kubelets: Option<&Kubelets>,
    target: &Target,
    query: &LogQuery,
) -> Result<Option<Answer>, Status> {
    check(target)?;
    let pod = Target::object(target.kind, &target.namespace, &target.name);
    let pod = registry.get(context, &pod, 0).await?;
    let pod = pod.object();
    let container = containers::choose(pod, &query.container)?;
    let node = match pod.text(&["spec", "nodeName"]) {
        "" => return Ok(None),
        node => node,
    };
    let kubelets = kubelets.ok_or_else(super::client::no_way)?;
    let kind = Kind::by_plural("", "", "nodes").ok_or_else(|| Status::internal("nodes are not served"))?;
    let node = registry.get(context, &Target::object(kind, "", node), 0).await?;
    let endpoint = Endpoint::of(node.object())?;
    kubelets.get(&endpoint, &path(target, &container, query)).await.map(Some)
}

fn check(target: &Target) -> Result<(), Status> {
    if target.kind.plural != "pods" || !target.kind.group.is_empty() {
        let message = format!("only pods have a log, {} have none", target.kind.name());
        return Err(Status::new(Reason::MethodNotAllowed, message));
    }
    Ok(())
}

/// The kubelet's path (Kubernetes 1.36, `/containerLogs`).
fn path(target: &Target, container: &str, query: &LogQuery) -> String {
    let mut path =
        format!("/containerLogs/{}/{}/{}", segment(&target.namespace), segment(&target.name), segment(container));
    let mut separator = '?';
    let mut put = |key: &str, value: String| {
        let _ = write!(path, "{separator}{key}={value}");
        separator = '&';
    };
    for (key, flag) in [("follow", query.follow), ("previous", query.previous), ("timestamps", query.timestamps)] {
        if flag {
            put(key, "true".to_owned());
        }
    }
    for (key, number) in
        [("tailLines", query.tail_lines), ("sinceSeconds", query.since_seconds), ("limitBytes", query.limit_bytes)]
    {
        if let Some(number) = number {
            put(key, number.to_string());
        }
    }
    path
}

/// A path segment in which nothing can be taken for a separator.
pub(super) fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_kubelets() {
        let pod = Kind::by_name("pod").expect("known");
        let target = Target::object(pod, "default", "a/../b");
        let query = LogQuery {
            follow: true,
            timestamps: true,
            tail_lines: Some(0),
            limit_bytes: Some(7),
            ..LogQuery::default()
        };
        assert_eq!(
            path(&target, "c", &query),
            "/containerLogs/default/a%2F..%2Fb/c?follow=true&timestamps=true&tailLines=0&limitBytes=7"
        );
        assert_eq!(path(&target, "c", &LogQuery::default()), "/containerLogs/default/a%2F..%2Fb/c");
    }
}
