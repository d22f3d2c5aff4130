//! From JSON as a client wrote it to an object in Kubernetes' own form.
//!
//! Works as the decoder of Go's structs does: `null` is absent, what a struct does not declare is dropped (and named for
//! strict validation), a wrong type is refused in Go's words, quantities and times are rewritten canonically, and empty
//! fields are left out or written as each declares.

use listwatch_proto::go_quote::quote_in_time;
use listwatch_proto::resource::{Quantity, micro_time, time};
use serde_json::{Map, Value};

use super::json::Node;
use super::table::{Field, Omission, Other, Schema, Type, bare, schema};

/// How many strict errors are told at most (apimachinery's limit).
const STRICT_MAX: usize = 100;

/// A decoded object.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// In canonical form.
    pub(crate) object: Map<String, Value>,
    /// `unknown field "spec.foo"`, `duplicate field "spec.foo"`, in the order written.
    pub(crate) strict: Vec<String>,
}

/// Why a value is no object of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undecodable {
    /// In Go's words: `json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool`.
    pub(crate) message: String,
    /// Where, which Go's words do not always tell: `spec.containers[0].resources.limits.cpu`.
    pub(crate) field: String,
}

/// Decodes a value as the struct of this name.
///
/// # Errors
/// The first place that is not of the declared type.
pub(crate) fn decode(type_name: &str, node: &Node<'_>) -> Result<Decoded, Undecodable> {
    let schema = schema();
    let place = schema
        .find(type_name)
        .ok_or_else(|| Undecodable { message: format!("no schema for {type_name}"), field: String::new() })?;
    let mut decoder =
        Decoder { schema, strict: Vec::new(), refused: None, within: "", stack: Vec::new(), path: String::new() };
    let object = match decoder.value(&Type::Struct(place), node) {
        Ok(object) => object,
        // The path stands where the decoding ended.
        Err(message) => return Err(Undecodable { message, field: decoder.path }),
    };
    match (decoder.refused, object) {
        (Some(refused), _) => Err(refused),
        (None, Some(Value::Object(object))) => Ok(Decoded { object, strict: decoder.strict }),
        (None, _) => Ok(Decoded { object: decoder.schema.zero_struct(place), strict: decoder.strict }),
    }
}

/// Whether a value alone is of a type.
///
/// # Errors
/// Why it is not, in Go's words.
pub(crate) fn decode_value(wanted: &Type, node: &Node<'_>) -> Result<(), String> {
    let mut decoder = Decoder {
        schema: schema(),
        strict: Vec::new(),
        refused: None,
        within: "",
        stack: Vec::new(),
        path: String::new(),
    };
    decoder.value(wanted, node)?;
    decoder.refused.map_or(Ok(()), |refused| Err(refused.message))
}

struct Decoder<'s> {
    schema: &'s Schema,
    strict: Vec<String>,
    /// The first type error; later ones are not told (encoding/json).
    refused: Option<Undecodable>,
    /// The bare name of the struct whose field is being read.
    within: &'static str,
    /// The field names from the root, with those of embedded structs.
    stack: Vec<&'static str>,
    /// The JSON path from the root.
    path: String,
}

