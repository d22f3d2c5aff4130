//! Failures as Kubernetes tells them, and their passage through gRPC.
//!
//! One [`Status`] is made where the fault is seen and travels unchanged: as the body of a REST answer, or in the
//! details of a gRPC error. The gRPC code is derived from the HTTP code and reason, here and nowhere else.

use bytes::Bytes;
use prost::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Kind;
use crate::go_quote::quote;
use crate::{google_rpc, v1};

/// The type of the message that holds a [`Status`] in the details of a gRPC error.
pub const STATUS_TYPE_URL: &str = "type.googleapis.com/listwatch.v1.Status";

/// Why a request failed (`metav1.StatusReason`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The object or kind does not exist (404).
    NotFound,
    /// An object of that name exists (409).
    AlreadyExists,
    /// The object has changed, or a precondition does not hold (409).
    Conflict,
    /// The object breaks rules of its kind; the causes name each field (422).
    Invalid,
    /// The request itself cannot be understood (400).
    BadRequest,
    /// The identity may not do this (403).
    Forbidden,
    /// No valid identity (401).
    Unauthorized,
    /// History no longer reaches back to the revision (410).
    Expired,
    /// The verb is not served for this resource (405).
    MethodNotAllowed,
    /// The revision lies in the future; ask again (504).
    Timeout,
    /// The server does not take it now; ask again (429).
    TooManyRequests,
    /// The body is too large (413).
    RequestEntityTooLarge,
    /// There is no form of answer that both know (406).
    NotAcceptable,
    /// A form that is not accepted (415).
    UnsupportedMediaType,
    /// The server is starting, stopping or its store refuses writes (503).
    ServiceUnavailable,
    /// A fault of the server (500).
    InternalError,
    /// Any other reason: nothing was said.
    Unknown,
}

/// One fault of an object: a field and what is wrong with it (`metav1.StatusCause`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cause {
    /// `FieldValueRequired`, `FieldValueInvalid`, …
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Upstream's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Path of the field, `spec.containers[0].image`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// A failed request (`metav1.Status`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP's code.
    pub code: u16,
    /// Why.
    pub reason: Reason,
    /// What a person reads, without the reason in front.
    pub message: String,
    /// Name of the object concerned.
    pub name: String,
    /// Group of its kind.
    pub group: String,
    /// Its plural, or its kind for an invalid object, as upstream has it.
    pub kind: String,
    /// Its uid.
    pub uid: String,
    /// Every fault found.
    pub causes: Vec<Cause>,
    /// Ask again after so many seconds; 0: nothing said.
    pub retry_after_seconds: i64,
    /// Expired: the oldest revision that history still holds.
    pub oldest_revision: i64,
    /// Expired: where the store stands.
    pub current_revision: i64,
    /// Expired, of a page: the token with which the rest of the list can be read as it is now; empty: nothing said.
    pub continue_token: String,
    /// What a client should be told beside the failure, such as fields that were dropped before it was found. It is no
    /// part of the Status object, and goes only where an answer has a place for warnings.
    pub warnings: Vec<String>,
}

const REASONS: &[(Reason, &str, u16)] = &[
    (Reason::NotFound, "NotFound", 404),
    (Reason::AlreadyExists, "AlreadyExists", 409),
    (Reason::Conflict, "Conflict", 409),
    (Reason::Invalid, "Invalid", 422),
    (Reason::BadRequest, "BadRequest", 400),
    (Reason::Forbidden, "Forbidden", 403),
    (Reason::Unauthorized, "Unauthorized", 401),
    (Reason::Expired, "Expired", 410),
    (Reason::MethodNotAllowed, "MethodNotAllowed", 405),
    (Reason::Timeout, "Timeout", 504),
    (Reason::TooManyRequests, "TooManyRequests", 429),
    (Reason::RequestEntityTooLarge, "RequestEntityTooLarge", 413),
    (Reason::NotAcceptable, "NotAcceptable", 406),
    (Reason::UnsupportedMediaType, "UnsupportedMediaType", 415),
    (Reason::ServiceUnavailable, "ServiceUnavailable", 503),
    (Reason::InternalError, "InternalError", 500),
    (Reason::Unknown, "", 500),
];

impl Reason {
    /// The word of the API; empty for [`Reason::Unknown`].
    pub fn as_str(self) -> &'static str {
        REASONS.iter().find(|r| r.0 == self).map_or("", |r| r.1)
    }

    /// The reason of a word.
    pub fn parse(word: &str) -> Reason {
        REASONS.iter().find(|r| r.1 == word).map_or(Reason::Unknown, |r| r.0)
    }

    /// The usual HTTP code of the reason.
    pub fn code(self) -> u16 {
        REASONS.iter().find(|r| r.0 == self).map_or(500, |r| r.2)
    }
}

