//! The protobuf form of an OpenAPI v2 document (gnostic's `openapi.v2.Document`), which is the one that clients ask for.

use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

/// The document as protobuf.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.message(2, info);
    let mut paths = Message::default();
    for (path, item) in entries(&document["paths"]) {
        paths.named(2, path, path_item(item));
    }
    out.message(8, paths);
    let mut definitions = Message::default();
    for (name, found) in entries(&document["definitions"]) {
        definitions.named(1, name, schema(found));
    }
    out.message(9, definitions);
    out.0
}

/// A message in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        encode_key(number, WireType::LengthDelimited, &mut self.0);
        encode_varint(bytes.len() as u64, &mut self.0);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, number: u32, message: Message) {
        self.bytes(number, &message.0);
    }

    /// A text, unless it is absent or empty.
    fn text(&mut self, number: u32, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u32, values: &Value) {
        for text in values.as_array().into_iter().flatten().filter_map(Value::as_str) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn flag(&mut self, number: u32, value: &Value) {
        if value == true {
            encode_key(number, WireType::Varint, &mut self.0);
            encode_varint(1, &mut self.0);
        }
    }

    fn whole(&mut self, number: u32, value: &Value) {
        if let Some(whole) = value.as_i64().filter(|whole| *whole != 0) {
            encode_key(number, WireType::Varint, &mut self.0);
            encode_varint(whole.cast_unsigned(), &mut self.0);
        }
    }

    fn real(&mut self, number: u32, value: &Value) {
        if let Some(real) = value.as_f64().filter(|real| *real != 0.0) {
            encode_key(number, WireType::SixtyFourBit, &mut self.0);
            self.0.extend_from_slice(&real.to_le_bytes());
        }
    }

    /// An entry of a map.
    fn named(&mut self, number: u32, name: &str, value: Message) {
        let mut entry = Message::default();
        entry.bytes(1, name.as_bytes());
        entry.message(2, value);
        self.message(number, entry);
    }

    /// The extensions among the keys of a map.
    fn extensions(&mut self, number: u32, of: &Value) {
        for (name, value) in entries(of).filter(|(name, _)| name.starts_with("x-")) {
            self.named(number, name, any(value));
        }
    }
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// Any value is told as YAML, of which JSON is a part.
fn any(value: &Value) -> Message {
    let mut any = Message::default();
    any.bytes(2, format!("{value}\n").as_bytes());
    any
}

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    for (number, verb) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if item[verb].is_object() {
            out.message(number, operation(&item[verb]));
        }
    }
    parameters(&mut out, 9, &item["parameters"]);
    out
}

fn operation(found: &Value) -> Message {
    let mut out = Message::default();
    out.texts(1, &found["tags"]);
    out.text(3, &found["description"]);
    out.text(5, &found["operationId"]);
    out.texts(6, &found["produces"]);
    out.texts(7, &found["consumes"]);
    parameters(&mut out, 8, &found["parameters"]);
    let mut responses = Message::default();
    for (code, response) in entries(&found["responses"]) {
        let mut told = Message::default();
        told.text(1, &response["description"]);
        if response["schema"].is_object() {
            let mut item = Message::default();
            item.message(1, schema(&response["schema"]));
            told.message(2, item);
        }
        let mut value = Message::default();
        value.message(1, told);
        responses.named(1, code, value);
    }
    out.message(9, responses);
    out.texts(10, &found["schemes"]);
    out.extensions(13, found);
    out
}

