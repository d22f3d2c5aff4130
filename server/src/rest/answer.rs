//! Objects and failures as HTTP answers.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use listwatch_proto::resource::Status;
use serde_json::Value;

use super::negotiate::Encoding;

/// A body in one piece.
pub(super) fn whole(code: StatusCode, encoding: Encoding, json: Bytes) -> Response {
    let (content_type, body) = match encoding {
        Encoding::Json => ("application/json", json),
        Encoding::Yaml => ("application/yaml", yaml(&json)),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A value in one piece.
pub(super) fn value(code: StatusCode, encoding: Encoding, value: &Value) -> Response {
    let mut text = value.to_string();
    text.push('\n');
    whole(code, encoding, Bytes::from(text))
}

/// The answer to a request that failed.
pub(super) fn failure(status: &Status, encoding: Encoding) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = value(code, encoding, &status.to_json());
    if status.retry_after_seconds > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(status.retry_after_seconds));
    }
    response
}

/// Plain text, as Go's HTTP server says that there is nothing.
pub(super) fn page_not_found() -> Response {
    let mut response = Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Adds what a person should be told.
pub(super) fn warn(response: &mut Response, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // A text that is no header value is dropped, as upstream does.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

fn yaml(json: &[u8]) -> Bytes {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    Bytes::from(serde_norway::to_string(&value).unwrap_or_default())
}
