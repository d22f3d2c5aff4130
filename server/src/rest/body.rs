//! What a client sent, as JSON for the registry.

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::{HeaderMap, header};
use listwatch_proto::resource::{Kind, Reason, Status};
use serde_json::Value;

use crate::registry::{DeleteOptions, PatchKind, Registry};

use super::query;

/// The largest body (Kubernetes 1.36: 3 MiB).
const BODY_BYTES_MAX: usize = 3 << 20;

/// The bytes of a request.
///
/// # Errors
/// `RequestEntityTooLarge`, or `BadRequest` when the client stops in the middle.
pub(super) async fn bytes(request: Request) -> Result<Bytes, Status> {
    read(request.into_body()).await
}

async fn read(body: Body) -> Result<Bytes, Status> {
    match axum::body::to_bytes(body, BODY_BYTES_MAX).await {
        Ok(bytes) => Ok(bytes),
        Err(error) if is_too_long(&error) => {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            Err(Status::new(Reason::RequestEntityTooLarge, message))
        }
        Err(error) => Err(Status::bad_request(format!("the body could not be read: {error}"))),
    }
}

fn is_too_long(error: &axum::Error) -> bool {
    use std::error::Error as _;
    error.source().is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// The media type of a body, without its parameters; nothing said is JSON.
fn media_type(headers: &HeaderMap) -> &str {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match text.split(';').next().unwrap_or_default().trim() {
        "" => "application/json",
        other => other,
    }
}

/// An object as JSON.
///
/// # Errors
/// `UnsupportedMediaType`; `BadRequest` for YAML that is none.
pub(super) fn object(kind: &'static Kind, headers: &HeaderMap, bytes: Bytes) -> Result<Bytes, Status> {
    match media_type(headers) {
        "application/json" => Ok(bytes),
        "application/yaml" => from_yaml(&bytes),
        "application/vnd.kubernetes.protobuf" => Ok(Registry::from_protobuf(kind, &bytes)?.to_string().into()),
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
pub(super) fn patch_kind(headers: &HeaderMap) -> Result<PatchKind, Status> {
    match media_type(headers) {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" => Ok(PatchKind::Strategic),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ => Err(Status::new(Reason::UnsupportedMediaType, "415: Unsupported Media Type")),
    }
}

/// YAML (1.1, the first document) as JSON.
pub(super) fn from_yaml(bytes: &[u8]) -> Result<Bytes, Status> {
    let documents = serde_norway::Deserializer::from_slice(bytes);
    let Some(first) = documents.into_iter().next() else { return Ok(Bytes::from_static(b"{}")) };
    let value: Value = serde::Deserialize::deserialize(first)
        .map_err(|error| Status::bad_request(format!("error converting YAML to JSON: {error}")))?;
    let value = if value.is_null() { Value::Object(serde_json::Map::new()) } else { value };
    Ok(Bytes::from(value.to_string()))
}

/// What the body of a delete asks, over what the parameters ask.
///
/// # Errors
/// `BadRequest` for a body that is no `DeleteOptions`.
pub(super) fn delete_options(
    kind: &'static Kind,
    headers: &HeaderMap,
    bytes: Bytes,
    mut options: DeleteOptions,
) -> Result<DeleteOptions, Status> {
    if bytes.is_empty() {
        return Ok(options);
    }
    let json = object(kind, headers, bytes)?;
    let value: Value =
        serde_json::from_slice(&json).map_err(|error| Status::bad_request(format!("the body is not JSON: {error}")))?;
    let text = |value: &Value| value.as_str().filter(|t| !t.is_empty()).map(str::to_owned);
    if let Some(seconds) = value["gracePeriodSeconds"].as_i64() {
        options.grace_period_seconds = Some(seconds);
    }
    if let Some(policy) = value["propagationPolicy"].as_str() {
        options.propagation = Some(query::propagation(policy)?);
    }
    if value["orphanDependents"].as_bool() == Some(true) {
        options.propagation = Some(crate::registry::Propagation::Orphan);
    }
    options.uid = text(&value["preconditions"]["uid"]).or(options.uid);
    options.resource_version = text(&value["preconditions"]["resourceVersion"]).or(options.resource_version);
    options.dry_run |= value["dryRun"].as_array().is_some_and(|of| of.iter().any(|v| v == "All"));
    Ok(options)
}