impl Status {
    /// A failure with the usual code of its reason.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Status {
            code: reason.code(),
            reason,
            message: message.into(),
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: Vec::new(),
            retry_after_seconds: 0,
            oldest_revision: 0,
            current_revision: 0,
            continue_token: String::new(),
            warnings: Vec::new(),
        }
    }

    /// The same, with what a client should be told beside it.
    pub fn beside(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// A fault of the server for which upstream gives no reason (500).
    pub fn without_reason(message: impl Into<String>) -> Self {
        Self::new(Reason::Unknown, message)
    }

    /// `pods "a" not found`.
    pub fn not_found(kind: &'static Kind, name: &str) -> Self {
        Self::of(kind, name, Reason::NotFound, format!("{} {} not found", kind.name(), quote(name)))
    }

    /// `pods "a" already exists`.
    pub fn already_exists(kind: &'static Kind, name: &str) -> Self {
        Self::of(kind, name, Reason::AlreadyExists, format!("{} \"{name}\" already exists", kind.name()))
    }

    /// `Operation cannot be fulfilled on pods "a": …`.
    pub fn conflict(kind: &'static Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.name());
        Self::of(kind, name, Reason::Conflict, message)
    }

    /// `pods "a" is forbidden: …`.
    pub fn forbidden(kind: &'static Kind, name: &str, why: &str) -> Self {
        Self::of(kind, name, Reason::Forbidden, format!("{} \"{name}\" is forbidden: {why}", kind.name()))
    }

    /// `Pod "a" is invalid: …`, with the faults listed as upstream lists them.
    pub fn invalid(kind: &'static Kind, name: &str, causes: Vec<Cause>) -> Self {
        Self::invalid_as(kind.kind, kind.group, name, causes)
    }

    /// The same for what no registry keeps and no [`Kind`] names, such as a review.
    pub fn invalid_as(kind: &str, group: &str, name: &str, causes: Vec<Cause>) -> Self {
        let full = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut faults: Vec<String> = Vec::with_capacity(causes.len());
        for fault in causes.iter().map(|c| format!("{}: {}", c.field, c.message)) {
            // A fault told by two rules is named once, though both causes are listed.
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        let list = if let [one] = faults.as_slice() { one.clone() } else { format!("[{}]", faults.join(", ")) };
        let mut status = Self::new(Reason::Invalid, format!("{full} \"{name}\" is invalid: {list}"));
        (status.group, status.kind, status.name) = (group.to_owned(), kind.to_owned(), name.to_owned());
        status.causes = causes;
        status
    }

    /// `ListOptions.meta.k8s.io "" is invalid: …`: faults of a request's options.
    pub fn invalid_options(form: &str, causes: Vec<Cause>) -> Self {
        Self::invalid_as(form, "meta.k8s.io", "", causes)
    }

    /// A request that cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Reason::BadRequest, message)
    }

    /// A fault of the server.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Reason::InternalError, message)
    }

    /// `too old resource version: R (oldest)`: history begins above the revision asked for.
    pub fn expired(requested: i64, oldest: i64, current: i64) -> Self {
        let mut status = Self::new(Reason::Expired, format!("too old resource version: {requested} ({oldest})"));
        status.oldest_revision = oldest;
        status.current_revision = current;
        status
    }

    fn of(kind: &'static Kind, name: &str, reason: Reason, message: String) -> Self {
        let mut status = Self::new(reason, message);
        status.name = name.to_owned();
        status.group = kind.group.to_owned();
        status.kind = kind.plural.to_owned();
        status
    }

    /// The `metav1.Status` object.
    pub fn to_json(&self) -> Value {
        let mut details = serde_json::Map::new();
        let mut put = |key: &str, value: Value| details.insert(key.to_owned(), value);
        for (key, text) in [("name", &self.name), ("group", &self.group), ("kind", &self.kind), ("uid", &self.uid)] {
            if !text.is_empty() {
                put(key, json!(text));
            }
        }
        if !self.causes.is_empty() {
            put("causes", json!(self.causes));
        }
        if self.retry_after_seconds > 0 {
            put("retryAfterSeconds", json!(self.retry_after_seconds));
        }
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if self.reason != Reason::Unknown {
            status["reason"] = self.reason.as_str().into();
        }
        if !self.continue_token.is_empty() {
            status["metadata"]["continue"] = self.continue_token.as_str().into();
        }
        // Of what is not there and of what is not served upstream has details even when there is nothing to tell.
        if !details.is_empty() || matches!(self.reason, Reason::NotFound | Reason::MethodNotAllowed) {
            status["details"] = Value::Object(details);
        }
        status
    }

    /// The code of the gRPC error.
    pub fn grpc_code(&self) -> tonic::Code {
        use tonic::Code;
        match self.reason {
            Reason::NotFound => Code::NotFound,
            Reason::AlreadyExists => Code::AlreadyExists,
            Reason::Conflict => Code::Aborted,
            Reason::Invalid | Reason::BadRequest | Reason::NotAcceptable | Reason::UnsupportedMediaType => {
                Code::InvalidArgument
            }
            Reason::Forbidden => Code::PermissionDenied,
            Reason::Unauthorized => Code::Unauthenticated,
            Reason::Expired => Code::OutOfRange,
            Reason::MethodNotAllowed => Code::Unimplemented,
            Reason::Timeout => Code::DeadlineExceeded,
            Reason::TooManyRequests | Reason::RequestEntityTooLarge => Code::ResourceExhausted,
            Reason::ServiceUnavailable => Code::Unavailable,
            Reason::InternalError | Reason::Unknown => Code::Internal,
        }
    }

    /// What was carried by [`From<Status> for tonic::Status`]; a bare gRPC error becomes the nearest reason.
    pub fn from_grpc(error: &tonic::Status) -> Self {
        use tonic::Code;
        if let Some(status) = decode_details(error.details()) {
            return status;
        }
        let reason = match error.code() {
            Code::NotFound => Reason::NotFound,
            Code::AlreadyExists => Reason::AlreadyExists,
            Code::Aborted | Code::FailedPrecondition => Reason::Conflict,
            Code::InvalidArgument => Reason::BadRequest,
            Code::PermissionDenied => Reason::Forbidden,
            Code::Unauthenticated => Reason::Unauthorized,
            Code::Unimplemented => Reason::MethodNotAllowed,
            Code::DeadlineExceeded | Code::Cancelled => Reason::Timeout,
            Code::ResourceExhausted => Reason::TooManyRequests,
            Code::Unavailable => Reason::ServiceUnavailable,
            _ => Reason::InternalError,
        };
        Status::new(reason, error.message())
    }

    /// What a `metav1.Status` object says, as [`Status::to_json`] writes it. What it does not say is empty.
    pub fn from_json(json: &Value) -> Self {
        let text = |key: &str| json[key].as_str().unwrap_or_default().to_owned();
        let wire = v1::Status {
            code: json["code"].as_i64().and_then(|code| i32::try_from(code).ok()).unwrap_or(500),
            reason: text("reason"),
            message: text("message"),
            json: Bytes::from(json.to_string()),
            ..v1::Status::default()
        };
        Status::from_wire(&wire)
    }

    fn from_wire(wire: &v1::Status) -> Self {
        let json: Value = serde_json::from_slice(&wire.json).unwrap_or_default();
        let details = &json["details"];
        let text = |key: &str| details[key].as_str().unwrap_or_default().to_owned();
        Status {
            code: u16::try_from(wire.code).unwrap_or(500),
            reason: Reason::parse(&wire.reason),
            message: wire.message.clone(),
            name: text("name"),
            group: text("group"),
            kind: text("kind"),
            uid: text("uid"),
            causes: Vec::deserialize(&details["causes"]).unwrap_or_default(),
            retry_after_seconds: details["retryAfterSeconds"].as_i64().unwrap_or(0),
            oldest_revision: wire.oldest_revision,
            current_revision: wire.current_revision,
            continue_token: json["metadata"]["continue"].as_str().unwrap_or_default().to_owned(),
            warnings: Vec::new(),
        }
    }
}