impl Decoder<'_> {
    /// `None` = null, or a value of the wrong type, which has been noted. An error ends the decoding at once.
    fn value(&mut self, wanted: &Type, node: &Node<'_>) -> Result<Option<Value>, String> {
        if *node == Node::Null {
            return Ok(None);
        }
        Ok(match (wanted, node) {
            (Type::Named(name, of), _) => return self.named(name, of, node),
            (Type::Any, _) => Some(node.to_value()),
            (Type::SchemaOr(other), _) => return self.schema_or(*other, node),
            (Type::String, Node::String(text)) => Some(Value::String(text.to_string())),
            (Type::Bool, Node::Bool(flag)) => Some(Value::Bool(*flag)),
            (Type::Int32, Node::Number(text)) => self.integer::<i32>(wanted, text),
            (Type::Int64, Node::Number(text)) => self.integer::<i64>(wanted, text),
            (Type::Float64, Node::Number(text)) => text.parse::<f64>().ok().map(go_float),
            (Type::Bytes, Node::String(text)) => Some(Value::String(base64_text(text)?)),
            (Type::Bytes, Node::Array(items)) => Some(self.bytes(items)),
            (Type::Struct(place), Node::Object(fields)) => Some(Value::Object(self.structure(*place, fields)?)),
            (Type::List(of), Node::Array(items)) => Some(Value::Array(self.list(of, items)?)),
            (Type::Map(of), Node::Object(fields)) => Some(Value::Object(self.map(of, fields)?)),
            (Type::Time, Node::String(text)) => Some(Value::String(parse_seconds(text)?)),
            (Type::MicroTime, Node::String(text)) => Some(Value::String(parse_micros(text)?)),
            (Type::Quantity, Node::String(text) | Node::Number(text)) => Some(Value::String(quantity(text)?)),
            (Type::Quantity, _) => return Err(quantity_error()),
            (Type::IntOrString, Node::String(text)) => Some(Value::String(text.to_string())),
            (Type::IntOrString, Node::Number(text)) => self.integer::<i32>(&Type::Int32, text),
            (Type::IntOrString, _) => return Err(self.mismatch(node.go_kind(), "int32")),
            (Type::Time | Type::MicroTime, _) => return Err(self.mismatch(node.go_kind(), "string")),
            _ => {
                self.refuse(node.go_kind(), &wanted.go_name());
                None
            }
        })
    }

    /// A list of numbers is as good as base64.
    fn bytes(&mut self, items: &[Node<'_>]) -> Value {
        use base64::Engine as _;
        let mut bytes = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Node::Null => bytes.push(0),
                Node::Number(text) if text.parse::<u8>().is_ok() => bytes.push(text.parse().unwrap_or_default()),
                Node::Number(text) => self.refuse(&format!("number {text}"), "uint8"),
                other => self.refuse(other.go_kind(), "uint8"),
            }
        }
        Value::String(base64::engine::general_purpose::STANDARD.encode(bytes))
    }

    fn named(&mut self, name: &'static str, of: &Type, node: &Node<'_>) -> Result<Option<Value>, String> {
        // Go names the declared type where a scalar or a map of it is wanted.
        let fits = matches!(
            (of.plain(), node),
            (Type::String, Node::String(_)) | (Type::Map(_), Node::Object(_)) | (Type::List(_), Node::Array(_))
        );
        if !fits && !matches!(of.plain(), Type::Struct(_) | Type::Int32 | Type::Int64 | Type::Bool) {
            self.refuse(node.go_kind(), name.split_once('/').map_or(name, |(_, n)| n));
            return Ok(None);
        }
        let mut value = self.value(of, node)?;
        if name == "core/v1.ResourceList" {
            // Upstream's defaulting rounds up to thousandths wherever there is a list of resources.
            for amount in value.as_mut().and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
                round_up_to_milli(amount);
            }
        }
        Ok(value)
    }

    /// A JSON schema or its other form; what is neither is as good as nothing, but for the one that may be a boolean.
    fn schema_or(&mut self, other: Other, node: &Node<'_>) -> Result<Option<Value>, String> {
        match (other, node) {
            (_, Node::Object(_)) => self.value(&self.schema.json_schema(), node),
            (Other::Bool, Node::Bool(flag)) => Ok(Some(Value::Bool(*flag))),
            (Other::Bool, _) => Err("boolean or JSON schema expected".to_owned()),
            (Other::Schemas, Node::Array(_)) => self.value(&Type::List(Box::new(self.schema.json_schema())), node),
            (Other::Strings, Node::Array(_)) => self.value(&Type::List(Box::new(Type::String)), node),
            (Other::Schemas | Other::Strings, _) => Ok(Some(Value::Null)),
        }
    }

    fn integer<T: std::str::FromStr + Into<i64>>(&mut self, wanted: &Type, text: &str) -> Option<Value> {
        let number = text.parse::<T>().ok().map(|n| Value::from(n.into()));
        if number.is_none() {
            self.refuse(&format!("number {text}"), &wanted.go_name());
        }
        number
    }

    fn structure(
        &mut self,
        place: usize,
        fields: &[(std::borrow::Cow<'_, str>, Node<'_>)],
    ) -> Result<Map<String, Value>, String> {
        let schema = self.schema;
        let declared = schema.get(place);
        let mut found: Vec<Option<Value>> = vec![None; declared.fields.len()];
        let mut seen = vec![false; declared.fields.len()];
        let (depth, length, outer) = (self.stack.len(), self.path.len(), self.within);
        for (key, node) in fields {
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(key);
            match declared.fields.iter().position(|f| f.name == key) {
                None => self.note("unknown"),
                Some(at) => {
                    let field = &declared.fields[at];
                    if std::mem::replace(&mut seen[at], true) {
                        self.note("duplicate");
                    }
                    self.within = bare(declared.name);
                    self.stack.extend(field.embedded);
                    self.stack.push(field.name);
                    if let Some(value) = self.value(&field.holds, node)? {
                        found[at] = Some(value);
                    }
                    self.stack.truncate(depth);
                    self.within = outer;
                }
            }
            self.path.truncate(length);
        }
        let mut out = Map::new();
        for (field, value) in declared.fields.iter().zip(found) {
            if let Some(value) = schema.written(field, value) {
                out.insert(field.name.to_owned(), value);
            }
        }
        Ok(out)
    }

    fn list(&mut self, of: &Type, items: &[Node<'_>]) -> Result<Vec<Value>, String> {
        let length = self.path.len();
        let mut out = Vec::with_capacity(items.len());
        for (i, item) in items.iter().enumerate() {
            self.path.push_str(&format!("[{i}]"));
            let value = self.value(of, item)?;
            self.path.truncate(length);
            out.push(value.unwrap_or_else(|| self.schema.zero(of)));
        }
        Ok(out)
    }

    fn map(
        &mut self,
        of: &Type,
        fields: &[(std::borrow::Cow<'_, str>, Node<'_>)],
    ) -> Result<Map<String, Value>, String> {
        let length = self.path.len();
        let mut out = Map::new();
        for (key, node) in fields {
            self.path.push('.');
            self.path.push_str(key);
            if out.contains_key(key.as_ref()) {
                self.note("duplicate");
            }
            let value = self.value(of, node)?;
            self.path.truncate(length);
            out.insert(key.to_string(), value.unwrap_or_else(|| self.schema.zero(of)));
        }
        Ok(out)
    }

    fn note(&mut self, what: &str) {
        if self.strict.len() < STRICT_MAX {
            self.strict.push(format!("{what} field \"{}\"", self.path));
        }
    }

    fn refuse(&mut self, kind: &str, wanted: &str) {
        if self.refused.is_none() {
            self.refused = Some(Undecodable { message: self.mismatch(kind, wanted), field: self.path.clone() });
        }
    }

    fn mismatch(&self, kind: &str, wanted: &str) -> String {
        if self.stack.is_empty() {
            return format!("json: cannot unmarshal {kind} into Go value of type {wanted}");
        }
        let field = format!("{}.{}", self.within, self.stack.join("."));
        format!("json: cannot unmarshal {kind} into Go struct field {field} of type {wanted}")
    }
}

