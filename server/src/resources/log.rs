//! The log of a container, fetched from its node's kubelet.

use std::fmt::Write as _;

use futures::{Stream, StreamExt, stream};
use listwatch_proto::resource::{Kind, Reason, Status};
use listwatch_proto::v1;
use tokio_util::sync::CancellationToken;

use super::kubelet::{Answer, Endpoint, Kubelets};
use super::{containers, request};
use crate::registry::{Registry, RequestContext, Target};

/// Opens the log. A pod that has no node yet has an empty one (Kubernetes 1.36).
pub(super) async fn open(
    registry: &Registry,
    context: &RequestContext,
    kubelets: &Kubelets,
    request: &v1::LogRequest,
    stopping: CancellationToken,
) -> Result<impl Stream<Item = Result<v1::LogResponse, tonic::Status>> + Send + use<>, Status> {
    let target = request::target(request.resource.as_ref())?;
    check(&target, request)?;
    let pod = Target::object(target.kind, &target.namespace, &target.name);
    let pod = registry.get(context, &pod, 0).await?;
    let pod = pod.object();
    let container = containers::choose(pod, &request.container)?;
    let answer = match pod.text(&["spec", "nodeName"]) {
        "" => None,
        node => {
            let kind = Kind::by_plural("", "", "nodes").ok_or_else(|| Status::internal("nodes are not served"))?;
            let node = registry.get(context, &Target::object(kind, "", node), 0).await?;
            let endpoint = Endpoint::of(node.object())?;
            Some(kubelets.get(&endpoint, &path(&target, &container, request)).await?)
        }
    };
    Ok(chunks(answer, stopping))
}

fn check(target: &Target, request: &v1::LogRequest) -> Result<(), Status> {
    if target.kind.plural != "pods" || !target.kind.group.is_empty() {
        let message = format!("only pods have a log, {} have none", target.kind.name());
        return Err(Status::new(Reason::MethodNotAllowed, message));
    }
    if !matches!(target.subresource.as_str(), "" | "log") {
        return Err(Status::bad_request(format!("subresource: {:?} has no log", target.subresource)));
    }
    if target.namespace.is_empty() || target.name.is_empty() {
        return Err(Status::bad_request("resource: names no pod (namespace and name)"));
    }
    request::not_negative("tail_lines", request.tail_lines.unwrap_or(0))?;
    request::not_negative("limit_bytes", request.limit_bytes)?;
    if request.since_seconds.is_some_and(|s| s < 1) {
        return Err(Status::bad_request("since_seconds: must be greater than 0"));
    }
    Ok(())
}

/// The kubelet's path (Kubernetes 1.36, `/containerLogs`).
fn path(target: &Target, container: &str, request: &v1::LogRequest) -> String {
    let mut path =
        format!("/containerLogs/{}/{}/{}", segment(&target.namespace), segment(&target.name), segment(container));
    let mut separator = '?';
    let mut put = |key: &str, value: String| {
        let _ = write!(path, "{separator}{key}={value}");
        separator = '&';
    };
    for (key, flag) in [("follow", request.follow), ("previous", request.previous), ("timestamps", request.timestamps)]
    {
        if flag {
            put(key, "true".to_owned());
        }
    }
    for (key, number) in [("tailLines", request.tail_lines), ("sinceSeconds", request.since_seconds)] {
        if let Some(number) = number {
            put(key, number.to_string());
        }
    }
    if request.limit_bytes > 0 {
        put("limitBytes", request.limit_bytes.to_string());
    }
    path
}

/// A path segment in which nothing can be taken for a separator.
fn segment(text: &str) -> String {
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

fn chunks(
    answer: Option<Answer>,
    stopping: CancellationToken,
) -> impl Stream<Item = Result<v1::LogResponse, tonic::Status>> + Send {
    let chunks = stream::unfold(answer, |answer| async {
        let mut answer = answer?;
        match answer.next().await? {
            Ok(data) => Some((Ok(v1::LogResponse { data }), Some(answer))),
            Err(error) => {
                let message = format!("the log broke off: {error}");
                Some((Err(Status::new(Reason::ServiceUnavailable, message).into()), None))
            }
        }
    });
    chunks.take_until(stopping.cancelled_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_kubelets() {
        let pod = Kind::by_name("pod").expect("known");
        let target = Target::object(pod, "default", "a/../b");
        let request = v1::LogRequest {
            follow: true,
            timestamps: true,
            tail_lines: Some(0),
            limit_bytes: 7,
            ..v1::LogRequest::default()
        };
        assert_eq!(
            path(&target, "c", &request),
            "/containerLogs/default/a%2F..%2Fb/c?follow=true&timestamps=true&tailLines=0&limitBytes=7"
        );
        assert_eq!(path(&target, "c", &v1::LogRequest::default()), "/containerLogs/default/a%2F..%2Fb/c");
    }
}
