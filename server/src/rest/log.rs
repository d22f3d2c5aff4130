//! The log of a container as plain text, as it is written.

use axum::body::Body;
use axum::response::Response;
use futures::{StreamExt, stream};
use http::{HeaderValue, StatusCode, header};
use listwatch_proto::go_quote::quote;
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
    let Some(answer) = open_log(registry, context, kubelets, target, &log_query(registry, target, query)?).await?
    else {
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
        Status::bad_request(format!(
            "sinceTime: {} is not a time as in RFC 3339, such as 2026-01-02T03:04:05Z",
            quote(&text)
        ))
    })?;
    // A time to come would be an error as a number of seconds; as a time it is a log that shows nothing yet.
    Ok(Some(registry.time().duration_since(at).as_secs().max(1)))
}

fn log_query(registry: &Registry, target: &Target, query: &Query) -> Result<LogQuery, Status> {
    let read = LogQuery {
        container: query.text("container").to_owned(),
        follow: query.flag("follow").unwrap_or(false),
        previous: query.flag("previous").unwrap_or(false),
        timestamps: query.flag("timestamps").unwrap_or(false),
        tail_lines: query.int("tailLines")?,
        since_seconds: since(registry, query)?,
        limit_bytes: query.int("limitBytes")?,
    };
    let causes = faults(&read, query);
    if causes.is_empty() { Ok(read) } else { Err(Status::invalid_as("PodLogOptions", "", &target.name, causes)) }
}

/// What is wrong with the options (upstream's `ValidatePodLogOptions`, Kubernetes 1.36, whose choice of one stream is
/// behind a gate that is closed).
fn faults(read: &LogQuery, query: &Query) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut add = |reason: &str, field: &str, message: String| {
        causes.push(Cause { reason: reason.to_owned(), field: field.to_owned(), message });
    };
    let invalid = |value: i64, why: &str| format!("Invalid value: {value}: {why}");
    if let Some(lines) = read.tail_lines.filter(|lines| *lines < 0) {
        add("FieldValueInvalid", "tailLines", invalid(lines, "must be greater than or equal to 0"));
    }
    if let Some(bytes) = read.limit_bytes.filter(|bytes| *bytes < 1) {
        add("FieldValueInvalid", "limitBytes", invalid(bytes, "must be greater than 0"));
    }
    if !query.text("sinceTime").is_empty() && !query.text("sinceSeconds").is_empty() {
        let why = "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified";
        add("FieldValueForbidden", "", why.to_owned());
    } else if let Some(seconds) = read.since_seconds.filter(|seconds| *seconds < 1) {
        add("FieldValueInvalid", "sinceSeconds", invalid(seconds, "must be greater than 0"));
    }
    if query.is_given("stream") {
        add("FieldValueForbidden", "stream", "Forbidden: may not be specified".to_owned());
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_the_options_is_told() {
        let told = |text: &str| {
            let query = Query::read(text);
            let int = |name: &str| query.int(name).expect("a number");
            let read = LogQuery {
                tail_lines: int("tailLines"),
                since_seconds: int("sinceSeconds"),
                limit_bytes: int("limitBytes"),
                ..LogQuery::default()
            };
            faults(&read, &query)
                .into_iter()
                .map(|cause| format!("{}: {}", cause.field, cause.message))
                .collect::<Vec<_>>()
        };
        assert_eq!(told("tailLines=0&limitBytes=1&sinceSeconds=1&follow=true"), Vec::<String>::new());
        for stream in ["Bogus", "Stdout", "All", ""] {
            assert_eq!(told(&format!("stream={stream}")), ["stream: Forbidden: may not be specified"], "{stream:?}");
        }
        assert_eq!(
            told("tailLines=-1&limitBytes=0&sinceSeconds=0"),
            [
                "tailLines: Invalid value: -1: must be greater than or equal to 0",
                "limitBytes: Invalid value: 0: must be greater than 0",
                "sinceSeconds: Invalid value: 0: must be greater than 0",
            ]
        );
        let both = told("sinceSeconds=5&sinceTime=2026-01-02T03:04:05Z");
        assert_eq!(both, [": Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified"]);
    }
}