impl Schema {
    /// How a field is written: `None` = left out.
    fn written(&self, field: &Field, value: Option<Value>) -> Option<Value> {
        if field.pointer {
            return value.or((field.omission == Omission::Never).then_some(Value::Null));
        }
        let value = value.unwrap_or_else(|| self.zero(&field.holds));
        let is_struct = matches!(
            field.holds.plain(),
            Type::Struct(_) | Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString
        );
        let omitted = match field.omission {
            Omission::Never => false,
            // Raw JSON is a struct in Go, which an empty map does not make an empty one.
            Omission::Empty if *field.holds.plain() == Type::Any && value.is_object() => false,
            Omission::Empty => !is_struct && is_empty(&value),
            Omission::Zero => value == self.zero(&field.holds) || is_empty(&value),
        };
        (!omitted).then_some(value)
    }

    /// The zero value of a type, as it is written.
    pub(crate) fn zero(&self, of: &Type) -> Value {
        match of {
            Type::String | Type::Duration => Value::from(""),
            Type::Bool => Value::from(false),
            Type::Int32 | Type::Int64 | Type::Float64 | Type::IntOrString => Value::from(0),
            Type::Bytes | Type::Time | Type::MicroTime | Type::Any | Type::List(_) | Type::Map(_) => Value::Null,
            Type::SchemaOr(Other::Bool) => Value::from(false),
            Type::SchemaOr(_) => Value::Null,
            Type::Quantity => Value::from("0"),
            Type::Named(_, of) => self.zero(of),
            Type::Struct(place) => Value::Object(self.zero_struct(*place)),
        }
    }

