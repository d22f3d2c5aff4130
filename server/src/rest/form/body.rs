//! What a client sent, as JSON for the registry.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use listwatch_proto::resource::{Kind, Reason, Status};
use serde_json::Value;

use crate::registry::{DeleteOptions, PatchKind, Registry};

use super::media_type;
use super::yaml;
use crate::rest::query::Query;
use crate::transport::{BODY_SILENCE_MAX, BODY_TIME_MAX};

/// The largest body (Kubernetes 1.36: 3 MiB).
const BODY_BYTES_MAX: usize = 3 << 20;

/// The bytes of a request.
///
/// # Errors
/// `RequestEntityTooLarge`, or `BadRequest` when the client stops in the middle.
pub(in crate::rest) async fn bytes(request: Request) -> Result<Bytes, Status> {
    read(request.into_body()).await
}

/// The request with its body at hand.
///
/// # Errors
/// As [`bytes`].
pub(in crate::rest) async fn whole(request: Request) -> Result<Request, Status> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    Ok(Request::from_parts(parts, Body::from(read(body).await?)))
}

async fn read(body: Body) -> Result<Bytes, Status> {
    match tokio::time::timeout(BODY_TIME_MAX, read_on(body, BODY_SILENCE_MAX)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(too_slow(BODY_TIME_MAX)),
    }
}

async fn read_on(mut body: Body, silence_max: Duration) -> Result<Bytes, Status> {
    let mut whole = BytesMut::new();
    loop {
        let piece = match tokio::time::timeout(silence_max, piece(&mut body)).await {
            Err(_) => return Err(too_slow(silence_max)),
            Ok(None) => return Ok(whole.freeze()),
            Ok(Some(Err(error))) => return Err(Status::bad_request(format!("the body could not be read: {error}"))),
            Ok(Some(Ok(piece))) => piece,
        };
        if whole.len() + piece.len() > BODY_BYTES_MAX {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            return Err(Status::new(Reason::RequestEntityTooLarge, message));
        }
        if whole.is_empty() && body.is_end_stream() {
            return Ok(piece);
        }
        whole.extend_from_slice(&piece);
    }
}

/// The next bytes; frames without any are no progress.
async fn piece(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        match body.frame().await?.map(hyper::body::Frame::into_data) {
            Ok(Ok(data)) if !data.is_empty() => return Some(Ok(data)),
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
    }
}

fn too_slow(limit: Duration) -> Status {
    let message = format!("Request Timeout: the body did not come within {} seconds", limit.as_secs());
    Status { code: 408, ..Status::new(Reason::Timeout, message) }
}

/// An object as JSON; and each key that stands in its YAML (1.1, the first document) again.
///
/// # Errors
/// `UnsupportedMediaType`; `BadRequest` for YAML that is none.
pub(in crate::rest) fn object(
    kind: &'static Kind,
    headers: &HeaderMap,
    bytes: Bytes,
) -> Result<(Bytes, Vec<String>), Status> {
    match media_type::of(headers).as_deref() {
        Some("application/json") => Ok((bytes, Vec::new())),
        Some("application/yaml") => {
            let document = read_yaml(&bytes)
                .map_err(|why| Status::bad_request(format!("error converting YAML to JSON: {why}")))?;
            Ok((json_of(document.value), document.repeated))
        }
        Some("application/vnd.kubernetes.protobuf") if kind.extension.is_none() => {
            Ok((Registry::from_protobuf(kind, &bytes)?.to_string().into(), Vec::new()))
        }
        _ => {
            let message = "the body of the request was in an unknown format - accepted media types include: \
                           application/json, application/yaml, application/vnd.kubernetes.protobuf";
            Err(Status::new(Reason::UnsupportedMediaType, message))
        }
    }
}

/// The form of a patch.
///
/// # Errors
/// `UnsupportedMediaType`.
pub(in crate::rest) fn patch_kind(kind: &'static Kind, headers: &HeaderMap) -> Result<PatchKind, Status> {
    match media_type::word(headers) {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" => Ok(PatchKind::Strategic),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ if kind.extension.is_some() => Err(Registry::unsupported_custom_patch()),
        _ => Err(Status::new(
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {}",
                PATCHES.join(", ")
            ),
        )),
    }
}

