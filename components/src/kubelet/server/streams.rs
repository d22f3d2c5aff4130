//! Requests that become WebSockets: commands, a container's own output, forwarded ports.
//!
//! Invariant: what can be refused is refused before the upgrade, with a code and a text; after it there are only the
//! words of the protocol.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::mpsc;

use super::{
    super::{pod::spec, runtime::seam::RuntimeError},
    channels, command,
    forward::{self, CHANNEL_PORTS_MAX, Ports, TUNNEL},
    query::{self, LogQuery, Place},
    service::{Body, LogAccess, pod, run, source},
    stream::{self, CHUNKS_WAITING},
    upgrade::{Refusal, Upgrade},
};

/// Runs a command beside a container and lets the client follow it.
pub(super) async fn exec(
    mut request: Request<Incoming>,
    place: &Place,
    query: &str,
    access: &LogAccess,
) -> Result<Response<Body>, Refusal> {
    let asked = query::interaction(query).map_err(bad)?;
    if asked.command.first().is_none_or(String::is_empty) {
        return Err(bad("you must specify a command".to_owned()));
    }
    let uid = pod(place, access)?.uid.clone();
    running(&uid, place, access)?;
    simulated(access, "no command can run in them")?;
    let upgrade = Upgrade::of(&mut request, &channels::PROTOCOLS)?;
    let session = access.runtime.interact(&uid, &place.container, &asked).await.map_err(|error| match error {
        RuntimeError::NotFound { .. } => not_running(place),
        RuntimeError::Unsupported(why) => bad(why),
        error => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    })?;
    let ways = command::Ways { closes_input: upgrade.protocol == channels::PROTOCOLS[0], terminal: asked.tty };
    let (response, socket) = upgrade.accept();
    // Ends with the client's connection, which the server's stop closes.
    tokio::spawn(async move {
        match socket.await {
            Ok(socket) => command::follow(socket, session, ways).await,
            Err(error) => tracing::debug!(%error, "a client of a command went before it began"),
        }
    });
    Ok(response)
}

/// Shows what a container writes from now on, until it ends.
pub(super) fn attach(
    mut request: Request<Incoming>,
    place: &Place,
    access: &LogAccess,
) -> Result<Response<Body>, Refusal> {
    let asked = query::interaction(request.uri().query().unwrap_or_default()).map_err(bad)?;
    let uid = pod(place, access)?.uid.clone();
    running(&uid, place, access)?;
    let log = access.runtime.log(&uid, &place.container, false).map_err(|_| not_running(place))?;
    let upgrade = Upgrade::of(&mut request, &channels::PROTOCOLS)?;
    let wanted = (asked.stdout, asked.stderr);
    let query = LogQuery { follow: true, tail_lines: Some(0), channels: Some(wanted), ..LogQuery::default() };
    let source = source(access, &uid, &place.container, log);
    let now = access.clock.now();
    let (response, socket) = upgrade.accept();
    tokio::spawn(async move {
        let socket = match socket.await {
            Ok(socket) => socket,
            Err(error) => return tracing::debug!(%error, "a client of an output went before it began"),
        };
        let (out, pieces) = mpsc::channel::<Bytes>(CHUNKS_WAITING);
        let reading = async {
            if let Err(error) = stream::send(source, query, now, out).await {
                tracing::warn!(%error, uid, "a log cannot be read");
            }
        };
        tokio::join!(reading, command::show(socket, pieces));
    });
    Ok(response)
}

/// Connects the client to ports of a pod.
pub(super) async fn port_forward(
    mut request: Request<Incoming>,
    place: &Place,
    query: &str,
    access: &LogAccess,
) -> Result<Response<Body>, Refusal> {
    let asked = query::ports(query).map_err(bad)?;
    let found = pod(place, access)?;
    simulated(access, "nothing listens on their ports")?;
    let pods = access.runtime.pods().await.map_err(|e| (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))?;
    let known = pods.into_iter().find(|known| known.config.uid == found.uid);
    let Some(known) = known.filter(|_| !spec::is_terminal(&found)) else {
        return Err(bad(format!("pod \"{}\" does not run", place.pod)));
    };
    let upgrade = Upgrade::of(&mut request, &forward::PROTOCOLS)?;
    if upgrade.protocol != TUNNEL && (asked.is_empty() || asked.len() > CHANNEL_PORTS_MAX) {
        return Err(bad(format!("this protocol needs 1 to {CHANNEL_PORTS_MAX} ports in the query")));
    }
    let ports = Ports { ip: known.ip, actual: actual_ports(&found, access), pod: place.pod.clone() };
    let protocol = upgrade.protocol;
    let (response, socket) = upgrade.accept();
    tokio::spawn(async move {
        match socket.await {
            Ok(socket) => forward::serve(socket, protocol, &asked, ports).await,
            Err(error) => tracing::debug!(%error, "a client of ports went before it began"),
        }
    });
    Ok(response)
}

/// The ports that are elsewhere than the pod names them.
fn actual_ports(pod: &crate::client::Cached<Pod>, access: &LogAccess) -> std::collections::HashMap<u16, u16> {
    let containers = pod.spec.iter().flat_map(spec::containers);
    containers.flat_map(|(container, _)| access.runtime.ports(&pod.uid, &container.name)).collect()
}

fn running(uid: &str, place: &Place, access: &LogAccess) -> Result<(), Refusal> {
    let runs = run(&access.runtime, uid, &place.container).is_some_and(|(_, runs)| runs);
    if runs { Ok(()) } else { Err(not_running(place)) }
}

fn not_running(place: &Place) -> Refusal {
    (StatusCode::NOT_FOUND, format!("container \"{}\" in pod \"{}\" does not run", place.container, place.pod))
}

fn simulated(access: &LogAccess, so: &str) -> Result<(), Refusal> {
    if access.runtime.is_simulation() {
        return Err(bad(format!("the containers of this node are simulated: {so}")));
    }
    Ok(())
}

fn bad(why: String) -> Refusal {
    (StatusCode::BAD_REQUEST, why)
}
