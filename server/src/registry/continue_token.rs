//! Where the next page of a list begins (apiserver `storage.DecodeContinue`).
//!
//! A token is base64 of `{"v":"meta.k8s.io/v1","rv":7,"start":"default/b\u0000"}`: a key behind the collection's prefix. It
//! can name no key of another collection, for it is put behind the prefix and must be a clean path.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD, STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Status;
use serde_json::json;

use super::schema::json::Node;
use super::selection::Selection;

const VERSION: &str = "meta.k8s.io/v1";
/// Base64 as Go takes it: with bits behind the last byte.
const LENIENT: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// The token of a page that begins at a key. A revision below zero goes on in what is there now.
pub(super) fn encode(selection: &Selection, revision: i64, start: &[u8]) -> String {
    let prefix = selection.kind.collection_key(&selection.namespace);
    let start = String::from_utf8_lossy(start);
    let start = start.strip_prefix(&prefix).unwrap_or(&start);
    URL_SAFE_NO_PAD.encode(json!({"v": VERSION, "rv": revision, "start": start}).to_string())
}

/// The key and the revision of a token.
///
/// # Errors
/// `BadRequest` in upstream's words.
pub(super) fn decode(selection: &Selection, text: &str) -> Result<(Bytes, i64), Status> {
    let refuse = |why: String| Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
    let (revision, start) = read(text).map_err(refuse)?;
    let key = format!("{}{}", selection.kind.collection_key(&selection.namespace), start.trim_start_matches('/'));
    Ok((Bytes::from(key), revision))
}

fn read(text: &str) -> Result<(i64, String), String> {
    let bytes = LENIENT.decode(text).map_err(|_| illegal_base64(text))?;
    if let Some(first @ 0x80..) = bytes.first() {
        // Go quotes the byte as if it were a letter.
        let letter = quote(&char::from(*first).to_string());
        return Err(format!("invalid character '{}' looking for beginning of value", letter.trim_matches('"')));
    }
    let node = Node::parse(&bytes)?;
    if !matches!(node, Node::Object(_)) {
        return Err(format!("json: cannot unmarshal {} into Go value of type storage.continueToken", node.go_kind()));
    }
    let mismatch = |field: &str, node: &Node<'_>, wanted: &str| {
        let found = match node {
            Node::Number(number) => format!("number {number}"),
            other => other.go_kind().to_owned(),
        };
        format!("json: cannot unmarshal {found} into Go struct field continueToken.{field} of type {wanted}")
    };
    let string = |field: &str| match node.get(field) {
        None | Some(Node::Null) => Ok(String::new()),
        Some(Node::String(text)) => Ok(text.to_string()),
        Some(other) => Err(mismatch(field, other, "string")),
    };
    let revision = match node.get("rv") {
        None | Some(Node::Null) => 0,
        Some(node @ Node::Number(number)) => number.parse().map_err(|_| mismatch("rv", node, "int64"))?,
        Some(other) => return Err(mismatch("rv", other, "int64")),
    };
    let (version, start) = (string("v")?, string("start")?);
    if version != VERSION {
        return Err(format!("server does not recognize this encoded version {version}"));
    }
    if revision == 0 {
        return Err(format!("incorrect encoded start resourceVersion (version {VERSION})"));
    }
    if start.is_empty() {
        return Err(format!("encoded start key empty (version {VERSION})"));
    }
    if !is_clean(&start) {
        return Err(start);
    }
    Ok((revision, start))
}

/// Whether a path is as Go's `path.Clean` would leave it, with a slash in front.
fn is_clean(start: &str) -> bool {
    let path = start.strip_prefix('/').unwrap_or(start);
    path.is_empty() || path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Go's words: the first byte that is none, or the beginning of the last, incomplete four.
fn illegal_base64(text: &str) -> String {
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let at = text.bytes().position(|b| !is_digit(b)).unwrap_or_else(|| {
        // Without a foreign byte it is the length, or bits behind the last byte.
        let whole = text.len() - text.len() % 4;
        if text.len() % 4 == 1 || STANDARD.decode(&text[..whole]).is_ok() { whole } else { 0 }
    });
    format!("illegal base64 data at input byte {at}")
}

#[cfg(test)]
mod tests {
    use super::super::Target;
    use super::*;
    use listwatch_proto::resource::Kind;

    fn selection(namespace: &str) -> Selection {
        let target = Target::collection(Kind::by_name("pod").expect("known"), namespace);
        Selection::read(&target, "", "").expect("no selectors")
    }

    fn refused(token: &str) -> String {
        let status = decode(&selection("n"), token).expect_err("refused");
        assert_eq!(status.code, 400);
        status.message.replace("invalid continue token: continue key is not valid: ", "")
    }

    fn of(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    #[test]
    fn a_token_names_the_place_it_was_made_for() {
        let start = b"/registry/pods/n/a\0";
        let token = encode(&selection("n"), 7, start);
        assert_eq!(decode(&selection("n"), &token).ok(), Some((Bytes::from_static(start), 7)));
        let everywhere = encode(&selection(""), -1, start);
        assert_eq!(decode(&selection(""), &everywhere).ok(), Some((Bytes::from_static(start), -1)));
    }

    #[test]
    fn what_is_no_token_is_refused_in_upstreams_words() {
        assert_eq!(refused("!!!"), "illegal base64 data at input byte 0");
        assert_eq!(refused("garbage"), "invalid character '\\u0081' looking for beginning of value");
        assert_eq!(refused("eyJ2"), "unexpected end of JSON input");
        assert_eq!(refused("eA"), "invalid character 'x' looking for beginning of value");
        assert_eq!(
            refused(&of(r#"{"v":"meta.k8s.io/v1","rv":"x","start":"b"}"#)),
            "json: cannot unmarshal string into Go struct field continueToken.rv of type int64"
        );
        assert_eq!(
            refused(&of(r#"{"v":"meta.k8s.io/v2","rv":5,"start":"b"}"#)),
            "server does not recognize this encoded version meta.k8s.io/v2"
        );
        assert_eq!(
            refused(&of(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"b"}"#)),
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
        );
        assert_eq!(
            refused(&of(r#"{"v":"meta.k8s.io/v1","rv":5}"#)),
            "encoded start key empty (version meta.k8s.io/v1)"
        );
    }

    #[test]
    fn no_token_leads_out_of_its_collection() {
        for start in ["../secrets/a", "a/../../x", "a//b", "a/./b", "b/"] {
            assert_eq!(refused(&of(&json!({"v": VERSION, "rv": 5, "start": start}).to_string())), start);
        }
        let (key, _) = decode(&selection("n"), &of(r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/x"}"#)).expect("taken");
        assert_eq!(key, Bytes::from_static(b"/registry/pods/n/x"));
    }
}