    fn zero_struct(&self, place: usize) -> Map<String, Value> {
        let fields = self.get(place).fields.iter();
        fields.filter_map(|f| self.written(f, None).map(|v| (f.name.to_owned(), v))).collect()
    }
}

/// A float as Go writes it: without a fraction where there is none.
pub(crate) fn go_float(number: f64) -> Value {
    /// Every whole number below it is one of both forms.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT { Value::from(number as i64) } else { Value::from(number) }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn base64_text(text: &str) -> Result<String, String> {
    use base64::Engine as _;
    let compact: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    match base64::engine::general_purpose::STANDARD.decode(&compact) {
        Ok(_) => Ok(compact),
        Err(error) => {
            let at = match error {
                base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => at,
                // Go names the beginning of the last four digits.
                _ => compact.len() - compact.len() % 4,
            };
            Err(format!("illegal base64 data at input byte {at}"))
        }
    }
}

fn quantity(text: &str) -> Result<String, String> {
    let text = text.trim();
    let parsed = text.parse::<Quantity>();
    // What is not even made of the letters of suffixes is a wrong format.
    let foreign = |c: char| !c.is_ascii_digit() && !"+-.eEinumkKMGTP".contains(c);
    if parsed.is_err() && text.contains(foreign) {
        return Err(quantity_error());
    }
    parsed.map(|q| q.to_string()).map_err(|e| e.to_string())
}

fn quantity_error() -> String {
    listwatch_proto::resource::QuantityError::Format.to_string()
}

fn round_up_to_milli(amount: &mut Value) {
    let Some(Ok(quantity)) = amount.as_str().map(str::parse::<Quantity>) else { return };
    const MILLI: i128 = 1_000_000;
    if quantity.nanos() % MILLI != 0 {
        *amount = Value::String(Quantity::millis(quantity.milli_value()).to_string());
    }
}

fn parse_seconds(text: &str) -> Result<String, String> {
    let shaped = text.len() >= 20 && text.as_bytes()[10] == b'T';
    match listwatch_proto::resource::parse_time(text).filter(|_| shaped) {
        Some(at) => Ok(time(at)),
        None => Err(time_error(text, "2006-01-02T15:04:05Z07:00")),
    }
}

fn parse_micros(text: &str) -> Result<String, String> {
    const LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";
    let fraction = text.get(19..).unwrap_or_default();
    let digits = fraction.strip_prefix('.').map_or(0, |f| f.bytes().take_while(u8::is_ascii_digit).count());
    match listwatch_proto::resource::parse_time(text) {
        Some(at) if digits == 6 => Ok(micro_time(at)),
        Some(_) => Err(format!(
            "parsing time {text} as {layout}: cannot parse {fraction} as \".000000\"",
            text = quote_in_time(text),
            layout = quote_in_time(LAYOUT),
            fraction = quote_in_time(fraction)
        )),
        None => Err(time_error(text, LAYOUT)),
    }
}

