//! The form of a token: three parts of base64, a head, claims and a signature over both (RFC 7519).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::key::{SigningKey, VerifyingKey};

/// The largest token that is looked at: nobody's is longer, and it comes in a header.
const BYTES_MAX: usize = 16 << 10;

/// Signs claims.
pub(super) fn sign(key: &SigningKey, claims: &Value) -> Option<String> {
    let verifying = key.verifying();
    let head = json!({"alg": verifying.algorithm.name(), "kid": verifying.id});
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&head), part(claims));
    let signature = key.sign(signed.as_bytes())?;
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// A token that has been taken apart; nothing of it is believed yet.
#[derive(Debug)]
pub(super) struct Claimed<'a> {
    head: Value,
    /// What it claims.
    pub(super) claims: Value,
    signed: &'a str,
    signature: Vec<u8>,
}

/// Takes a token apart; `None` = it is no token of this form.
pub(super) fn read(token: &str) -> Option<Claimed<'_>> {
    if token.len() > BYTES_MAX {
        return None;
    }
    let (signed, signature) = token.rsplit_once('.')?;
    let (head, claims) = signed.split_once('.')?;
    let decoded = |part: &str| URL_SAFE_NO_PAD.decode(part).ok();
    let value = |part: &str| serde_json::from_slice::<Value>(&decoded(part)?).ok().filter(Value::is_object);
    Some(Claimed { head: value(head)?, claims: value(claims)?, signed, signature: decoded(signature)? })
}

impl Claimed<'_> {
    /// Whether one of the keys has signed it. The key's own algorithm counts, never what the token says.
    pub(super) fn is_signed_by(&self, keys: &[VerifyingKey]) -> bool {
        let text = |name: &str| self.head.get(name).and_then(Value::as_str);
        let named = text("kid").filter(|id| keys.iter().any(|key| key.id == *id));
        let candidates = keys.iter().filter(|key| named.is_none_or(|id| key.id == id));
        candidates
            .filter(|key| text("alg") == Some(key.algorithm.name()))
            .any(|key| key.verifies(self.signed.as_bytes(), &self.signature))
    }

    /// A text among the claims.
    pub(super) fn text(&self, path: &[&str]) -> &str {
        let found = path.iter().try_fold(&self.claims, |value, key| value.get(key));
        found.and_then(Value::as_str).unwrap_or_default()
    }

    /// A time among the claims, in seconds since 1970.
    pub(super) fn seconds(&self, key: &str) -> Option<i64> {
        let value = self.claims.get(key)?;
        value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
    }

    /// For whom it is.
    pub(super) fn audiences(&self) -> Vec<&str> {
        match self.claims.get("aud") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::tests::signing_key;
    use super::*;

    #[test]
    fn only_what_was_signed_is_believed() {
        let (key, other) = (signing_key(), signing_key());
        let token = sign(&key, &json!({"sub": "a", "exp": 7, "aud": ["x"]})).unwrap();
        let read_back = read(&token).unwrap();
        assert!(read_back.is_signed_by(&[other.verifying().clone(), key.verifying().clone()]));
        assert!(!read_back.is_signed_by(&[other.verifying().clone()]));
        assert_eq!(
            (read_back.text(&["sub"]), read_back.seconds("exp"), read_back.audiences()),
            ("a", Some(7), vec!["x"])
        );
        let parts: Vec<&str> = token.split('.').collect();
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let forged = format!("{}.{}.{}", parts[0], part(json!({"sub": "b"})), parts[2]);
        assert!(!read(&forged).unwrap().is_signed_by(&[key.verifying().clone()]));
        let unsigned = format!("{}.{}.", part(json!({"alg": "none"})), parts[1]);
        assert!(!read(&unsigned).unwrap().is_signed_by(&[key.verifying().clone()]));
        for wrong in ["", "a.b", "a.b.c", "..", &"x".repeat(BYTES_MAX + 1)] {
            assert!(read(wrong).is_none(), "{wrong:?}");
        }
    }
}
