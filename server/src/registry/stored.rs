//! An object as it is served: the stored bytes, shared, with the resourceVersion spliced in on demand.
//!
//! Invariants: the bytes are what the store holds, never a copy of them; the decoded tree and the served text are made
//! at most once for an object and the clones made after that, and not at all for an item of a list.

use std::num::NonZeroU16;
use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use listwatch_proto::resource::{Kind, Object, Storage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::custom::served;
use super::kinds::{View, strategy};
use super::schema::protobuf_write;

/// An object and the revision of its last write (of its deletion, in the event of one). Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoredObject {
    kind: &'static Kind,
    revision: i64,
    /// Without resourceVersion.
    raw: Bytes,
    /// Where the inside of the metadata begins in the bytes, if that is known and no resourceVersion is in it.
    place: Option<NonZeroU16>,
    /// Made when something of it is first asked for: the items of a long list do without.
    made: OnceLock<Arc<Made>>,
}

/// What is made of the bytes, by whoever asks first.
#[derive(Debug, Default)]
struct Made {
    object: OnceLock<Object>,
    json: OnceLock<Bytes>,
    names: OnceLock<Names>,
}

/// The few fields that are read without decoding the whole.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Names {
    name: String,
    namespace: String,
    uid: String,
}

/// For objects that are not in our own form.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Head {
    metadata: Names,
}

impl StoredObject {
    /// An object in the form it is served in. The bytes must be a JSON map, which the registry has made sure of.
    /// Of a view's objects these are the bytes of the kept form, which are turned into the view's own.
    pub(super) fn new(kind: &'static Kind, raw: Bytes, revision: i64) -> Self {
        let raw = match view_of(kind) {
            None => raw,
            Some(view) => encode(&view.shown(Object::from_slice(&raw).unwrap_or_default())),
        };
        Self::own(kind, raw, revision, None)
    }

    /// An object of a kind that keeps its own, in the stored bytes, which are known to be an object in our own form with
    /// the inside of the metadata at a place.
    pub(super) fn proven(kind: &'static Kind, raw: Bytes, revision: i64, place: NonZeroU16) -> Self {
        debug_assert!(view_of(kind).is_none() && is_own_form(&raw) == Some(place));
        Self::own(kind, raw, revision, Some(place))
    }

    fn own(kind: &'static Kind, raw: Bytes, revision: i64, place: Option<NonZeroU16>) -> Self {
        Self { kind, revision, raw, place, made: OnceLock::new() }
    }

    /// The same, whose clones share whatever is made of it from now on.
    pub(super) fn shared(self) -> Self {
        self.made();
        self
    }

    fn made(&self) -> &Made {
        self.made.get_or_init(Arc::default)
    }

    /// An object out of the store: as its kind serves it.
    pub(super) fn read(kind: &'static Kind, stored: Bytes, revision: i64) -> Self {
        Self::new(kind, served(kind, stored), revision)
    }

    /// An object at hand in decoded form, as it is kept, without resourceVersion in it; revision 0 leaves it without.
    pub(super) fn of(kind: &'static Kind, mut object: Object, revision: i64) -> Self {
        object.remove(&["metadata", "resourceVersion"]);
        if let Some(view) = view_of(kind) {
            object = view.shown(object);
        }
        let raw = encode(&object);
        if revision > 0 {
            object.set(&["metadata", "resourceVersion"], revision.to_string());
        }
        let stored = Self::own(kind, raw, revision, None);
        let _ = stored.made().object.set(object);
        stored
    }

    /// The same object, told with another revision: that of its deletion.
    pub(crate) fn at(&self, revision: i64) -> Self {
        Self::own(self.kind, self.raw.clone(), revision, self.place)
    }

    /// The kind of the resource; for the `scale` subresource still the kind that is scaled.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// `metadata.resourceVersion` as a number; 0 for what is not stored (dry run, Scale of none, Status).
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The stored bytes: JSON without resourceVersion.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The whole object as JSON, with its resourceVersion; made once, for all who hold the object.
    pub fn json(&self) -> Bytes {
        if self.revision <= 0 {
            return self.raw.clone();
        }
        let made = || {
            let mut out = BytesMut::with_capacity(self.size_max());
            self.put_json(&mut out);
            out.freeze()
        };
        self.made().json.get_or_init(made).clone()
    }

