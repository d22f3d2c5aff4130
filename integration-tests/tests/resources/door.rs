//! The questions of the tests, in few words.

use std::time::Duration;

use bytes::Bytes;
use listwatch_components::client::{Client, ClientConfig, Resources, load_kubeconfig};
use listwatch_integration_tests::Server;
use listwatch_proto::resource::{Kind, Status};
use listwatch_proto::v1::{self, ResourceRef, WatchEvent, WatchRequest, WatchResponse};
use serde_json::{Value, json};
use tonic::Streaming;

/// Within this time everything asked here is answered, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// How the administrator reaches a server.
pub(crate) fn config(server: &Server) -> ClientConfig {
    load_kubeconfig(&server.data_dir().join("kubeconfig"), None).expect("the server's kubeconfig").config
}

/// The administrator.
pub(crate) fn admin(server: &Server) -> Client {
    Client::new(&config(server)).expect("a client")
}

/// An object or a collection, named as on the command line.
pub(crate) fn reference(kind: &str, namespace: &str, name: &str) -> ResourceRef {
    Kind::by_name(kind).expect("a served kind").reference(namespace, name)
}

/// A Lease: the lightest object there is.
pub(crate) fn lease(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"holderIdentity": "nobody"},
    })
}

/// A Pod of one container.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "pause"}]},
    })
}

/// The verbs, with errors as Kubernetes tells them.
#[derive(Clone)]
pub(crate) struct Door(pub(crate) Resources);

impl Door {
    pub(crate) fn of(client: &Client) -> Door {
        Door(client.resources())
    }

    /// The administrator's.
    pub(crate) fn admin(server: &Server) -> Door {
        Door::of(&admin(server))
    }

    pub(crate) async fn create(&self, kind: &str, body: &Value) -> Result<v1::ObjectResponse, Status> {
        let namespace = body["metadata"]["namespace"].as_str().unwrap_or_default();
        self.create_at(reference(kind, namespace, ""), body).await
    }

    pub(crate) async fn create_at(&self, at: ResourceRef, body: &Value) -> Result<v1::ObjectResponse, Status> {
        let request = v1::CreateRequest { resource: Some(at), json: encode(body), ..Default::default() };
        self.send_create(request).await
    }

    pub(crate) async fn send_create(&self, request: v1::CreateRequest) -> Result<v1::ObjectResponse, Status> {
        answer(self.0.clone().create(request).await)
    }

    pub(crate) async fn get(&self, kind: &str, namespace: &str, name: &str) -> Result<v1::ObjectResponse, Status> {
        let resource = Some(reference(kind, namespace, name));
        self.send_get(v1::GetRequest { resource, ..Default::default() }).await
    }

    pub(crate) async fn send_get(&self, request: v1::GetRequest) -> Result<v1::ObjectResponse, Status> {
        answer(self.0.clone().get(request).await)
    }

    pub(crate) async fn list(&self, request: v1::ListRequest) -> Result<v1::ListResponse, Status> {
        answer(self.0.clone().list(request).await)
    }

    pub(crate) async fn update(&self, at: ResourceRef, body: &Value) -> Result<v1::ObjectResponse, Status> {
        let request = v1::UpdateRequest { resource: Some(at), json: encode(body), ..Default::default() };
        answer(self.0.clone().update(request).await)
    }

