//! A Resources service on loopback. Watches are answered by the test, one by one; get, create, update, patch and delete
//! work on a small map with revisions and optimistic concurrency, enough for leases and Events.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use listwatch_components::client::{Client, ClientConfig};
use listwatch_proto::resource::{Kind, Object, Status};
use listwatch_proto::v1::resources_server::{Resources, ResourcesServer};
use listwatch_proto::v1::{self, EventType, Header, WatchEvent, WatchResponse};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response};

/// Nothing in a test takes longer unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

/// A running service. Dropping it cuts every connection.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) shared: Arc<Shared>,
    watches: mpsc::Receiver<OpenWatch>,
    /// Of its own, so that stopping it closes every socket as the death of a process does.
    runtime: Option<Runtime>,
}

/// What the service holds.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) objects: Mutex<Objects>,
    /// While set, every call but watch is answered so.
    pub(crate) failing: Mutex<Option<tonic::Code>>,
    pub(crate) calls: AtomicUsize,
    /// The metadata of the last call: `lw-client`, `lw-seen-revision`, `authorization`.
    pub(crate) metadata: Mutex<tonic::metadata::MetadataMap>,
}

#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) revision: i64,
    pub(crate) map: BTreeMap<String, Object>,
}

/// A watch that waits for the test to accept or refuse it.
pub(crate) struct OpenWatch {
    pub(crate) request: v1::WatchRequest,
    answer: oneshot::Sender<Result<ReceiverStream<Result<WatchResponse, tonic::Status>>, tonic::Status>>,
}

/// A watch that the test feeds.
pub(crate) struct Feed(mpsc::Sender<Result<WatchResponse, tonic::Status>>);

struct Service {
    shared: Arc<Shared>,
    watches: mpsc::Sender<OpenWatch>,
}

impl Server {
    pub(crate) fn start() -> Server {
        Self::start_at("127.0.0.1:0")
    }

    /// Starts at a known address, as after a restart.
    pub(crate) fn start_at(address: &str) -> Server {
        // The one before may still be letting go of the address.
        let began = std::time::Instant::now();
        let listener = loop {
            match std::net::TcpListener::bind(address) {
                Ok(listener) => break listener,
                Err(error) => assert!(began.elapsed() < LIMIT, "bind {address}: {error}"),
            }
            std::thread::yield_now();
        };
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("bound");
        let (sender, watches) = mpsc::channel(16);
        let shared = Arc::new(Shared::default());
        let service = Service { shared: shared.clone(), watches: sender };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a listener");
            let served = tonic::transport::Server::builder()
                .add_service(ResourcesServer::new(service))
                .serve_with_incoming(TcpListenerStream::new(listener));
            drop(served.await);
        });
        Server { address, shared, watches, runtime: Some(runtime) }
    }

    pub(crate) fn config(&self) -> ClientConfig {
        ClientConfig::new(format!("http://{}", self.address)).named("test")
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.config()).expect("a client")
    }

    /// The next watch that is opened.
    pub(crate) async fn next_watch(&mut self) -> OpenWatch {
        tokio::time::timeout(LIMIT, self.watches.recv()).await.expect("a watch is opened").expect("the server runs")
    }

    /// Opens the next watch and accepts it.
    pub(crate) async fn accept(&mut self) -> (v1::WatchRequest, Feed) {
        self.next_watch().await.accept()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl OpenWatch {
    pub(crate) fn accept(self) -> (v1::WatchRequest, Feed) {
        let (sender, receiver) = mpsc::channel(1024);
        assert!(self.answer.send(Ok(ReceiverStream::new(receiver))).is_ok(), "the client still waits");
        (self.request, Feed(sender))
    }

    pub(crate) fn refuse(self, status: impl Into<tonic::Status>) -> v1::WatchRequest {
        assert!(self.answer.send(Err(status.into())).is_ok(), "the client still waits");
        self.request
    }
}

impl Feed {
    pub(crate) async fn send(&self, response: WatchResponse) {
        self.0.send(Ok(response)).await.expect("the client reads");
    }

    /// Ends the stream with an error.
    pub(crate) async fn fail(self, status: impl Into<tonic::Status>) {
        self.0.send(Err(status.into())).await.expect("the client reads");
    }

    /// Waits until the client has gone away.
    pub(crate) async fn closed(&self) {
        tokio::time::timeout(LIMIT, self.0.closed()).await.expect("the client goes away");
    }
}

/// A message of the stream.
pub(crate) fn message(revision: i64, incarnation: &str, events: Vec<WatchEvent>) -> WatchResponse {
    let header = Header { revision, incarnation: incarnation.to_owned() };
    WatchResponse { header: Some(header), events, columns: Vec::new() }
}

/// An event on a pod of namespace `default`; its uid is `uid-NAME` unless it is named `NAME@uid`.
pub(crate) fn event(kind: EventType, revision: i64, pod: &str) -> WatchEvent {
    WatchEvent { r#type: kind as i32, revision, object: Some(wire_pod(revision, pod)), ..WatchEvent::default() }
}

pub(crate) fn bookmark(revision: i64, initial_events_end: bool) -> WatchEvent {
    WatchEvent { r#type: EventType::Bookmark as i32, revision, initial_events_end, ..WatchEvent::default() }
}

pub(crate) fn wire_pod(revision: i64, pod: &str) -> v1::Object {
    let (name, uid) = pod.split_once('@').map_or((pod, format!("uid-{pod}")), |(n, u)| (n, u.to_owned()));
    let json = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": uid, "resourceVersion": revision.to_string()},
    });
    wire(&Object::from_value(json).expect("a map"))
}

fn wire(object: &Object) -> v1::Object {
    v1::Object {
        api_version: object.api_version().to_owned(),
        kind: object.kind_name().to_owned(),
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        revision: object.revision(),
        json: object.to_vec().into(),
    }
}

fn kind_of(resource: &v1::ResourceRef) -> &'static Kind {
    Kind::by_plural(&resource.group, &resource.version, &resource.resource).expect("a served kind")
}