    /// Writes the same, and keeps nothing.
    pub(crate) fn put_json(&self, out: &mut BytesMut) {
        let (raw, revision) = (&self.raw, self.revision);
        if revision <= 0 {
            return out.put_slice(raw);
        }
        match self.place() {
            Some(at) => {
                out.reserve(self.size_max());
                out.put_slice(&raw[..at]);
                put_resource_version(out, revision, raw[at] == b'}');
                out.put_slice(&raw[at..]);
            }
            None => {
                let mut object = Object::from_slice(raw).unwrap_or_default();
                object.set(&["metadata", "resourceVersion"], revision.to_string());
                out.put(encode(&object));
            }
        }
    }

    /// How much room the JSON takes at most.
    pub(crate) fn size_max(&self) -> usize {
        self.raw.len() + RESOURCE_VERSION_BYTES_MAX
    }

    /// Where a resourceVersion can be put in.
    fn place(&self) -> Option<usize> {
        match self.place {
            Some(place) => Some(usize::from(place.get())),
            None => metadata_of(&self.raw).filter(|m| !m.has_resource_version).map(|m| m.start),
        }
    }

    /// Writes the object as an item of a list, which tells apiVersion and kind for all of its items.
    pub(crate) fn put_item(&self, out: &mut BytesMut) {
        const HEAD: &[u8] = b"{\"metadata\":{";
        // An item of custom resources says what it is, as it did when it was written.
        if self.kind.extension.is_some() {
            return self.put_json(out);
        }
        let raw = &self.raw;
        match self.place() {
            Some(at) => {
                out.reserve(self.size_max());
                out.put_slice(HEAD);
                put_resource_version(out, self.revision, raw[at] == b'}');
                out.put_slice(&raw[at..]);
            }
            None => {
                let mut object = self.object().clone();
                object.remove(&["apiVersion"]);
                object.remove(&["kind"]);
                out.put(encode(&object));
            }
        }
    }

    /// The object in Kubernetes' protobuf form, with its type around it; `None` = its kind has none.
    pub(crate) fn protobuf(&self) -> Option<Vec<u8>> {
        protobuf_write::write(&Value::Object(self.decoded().0))
    }

    /// The object in that form alone, as it stands in a list.
    pub(crate) fn protobuf_item(&self) -> Option<Vec<u8>> {
        let kind = self.kind;
        protobuf_write::write_message(&kind.api_version(), kind.kind, &Value::Object(self.decoded().0))
    }

    /// Decoded anew: a list of many must not keep the tree of each.
    fn decoded(&self) -> Object {
        let mut object = Object::from_slice(&self.raw).unwrap_or_default();
        if self.revision > 0 {
            object.set(&["metadata", "resourceVersion"], self.revision.to_string());
        }
        object
    }

    /// The decoded object, with its resourceVersion.
    pub fn object(&self) -> &Object {
        self.made().object.get_or_init(|| self.decoded())
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        &self.names().name
    }

    /// `metadata.namespace`, empty for cluster-scoped kinds.
    pub fn namespace(&self) -> &str {
        &self.names().namespace
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.names().uid
    }

    /// The object as a `PartialObjectMetadata` (meta.k8s.io/v1).
    pub fn metadata_json(&self) -> Bytes {
        const HEAD: &str = "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{";
        if let Some(metadata) = metadata_of(&self.raw).filter(|m| !m.has_resource_version) {
            let inside = &self.raw[metadata.start..metadata.end];
            let mut out = BytesMut::with_capacity(HEAD.len() + inside.len() + 48);
            out.put_slice(HEAD.as_bytes());
            put_resource_version(&mut out, self.revision, inside.is_empty());
            out.put_slice(inside);
            out.put_slice(b"}}");
            return out.freeze();
        }
        let metadata = self.object().at(&["metadata"]).cloned().unwrap_or_else(|| json!({}));
        let partial = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
        Bytes::from(partial.to_string())
    }

    fn names(&self) -> &Names {
        self.made().names.get_or_init(|| {
            let raw = &self.raw;
            match metadata_of(raw) {
                // With the braces, which stand on both sides of the inside.
                Some(metadata) => serde_json::from_slice(&raw[metadata.start - 1..=metadata.end]).unwrap_or_default(),
                None => serde_json::from_slice::<Head>(raw).unwrap_or_default().metadata,
            }
        })
    }
}

