//! Objects and failures as HTTP answers.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, Uri, header};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Status;
use serde_json::Value;

use super::negotiate::Encoding;
use super::yaml_write;
use crate::registry::{declared, protobuf_write};

/// The media type of Kubernetes' protobuf form.
pub(in crate::rest) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A body in one piece.
pub(in crate::rest) fn whole(code: StatusCode, encoding: Encoding, json: Bytes) -> Response {
    let (content_type, body) = match encoding {
        // What has no protobuf form of its own goes as JSON; clients look at what they get.
        Encoding::Json | Encoding::Protobuf => ("application/json", json),
        Encoding::Yaml => ("application/yaml", yaml(&json)),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A protobuf body in one piece.
pub(in crate::rest) fn protobuf(code: StatusCode, message: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(message));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROTOBUF));
    response
}

/// A value in one piece.
pub(in crate::rest) fn value(code: StatusCode, encoding: Encoding, value: &Value) -> Response {
    let mut text = value.to_string();
    text.push('\n');
    whole(code, encoding, Bytes::from(text))
}

/// A Status, in the order in which kube-apiserver writes it: clients print it as it comes.
pub(in crate::rest) fn status(code: StatusCode, encoding: Encoding, status: &Value) -> Response {
    whole(code, encoding, Bytes::from(status_text(status) + "\n"))
}

/// The text of a Status, as Go lays it out.
pub(crate) fn status_text(status: &Value) -> String {
    declared::text(status, "meta/v1.Status")
}

/// The answer to a request that failed.
pub(in crate::rest) fn failure(status: &Status, encoding: Encoding) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = match encoding {
        Encoding::Protobuf => protobuf(code, protobuf_write::write_status(status)),
        _ => self::status(code, encoding, &status.to_json()),
    };
    if status.retry_after_seconds > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(status.retry_after_seconds));
    }
    response
}

/// Plain text, as Go's HTTP server says that there is nothing.
pub(in crate::rest) fn page_not_found() -> Response {
    plain_error(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

/// A failure outside the API, as Go's `http.Error` tells it.
pub(in crate::rest) fn plain_error(code: StatusCode, text: String) -> Response {
    let mut response = plain(text);
    *response.status_mut() = code;
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Plain text.
pub(in crate::rest) fn plain(text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Come again in a second: more is asked than is worked on at a time.
pub(in crate::rest) fn too_many_requests() -> Response {
    let text = "Too many requests, please try again later.\n".to_owned();
    let mut response = plain_error(StatusCode::TOO_MANY_REQUESTS, text);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The words of kube-apiserver for `/api/v1/watch` with nothing behind it, which its filters do not understand.
pub(in crate::rest) fn prefix_of_nothing(uri: &Uri) -> Response {
    let why = "failed to create RequestInfo: unable to determine kind and namespace from url";
    let text = format!("Internal Server Error: {}: {why}, {uri}\n", quote(&uri.to_string()));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    plain_error(StatusCode::INTERNAL_SERVER_ERROR, text)
}

/// Nothing may be kept by those between server and client, but what says so itself.
pub(in crate::rest) async fn uncached(mut response: Response) -> Response {
    let caching = HeaderValue::from_static("no-cache, private");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(caching);
    response
}

/// Adds what a person should be told.
pub(in crate::rest) fn warn(response: &mut Response, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        // A text that is no header value is dropped, as upstream does.
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// Adds what a person should be told before all else.
pub(in crate::rest) fn warn_first(response: &mut Response, warning: &str) {
    let others: Vec<HeaderValue> = response.headers().get_all(header::WARNING).iter().cloned().collect();
    response.headers_mut().remove(header::WARNING);
    warn(response, &[warning.to_owned()]);
    for other in others {
        response.headers_mut().append(header::WARNING, other);
    }
}

fn yaml(json: &[u8]) -> Bytes {
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    Bytes::from(yaml_write::document(&value))
}
