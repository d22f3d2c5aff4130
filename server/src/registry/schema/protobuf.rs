//! Bodies in Kubernetes' protobuf form, as JSON: the numbers stand in the tables.
//!
//! Go's encoder writes zero values of fields that are no pointers; in JSON they are left out, so they are dropped here.
//! What the tables do not know is skipped, as protobuf has it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use listwatch_proto::go_quote::quote;
use serde_json::{Map, Value, json};

use super::table::{Field, Omission, Other, Type, schema};

/// What every body begins with.
pub(crate) const MAGIC: [u8; 4] = *b"k8s\0";
/// How deep messages may stand in each other: deeper than any kind of Kubernetes.
const DEPTH_MAX: usize = 64;

/// A body that cannot be read, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

fn eof() -> Malformed {
    Malformed("unexpected EOF".to_owned())
}

/// Reads a body: the envelope, and in it an object of a kind that the tables know.
///
/// # Errors
/// Bytes that are no such body, or a kind that is not known.
pub(crate) fn read(body: &[u8]) -> Result<Value, Malformed> {
    let envelope = body.strip_prefix(&MAGIC).ok_or_else(|| {
        Malformed("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]".to_owned())
    })?;
    let (mut api_version, mut kind, mut raw): (String, String, &[u8]) = (String::new(), String::new(), &[]);
    for (number, value) in fields(envelope)? {
        match (number, value) {
            (1, Wire::Bytes(type_meta)) => {
                for (number, value) in fields(type_meta)? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => api_version = string(text),
                        (2, Wire::Bytes(text)) => kind = string(text),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let place = place_of(&api_version, &kind).ok_or_else(|| {
        Malformed(format!(
            "no kind {kind} is registered for version {api_version}",
            kind = quote(&kind),
            api_version = quote(&api_version)
        ))
    })?;
    let mut object = message(place, raw, 0)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// The struct of a kind, if the tables know it.
pub(super) fn place_of(api_version: &str, kind: &str) -> Option<usize> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    // A custom resource may have a group that begins as one of these does.
    let package = match group {
        "" if kind == "DeleteOptions" => "meta",
        "" => "core",
        "apps" | "autoscaling" | "batch" | "policy" => group,
        "rbac.authorization.k8s.io" => "rbac",
        other => other.strip_suffix(".k8s.io").filter(|package| !package.contains('.'))?,
    };
    schema().find(&format!("{package}/{version}.{kind}"))
}

/// A value as it stands on the wire.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
fn fields(mut bytes: &[u8]) -> Result<Vec<(u16, Wire<'_>)>, Malformed> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let value = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => Wire::Number(u64::from_le_bytes(take(&mut bytes, 8)?.try_into().map_err(|_| eof())?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| eof())?;
                Wire::Bytes(take(&mut bytes, length)?)
            }
            5 => Wire::Number(u64::from(u32::from_le_bytes(take(&mut bytes, 4)?.try_into().map_err(|_| eof())?))),
            other => return Err(Malformed(format!("illegal wireType {other}"))),
        };
        // A number that no field of ours has is as good as any other that is skipped.
        found.push((u16::try_from(tag >> 3).unwrap_or(u16::MAX), value));
    }
    Ok(found)
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = bytes.split_at_checked(length).ok_or_else(eof)?;
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Malformed("integer overflow".to_owned()))
}

