//! Secret: data that few may read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::{key_pair, keyed};
use crate::registry::kinds::strategy::{Habits, Part, Strategy, label_not_supported};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown, quote};
use crate::registry::kinds::vocabulary::fields::entries;
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, age, column, text};
use crate::registry::schema::json::Node;
use crate::registry::table::{Cell, Column};

pub(super) struct SecretStrategy;

/// The annotation by which a token belongs to a service account.
const SERVICE_ACCOUNT: &str = "kubernetes.io/service-account.name";

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Type",
        "string",
        "Used to facilitate programmatic handling of secret data. More info: \
         https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
        0,
    ),
    column(
        "Data",
        "string",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The serialized \
         form of the secret data is a base64 encoded string, representing the arbitrary (possibly non-string) data value \
         here. Described in https://tools.ietf.org/html/rfc4648#section-4",
        0,
    ),
    AGE,
];

impl Strategy for SecretStrategy {
    fn schema(&self) -> &'static str {
        "core/v1.Secret"
    }

    fn default(&self, object: &mut Object) {
        if object.text(&["type"]).is_empty() {
            object.set(&["type"], "Opaque");
        }
        take_over_texts(object);
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let data = data(object);
        let path = Path::new("data");
        let mut bytes = 0;
        for (key, _) in entries(data) {
            keyed::key("data", key, faults);
            bytes += value(data, key).map_or(0, |value| value.len());
        }
        keyed::size(bytes, &path, faults);
        match object.text(&["type"]) {
            "kubernetes.io/service-account-token"
                if object.text(&["metadata", "annotations", SERVICE_ACCOUNT]).is_empty() =>
            {
                faults.required(&Path::new("metadata.annotations").key(SERVICE_ACCOUNT), "");
            }
            "kubernetes.io/dockercfg" => docker_config(data, ".dockercfg", faults),
            "kubernetes.io/dockerconfigjson" => docker_config(data, ".dockerconfigjson", faults),
            "kubernetes.io/basic-auth" if data.get("username").is_none() && data.get("password").is_none() => {
                faults.required(&path.key("username"), "");
                faults.required(&path.key("password"), "");
            }
            "kubernetes.io/ssh-auth" if value(data, "ssh-privatekey").is_none_or(|key| key.is_empty()) => {
                faults.required(&path.key("ssh-privatekey"), "");
            }
            "kubernetes.io/tls" => {
                for key in ["tls.crt", "tls.key"].into_iter().filter(|key| data.get(key).is_none()) {
                    faults.required(&path.key(key), "");
                }
            }
            _ => {}
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        let (was, is) = (old.text(&["type"]), new.text(&["type"]));
        if was != is {
            faults.invalid(&Path::new("type"), is, "field is immutable");
        }
        keyed::immutable(new, old, &["data"], faults);
        self.validate_create(new, faults);
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, has_generation: false, ..Habits::USUAL }
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        if object.text(&["type"]) != "kubernetes.io/tls" {
            return Vec::new();
        }
        let part = |key: &str| value(data(object), key).unwrap_or_default();
        key_pair::fault(&part("tls.crt"), &part("tls.key")).into_iter().collect()
    }

    fn fields(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn unknown_field(&self, path: &str) -> String {
        label_not_supported(path)
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let keys = i64::try_from(entries(data(object)).count()).unwrap_or(i64::MAX);
        vec![text(object.name()), text(object.text(&["type"])), Cell::Int(keys), age(object, now)]
    }
}

fn data(object: &Object) -> &Value {
    object.at(&["data"]).unwrap_or(&Value::Null)
}

/// The bytes of a value; `None` = there is no such key.
fn value(data: &Value, key: &str) -> Option<Vec<u8>> {
    // What has passed decoding is base64; what another program wrote counts as empty.
    data.get(key).map(|text| STANDARD.decode(text.as_str().unwrap_or_default()).unwrap_or_default())
}

/// Values given as text take the place of data, and are never told again.
fn take_over_texts(object: &mut Object) {
    let Some(Value::Object(texts)) = object.remove(&["stringData"]) else { return };
    if texts.is_empty() {
        return;
    }
    if !object.at(&["data"]).is_some_and(Value::is_object) {
        object.set(&["data"], json!({}));
    }
    for (key, value) in texts {
        object.set(&["data", &key], STANDARD.encode(value.as_str().unwrap_or_default()));
    }
}

/// The configuration of a registry's client must be a JSON map.
fn docker_config(data: &Value, key: &str, faults: &mut Faults) {
    let path = Path::new("data").key(key);
    let Some(bytes) = value(data, key) else {
        faults.required(&path, "");
        return;
    };
    let why = match Node::parse(&bytes) {
        Ok(Node::Object(_) | Node::Null) => return,
        Ok(other) => {
            let kind = other.go_kind();
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        }
        Err(why) => why,
    };
    faults.invalid(&path, Shown(quote("<secret contents redacted>")), &why);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::kinds::strategy;

    fn told(new: Value, old: Option<Value>) -> Vec<String> {
        strategy::told(&SecretStrategy, new, old)
    }

    #[test]
    fn texts_take_the_place_of_data() {
        let mut secret = Object::from_value(json!({"stringData": {"a": "plain", "k": "over"}, "data": {"k": "b2xk"}}))
            .expect("a map");
        SecretStrategy.default(&mut secret);
        assert_eq!(secret.into_value(), json!({"data": {"k": "b3Zlcg==", "a": "cGxhaW4="}, "type": "Opaque"}));
    }

    #[test]
    fn each_type_has_what_it_needs() {
        let required = |key: &str| format!("data[{key}]: Required value");
        let of = |kind: &str| told(json!({"type": format!("kubernetes.io/{kind}")}), None);
        assert_eq!(of("tls"), [required("tls.crt"), required("tls.key")]);
        assert_eq!(of("ssh-auth"), [required("ssh-privatekey")]);
        assert_eq!(of("basic-auth"), [required("username"), required("password")]);
        assert_eq!(of("dockercfg"), [required(".dockercfg")]);
        assert_eq!(
            of("service-account-token"),
            ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]
        );
        assert!(told(json!({"type": "x"}), None).is_empty());
        let config = |text: &str| {
            let data = json!({".dockerconfigjson": STANDARD.encode(text)});
            told(json!({"type": "kubernetes.io/dockerconfigjson", "data": data}), None)
        };
        assert!(config("{\"auths\":{}}").is_empty());
        let path = "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\"";
        assert_eq!(config("{"), [format!("{path}: unexpected end of JSON input")]);
        assert_eq!(
            config("[]"),
            [format!("{path}: json: cannot unmarshal array into Go value of type map[string]interface {{}}")]
        );
    }

    #[test]
    fn type_and_what_is_immutable_stay() {
        let old = json!({"type": "Opaque", "data": {"a": "AA=="}, "immutable": true});
        assert!(told(old.clone(), Some(old.clone())).is_empty());
        assert_eq!(
            told(json!({"type": "x"}), Some(old)),
            [
                "type: Invalid value: \"x\": field is immutable",
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ]
        );
    }
}