fn decode_details(details: &[u8]) -> Option<Status> {
    let rich = google_rpc::Status::decode(details).ok()?;
    let any = rich.details.iter().find(|d| d.type_url == STATUS_TYPE_URL)?;
    Some(Status::from_wire(&v1::Status::decode(any.value.as_slice()).ok()?))
}

impl From<Status> for tonic::Status {
    fn from(status: Status) -> Self {
        let wire = v1::Status {
            code: i32::from(status.code),
            reason: status.reason.as_str().to_owned(),
            message: status.message.clone(),
            json: Bytes::from(status.to_json().to_string()),
            oldest_revision: status.oldest_revision,
            current_revision: status.current_revision,
        };
        let code = status.grpc_code();
        let rich = google_rpc::Status {
            code: code as i32,
            message: status.message.clone(),
            details: vec![prost_types::Any { type_url: STATUS_TYPE_URL.to_owned(), value: wire.encode_to_vec() }],
        };
        tonic::Status::with_details(code, status.message, Bytes::from(rich.encode_to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_survives_its_passage_through_grpc() {
        let pod = Kind::by_name("pod").expect("known");
        let cause = Cause {
            reason: "FieldValueRequired".into(),
            message: "Required value".into(),
            field: "spec.containers".into(),
        };
        for status in [
            Status::not_found(pod, "a"),
            Status::invalid(pod, "a", vec![cause.clone(), cause]),
            Status::expired(3, 7, 9),
            Status { continue_token: "t".into(), ..Status::expired(3, 7, 9) },
            Status::without_reason("a fault"),
        ] {
            let carried = tonic::Status::from(status.clone());
            assert_eq!(Status::from_grpc(&carried), status);
        }
    }

    #[test]
    fn messages_are_those_of_kubernetes() {
        let deployment = Kind::by_name("deployment").expect("known");
        assert_eq!(Status::not_found(deployment, "web").message, "deployments.apps \"web\" not found");
        let cause = Cause { field: "spec.replicas".into(), message: "bad".into(), ..Cause::default() };
        assert_eq!(
            Status::invalid(deployment, "web", vec![cause]).message,
            "Deployment.apps \"web\" is invalid: spec.replicas: bad"
        );
    }
}