impl Service {
    fn admit<T>(&self, request: Request<T>) -> Result<T, tonic::Status> {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        *self.shared.metadata.lock() = request.metadata().clone();
        match *self.shared.failing.lock() {
            Some(code) => Err(tonic::Status::new(code, "scripted failure")),
            None => Ok(request.into_inner()),
        }
    }
}

impl Objects {
    fn header(&self) -> Option<Header> {
        Some(Header { revision: self.revision, incarnation: "one".to_owned() })
    }

    fn answer(&self, object: &Object) -> Response<v1::ObjectResponse> {
        let object = Some(wire(object));
        Response::new(v1::ObjectResponse { header: self.header(), object, ..v1::ObjectResponse::default() })
    }

    fn store(&mut self, key: String, mut object: Object) -> Response<v1::ObjectResponse> {
        self.revision += 1;
        object.set(&["metadata", "resourceVersion"], self.revision.to_string());
        let answer = self.answer(&object);
        self.map.insert(key, object);
        answer
    }
}

#[tonic::async_trait]
impl Resources for Service {
    async fn discover(
        &self,
        request: Request<v1::DiscoverRequest>,
    ) -> Result<Response<v1::DiscoverResponse>, tonic::Status> {
        self.admit(request)?;
        let header = self.shared.objects.lock().header();
        Ok(Response::new(v1::DiscoverResponse { header, resources: Vec::new() }))
    }

    async fn create(&self, request: Request<v1::CreateRequest>) -> Result<Response<v1::ObjectResponse>, tonic::Status> {
        let request = self.admit(request)?;
        let kind = kind_of(&request.resource.expect("a resource"));
        let mut object = Object::from_slice(&request.json).expect("a map");
        let key = kind.key(object.namespace(), object.name());
        let mut objects = self.shared.objects.lock();
        if objects.map.contains_key(&key) {
            return Err(Status::already_exists(kind, object.name()).into());
        }
        let uid = format!("uid-{}", objects.revision + 1);
        object.set(&["metadata", "uid"], uid);
        Ok(objects.store(key, object))
    }

    async fn get(&self, request: Request<v1::GetRequest>) -> Result<Response<v1::ObjectResponse>, tonic::Status> {
        let resource = self.admit(request)?.resource.expect("a resource");
        let kind = kind_of(&resource);
        let objects = self.shared.objects.lock();
        match objects.map.get(&kind.key(&resource.namespace, &resource.name)) {
            Some(object) => Ok(objects.answer(object)),
            None => Err(Status::not_found(kind, &resource.name).into()),
        }
    }

