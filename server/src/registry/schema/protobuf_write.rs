//! Objects in Kubernetes' protobuf form: the way back of `protobuf`.
//!
//! Every field that the JSON has is written, so that a pointer to zero stays one; what it has not is zero to whoever
//! reads. What the tables do not know has no protobuf form, and goes as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use listwatch_proto::resource::{Status, parse_time};
use serde_json::{Map, Value};

use super::protobuf::{MAGIC, place_of};
use super::table::{Field, Type, schema};

const BYTES: u64 = 2;

/// An object with what stands around it: magic bytes, its type, and itself. `None` = the tables do not know its kind.
pub(crate) fn write(object: &Value) -> Option<Vec<u8>> {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    Some(envelope(api_version, kind, &write_message(api_version, kind, object)?))
}

/// An object alone, as it stands in a list.
pub(crate) fn write_message(api_version: &str, kind: &str, object: &Value) -> Option<Vec<u8>> {
    let place = place_of(api_version, kind)?;
    let mut out = Vec::with_capacity(1024);
    structure(place, object.as_object()?, &mut out);
    Some(out)
}

/// Whether the tables know a kind.
pub(crate) fn has(api_version: &str, kind: &str) -> bool {
    place_of(api_version, kind).is_some()
}

/// A message with magic bytes and its type around it.
pub(crate) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind, message.len());
    out.extend_from_slice(message);
    envelope_tail(&mut out);
    out
}

/// What stands before a message of this length.
pub(crate) fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut type_meta = Vec::new();
    bytes(1, api_version.as_bytes(), &mut type_meta);
    bytes(2, kind.as_bytes(), &mut type_meta);
    let mut out = MAGIC.to_vec();
    bytes(1, &type_meta, &mut out);
    tag(2, BYTES, &mut out);
    varint(length as u64, &mut out);
    out
}

/// What stands behind it: no encoding, no media type.
pub(crate) fn envelope_tail(out: &mut Vec<u8>) {
    bytes(3, b"", out);
    bytes(4, b"", out);
}

/// The metadata of a list, as the first field of one.
pub(crate) fn list_metadata(revision: i64, token: &str, remaining: Option<i64>) -> Vec<u8> {
    let mut metadata = Vec::new();
    bytes(1, b"", &mut metadata);
    bytes(2, revision.to_string().as_bytes(), &mut metadata);
    bytes(3, token.as_bytes(), &mut metadata);
    if let Some(remaining) = remaining {
        number(4, remaining.cast_unsigned(), &mut metadata);
    }
    let mut out = Vec::new();
    bytes(1, &metadata, &mut out);
    out
}

/// An item of a list, with its number and length.
pub(crate) fn list_item(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(message.len() + 8);
    bytes(2, message, &mut out);
    out
}

/// An event of a watch, with its length before it.
pub(crate) fn frame(event_type: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 8);
    bytes(1, object, &mut raw);
    let mut event = Vec::with_capacity(raw.len() + 24);
    bytes(1, event_type.as_bytes(), &mut event);
    bytes(2, &raw, &mut event);
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().as_slice(), &event].concat()
}

/// A failure, with what stands around it.
pub(crate) fn write_status(status: &Status) -> Vec<u8> {
    let mut metadata = Vec::new();
    bytes(3, status.continue_token.as_bytes(), &mut metadata);
    let mut details = Vec::new();
    for (at, text) in [(1, &status.name), (2, &status.group), (3, &status.kind), (6, &status.uid)] {
        bytes(at, text.as_bytes(), &mut details);
    }
    for cause in &status.causes {
        let mut message = Vec::new();
        for (at, text) in [(1, &cause.reason), (2, &cause.message), (3, &cause.field)] {
            bytes(at, text.as_bytes(), &mut message);
        }
        bytes(4, &message, &mut details);
    }
    number(5, status.retry_after_seconds.cast_unsigned(), &mut details);
    let mut message = Vec::new();
    bytes(1, &metadata, &mut message);
    bytes(2, b"Failure", &mut message);
    bytes(3, status.message.as_bytes(), &mut message);
    bytes(4, status.reason.as_str().as_bytes(), &mut message);
    bytes(5, &details, &mut message);
    number(6, u64::from(status.code), &mut message);
    envelope("v1", "Status", &message)
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn tag(number: u16, wire: u64, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | wire, out);
}

fn number(at: u16, value: u64, out: &mut Vec<u8>) {
    tag(at, 0, out);
    varint(value, out);
}

