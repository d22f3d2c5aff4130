//! The token that a browser shows: a WebSocket of its own takes no `Authorization`, so the token stands among the
//! subprotocols (Kubernetes 1.36, `base64url.bearer.authorization.k8s.io.TOKEN`).
//!
//! Invariant: whoever a request is passed on to never sees it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue};

/// How such a subprotocol begins.
const BEARER: &str = "base64url.bearer.authorization.k8s.io.";

/// The token that a request for a WebSocket shows.
///
/// # Errors
/// Why what it shows is none.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<String>, &'static str> {
    if !is_asked_for(headers) {
        return Ok(None);
    }
    let mut token = None;
    let mut has_other = false;
    for protocol in protocols(headers) {
        let Some(encoded) = protocol.strip_prefix(BEARER) else {
            has_other = true;
            continue;
        };
        let decoded = URL_SAFE_NO_PAD.decode(encoded);
        let decoded = decoded.map_err(|_| "invalid base64.bearer.authorization token encoding")?;
        let decoded = String::from_utf8(decoded).map_err(|_| "invalid base64.bearer.authorization token")?;
        if token.replace(decoded).is_some() {
            return Err("multiple base64.bearer.authorization tokens specified");
        }
    }
    let token = token.filter(|token| !token.is_empty());
    if token.is_some() && !has_other {
        // One must be left to be agreed on.
        return Err("missing additional subprotocol");
    }
    Ok(token)
}

/// Takes the token out of headers that are passed on.
pub(crate) fn hide_bearer(headers: &mut HeaderMap) {
    if !protocols(headers).any(|protocol| protocol.starts_with(BEARER)) {
        return;
    }
    let others: Vec<_> = protocols(headers).filter(|protocol| !protocol.starts_with(BEARER)).collect();
    let others = HeaderValue::from_str(&others.join(","));
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Some(others) = others.ok().filter(|others| !others.is_empty()) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    }
}

fn is_asked_for(headers: &HeaderMap) -> bool {
    let has = |name, word: &str| {
        let texts = headers.get_all(name).into_iter().filter_map(|value: &HeaderValue| value.to_str().ok());
        texts.flat_map(|text| text.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|text| text.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(protocols: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("keep-alive, Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("WebSocket"));
        for protocol in protocols {
            headers.append(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(protocol).expect("a value"));
        }
        headers
    }

    #[test]
    fn a_token_stands_among_the_subprotocols() {
        let token = "base64url.bearer.authorization.k8s.io.dG9rZW4";
        for protocols in [&[token, "v5.channel.k8s.io"][..], &[&format!("v4.channel.k8s.io, {token}")]] {
            assert_eq!(bearer(&headers(protocols)), Ok(Some("token".to_owned())));
        }
        for nothing in [&[][..], &["v5.channel.k8s.io"], &["base64url.bearer.authorization.k8s.io.", "x"]] {
            assert_eq!(bearer(&headers(nothing)), Ok(None));
        }
        assert!(bearer(&headers(&[token])).is_err(), "nothing is left to agree on");
        assert!(bearer(&headers(&[token, token, "x"])).is_err());
        assert!(bearer(&headers(&["base64url.bearer.authorization.k8s.io.%%", "x"])).is_err());
        assert!(bearer(&headers(&["base64url.bearer.authorization.k8s.io._w", "x"])).is_err(), "no text");
        let mut plain = headers(&[token, "x"]);
        plain.remove(UPGRADE);
        assert_eq!(bearer(&plain), Ok(None), "no WebSocket is asked for");
    }

    #[test]
    fn what_is_passed_on_has_no_token() {
        let shown = |protocols: &[&str]| {
            let mut headers = headers(protocols);
            hide_bearer(&mut headers);
            let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
            values.map(|value| value.to_str().expect("text").to_owned()).collect::<Vec<_>>()
        };
        let token = "base64url.bearer.authorization.k8s.io.dG9rZW4";
        assert_eq!(shown(&["a, b", "c"]), ["a, b", "c"], "as they came");
        assert_eq!(shown(&["a", &format!("{token}, b")]), ["a,b"]);
        assert_eq!(shown(&[token]), [""; 0]);
    }
}