/// `"resourceVersion":"",` with the longest revision in it.
const RESOURCE_VERSION_BYTES_MAX: usize = 44;

/// How a view's objects are shown; `None` = the kind keeps its own.
fn view_of(kind: &'static Kind) -> Option<&'static dyn View> {
    if kind.storage == Storage::View { strategy(kind).view() } else { None }
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

/// `"resourceVersion":"N"`, with a comma behind it if it is not alone; nothing for what has no revision.
fn put_resource_version(out: &mut BytesMut, revision: i64, alone: bool) {
    if revision <= 0 {
        return;
    }
    out.put_slice(b"\"resourceVersion\":\"");
    // The digits, from the last to the first.
    let (mut digits, mut at, mut rest) = ([0; 20], 20, revision.unsigned_abs());
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.put_slice(&digits[at..]);
    out.put_slice(if alone { b"\"" } else { b"\"," });
}

/// Where the inside of the metadata begins, if the bytes are one whole object in our own form without a resourceVersion.
pub(super) fn is_own_form(raw: &[u8]) -> Option<NonZeroU16> {
    let place = metadata_place(raw)?;
    serde_json::from_slice::<serde::de::IgnoredAny>(raw).ok()?;
    Some(place)
}

/// The same of bytes that are known to be JSON.
pub(super) fn metadata_place(raw: &[u8]) -> Option<NonZeroU16> {
    let metadata = metadata_of(raw).filter(|metadata| !metadata.has_resource_version)?;
    NonZeroU16::new(u16::try_from(metadata.start).ok()?)
}

/// Where the inside of the metadata stands.
struct Metadata {
    /// Behind the opening brace.
    start: usize,
    /// Of the closing brace.
    end: usize,
    /// Whether another program has left one in it.
    has_resource_version: bool,
}

/// The metadata of an object in our own form: apiVersion, kind and metadata come first.
fn metadata_of(raw: &[u8]) -> Option<Metadata> {
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
    let (length, has_resource_version) = map_inside(&raw[at..])?;
    Some(Metadata { start: at, end: at + length, has_resource_version })
}

/// How long the inside of a map is that begins here, and whether it has the key `resourceVersion`; `None` if it does not
/// end.
fn map_inside(inside: &[u8]) -> Option<(usize, bool)> {
    const KEY: &[u8] = b"\"resourceVersion\"";
    let (mut at, mut depth, mut found) = (0, 0usize, false);
    loop {
        match inside.get(at)? {
            b'"' => {
                found |= depth == 0 && inside[at..].starts_with(KEY) && inside.get(at + KEY.len()) == Some(&b':');
                at += 1;
                while *inside.get(at)? != b'"' {
                    at += if inside[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some((at, found)),
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
    fn names_are_read_without_decoding() {
        let check = |raw: &'static str| {
            let stored = StoredObject::new(pod(), Bytes::from_static(raw.as_bytes()), 3);
            assert_eq!((stored.name(), stored.namespace(), stored.uid()), ("a", "n", "u1"), "{raw}");
            assert!(stored.made().object.get().is_none());
            let partial: Value = serde_json::from_slice(&stored.metadata_json()).expect("JSON");
            assert_eq!(
                partial["metadata"],
                json!({"name": "a", "namespace": "n", "uid": "u1", "resourceVersion": "3"})
            );
            assert_eq!(partial["kind"], "PartialObjectMetadata");
        };
        check(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u1"},"spec":{}}"#);
    }

    #[test]
    fn names_of_foreign_objects_are_found_too() {
        let raw = br#"{"spec":{}, "metadata":{"uid":"u1","resourceVersion":"9","name":"a"}}"#;
        let stored = StoredObject::new(pod(), Bytes::from_static(raw), 3);
        assert_eq!((stored.name(), stored.namespace(), stored.uid()), ("a", "", "u1"));
        let partial: Value = serde_json::from_slice(&stored.metadata_json()).expect("JSON");
        assert_eq!(partial["metadata"]["resourceVersion"], "3");
    }
}