fn bytes(at: u16, value: &[u8], out: &mut Vec<u8>) {
    tag(at, BYTES, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// A field that is a message.
fn message(at: u16, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    fill(&mut inner);
    bytes(at, &inner, out);
}

fn structure(place: usize, object: &Map<String, Value>, out: &mut Vec<u8>) {
    let all: Vec<(&'static Field, &'static [u16])> =
        schema().get(place).fields.iter().map(|field| (field, field.nested.as_slice())).collect();
    fields(&all, object, out);
}

/// The fields of a message; those of an embedded struct stand in a message of their own, under its number.
fn fields(known: &[(&'static Field, &'static [u16])], object: &Map<String, Value>, out: &mut Vec<u8>) {
    for (field, path) in known {
        if path.is_empty()
            && field.protobuf != 0
            && let Some(value) = object.get(field.name).filter(|value| !value.is_null())
        {
            put(field.protobuf, field.holds.plain(), value, out);
        }
    }
    let mut numbers: Vec<u16> = known.iter().filter_map(|(_, path)| path.first().copied()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        let inner: Vec<_> = known
            .iter()
            .filter_map(|(field, path)| {
                path.split_first().filter(|(first, _)| **first == number).map(|(_, rest)| (*field, rest))
            })
            .collect();
        message(number, out, |out| fields(&inner, object, out));
    }
}

fn put(at: u16, holds: &Type, value: &Value, out: &mut Vec<u8>) {
    match (holds, value) {
        (Type::List(of), Value::Array(items)) => items.iter().for_each(|item| put_one(at, of.plain(), item, out)),
        (Type::Map(of), Value::Object(map)) => {
            for (key, held) in map {
                message(at, out, |out| {
                    bytes(1, key.as_bytes(), out);
                    match of.plain() {
                        // A list as the value of a map is a message of its own.
                        list @ Type::List(_) => message(2, out, |out| put(1, list, held, out)),
                        of => put_one(2, of, held, out),
                    }
                });
            }
        }
        _ => put_one(at, holds, value, out),
    }
}

fn put_one(at: u16, holds: &Type, value: &Value, out: &mut Vec<u8>) {
    match (holds, value) {
        (Type::Struct(place), Value::Object(object)) => message(at, out, |out| structure(*place, object, out)),
        // An item that is nothing is an empty one.
        (Type::Struct(_), _) => bytes(at, b"", out),
        (Type::Bool, value) => number(at, u64::from(value.as_bool().unwrap_or(false)), out),
        (Type::Int32 | Type::Int64, value) => number(at, value.as_i64().unwrap_or(0).cast_unsigned(), out),
        (Type::Float64, value) => {
            tag(at, 1, out);
            out.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_bits().to_le_bytes());
        }
        (Type::Bytes, value) => bytes(at, &STANDARD.decode(text(value)).unwrap_or_default(), out),
        (Type::Time | Type::MicroTime, value) => {
            let time = value.as_str().and_then(parse_time);
            message(at, out, |out| time.into_iter().for_each(|time| moment(time, out)));
        }
        (Type::Quantity, value) => message(at, out, |out| bytes(1, plain(value).as_bytes(), out)),
        (Type::IntOrString, Value::String(text)) => message(at, out, |out| {
            number(1, 1, out);
            number(2, 0, out);
            bytes(3, text.as_bytes(), out);
        }),
        (Type::IntOrString, value) => message(at, out, |out| {
            number(1, 0, out);
            number(2, value.as_i64().unwrap_or(0).cast_unsigned(), out);
            bytes(3, b"", out);
        }),
        (Type::Any, value) => message(at, out, |out| bytes(1, value.to_string().as_bytes(), out)),
        (_, value) => bytes(at, text(value).as_bytes(), out),
    }
}

fn moment(time: Timestamp, out: &mut Vec<u8>) {
    number(1, time.as_second().cast_unsigned(), out);
    number(2, i64::from(time.subsec_nanosecond()).cast_unsigned(), out);
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A text, or a number as it stands.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::protobuf::read;
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(object: Value) {
        let bytes = write(&object).expect("known");
        assert_eq!(read(&bytes), Ok(object));
    }

    #[test]
    fn what_is_written_is_read_as_it_was() {
        check(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2024-05-01T10:00:00Z",
                "labels": {"a": "1", "b": ""}, "generation": 3,
            },
            "data": {"k": "v"}, "binaryData": {"b": "AAECAw=="}, "immutable": false,
        }));
        check(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {
                "terminationGracePeriodSeconds": 0, "priority": -5,
                "volumes": [{"name": "v", "configMap": {"name": "settings", "defaultMode": 420}}, {"name": "w", "emptyDir": {}}],
                "containers": [{
                    "name": "c", "image": "i", "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
                    "readinessProbe": {"tcpSocket": {"port": 80}},
                    "env": [{"name": "E", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k", "optional": false}}}],
                }],
            },
            "status": {},
        }));
        check(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {"holderIdentity": "h", "renewTime": "2024-05-01T10:00:00.123456Z", "leaseDurationSeconds": 15},
        }));
    }

    #[test]
    fn what_no_table_knows_has_no_such_form() {
        assert_eq!(write(&json!({"apiVersion": "example.com/v1", "kind": "Widget"})), None);
        assert!(has("apps/v1", "Deployment") && !has("apps/v1", "Widget"));
        assert!(has("rbac.authorization.k8s.io/v1", "Role") && has("coordination.k8s.io/v1", "Lease"));
        assert!(!has("apps.example.com/v1", "Deployment"), "somebody else's group");
    }

    #[test]
    fn a_frame_tells_its_length() {
        let frame = frame("ADDED", b"object");
        assert_eq!(frame[..4], (u32::try_from(frame.len()).expect("short") - 4).to_be_bytes());
        assert_eq!(frame[4..6], [0x0a, 5]);
        assert!(frame.ends_with(b"object"));
    }
}