fn message(place: usize, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, Malformed> {
    let all: Vec<(&Field, &[u16])> =
        schema().get(place).fields.iter().map(|field| (field, field.nested.as_slice())).collect();
    let mut object = Map::new();
    put_fields(&mut object, &all, bytes, depth)?;
    object.retain(|name, value| {
        let field = all.iter().find(|(field, _)| field.name == name);
        field.is_none_or(|(field, _)| field.pointer || field.omission == Omission::Never || !is_zero(value))
    });
    Ok(object)
}

/// Reads the fields of a message; those of an embedded struct stand in a message of their own, under its number.
fn put_fields(
    object: &mut Map<String, Value>,
    known: &[(&'static Field, &'static [u16])],
    bytes: &[u8],
    depth: usize,
) -> Result<(), Malformed> {
    if depth > DEPTH_MAX {
        return Err(Malformed("messages stand too deep in each other".to_owned()));
    }
    for (number, wire) in fields(bytes)? {
        let inner: Vec<(&Field, &[u16])> = known
            .iter()
            .filter_map(|(field, path)| {
                path.split_first().filter(|(first, _)| **first == number).map(|(_, rest)| (*field, rest))
            })
            .collect();
        if let (false, Wire::Bytes(inside)) = (inner.is_empty(), wire) {
            put_fields(object, &inner, inside, depth + 1)?;
            continue;
        }
        if let Some((field, _)) =
            known.iter().find(|(field, path)| path.is_empty() && field.protobuf == number && number != 0)
        {
            put(object, field, wire, depth)?;
        }
    }
    Ok(())
}

fn put(object: &mut Map<String, Value>, field: &Field, wire: Wire, depth: usize) -> Result<(), Malformed> {
    let name = field.name.to_owned();
    match field.holds.plain() {
        Type::List(of) => {
            let item = value(of, wire, depth)?;
            match object.entry(name).or_insert_with(|| json!([])) {
                Value::Array(items) => items.push(item),
                other => *other = Value::Array(vec![item]),
            }
        }
        Type::Map(of) => {
            let Wire::Bytes(bytes) = wire else { return Err(wrong(field.name)) };
            let (mut key, mut held) = (String::new(), None);
            for (number, wire) in fields(bytes)? {
                match (number, wire) {
                    (1, Wire::Bytes(text)) => key = string(text),
                    (2, wire) => held = Some(value(of, wire, depth)?),
                    _ => {}
                }
            }
            let held = match held {
                Some(held) => held,
                None => value(of, Wire::Bytes(&[]), depth)?,
            };
            if let Value::Object(map) = object.entry(name).or_insert_with(|| json!({})) {
                map.insert(key, held);
            }
        }
        of => {
            object.insert(name, value(of, wire, depth)?);
        }
    }
    Ok(())
}

fn wrong(what: &str) -> Malformed {
    Malformed(format!("wrong wireType for field {what}"))
}

fn value(of: &Type, wire: Wire, depth: usize) -> Result<Value, Malformed> {
    Ok(match (of.plain(), wire) {
        (Type::String, Wire::Bytes(bytes)) => string(bytes).into(),
        (Type::Bool, Wire::Number(number)) => (number != 0).into(),
        (Type::Int32 | Type::Int64, Wire::Number(number)) => number.cast_signed().into(),
        (Type::Float64, Wire::Number(number)) => super::decode::go_float(f64::from_bits(number)),
        (Type::Bytes, Wire::Bytes(bytes)) => STANDARD.encode(bytes).into(),
        (Type::Struct(place), Wire::Bytes(bytes)) => Value::Object(message(*place, bytes, depth + 1)?),
        (Type::Time, Wire::Bytes(bytes)) => time(bytes, false)?,
        (Type::MicroTime, Wire::Bytes(bytes)) => time(bytes, true)?,
        (Type::Duration, Wire::Bytes(bytes)) => format!("{}ns", numbers(bytes)?.0).into(),
        (Type::Quantity, Wire::Bytes(bytes)) => texts(bytes, 1)?.into(),
        (Type::IntOrString, Wire::Bytes(bytes)) => int_or_string(bytes)?,
        (Type::SchemaOr(other), Wire::Bytes(bytes)) => schema_or(*other, bytes, depth)?,
        (Type::Any, Wire::Bytes(bytes)) => {
            let raw = fields(bytes)?.into_iter().find_map(|(number, wire)| match (number, wire) {
                (1, Wire::Bytes(raw)) => Some(raw),
                _ => None,
            });
            let malformed = |error: serde_json::Error| Malformed(error.to_string());
            raw.map_or(Ok(Value::Null), |raw| serde_json::from_slice(raw).map_err(malformed))?
        }
        (other, _) => return Err(wrong(&other.go_name())),
    })
}

/// A JSON schema or the other form: a message with a field for each.
fn schema_or(other: Other, bytes: &[u8], depth: usize) -> Result<Value, Malformed> {
    let of = schema().json_schema();
    let (mut held, mut several) = (Value::Null, Vec::new());
    for (number, wire) in fields(bytes)? {
        match (other, number) {
            (Other::Bool, 1) => held = value(&Type::Bool, wire, depth)?,
            (Other::Bool, 2) | (Other::Schemas | Other::Strings, 1) => held = value(&of, wire, depth)?,
            (Other::Schemas, 2) => several.push(value(&of, wire, depth)?),
            (Other::Strings, 2) => several.push(value(&Type::String, wire, depth)?),
            _ => {}
        }
    }
    Ok(if several.is_empty() { held } else { Value::Array(several) })
}

/// The first two numbers of a message.
fn numbers(bytes: &[u8]) -> Result<(i64, i64), Malformed> {
    let (mut first, mut second) = (0, 0);
    for (number, wire) in fields(bytes)? {
        match (number, wire) {
            (1, Wire::Number(value)) => first = value.cast_signed(),
            (2, Wire::Number(value)) => second = value.cast_signed(),
            _ => {}
        }
    }
    Ok((first, second))
}

fn texts(bytes: &[u8], wanted: u16) -> Result<String, Malformed> {
    let found = fields(bytes)?.into_iter().find_map(|(number, wire)| match wire {
        Wire::Bytes(text) if number == wanted => Some(string(text)),
        _ => None,
    });
    Ok(found.unwrap_or_default())
}

/// A time; an empty message is none.
fn time(bytes: &[u8], micro: bool) -> Result<Value, Malformed> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (seconds, nanos) = numbers(bytes)?;
    let at =
        Timestamp::new(seconds, i32::try_from(nanos).unwrap_or(0)).map_err(|error| Malformed(error.to_string()))?;
    Ok(if micro { format!("{at:.6}") } else { format!("{at:.0}") }.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Malformed> {
    let (kind, number) = numbers(bytes)?;
    Ok(if kind == 1 { texts(bytes, 3)?.into() } else { number.into() })
}

fn string(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What Go leaves out of JSON when it is empty.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u8::try_from(bytes.len()).expect("a short test");
        let tag = u16::from(number) << 3 | 2;
        let tag = if tag < 0x80 { vec![tag as u8] } else { vec![tag as u8 & 0x7f | 0x80, (tag >> 7) as u8] };
        [tag.as_slice(), &[length], bytes].concat()
    }

    fn number(number: u8, value: u8) -> Vec<u8> {
        vec![number << 3, value]
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
    }

    #[test]
    fn a_namespace_is_read_and_its_zeros_are_dropped() {
        // As kubectl sends it: name, and every string of the metadata empty.
        let metadata = [field(1, b"dev"), field(2, b""), field(8, b"")].concat();
        let raw = [field(1, &metadata), field(2, b""), field(3, &field(1, b""))].concat();
        assert_eq!(
            read(&body("v1", "Namespace", &raw)),
            Ok(json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dev"}, "spec": {}, "status": {},
            }))
        );
    }

    #[test]
    fn pointers_keep_their_zeros_and_embedded_structs_are_flat() {
        // Deployment spec: replicas is a pointer.
        let deployment = body("apps/v1", "Deployment", &field(2, &number(1, 0)));
        let read_deployment = read(&deployment).expect("read");
        assert_eq!(read_deployment["spec"]["replicas"], 0);
        // A pod's volume: the source stands in a message of its own.
        let config_map = [field(1, &field(1, b"settings"))].concat();
        let volume = [field(1, b"v"), field(2, &field(19, &config_map))].concat();
        let pod = read(&body("v1", "Pod", &field(2, &field(1, &volume)))).expect("read");
        assert_eq!(pod["spec"]["volumes"], json!([{"name": "v", "configMap": {"name": "settings"}}]));
    }

    #[test]
    fn what_is_no_such_body_is_refused() {
        let said = |body: &[u8]| read(body).expect_err("refused").0;
        assert!(said(b"{}").starts_with("provided data does not appear"));
        assert_eq!(said(&[b'k', b'8', b's', 0, 0xff, 0xff]), "unexpected EOF");
        assert!(said(&body("v1", "Gizmo", b"")).contains("no kind \"Gizmo\""));
        // Every prefix of a body is refused or read, never a crash.
        let whole = body("v1", "Pod", &field(2, &field(1, &field(1, b"v"))));
        for end in 0..whole.len() {
            let _ = read(&whole[..end]);
        }
    }
}