/// The forms of patch of built-in kinds.
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// Asks what upstream's router asks of a patch before its handler does: whether one of the media types that stand in the
/// header, between commas, is a form of patch.
///
/// # Errors
/// `UnsupportedMediaType`, in the router's words.
pub(in crate::rest) fn check_routed_patch(headers: &HeaderMap) -> Result<(), Status> {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut named = text.split(',').map(|one| one.split(';').next().unwrap_or_default().trim_matches(' '));
    if named.any(|name| PATCHES.contains(&name)) {
        return Ok(());
    }
    Err(Status::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type"))
}

/// What an apply wants, as JSON; and each key that stands there again.
///
/// # Errors
/// `BadRequest`.
pub(in crate::rest) fn configuration(bytes: &[u8]) -> Result<(Bytes, Vec<String>), Status> {
    let refused =
        |why: String| Status::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}"));
    let document = read_yaml(bytes).map_err(refused)?;
    Ok((json_of(document.value), document.repeated))
}

fn read_yaml(bytes: &[u8]) -> Result<yaml::Document, String> {
    // YAML is slow to read: the other requests of this worker go on elsewhere.
    tokio::task::block_in_place(|| yaml::first_document(bytes))
}

fn json_of(value: Value) -> Bytes {
    match value {
        Value::Null => Bytes::from_static(b"{}"),
        value => Bytes::from(value.to_string()),
    }
}

/// What the body of a delete asks. Where there is one, the parameters say nothing (upstream's rule).
///
/// # Errors
/// `BadRequest` for a body that is no `DeleteOptions`, `Invalid` for one that asks what cannot be.
pub(in crate::rest) fn delete_options(
    kind: &'static Kind,
    headers: &HeaderMap,
    bytes: Bytes,
    query: &Query,
) -> Result<DeleteOptions, Status> {
    if bytes.is_empty() {
        return query.delete_options();
    }
    Registry::read_delete_options(&object(kind, headers, bytes)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Propagation;
    use futures::stream::{self, StreamExt};

    #[tokio::test]
    async fn a_body_that_stops_is_not_waited_for() {
        let silence = Duration::from_millis(20);
        let pieces = |pieces: &[&'static str]| {
            stream::iter(
                pieces
                    .iter()
                    .map(|piece| Ok::<_, std::io::Error>(Bytes::from_static(piece.as_bytes())))
                    .collect::<Vec<_>>(),
            )
        };
        // Empty frames for ever are no progress either.
        let empty = stream::unfold((), |()| async {
            tokio::task::yield_now().await;
            Some((Ok::<_, std::io::Error>(Bytes::new()), ()))
        });
        for stopped in [Body::from_stream(pieces(&["{"]).chain(stream::pending())), Body::from_stream(empty)] {
            let status = read_on(stopped, silence).await.expect_err("given up");
            assert_eq!((status.code, status.reason), (408, Reason::Timeout), "{status}");
        }
        let whole = read_on(Body::from_stream(pieces(&["{", "", "}"])), silence).await;
        assert_eq!(whole.expect("whole"), "{}");
        let large = read_on(Body::from(vec![0; BODY_BYTES_MAX + 1]), silence).await;
        assert_eq!(large.expect_err("too large").code, 413);
    }

    fn read_options(body: &str) -> Result<DeleteOptions, (u16, String)> {
        let pods = Kind::by_name("pod").expect("known");
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        delete_options(pods, &HeaderMap::new(), bytes, &Query::read("dryRun=All&gracePeriodSeconds=5"))
            .map_err(|s| (s.code, s.message))
    }

    #[test]
    fn what_a_delete_asks_is_understood_or_refused() {
        let options = read_options(
            r#"{"kind":"DeleteOptions","apiVersion":"policy/v1","gracePeriodSeconds":3,"dryRun":["All"],
                "propagationPolicy":"Orphan","preconditions":{"uid":"u","resourceVersion":"7"}}"#,
        );
        let expected = DeleteOptions {
            uid: Some("u".into()),
            resource_version: Some("7".into()),
            grace_period_seconds: Some(3),
            propagation: Some(Propagation::Orphan),
            dry_run: true,
        };
        assert_eq!(options, Ok(expected));
        let of_query = DeleteOptions { grace_period_seconds: Some(5), dry_run: true, ..DeleteOptions::default() };
        assert_eq!(read_options(""), Ok(of_query));
        assert_eq!(read_options("{}"), Ok(DeleteOptions::default()), "a body stands in the place of the parameters");
        for wrong in [
            r#"{"dryRun":"All"}"#,
            r#"{"gracePeriodSeconds":"x"}"#,
            r#"{"preconditions":{"uid":5}}"#,
            r#"{"preconditions":"no"}"#,
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            "[]",
            "{",
        ] {
            assert_eq!(read_options(wrong).expect_err(wrong).0, 400, "{wrong}");
        }
        assert_eq!(read_options(r#"{"dryRun":["Foo"]}"#).expect_err("refused").0, 422);
        assert_eq!(read_options(r#"{"propagationPolicy":"Sideways"}"#).expect_err("refused").0, 422);
    }
}