    pub(crate) async fn patch(
        &self,
        at: ResourceRef,
        form: v1::PatchType,
        patch: &Value,
    ) -> Result<v1::ObjectResponse, Status> {
        let request =
            v1::PatchRequest { resource: Some(at), r#type: form.into(), patch: encode(patch), ..Default::default() };
        answer(self.0.clone().patch(request).await)
    }

    /// A merge patch of a Lease in the namespace `default`.
    pub(crate) async fn change(&self, name: &str, patch: Value) -> v1::ObjectResponse {
        self.patch(reference("leases", "default", name), v1::PatchType::Merge, &patch).await.expect("patched")
    }

    pub(crate) async fn delete(&self, request: v1::DeleteRequest) -> Result<v1::DeleteResponse, Status> {
        answer(self.0.clone().delete(request).await)
    }

    pub(crate) async fn apply(
        &self,
        at: ResourceRef,
        manager: &str,
        wanted: &Value,
        force: bool,
    ) -> Result<v1::ObjectResponse, Status> {
        let request = v1::PatchRequest {
            resource: Some(at),
            r#type: v1::PatchType::Apply.into(),
            patch: encode(wanted),
            field_manager: manager.to_owned(),
            force,
            ..Default::default()
        };
        answer(self.0.clone().patch(request).await)
    }

    pub(crate) async fn delete_collection(
        &self,
        request: v1::DeleteCollectionRequest,
    ) -> Result<v1::DeleteCollectionResponse, Status> {
        answer(self.0.clone().delete_collection(request).await)
    }

    pub(crate) async fn watch(&self, request: WatchRequest) -> Result<Watching, Status> {
        answer(self.0.clone().watch(request).await).map(Watching)
    }

    /// Where the store stands.
    pub(crate) async fn revision(&self) -> i64 {
        revision_of(&answer(self.0.clone().discover(v1::DiscoverRequest {}).await).expect("discover").header)
    }

    /// The id of the store's history.
    pub(crate) async fn incarnation(&self) -> String {
        let discovered = answer(self.0.clone().discover(v1::DiscoverRequest {}).await).expect("discover");
        discovered.header.expect("a header").incarnation
    }
}

/// A watch of the Leases of the namespace `default`.
pub(crate) fn leases() -> WatchRequest {
    WatchRequest { resource: Some(reference("leases", "default", "")), allow_bookmarks: true, ..Default::default() }
}

/// An open watch.
pub(crate) struct Watching(pub(crate) Streaming<WatchResponse>);

impl Watching {
    /// The next message; `None` at a clean end.
    pub(crate) async fn next(&mut self) -> Result<Option<WatchResponse>, Status> {
        let message = tokio::time::timeout(LIMIT, self.0.message()).await.expect("a watch is never silent");
        message.map_err(|error| Status::from_grpc(&error))
    }

    /// All events until the stream has come to a revision; bookmarks too.
    pub(crate) async fn until(&mut self, revision: i64) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        let mut stands = 0;
        while stands < revision {
            let message = self.next().await.expect("no error").expect("no end");
            let header = revision_of(&message.header);
            assert!(header >= stands, "the header goes back from {stands} to {header}");
            stands = header;
            events.extend(message.events);
        }
        events
    }

    /// The next event that is no bookmark.
    pub(crate) async fn event(&mut self) -> WatchEvent {
        loop {
            let message = self.next().await.expect("no error").expect("no end");
            if let Some(event) = message.events.into_iter().find(|event| event.object.is_some()) {
                return event;
            }
        }
    }
}

/// What of an event is compared: type, name, revision.
pub(crate) fn facts(event: &WatchEvent) -> (v1::EventType, String, i64) {
    let name = event.object.as_ref().map(|object| object.name.clone()).unwrap_or_default();
    (event.r#type(), name, event.revision)
}

pub(crate) fn revision_of(header: &Option<v1::Header>) -> i64 {
    header.as_ref().expect("every answer has a header").revision
}

/// The object of an answer.
pub(crate) fn object(answer: &v1::ObjectResponse) -> &v1::Object {
    answer.object.as_ref().expect("an object")
}

/// The content of an object.
pub(crate) fn content(object: &v1::Object) -> Value {
    serde_json::from_slice(&object.json).expect("JSON")
}

pub(crate) fn encode(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn answer<T>(result: Result<tonic::Response<T>, tonic::Status>) -> Result<T, Status> {
    result.map(tonic::Response::into_inner).map_err(|error| Status::from_grpc(&error))
}