    async fn list(&self, request: Request<v1::ListRequest>) -> Result<Response<v1::ListResponse>, tonic::Status> {
        let request = self.admit(request)?;
        let kind = kind_of(&request.resource.expect("a resource"));
        let objects = self.shared.objects.lock();
        // Pages of two, so that a list of a few objects is a list of several pages.
        let after = request.continue_token;
        let rest: Vec<_> = objects
            .map
            .iter()
            .filter(|(key, _)| key.starts_with(kind.key_prefix) && key.as_str() > after.as_str())
            .collect();
        let continue_token = if rest.len() > 2 { rest[1].0.clone() } else { String::new() };
        let items = rest.into_iter().take(2).map(|(_, object)| wire(object)).collect();
        let revision = objects.revision;
        let header = objects.header();
        Ok(Response::new(v1::ListResponse { header, revision, continue_token, items, ..v1::ListResponse::default() }))
    }

    async fn update(&self, request: Request<v1::UpdateRequest>) -> Result<Response<v1::ObjectResponse>, tonic::Status> {
        let request = self.admit(request)?;
        let kind = kind_of(&request.resource.expect("a resource"));
        let object = Object::from_slice(&request.json).expect("a map");
        let key = kind.key(object.namespace(), object.name());
        let mut objects = self.shared.objects.lock();
        let Some(stored) = objects.map.get(&key) else {
            return Err(Status::not_found(kind, object.name()).into());
        };
        if object.revision() != 0 && object.revision() != stored.revision() {
            return Err(Status::conflict(kind, object.name(), "the object has been modified").into());
        }
        Ok(objects.store(key, object))
    }

    async fn patch(&self, request: Request<v1::PatchRequest>) -> Result<Response<v1::ObjectResponse>, tonic::Status> {
        let request = self.admit(request)?;
        assert_eq!(request.r#type(), v1::PatchType::Merge, "the only one the script knows");
        let resource = request.resource.expect("a resource");
        let kind = kind_of(&resource);
        let key = kind.key(&resource.namespace, &resource.name);
        let mut objects = self.shared.objects.lock();
        let Some(mut object) = objects.map.get(&key).cloned() else {
            return Err(Status::not_found(kind, &resource.name).into());
        };
        let patch: Value = serde_json::from_slice(&request.patch).expect("JSON");
        for (field, value) in patch.as_object().expect("a map") {
            object.0.insert(field.clone(), value.clone());
        }
        Ok(objects.store(key, object))
    }

    async fn delete(&self, request: Request<v1::DeleteRequest>) -> Result<Response<v1::DeleteResponse>, tonic::Status> {
        let resource = self.admit(request)?.resource.expect("a resource");
        let kind = kind_of(&resource);
        let mut objects = self.shared.objects.lock();
        let Some(object) = objects.map.remove(&kind.key(&resource.namespace, &resource.name)) else {
            return Err(Status::not_found(kind, &resource.name).into());
        };
        objects.revision += 1;
        let object = Some(wire(&object));
        Ok(Response::new(v1::DeleteResponse { header: objects.header(), removed: true, object, warnings: Vec::new() }))
    }

    async fn delete_collection(
        &self,
        _request: Request<v1::DeleteCollectionRequest>,
    ) -> Result<Response<v1::DeleteCollectionResponse>, tonic::Status> {
        Err(tonic::Status::unimplemented("no component deletes collections"))
    }

    type WatchStream = ReceiverStream<Result<WatchResponse, tonic::Status>>;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, tonic::Status> {
        let (answer, answered) = oneshot::channel();
        *self.shared.metadata.lock() = request.metadata().clone();
        let opened = OpenWatch { request: request.into_inner(), answer };
        self.watches.send(opened).await.map_err(|_| tonic::Status::unavailable("the test has ended"))?;
        match answered.await {
            Ok(answer) => answer.map(Response::new),
            Err(_) => Err(tonic::Status::unavailable("the test dropped the watch")),
        }
    }

    type LogStream = ReceiverStream<Result<v1::LogResponse, tonic::Status>>;

    async fn log(&self, _request: Request<v1::LogRequest>) -> Result<Response<Self::LogStream>, tonic::Status> {
        Err(tonic::Status::unimplemented("no logs here"))
    }
}
