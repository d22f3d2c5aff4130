//! The REST side of the driver: plain HTTP/1.1, a connection a request.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use listwatch_proto::resource::{Cause, Kind, Reason, Status};
use serde_json::Value;

use crate::door::{Event, Follow, Listed, Read, What};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) address: SocketAddr,
}

/// The lines of a watch.
pub(crate) struct Lines {
    body: Incoming,
    read: BytesMut,
}

impl Rest {
    /// Sends a request; the answer whatever its code.
    pub(crate) async fn send(&self, request: http::request::Builder, body: Bytes) -> Response<Incoming> {
        let stream = tokio::net::TcpStream::connect(self.address).await.expect("the server listens");
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.expect("HTTP is spoken");
        tokio::spawn(connection);
        let request = request.header(header::HOST, "test").body(Full::new(body)).expect("a request");
        sender.send_request(request).await.expect("an answer")
    }

    async fn ask(&self, request: http::request::Builder, body: &Value) -> Result<Value, Status> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let response = self.send(request, body).await;
        let code = response.status();
        let bytes = response.into_body().collect().await.expect("a whole answer").to_bytes();
        let json: Value = serde_json::from_slice(&bytes).expect("JSON");
        if code.is_success() { Ok(json) } else { Err(status(code, &json)) }
    }

    pub(crate) async fn create(&self, kind: &Kind, namespace: &str, body: &Value) -> Result<Value, Status> {
        self.ask(Request::post(path(kind, namespace, "")), body).await
    }

    pub(crate) async fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Value, Status> {
        self.ask(Request::get(path(kind, namespace, name)), &Value::Null).await
    }

    pub(crate) async fn update(&self, kind: &Kind, namespace: &str, name: &str, body: &Value) -> Result<Value, Status> {
        self.ask(Request::put(path(kind, namespace, name)), body).await
    }

    pub(crate) async fn patch(&self, kind: &Kind, name: &str, form: &str, patch: &Value) -> Result<Value, Status> {
        let path = path(kind, "default", name);
        let (path, media_type) = match form {
            "apply" => (format!("{path}?fieldManager=test"), "application/apply-patch+yaml".to_owned()),
            _ => (path, format!("application/{form}-patch+json")),
        };
        self.ask(Request::patch(path).header(header::CONTENT_TYPE, media_type), patch).await
    }

    pub(crate) async fn delete(&self, kind: &Kind, name: &str) -> Result<(), Status> {
        let path = format!("{}?gracePeriodSeconds=0", path(kind, "default", name));
        self.ask(Request::delete(path), &Value::Null).await.map(drop)
    }

    pub(crate) async fn list(&self, kind: &Kind, namespace: &str, read: &Read) -> Result<Listed, Status> {
        let mut query = vec![format!("labelSelector={}", read.labels)];
        if read.limit > 0 {
            query.push(format!("limit={}", read.limit));
        }
        if !read.token.is_empty() {
            query.push(format!("continue={}", read.token));
        }
        if read.exactly > 0 {
            query.push(format!("resourceVersion={}&resourceVersionMatch=Exact", read.exactly));
        } else if read.at_least > 0 {
            query.push(format!("resourceVersion={}&resourceVersionMatch=NotOlderThan", read.at_least));
        } else if read.any {
            query.push("resourceVersion=0".to_owned());
        }
        self.listed(kind, format!("{}?{}", path(kind, namespace, ""), query.join("&"))).await
    }

    /// The first page of one object, with a revision and no word about the match.
    pub(crate) async fn page_of(&self, kind: &str, revision: i64) -> Result<Listed, Status> {
        let kind = Kind::by_name(kind).expect("a served kind");
        self.listed(kind, format!("{}?limit=1&resourceVersion={revision}", path(kind, "default", ""))).await
    }

    async fn listed(&self, kind: &Kind, uri: String) -> Result<Listed, Status> {
        let list = self.ask(Request::get(uri), &Value::Null).await?;
        assert_eq!(list["kind"], format!("{}List", kind.kind));
        Ok(Listed {
            items: list["items"].as_array().expect("items").clone(),
            revision: crate::door::revision(&list),
            token: list["metadata"]["continue"].as_str().unwrap_or_default().to_owned(),
        })
    }

    pub(crate) async fn watch(&self, kind: &Kind, namespace: &str, follow: &Follow) -> Result<Lines, Status> {
        let mut query = format!("watch=1&allowWatchBookmarks=true&labelSelector={}", follow.labels);
        if follow.above > 0 {
            query.push_str(&format!("&resourceVersion={}", follow.above));
        }
        // Said either way: without a word a watch without a revision begins with the state.
        query.push_str(&format!("&sendInitialEvents={}&resourceVersionMatch=NotOlderThan", follow.state));
        if follow.impatient {
            query.push_str("&timeoutSeconds=3");
        }
        let response = self.send(Request::get(format!("{}?{query}", path(kind, namespace, ""))), Bytes::new()).await;
        let code = response.status();
        if code == StatusCode::OK {
            return Ok(Lines { body: response.into_body(), read: BytesMut::new() });
        }
        let bytes = response.into_body().collect().await.expect("a whole answer").to_bytes();
        Err(status(code, &serde_json::from_slice(&bytes).expect("JSON")))
    }
}

impl Lines {
    /// The next line; `None` at the end of the stream, however it came.
    async fn line(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.read.iter().position(|b| *b == b'\n') {
                return Some(self.read.split_to(end + 1).freeze());
            }
            let data = self.body.frame().await?.ok()?.into_data().ok()?;
            self.read.extend_from_slice(&data);
        }
    }

    pub(crate) async fn next(&mut self) -> Result<Option<Event>, Status> {
        let Some(line) = self.line().await else { return Ok(None) };
        let event: Value = serde_json::from_slice(&line).expect("a line is JSON");
        let mut object = event["object"].clone();
        let what = match event["type"].as_str().expect("a type") {
            "ADDED" => What::Added,
            "MODIFIED" => What::Modified,
            "DELETED" => What::Deleted,
            "BOOKMARK" => What::Bookmark,
            "ERROR" => return Err(status(StatusCode::OK, &object)),
            other => panic!("no event has the type {other}"),
        };
        let revision = crate::door::revision(&object);
        let complete = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
        if what == What::Bookmark {
            object = Value::Null;
        }
        Ok(Some(Event { what, revision, object, complete: complete && what == What::Bookmark }))
    }
}

/// The path of a collection or an object.
pub(crate) fn path(kind: &Kind, namespace: &str, name: &str) -> String {
    let root =
        if kind.group.is_empty() { format!("/api/{}", kind.version) } else { format!("/apis/{}", kind.api_version()) };
    let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("{root}{place}/{}{name}", kind.plural)
}

/// The Status of an answer or an event.
fn status(code: StatusCode, json: &Value) -> Status {
    assert_eq!(json["kind"], "Status", "{json}");
    let told = json["code"].as_u64().and_then(|code| u16::try_from(code).ok()).expect("a code");
    assert!(code == StatusCode::OK || code.as_u16() == told, "{code}: {json}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cause = |cause: &Value| Cause {
        reason: text(&cause["reason"]),
        message: text(&cause["message"]),
        field: text(&cause["field"]),
    };
    let mut status = Status::new(Reason::parse(&text(&json["reason"])), text(&json["message"]));
    status.code = told;
    status.causes = json["details"]["causes"].as_array().into_iter().flatten().map(cause).collect();
    status.continue_token = text(&json["metadata"]["continue"]);
    status
}
