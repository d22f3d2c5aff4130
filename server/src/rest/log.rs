//! The log of a container as plain text, as it is written.

use axum::body::Body;
use axum::response::Response;
use futures::{StreamExt, stream};
use http::{HeaderValue, StatusCode, header};
use listwatch_proto::resource::{Cause, Status, parse_time};
use tokio_util::sync::CancellationToken;

use super::query::Query;
use crate::kubelets::{Kubelets, LogQuery, open_log};
use crate::registry::{Registry, RequestContext, Target};

/// Answers `GET …/pods/NAME/log`.
pub(super) async fn log(
    registry: &Registry,
    context: &RequestContext,
    kubelets: Option<&Kubelets>,
    target: &Target,
    query: &Query,
    stopping: CancellationToken,
) -> Result<Response, Status> {
    let Some(answer) = open_log(registry, context, kubelets, target, &log_query(registry, query)?).await? else {
        // A pod that is on no node yet has nothing that could have been written.
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    };
    let pieces = stream::unfold(answer, |mut answer| async {
        // A log that breaks off ends the body without its last piece, which every client sees as an error.
        answer.next().await.map(|piece| (piece, answer))
    });
    let mut response = Response::new(Body::from_stream(pieces.take_until(stopping.cancelled_owned())));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// How many seconds the log goes back: told as such, or as a time.
fn since(registry: &Registry, query: &Query) -> Result<Option<i64>, Status> {
    let text = query.text("sinceTime");
    if text.is_empty() {
        return query.int("sinceSeconds");
    }
    let at = parse_time(text).ok_or_else(|| {
        Status::bad_request(format!("sinceTime: {text:?} is not a time as in RFC 3339, such as 2026-01-02T03:04:05Z"))
    })?;
    // A time to come would be an error as a number of seconds; as a time it is a log that shows nothing yet.
    Ok(Some(registry.time().duration_since(at).as_secs().max(1)))
}

fn log_query(registry: &Registry, query: &Query) -> Result<LogQuery, Status> {
    let read = LogQuery {
        container: query.text("container").to_owned(),
        follow: query.flag("follow").unwrap_or(false),
        previous: query.flag("previous").unwrap_or(false),
        timestamps: query.flag("timestamps").unwrap_or(false),
        tail_lines: query.int("tailLines")?,
        since_seconds: since(registry, query)?,
        limit_bytes: query.int("limitBytes")?,
    };
    let fault = |field: &str, value: i64, why: &str| {
        let message = format!("Invalid value: {value}: {why}");
        let cause = Cause { reason: "FieldValueInvalid".to_owned(), field: field.to_owned(), message };
        Status::invalid_options("PodLogOptions", vec![cause])
    };
    match (read.tail_lines, read.since_seconds, read.limit_bytes) {
        (Some(lines), ..) if lines < 0 => Err(fault("tailLines", lines, "must be greater than or equal to 0")),
        (_, Some(seconds), _) if seconds < 1 => Err(fault("sinceSeconds", seconds, "must be greater than 0")),
        (_, _, Some(bytes)) if bytes < 1 => Err(fault("limitBytes", bytes, "must be greater than 0")),
        _ => Ok(read),
    }
}