fn parameters(out: &mut Message, number: u32, found: &Value) {
    for parameter in found.as_array().into_iter().flatten() {
        let (mut item, mut wrapped) = (Message::default(), Message::default());
        if parameter["in"] == "body" {
            let mut body = Message::default();
            body.text(2, &parameter["name"]);
            body.text(3, &parameter["in"]);
            body.flag(4, &parameter["required"]);
            body.message(5, schema(&parameter["schema"]));
            wrapped.message(1, body);
        } else {
            // The numbers of the two forms differ by one behind the name: a path parameter cannot be empty.
            let (form, shift) = if parameter["in"] == "path" { (4, 0) } else { (3, 1) };
            let mut told = Message::default();
            told.flag(1, &parameter["required"]);
            told.text(2, &parameter["in"]);
            told.text(3, &parameter["description"]);
            told.text(4, &parameter["name"]);
            told.text(5 + shift, &parameter["type"]);
            told.text(6 + shift, &parameter["format"]);
            told.flag(19 + shift, &parameter["uniqueItems"]);
            let mut either = Message::default();
            either.message(form, told);
            wrapped.message(2, either);
        }
        item.message(1, wrapped);
        out.message(number, item);
    }
}

fn schema(found: &Value) -> Message {
    let mut out = Message::default();
    out.text(1, &found["$ref"]);
    out.text(2, &found["format"]);
    out.text(3, &found["title"]);
    out.text(4, &found["description"]);
    out.real(6, &found["multipleOf"]);
    out.real(7, &found["maximum"]);
    out.flag(8, &found["exclusiveMaximum"]);
    out.real(9, &found["minimum"]);
    out.flag(10, &found["exclusiveMinimum"]);
    out.whole(11, &found["maxLength"]);
    out.whole(12, &found["minLength"]);
    out.text(13, &found["pattern"]);
    out.whole(14, &found["maxItems"]);
    out.whole(15, &found["minItems"]);
    out.flag(16, &found["uniqueItems"]);
    out.whole(17, &found["maxProperties"]);
    out.whole(18, &found["minProperties"]);
    out.texts(19, &found["required"]);
    for value in found["enum"].as_array().into_iter().flatten() {
        out.message(20, any(value));
    }
    match &found["additionalProperties"] {
        Value::Bool(flag) => {
            let mut item = Message::default();
            encode_key(2, WireType::Varint, &mut item.0);
            encode_varint(u64::from(*flag), &mut item.0);
            out.message(21, item);
        }
        held @ Value::Object(_) => {
            let mut item = Message::default();
            item.message(1, schema(held));
            out.message(21, item);
        }
        _ => {}
    }
    if found["type"].is_string() {
        let mut types = Message::default();
        types.text(1, &found["type"]);
        out.message(22, types);
    }
    if found["items"].is_object() {
        let mut items = Message::default();
        items.message(1, schema(&found["items"]));
        out.message(23, items);
    }
    for one in found["allOf"].as_array().into_iter().flatten() {
        out.message(24, schema(one));
    }
    if found["properties"].is_object() {
        let mut properties = Message::default();
        for (name, property) in entries(&found["properties"]) {
            properties.named(1, name, schema(property));
        }
        out.message(25, properties);
    }
    out.extensions(31, found);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_has_the_numbers_of_the_format() {
        let found = schema(&json!({"$ref": "#/definitions/A", "required": ["b"], "x-y": {"z": 1}, "type": "object"}));
        let expected: &[u8] = b"\x0a\x0f#/definitions/A\x9a\x01\x01b\xb2\x01\x08\x0a\x06object\
            \xfa\x01\x11\x0a\x03x-y\x12\x0a\x12\x08{\"z\":1}\n";
        assert_eq!(found.0, expected);
    }

    #[test]
    fn parameters_of_a_query_and_of_a_path_have_their_own_numbers() {
        let told = |place: &str| {
            let mut out = Message::default();
            let list = json!([{"name": "n", "in": place, "type": "string", "uniqueItems": true}]);
            parameters(&mut out, 8, &list);
            out.0
        };
        assert!(told("query").windows(3).any(|found| found == b"\x32\x06s"), "type is field 6 of a query parameter");
        assert!(told("path").windows(3).any(|found| found == b"\x2a\x06s"), "and field 5 of a path parameter");
    }
}
