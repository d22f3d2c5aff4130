//! From the form in which a custom resource is stored to the one in which it is served, and back.
//!
//! Without a converter of its own a definition's versions differ in nothing but their name, so the way back is the name of
//! the storage version. On the way out the schema of today has its say: what it no longer names is not shown, and what it
//! fills in is filled in.

use bytes::Bytes;
use listwatch_proto::resource::{Kind, Object};
use serde_json::Value;

use super::super::stored::encode;
use super::super::structural;
use super::custom;

/// A stored value as it is served. What is no object stays what it is: whoever looks at it says so.
pub(in super::super) fn served(kind: &'static Kind, raw: Bytes) -> Bytes {
    let Some(rules) = custom(kind) else { return raw };
    let Ok(mut object) = Object::from_slice(&raw) else { return raw };
    // With `drops`, what is of a wrong type is no error.
    let _ = rules.bring_into_form(&mut object.0, true);
    let mut whole = object.into_value();
    structural::default(&mut whole, &rules.schema);
    let Value::Object(mut map) = whole else { return raw };
    map.insert("apiVersion".to_owned(), rules.api_version.into());
    map.insert("kind".to_owned(), rules.kind.into());
    let text = encode(&Object(map));
    // The store's own bytes where nothing has changed: caches share them.
    if text == raw { raw } else { text }
}

/// An object as it is stored.
pub(in super::super) fn stored(kind: &'static Kind, object: &Object) -> Bytes {
    match custom(kind) {
        Some(rules) if rules.api_version != rules.storage_api_version => {
            let mut object = object.clone();
            object.set(&["apiVersion"], rules.storage_api_version);
            encode(&object)
        }
        _ => encode(object),
    }
}