/// Go's words for a time that does not fit its layout, as far as the hour, or is none there can be.
fn time_error(text: &str, layout: &str) -> String {
    let number = |range: std::ops::Range<usize>| text.get(range).and_then(|digits| digits.parse::<u32>().ok());
    let parts = [("month", number(5..7), 1..=12), ("day", number(8..10), 1..=31), ("hour", number(11..13), 0..=23)];
    if let Some((part, ..)) = parts.iter().find(|(_, n, range)| n.is_some_and(|n| !range.contains(&n))) {
        return format!("parsing time {text}: {part} out of range", text = quote_in_time(text));
    }
    const PARTS: &[(usize, &str)] = &[(4, "2006"), (1, "-"), (2, "01"), (1, "-"), (2, "02"), (1, "T"), (2, "15")];
    let (mut rest, mut wanted) = (text, "Z07:00");
    for (length, part) in PARTS {
        let fits = rest.get(..*length).is_some_and(|head| {
            if part.as_bytes()[0].is_ascii_digit() { head.bytes().all(|b| b.is_ascii_digit()) } else { head == *part }
        });
        if !fits {
            wanted = part;
            break;
        }
        rest = &rest[*length..];
    }
    format!(
        "parsing time {text} as {layout}: cannot parse {rest} as {wanted}",
        text = quote_in_time(text),
        layout = quote_in_time(layout),
        rest = quote_in_time(rest),
        wanted = quote_in_time(wanted)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(text: &str) -> Result<Decoded, String> {
        decode("core/v1.Pod", &Node::parse(text.as_bytes()).expect("JSON")).map_err(|wrong| wrong.message)
    }

    #[test]
    fn an_object_takes_the_form_kubernetes_prints() {
        let text = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","labels":{},"finalizers":null},
            "spec":{"hostNetwork":false,"containers":[{"name":"c","ports":[{"containerPort":80}],
            "resources":{"limits":{"cpu":2,"memory":"1024Mi"},"requests":{"cpu":"0.00005"}}}]}}"#;
        let decoded = pod(text).expect("valid");
        assert_eq!(
            Value::Object(decoded.object),
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "status": {}, "spec": {"containers": [
                {"name": "c", "ports": [{"containerPort": 80}],
                 "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1m"}}}]}})
        );
        assert!(decoded.strict.is_empty());
        let empty = pod("{}").expect("valid").object;
        assert_eq!(Value::Object(empty), json!({"metadata": {}, "spec": {"containers": null}, "status": {}}));
    }

    #[test]
    fn strict_errors_are_told_in_the_order_written() {
        let text = r#"{"spec":{"zoo":1,"containers":[{"name":"a","name":"b","port":1}]},"foo":{}}"#;
        let decoded = pod(text).expect("valid");
        assert_eq!(
            decoded.strict,
            [
                "unknown field \"spec.zoo\"",
                "duplicate field \"spec.containers[0].name\"",
                "unknown field \"spec.containers[0].port\"",
                "unknown field \"foo\""
            ]
        );
        assert_eq!(decoded.object["spec"]["containers"][0]["name"], "b");
    }

    #[test]
    fn wrong_types_are_refused_in_gos_words() {
        let check = |text: &str, expected: &str| {
            assert_eq!(pod(text).expect_err(text), format!("json: cannot unmarshal {expected}"));
        };
        check(
            r#"{"spec":{"tolerations":{}}}"#,
            "object into Go struct field PodSpec.spec.tolerations of type []v1.Toleration",
        );
        check(
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":99999999999999999999}}}]}}"#,
            "number 99999999999999999999 into Go struct field \
             HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32",
        );
        check(
            r#"{"metadata":{"labels":{"a":["x"]}}}"#,
            "array into Go struct field ObjectMeta.metadata.labels of type string",
        );
        check(
            r#"{"spec":{"restartPolicy":[]}}"#,
            "array into Go struct field PodSpec.spec.restartPolicy of type v1.RestartPolicy",
        );
        check(
            r#"{"metadata":{"creationTimestamp":{}}}"#,
            "object into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        );
    }

    #[test]
    fn what_does_not_decode_is_told_with_its_place() {
        let field =
            |text: &str| decode("core/v1.Pod", &Node::parse(text.as_bytes()).expect("JSON")).expect_err("wrong").field;
        let limits = r#"{"spec":{"containers":[{},{"resources":{"limits":{"cpu":"abc"}}}]}}"#;
        assert_eq!(field(limits), "spec.containers[1].resources.limits.cpu");
        assert_eq!(field(r#"{"spec":{"hostNetwork":"x","nodeName":5}}"#), "spec.hostNetwork");
        assert_eq!(field(r#"{"metadata":{"creationTimestamp":"x"}}"#), "metadata.creationTimestamp");
    }

    #[test]
    fn times_are_rewritten_or_refused() {
        assert_eq!(parse_seconds("2024-01-01T02:00:00.5+02:00"), Ok("2024-01-01T00:00:00Z".into()));
        assert!(parse_seconds("x").expect_err("no time").ends_with("cannot parse \"x\" as \"2006\""));
        assert_eq!(parse_micros("2024-01-01T00:00:00.000001Z"), Ok("2024-01-01T00:00:00.000001Z".into()));
        assert!(parse_micros("2024-01-01T00:00:00Z").is_err());
    }
}
