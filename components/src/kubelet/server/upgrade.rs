//! From a request to a WebSocket (RFC 6455): who may have one, in which of the protocols that are served.

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::{body::Incoming, upgrade::OnUpgrade, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::derive_accept_key,
        protocol::{Role, WebSocketConfig},
    },
};

/// The largest message of a client: kubectl sends 32 KiB at a time.
const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Said to clients that still want to speak SPDY over the bare connection.
const BARE_SPDY: &str = "SPDY/3.1 is served only within a WebSocket: use kubectl 1.31 or later, without \
                         KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false and KUBECTL_PORT_FORWARD_WEBSOCKETS=false";

/// A WebSocket with a client.
pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// A connection that is about to become a WebSocket.
pub(super) struct Upgrade {
    /// What both ends are going to speak.
    pub(super) protocol: &'static str,
    accept: String,
    coming: OnUpgrade,
}

/// Why it does not become one.
pub(super) type Refusal = (StatusCode, String);

impl Upgrade {
    /// Looks at the request; `protocols` are those that are served, in the order of preference.
    pub(super) fn of(request: &mut Request<Incoming>, protocols: &[&'static str]) -> Result<Self, Refusal> {
        let (protocol, accept) = agree(request.headers(), protocols)?;
        Ok(Upgrade { protocol, accept, coming: hyper::upgrade::on(request) })
    }

    /// The answer that makes it one, and what waits for it.
    pub(super) fn accept<B: Default>(
        self,
    ) -> (Response<B>, impl Future<Output = Result<Socket, hyper::Error>> + Send + 'static) {
        let mut response = Response::new(B::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(self.protocol));
        if let Ok(accept) = HeaderValue::try_from(self.accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        let coming = self.coming;
        let socket = async move {
            let config = WebSocketConfig::default()
                .max_message_size(Some(MESSAGE_BYTES_MAX))
                .max_frame_size(Some(MESSAGE_BYTES_MAX));
            let io = TokioIo::new(coming.await?);
            Ok(WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await)
        };
        (response, socket)
    }
}

/// The protocol to speak, and the proof that the handshake was read.
fn agree(headers: &HeaderMap, protocols: &[&'static str]) -> Result<(&'static str, String), Refusal> {
    let refuse = |why: String| (StatusCode::BAD_REQUEST, why);
    let upgrades = values(headers, header::CONNECTION).any(|word| word.eq_ignore_ascii_case("upgrade"));
    let to: Vec<&str> = values(headers, header::UPGRADE).collect();
    if !upgrades || to.is_empty() {
        return Err(refuse("Upgrade request required".to_owned()));
    }
    if to.iter().any(|word| word.eq_ignore_ascii_case("SPDY/3.1")) {
        return Err(refuse(BARE_SPDY.to_owned()));
    }
    if !to.iter().any(|word| word.eq_ignore_ascii_case("websocket")) {
        return Err(refuse(format!("an upgrade to {} is not served, only to websocket", to.join(", "))));
    }
    if values(headers, header::SEC_WEBSOCKET_VERSION).all(|version| version != "13") {
        return Err(refuse("only version 13 of WebSocket is served".to_owned()));
    }
    let key =
        headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| refuse("Sec-WebSocket-Key is missing".to_owned()))?;
    let wanted: Vec<&str> = values(headers, header::SEC_WEBSOCKET_PROTOCOL).collect();
    let protocol = protocols.iter().find(|protocol| wanted.contains(protocol)).ok_or_else(|| {
        let wanted = if wanted.is_empty() { "none".to_owned() } else { wanted.join(", ") };
        refuse(format!("of the protocols {} the client offers {wanted}", protocols.join(", ")))
    })?;
    Ok((protocol, derive_accept_key(key.as_bytes())))
}

/// The words of a header that is a list.
fn values(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVED: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value))).collect()
    }

    fn websocket(protocols: &'static str) -> HeaderMap {
        headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", protocols),
        ])
    }

    #[test]
    fn the_best_protocol_of_both_is_taken_and_the_key_is_answered() {
        let (protocol, accept) = agree(&websocket("v4.channel.k8s.io, v5.channel.k8s.io"), &SERVED).expect("agreed");
        // The example of RFC 6455, section 1.3.
        assert_eq!((protocol, accept.as_str()), ("v5.channel.k8s.io", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(agree(&websocket("v4.channel.k8s.io"), &SERVED).expect("agreed").0, "v4.channel.k8s.io");
    }

    #[test]
    fn what_cannot_be_served_is_told() {
        let said = |headers: HeaderMap| agree(&headers, &SERVED).expect_err("refused").1;
        assert_eq!(said(HeaderMap::new()), "Upgrade request required");
        assert_eq!(said(headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")])), BARE_SPDY);
        assert_eq!(
            said(headers(&[("connection", "Upgrade"), ("upgrade", "h2c")])),
            "an upgrade to h2c is not served, only to websocket"
        );
        assert_eq!(
            said(websocket("base64.channel.k8s.io")),
            "of the protocols v5.channel.k8s.io, v4.channel.k8s.io the client offers base64.channel.k8s.io"
        );
        let mut old = websocket("v4.channel.k8s.io");
        old.insert("sec-websocket-version", HeaderValue::from_static("8"));
        assert_eq!(said(old), "only version 13 of WebSocket is served");
    }
}
