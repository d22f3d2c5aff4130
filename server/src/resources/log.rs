//! Logs as streams of messages.

use futures::{Stream, StreamExt, stream};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Reason, Status};
use listwatch_proto::v1;
use tokio_util::sync::CancellationToken;

use super::request;
use crate::kubelets::{Answer, Kubelets, LogQuery, open_log};
use crate::registry::{Registry, RequestContext, Target};

/// Opens the log.
pub(super) async fn open(
    registry: &Registry,
    context: &RequestContext,
    kubelets: Option<&Kubelets>,
    request: &v1::LogRequest,
    stopping: CancellationToken,
) -> Result<impl Stream<Item = Result<v1::LogResponse, tonic::Status>> + Send + use<>, Status> {
    let target = request::target(registry, request.resource.as_ref()).await?;
    check(&target, request)?;
    let query = LogQuery {
        container: request.container.clone(),
        follow: request.follow,
        previous: request.previous,
        timestamps: request.timestamps,
        tail_lines: request.tail_lines,
        since_seconds: request.since_seconds,
        limit_bytes: Some(request.limit_bytes).filter(|bytes| *bytes > 0),
    };
    Ok(chunks(open_log(registry, context, kubelets, &target, &query).await?, stopping))
}

fn check(target: &Target, request: &v1::LogRequest) -> Result<(), Status> {
    if !matches!(target.subresource.as_str(), "" | "log") {
        return Err(Status::bad_request(format!("subresource: {} has no log", quote(&target.subresource))));
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
