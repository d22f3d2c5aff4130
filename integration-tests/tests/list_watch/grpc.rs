//! The gRPC side of the driver: `listwatch.v1.Resources` in plain text.

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Status};
use listwatch_proto::v1::resources_client::ResourcesClient;
use listwatch_proto::v1::{self, EventType, WatchRequest, WatchResponse};
use serde_json::Value;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::door::{Event, Follow, Listed, Read, What};

/// The largest answer that is taken: a page of the tests may have twenty thousand objects.
const ANSWER_BYTES_MAX: usize = 256 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Grpc(ResourcesClient<Channel>);

/// The messages of a watch.
pub(crate) struct Messages {
    stream: Streaming<WatchResponse>,
    waiting: VecDeque<Event>,
}

impl Grpc {
    pub(crate) async fn connect(address: SocketAddr) -> Grpc {
        let endpoint = Channel::from_shared(format!("http://{address}")).expect("an address");
        let channel = endpoint.connect().await.expect("the server listens");
        Grpc(ResourcesClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX))
    }

    pub(crate) async fn create(&self, kind: &'static Kind, namespace: &str, body: &Value) -> Result<Value, Status> {
        let resource = Some(kind.reference(namespace, ""));
        let request = v1::CreateRequest { resource, json: encode(body), ..Default::default() };
        object(self.0.clone().create(request).await)
    }

    pub(crate) async fn get(&self, kind: &'static Kind, namespace: &str, name: &str) -> Result<Value, Status> {
        let request = v1::GetRequest { resource: Some(kind.reference(namespace, name)), ..Default::default() };
        object(self.0.clone().get(request).await)
    }

    pub(crate) async fn update(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
        body: &Value,
    ) -> Result<Value, Status> {
        let resource = Some(kind.reference(namespace, name));
        let request = v1::UpdateRequest { resource, json: encode(body), ..Default::default() };
        object(self.0.clone().update(request).await)
    }

    pub(crate) async fn patch(
        &self,
        kind: &'static Kind,
        name: &str,
        form: &str,
        patch: &Value,
    ) -> Result<Value, Status> {
        let form = match form {
            "merge" => v1::PatchType::Merge,
            "apply" => v1::PatchType::Apply,
            _ => v1::PatchType::Strategic,
        };
        let request = v1::PatchRequest {
            resource: Some(kind.reference("default", name)),
            r#type: form.into(),
            patch: encode(patch),
            field_manager: "test".to_owned(),
            ..Default::default()
        };
        object(self.0.clone().patch(request).await)
    }

    pub(crate) async fn delete(&self, kind: &'static Kind, name: &str) -> Result<(), Status> {
        let resource = Some(kind.reference("default", name));
        let request = v1::DeleteRequest { resource, grace_period_seconds: Some(0), ..Default::default() };
        self.0.clone().delete(request).await.map(drop).map_err(|error| Status::from_grpc(&error))
    }

    pub(crate) async fn list(&self, kind: &'static Kind, namespace: &str, read: &Read) -> Result<Listed, Status> {
        let request = v1::ListRequest {
            resource: Some(kind.reference(namespace, "")),
            label_selector: read.labels.to_owned(),
            limit: read.limit,
            continue_token: read.token.clone(),
            min_revision: read.at_least,
            exact_revision: read.exactly,
            ..Default::default()
        };
        let list = self.0.clone().list(request).await.map_err(|error| Status::from_grpc(&error))?.into_inner();
        let items = list.items.iter().map(content).collect();
        Ok(Listed { items, revision: list.revision, token: list.continue_token })
    }

    pub(crate) async fn watch(
        &self,
        kind: &'static Kind,
        namespace: &str,
        follow: &Follow,
    ) -> Result<Messages, Status> {
        let request = WatchRequest {
            resource: Some(kind.reference(namespace, "")),
            label_selector: follow.labels.to_owned(),
            start_revision: follow.above,
            send_initial_events: follow.state,
            allow_bookmarks: true,
            progress_interval_ms: if follow.impatient { 200 } else { 0 },
            ..Default::default()
        };
        let stream = self.0.clone().watch(request).await.map_err(|error| Status::from_grpc(&error))?.into_inner();
        Ok(Messages { stream, waiting: VecDeque::new() })
    }
}

impl Messages {
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Status> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Ok(Some(event));
            }
            match self.stream.message().await {
                Ok(Some(message)) => self.waiting.extend(message.events.iter().map(event)),
                Ok(None) => return Ok(None),
                // A connection that is gone is the end of the stream, as it is over REST.
                Err(error) if error.details().is_empty() => return Ok(None),
                Err(error) => return Err(Status::from_grpc(&error)),
            }
        }
    }
}

fn event(event: &v1::WatchEvent) -> Event {
    let what = match event.r#type() {
        EventType::Added => What::Added,
        EventType::Modified => What::Modified,
        EventType::Deleted => What::Deleted,
        EventType::Bookmark => What::Bookmark,
        EventType::Unspecified => panic!("every event has a type"),
    };
    let object = event.object.as_ref().map(content).unwrap_or_default();
    Event { what, revision: event.revision, object, complete: event.initial_events_end }
}

fn content(object: &v1::Object) -> Value {
    serde_json::from_slice(&object.json).expect("JSON")
}

fn object(answer: Result<tonic::Response<v1::ObjectResponse>, tonic::Status>) -> Result<Value, Status> {
    let answer = answer.map_err(|error| Status::from_grpc(&error))?.into_inner();
    Ok(content(&answer.object.expect("an object")))
}

fn encode(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}
