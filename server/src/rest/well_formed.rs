//! What Go's HTTP server refuses before a handler sees it: a path that does not decode, a Host that is none, an expectation
//! that nobody meets. The answers are Go's, word for word.

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};

use super::form::answer;
use super::path;

/// Middleware: lets through what is a request.
pub(super) async fn guard(request: Request, next: Next) -> Response {
    match refusal(&request) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

/// The answer to what is no request; `None` = it is one.
pub(super) fn refusal(request: &Request) -> Option<Response> {
    if !path::is_well_formed(request.uri().path()) {
        return Some(closed(StatusCode::BAD_REQUEST, "400 Bad Request"));
    }
    if request.version() > Version::HTTP_11 {
        return None;
    }
    if let Some(text) = host_fault(request.headers(), request.version()) {
        return Some(closed(StatusCode::BAD_REQUEST, text));
    }
    let is_met =
        |expected: &HeaderValue| expected.is_empty() || expected.as_bytes().eq_ignore_ascii_case(b"100-continue");
    match request.headers().get(header::EXPECT) {
        Some(expected) if !is_met(expected) => Some(closed(StatusCode::EXPECTATION_FAILED, "")),
        _ => None,
    }
}

/// What is wrong with the Host of an HTTP/1 request (Go 1.25, `readRequest`).
fn host_fault(headers: &HeaderMap, version: Version) -> Option<&'static str> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Some("400 Bad Request");
    }
    match host {
        None if version == Version::HTTP_11 => Some("400 Bad Request: missing required Host header"),
        Some(host) if !host.as_bytes().iter().all(|byte| is_host_byte(*byte)) => {
            Some("400 Bad Request: malformed Host header")
        }
        _ => None,
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&()*+,-.:;=['_]~".contains(&byte)
}

/// An answer behind which the connection ends.
fn closed(code: StatusCode, text: &'static str) -> Response {
    let mut response = if text.is_empty() { Response::new(Body::empty()) } else { answer::plain(text) };
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(version: Version, uri: &str, headers: &[(&str, &str)]) -> Option<u16> {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        refusal(&request.body(Body::empty()).expect("a request")).map(|response| response.status().as_u16())
    }

    #[test]
    fn a_request_has_one_host_and_a_path_that_decodes() {
        let host = ("host", "localhost:6443");
        for (headers, expected) in [
            (&[host][..], None),
            (&[], Some(400)),
            (&[host, host], Some(400)),
            (&[("host", "a b")], Some(400)),
            (&[("host", "a/b")], Some(400)),
            (&[("host", "")], None),
            (&[("host", "[::1]:80")], None),
            (&[host, ("expect", "100-Continue")], None),
            (&[host, ("expect", "more")], Some(417)),
        ] {
            assert_eq!(judged(Version::HTTP_11, "/api", headers), expected, "{headers:?}");
        }
        assert_eq!(judged(Version::HTTP_10, "/api", &[]), None);
        assert_eq!(judged(Version::HTTP_2, "/api", &[]), None, "the address stands elsewhere");
        assert_eq!(judged(Version::HTTP_2, "/api%zz", &[]), Some(400));
        assert_eq!(judged(Version::HTTP_11, "/api%2f", &[host]), None);
    }

    #[test]
    fn the_fault_of_a_host_is_named() {
        let mut headers = HeaderMap::new();
        assert_eq!(host_fault(&headers, Version::HTTP_11), Some("400 Bad Request: missing required Host header"));
        headers.insert(header::HOST, HeaderValue::from_bytes(b"\xfc").expect("a value"));
        assert_eq!(host_fault(&headers, Version::HTTP_11), Some("400 Bad Request: malformed Host header"));
        headers.append(header::HOST, HeaderValue::from_static("b"));
        assert_eq!(host_fault(&headers, Version::HTTP_11), Some("400 Bad Request"));
    }
}
