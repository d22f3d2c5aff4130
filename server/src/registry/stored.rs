//! An object as it is served: the stored bytes, shared, with the resourceVersion spliced in on demand.
//!
//! Invariants: the bytes are what the store holds, never a copy of them; the decoded tree and the served text are made
//! at most once, by whoever asks first, and shared by all clones.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use listwatch_proto::resource::{Kind, Object};
use serde::Deserialize;
use serde_json::{Value, json};

/// An object and the revision of its last write (of its deletion, in the event of one). Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoredObject {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: &'static Kind,
    revision: i64,
    /// Without resourceVersion.
    raw: Bytes,
    object: OnceLock<Object>,
    json: OnceLock<Bytes>,
    uid: OnceLock<String>,
}

/// The few fields read without decoding the whole.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct HeadMetadata {
    uid: String,
}

impl StoredObject {
    /// An object as the store holds it. The bytes must be a JSON map, which the registry has made sure of.
    pub(super) fn new(kind: &'static Kind, raw: Bytes, revision: i64) -> Self {
        let (object, json, uid) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { inner: Arc::new(Inner { kind, revision, raw, object, json, uid }) }
    }

    /// An object at hand in decoded form, without resourceVersion in it; revision 0 leaves it without.
    pub(super) fn of(kind: &'static Kind, mut object: Object, revision: i64) -> Self {
        object.remove(&["metadata", "resourceVersion"]);
        let raw = encode(&object);
        if revision > 0 {
            object.set(&["metadata", "resourceVersion"], revision.to_string());
        }
        let stored = Self::new(kind, raw, revision);
        let _ = stored.inner.object.set(object);
        stored
    }

    /// The kind of the resource; for the `scale` subresource still the kind that is scaled.
    pub fn kind(&self) -> &'static Kind {
        self.inner.kind
    }

    /// `metadata.resourceVersion` as a number; 0 for what is not stored (dry run, Scale of none, Status).
    pub fn revision(&self) -> i64 {
        self.inner.revision
    }

    /// The stored bytes: JSON without resourceVersion.
    pub fn raw(&self) -> &Bytes {
        &self.inner.raw
    }

    /// The whole object as JSON, with its resourceVersion.
    pub fn json(&self) -> Bytes {
        if self.inner.revision <= 0 {
            return self.inner.raw.clone();
        }
        self.inner.json.get_or_init(|| splice(&self.inner.raw, self.inner.revision)).clone()
    }

    /// The decoded object, with its resourceVersion.
    pub fn object(&self) -> &Object {
        self.inner.object.get_or_init(|| {
            let mut object = Object::from_slice(&self.inner.raw).unwrap_or_default();
            if self.inner.revision > 0 {
                object.set(&["metadata", "resourceVersion"], self.inner.revision.to_string());
            }
            object
        })
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.object().name()
    }

    /// `metadata.namespace`, empty for cluster-scoped kinds.
    pub fn namespace(&self) -> &str {
        self.object().namespace()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        if let Some(object) = self.inner.object.get() {
            return object.uid();
        }
        self.inner.uid.get_or_init(|| serde_json::from_slice::<Head>(&self.inner.raw).unwrap_or_default().metadata.uid)
    }

    /// The object as a `PartialObjectMetadata` (meta.k8s.io/v1).
    pub fn metadata_json(&self) -> Bytes {
        let metadata = self.object().at(&["metadata"]).cloned().unwrap_or_else(|| json!({}));
        let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        Bytes::from(partial.to_string())
    }
}

/// Stored form: compact JSON that begins with apiVersion, kind and metadata, so that a resourceVersion can be spliced
/// in near the front.
pub(super) fn encode(object: &Object) -> Bytes {
    let mut out = BytesMut::with_capacity(512).writer();
    let mut separator = '{';
    let mut put = |key: &str, value: &Value| {
        use std::io::Write;
        let _ = write!(out, "{separator}\"{key}\":");
        serde_json::to_writer(&mut out, value).expect("a JSON value always serializes into memory");
        separator = ',';
    };
    const FIRST: [&str; 3] = ["apiVersion", "kind", "metadata"];
    for key in FIRST {
        if let Some(value) = object.0.get(key) {
            put(key, value);
        }
    }
    for (key, value) in object.0.iter().filter(|(key, _)| !FIRST.contains(&key.as_str())) {
        put(key, value);
    }
    let mut out = out.into_inner();
    if out.is_empty() {
        out.put_u8(b'{');
    }
    out.put_u8(b'}');
    out.freeze()
}

