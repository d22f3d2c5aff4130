//! Commands, output and forwarded ports of a pod: a client's WebSocket, handed through to the kubelet of its node.
//!
//! The handshake is the kubelet's; what follows are bytes in both directions that this server does not look into.

use std::fmt::Write as _;
use std::sync::Arc;

use http::{HeaderMap, header};
use listwatch_proto::resource::{Kind, Status};

use super::client::{Endpoint, Upgraded};
use super::log::segment;
use super::{Kubelets, containers};
use crate::registry::{Registry, RequestContext, Target};
use crate::transport::websocket;

/// What of a pod is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StreamQuery {
    /// A command beside a container, and which of its streams.
    Exec(Streams, Vec<String>),
    /// What a container writes.
    Attach(Streams),
    /// Connections to ports; empty where the client names them later.
    PortForward(Vec<u16>),
}

/// Which streams of a container are wanted (Kubernetes 1.36, `PodExecOptions` and `PodAttachOptions`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Streams {
    /// Empty: the only one.
    pub(crate) container: String,
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
    pub(crate) tty: bool,
}

/// Headers of a handshake that concern the one who answers it.
const HANDSHAKE: [header::HeaderName; 5] = [
    header::CONNECTION,
    header::UPGRADE,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_PROTOCOL,
];

/// Opens the stream at the kubelet of the pod's node. `headers` are those of the client's request.
///
/// # Errors
/// `BadRequest` for a pod without a node, a container that is not of it, or a request without upgrade; the kubelet's own
/// refusal; `ServiceUnavailable` if there is no way to it.
pub(crate) async fn open_stream(
    registry: &Registry,
    context: &RequestContext,
    kubelets: Option<&Arc<Kubelets>>,
    target: &Target,
    query: &StreamQuery,
    headers: &HeaderMap,
) -> Result<Upgraded, Status> {
    let pod = registry.get(context, &Target::object(target.kind, &target.namespace, &target.name), 0).await?;
    let pod = pod.object();
    let path = match query {
        StreamQuery::PortForward(_) => path(target, query, ""),
        StreamQuery::Exec(streams, _) | StreamQuery::Attach(streams) => {
            path(target, query, &containers::choose(pod, &streams.container)?)
        }
    };
    let node = match pod.text(&["spec", "nodeName"]) {
        "" => return Err(Status::bad_request(format!("pod {} does not have a host assigned", target.name))),
        node => node,
    };
    if !headers.contains_key(header::UPGRADE) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let kubelets = kubelets.ok_or_else(super::client::no_way)?;
    let kind = Kind::by_plural("", "", "nodes").ok_or_else(|| Status::internal("nodes are not served"))?;
    let node = registry.get(context, &Target::object(kind, "", node), 0).await?;
    let endpoint = Endpoint::of(node.object())?;
    let mut handshake = HeaderMap::new();
    for name in HANDSHAKE {
        for value in headers.get_all(&name) {
            handshake.append(name.clone(), value.clone());
        }
    }
    websocket::hide_bearer(&mut handshake);
    kubelets.upgrade(&endpoint, &path, handshake).await
}

/// The kubelet's path (Kubernetes 1.36).
fn path(target: &Target, query: &StreamQuery, container: &str) -> String {
    let place = format!("{}/{}", segment(&target.namespace), segment(&target.name));
    let mut words: Vec<(&str, String)> = Vec::new();
    let mut add = |streams: &Streams| {
        let Streams { stdin, stdout, stderr, tty, .. } = streams;
        for (name, wanted) in [("input", stdin), ("output", stdout), ("error", stderr), ("tty", tty)] {
            if *wanted {
                words.push((name, "1".to_owned()));
            }
        }
    };
    let mut path = match query {
        StreamQuery::Exec(streams, command) => {
            add(streams);
            words.extend(command.iter().map(|word| ("command", segment(word))));
            format!("/exec/{place}/{}", segment(container))
        }
        StreamQuery::Attach(streams) => {
            add(streams);
            format!("/attach/{place}/{}", segment(container))
        }
        StreamQuery::PortForward(ports) => {
            words.extend(ports.iter().map(|port| ("port", port.to_string())));
            format!("/portForward/{place}")
        }
    };
    for (index, (name, value)) in words.iter().enumerate() {
        let _ = write!(path, "{}{name}={value}", if index == 0 { '?' } else { '&' });
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_the_kubelets() {
        let target = Target::object(Kind::by_name("pod").expect("known"), "default", "web");
        let streams = Streams { container: String::new(), stdin: true, stdout: true, stderr: false, tty: true };
        let command = ["sh", "-c", "echo a&b"].map(str::to_owned).to_vec();
        assert_eq!(
            path(&target, &StreamQuery::Exec(streams.clone(), command), "c"),
            "/exec/default/web/c?input=1&output=1&tty=1&command=sh&command=-c&command=echo%20a%26b"
        );
        assert_eq!(path(&target, &StreamQuery::Attach(streams), "c"), "/attach/default/web/c?input=1&output=1&tty=1");
        assert_eq!(
            path(&target, &StreamQuery::PortForward(vec![80, 81]), ""),
            "/portForward/default/web?port=80&port=81"
        );
        assert_eq!(path(&target, &StreamQuery::PortForward(vec![]), ""), "/portForward/default/web");
    }
}
