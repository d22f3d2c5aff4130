//! Requests and answers of the kubelet's server.

use std::{convert::Infallible, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::api::core::v1::Pod;
use listwatch_proto::resource::ObjectKey;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;

use super::{
    super::runtime::seam::{ContainerState, Runtime},
    query::{LogQuery, Place, Purpose},
    stream::{self, CHUNKS_WAITING, Source},
    streams,
    tls::{self, ServingCertificate, TlsError},
    upgrade::Refusal,
};
use crate::{client::Cached, clock::SharedClock, runtime::Store};

/// How many clients are served at once: the API server, a few times over.
const CONNECTIONS_MAX: usize = 256;

/// How long a handshake, or the head of a request, may take.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) type Body = BoxBody<Bytes, Infallible>;

/// Where logs and all else come from.
#[derive(Clone)]
pub(in crate::kubelet) struct LogAccess {
    /// The pods of the node.
    pub(in crate::kubelet) pods: Store<Pod>,
    /// What runs their containers.
    pub(in crate::kubelet) runtime: Arc<dyn Runtime>,
    /// Tells the time.
    pub(in crate::kubelet) clock: SharedClock,
}

/// The bound server.
pub(in crate::kubelet) struct Door {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Door {
    /// Binds the address; port 0 takes a free one.
    pub(in crate::kubelet) async fn bind(
        address: SocketAddr,
        serving: &ServingCertificate,
    ) -> Result<io::Result<Self>, TlsError> {
        let acceptor = TlsAcceptor::from(tls::config(serving)?);
        Ok(TcpListener::bind(address).await.map(|listener| Door { listener, acceptor }))
    }

    /// Where it listens.
    pub(in crate::kubelet) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves for ever. Dropping the future ends all connections.
    pub(in crate::kubelet) async fn serve(self, access: LogAccess) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(permit) = permits.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    let (acceptor, access) = (self.acceptor.clone(), access.clone());
                    connections.spawn(async move {
                        if let Err(error) = connection(stream, acceptor, access, permit).await {
                            tracing::debug!(%peer, error, "a connection to the kubelet ended");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    // Out of descriptors, most likely; trying again at once would only burn the processor.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    access: LogAccess,
    _permit: OwnedSemaphorePermit,
) -> Result<(), String> {
    let handshake = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await;
    let stream = handshake.map_err(|_| "the handshake took too long".to_owned())?.map_err(|error| error.to_string())?;
    let may_read = tls::may_read(stream.get_ref().1.peer_certificates());
    let service = service_fn(move |request| {
        let access = access.clone();
        async move { Ok::<_, Infallible>(answer(request, may_read, &access).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades()
        .await;
    served.map_err(|error| error.to_string())
}

async fn answer(request: Request<Incoming>, may_read: bool, access: &LogAccess) -> Response<Body> {
    let path = request.uri().path();
    if request.method() != Method::GET {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served");
    }
    if path == "/healthz" {
        return text(StatusCode::OK, "ok");
    }
    if !may_read {
        return text(StatusCode::UNAUTHORIZED, "only the API server may ask this, with its client certificate");
    }
    let Some((purpose, place)) = Place::parse(path) else {
        let served = "/healthz, /containerLogs, /exec, /attach and /portForward";
        return text(StatusCode::NOT_FOUND, &format!("there is nothing here; served are {served}"));
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    let answer = match purpose {
        Purpose::Logs => logs(&place, &query, access),
        Purpose::Exec => streams::exec(request, &place, &query, access).await,
        Purpose::Attach => streams::attach(request, &place, access),
        Purpose::PortForward => streams::port_forward(request, &place, &query, access).await,
    };
    answer.unwrap_or_else(|refusal| text(refusal.0, &refusal.1))
}

/// The pod, as this node has it.
pub(super) fn pod(place: &Place, access: &LogAccess) -> Result<Arc<Cached<Pod>>, Refusal> {
    let key = ObjectKey::new(place.namespace.as_str(), place.pod.as_str());
    let missing = || (StatusCode::NOT_FOUND, format!("pod \"{}\" not found on this node", place.pod));
    access.pods.get(&key).ok_or_else(missing)
}

fn logs(place: &Place, query: &str, access: &LogAccess) -> Result<Response<Body>, Refusal> {
    let query = LogQuery::parse(query).map_err(|why| (StatusCode::BAD_REQUEST, why))?;
    let Place { pod: name, container, .. } = place;
    let found = pod(place, access)?;
    let uid = found.uid.clone();
    let log = access.runtime.log(&uid, container, query.previous).map_err(|_| {
        let message = if query.previous {
            format!("previous terminated container \"{container}\" in pod \"{name}\" not found")
        } else {
            format!(
                "container \"{container}\" in pod \"{name}\" is waiting to start: {}",
                why_waiting(&found, container)
            )
        };
        (StatusCode::BAD_REQUEST, message)
    })?;
    let source = source(access, &uid, container, log);
    let query = LogQuery { follow: query.follow && !query.previous, ..query };
    let (out, chunks) = mpsc::channel(CHUNKS_WAITING);
    let now = access.clock.now();
    // Ends by itself when the client goes: its half of the channel is then closed.
    tokio::spawn(async move {
        if let Err(error) = stream::send(source, query, now, out).await {
            tracing::warn!(%error, uid, "a log cannot be read");
        }
    });
    let body = StreamBody::new(ReceiverStream::new(chunks).map(|chunk| Ok(Frame::data(chunk))));
    Ok(response(StatusCode::OK, BodyExt::boxed(body)))
}

/// The log at this path, of a container in its present run.
pub(super) fn source(access: &LogAccess, uid: &str, container: &str, path: PathBuf) -> Source {
    let attempt = run(&access.runtime, uid, container).map(|(attempt, _)| attempt);
    let (runtime, uid, name) = (access.runtime.clone(), uid.to_owned(), container.to_owned());
    Source {
        path,
        changes: access.runtime.changes(&uid),
        ended: Box::new(move || {
            run(&runtime, &uid, &name).is_none_or(|(now, running)| Some(now) != attempt || !running)
        }),
    }
}

/// Number and liveliness of a container's last run.
pub(super) fn run(runtime: &Arc<dyn Runtime>, uid: &str, container: &str) -> Option<(u32, bool)> {
    let states = runtime.containers(uid);
    let state = states.iter().find(|state| state.name == container)?;
    Some((state.attempt, matches!(state.state, ContainerState::Running { .. })))
}

fn why_waiting(pod: &Pod, container: &str) -> String {
    let statuses = pod.status.as_ref().map(|status| (&status.container_statuses, &status.init_container_statuses));
    let waiting = statuses
        .into_iter()
        .flat_map(|(app, init)| app.iter().chain(init).flatten())
        .find(|status| status.name == container)
        .and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.clone());
    waiting.unwrap_or_else(|| "ContainerCreating".to_owned())
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    response(status, Full::from(text.to_owned()).boxed())
}

fn response(status: StatusCode, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}