/// Puts `"resourceVersion":"N"` into the metadata of a stored object. Objects in our own form are cut at a known
/// place; what another program wrote is decoded and encoded anew.
pub(super) fn splice(raw: &Bytes, revision: i64) -> Bytes {
    let Some(at) = metadata_start(raw) else {
        let mut object = Object::from_slice(raw).unwrap_or_default();
        object.set(&["metadata", "resourceVersion"], revision.to_string());
        return encode(&object);
    };
    let mut out = BytesMut::with_capacity(raw.len() + 44);
    out.put_slice(&raw[..at]);
    out.put_slice(b"\"resourceVersion\":\"");
    out.put_slice(revision.to_string().as_bytes());
    out.put_slice(if raw.get(at) == Some(&b'}') { b"\"" } else { b"\"," });
    out.put_slice(&raw[at..]);
    out.freeze()
}

/// The offset behind `"metadata":{`, if apiVersion, kind and metadata come first and in our own form, and no
/// resourceVersion is there already.
fn metadata_start(raw: &[u8]) -> Option<usize> {
    fn text(raw: &[u8], at: usize) -> Option<usize> {
        let end = raw.get(at..)?.iter().position(|b| matches!(b, b'"' | b'\\'))?;
        (raw[at + end] == b'"').then_some(at + end + 1)
    }
    let mut at = 0;
    for (key, is_map) in [("{\"apiVersion\":\"", false), (",\"kind\":\"", false), (",\"metadata\":{", true)] {
        raw.get(at..)?.starts_with(key.as_bytes()).then_some(())?;
        at += key.len();
        if !is_map {
            at = text(raw, at)?;
        }
    }
    (!has_resource_version(&raw[at..])?).then_some(at)
}

/// Whether the map whose inside begins here has the key `resourceVersion`; `None` if the map does not end.
fn has_resource_version(inside: &[u8]) -> Option<bool> {
    const KEY: &[u8] = b"\"resourceVersion\"";
    let (mut at, mut depth) = (0, 0usize);
    loop {
        match inside.get(at)? {
            b'"' => {
                if depth == 0 && inside[at..].starts_with(KEY) && inside.get(at + KEY.len()) == Some(&b':') {
                    return Some(true);
                }
                at += 1;
                while *inside.get(at)? != b'"' {
                    at += if inside[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(false),
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> &'static Kind {
        Kind::by_name("pod").expect("known")
    }

    fn check(value: Value) {
        let object = Object::from_value(value).expect("a map");
        let stored = StoredObject::new(pod(), encode(&object), 42);
        let mut expected = object.clone();
        expected.set(&["metadata", "resourceVersion"], "42");
        assert_eq!(Object::from_slice(&stored.json()).expect("JSON"), expected);
        assert_eq!(stored.object(), &expected);
        let foreign = StoredObject::new(pod(), Bytes::from(object.to_vec()), 42);
        assert_eq!(Object::from_slice(&foreign.json()).expect("JSON"), expected);
    }

    #[test]
    fn the_resource_version_is_spliced_in() {
        check(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "action": 1}));
        check(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}}));
        check(json!({"kind": "Pod", "metadata": {"name": "a"}}));
        check(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": "7"}}));
        check(json!({"apiVersion": "v1", "kind": "P\"od", "metadata": {"name": "x"}}));
        check(
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"resourceVersion": "\\\"}"}, "name": "a"}}),
        );
        check(json!({}));
    }

    #[test]
    fn the_uid_is_read_without_decoding() {
        let stored = StoredObject::new(pod(), Bytes::from_static(br#"{"spec":{},"metadata":{"uid":"u1"}}"#), 3);
        assert_eq!(stored.uid(), "u1");
        assert!(stored.inner.object.get().is_none());
    }
}
