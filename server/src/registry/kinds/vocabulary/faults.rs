//! The faults of an object, in upstream's words (apimachinery `field.Error`).

use std::fmt;

pub(crate) use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Cause, Quantity};
use serde_json::Value;

/// Where a fault is: `spec.containers[0].image`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(String);

impl Path {
    /// A path of the root.
    pub(crate) fn new(text: &str) -> Self {
        Path(text.to_owned())
    }

    /// A field below.
    pub(crate) fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// The path without its last step.
    pub(crate) fn parent(&self) -> Self {
        Path(self.0.rsplit_once('.').map_or("", |(head, _)| head).to_owned())
    }

    /// An entry of a list.
    pub(crate) fn index(&self, index: usize) -> Self {
        Path(format!("{}[{index}]", self.0))
    }

    /// An entry of a map.
    pub(crate) fn key(&self, key: &str) -> Self {
        Path(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A list of faults that grows.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    causes: Vec<Cause>,
}

impl Faults {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// As causes of a Status.
    pub(crate) fn into_causes(self) -> Vec<Cause> {
        self.causes
    }

    /// Each as one text, with its field.
    #[cfg(test)]
    pub(crate) fn told(self) -> Vec<String> {
        self.causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.causes.len()
    }

    /// Takes over faults that were found elsewhere.
    pub(crate) fn adopt(&mut self, causes: impl IntoIterator<Item = Cause>) {
        self.causes.extend(causes);
    }

    fn push(&mut self, reason: &str, field: &Path, head: String, detail: &str) {
        let message = if detail.is_empty() { head } else { format!("{head}: {detail}") };
        self.causes.push(Cause { reason: reason.to_owned(), message, field: field.to_string() });
    }

    /// `Required value`.
    pub(crate) fn required(&mut self, field: &Path, detail: &str) {
        self.push("FieldValueRequired", field, "Required value".into(), detail);
    }

    /// `Invalid value: "x": why`.
    pub(crate) fn invalid(&mut self, field: &Path, value: impl Into<Shown>, detail: &str) {
        self.push("FieldValueInvalid", field, format!("Invalid value: {}", value.into().0), detail);
    }

    /// `Invalid value: why`, for a value that is not shown.
    pub(crate) fn invalid_unshown(&mut self, field: &Path, detail: &str) {
        self.push("FieldValueInvalid", field, "Invalid value".into(), detail);
    }

    /// `Invalid value: "x": why`, of a value that is of another type.
    pub(crate) fn type_invalid(&mut self, field: &Path, value: impl Into<Shown>, detail: &str) {
        self.push("FieldValueTypeInvalid", field, format!("Invalid value: {}", value.into().0), detail);
    }

    /// Whether there are faults with which rules over the whole object make no sense (Kubernetes 1.36).
    pub(crate) fn block_rules(&self) -> bool {
        const BLOCKING: [&str; 5] = [
            "FieldValueNotSupported",
            "FieldValueRequired",
            "FieldValueTooLong",
            "FieldValueTooMany",
            "FieldValueTypeInvalid",
        ];
        self.causes.iter().any(|cause| BLOCKING.contains(&cause.reason.as_str()))
    }

    /// In the order of their texts.
    pub(crate) fn sort(&mut self) {
        self.causes.sort_by_cached_key(|cause| format!("{}: {}", cause.field, cause.message));
    }

    /// Takes over the faults of another list.
    pub(crate) fn append(&mut self, other: Faults) {
        self.causes.extend(other.causes);
    }

    /// `Unsupported value: "x": supported values: "a", "b"`. The supported ones are shown in the order given.
    pub(crate) fn not_supported(&mut self, field: &Path, value: impl Into<Shown>, supported: &[&str]) {
        let list: Vec<_> = supported.iter().map(quote).collect();
        let detail = if list.is_empty() { String::new() } else { format!("supported values: {}", list.join(", ")) };
        self.push("FieldValueNotSupported", field, format!("Unsupported value: {}", value.into().0), &detail);
    }

    /// `Forbidden: why`.
    pub(crate) fn forbidden(&mut self, field: &Path, detail: &str) {
        self.push("FieldValueForbidden", field, "Forbidden".into(), detail);
    }

    /// `Duplicate value: "x"`.
    pub(crate) fn duplicate(&mut self, field: &Path, value: impl Into<Shown>) {
        self.push("FieldValueDuplicate", field, format!("Duplicate value: {}", value.into().0), "");
    }

    /// `Duplicate value: "x": why`.
    pub(crate) fn duplicate_because(&mut self, field: &Path, value: impl Into<Shown>, detail: &str) {
        self.push("FieldValueDuplicate", field, format!("Duplicate value: {}", value.into().0), detail);
    }

    /// `Not found: "x"`.
    pub(crate) fn not_found(&mut self, field: &Path, value: impl Into<Shown>) {
        self.push("FieldValueNotFound", field, format!("Not found: {}", value.into().0), "");
    }

    /// `Not found: "x": why`.
    pub(crate) fn not_found_because(&mut self, field: &Path, value: impl Into<Shown>, detail: &str) {
        self.push("FieldValueNotFound", field, format!("Not found: {}", value.into().0), detail);
    }

    /// `Too long: may not be more than N bytes`.
    pub(crate) fn too_long(&mut self, field: &Path, bytes_max: usize) {
        self.push("FieldValueTooLong", field, "Too long".into(), &format!("may not be more than {bytes_max} bytes"));
    }

    /// `Too many: N: must have at most M items`.
    pub(crate) fn too_many(&mut self, field: &Path, count: usize, max: usize) {
        self.push("FieldValueTooMany", field, format!("Too many: {count}"), &format!("must have at most {max} items"));
    }

    /// `Internal error: why`, for what upstream cannot judge.
    pub(crate) fn internal(&mut self, field: &Path, why: &str) {
        self.push("InternalError", field, "Internal error".into(), why);
    }

    /// Adds each message as an invalid value.
    pub(crate) fn invalid_all(&mut self, field: &Path, value: &str, details: Vec<String>) {
        for detail in details {
            self.invalid(field, value, &detail);
        }
    }
}

/// A value as Go prints it in a message: text is quoted, numbers and structs are not.
pub(crate) struct Shown(pub(crate) String);

impl Shown {
    /// What kind of value it is, in place of the value.
    pub(crate) fn of_type(value: &Value) -> Self {
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        Shown(quote(kind))
    }
}

impl From<&str> for Shown {
    fn from(text: &str) -> Self {
        Shown(quote(text))
    }
}

impl From<&String> for Shown {
    fn from(text: &String) -> Self {
        Shown(quote(text))
    }
}

impl From<i64> for Shown {
    fn from(number: i64) -> Self {
        Shown(number.to_string())
    }
}

impl From<Quantity> for Shown {
    fn from(quantity: Quantity) -> Self {
        Shown(quote(&quantity.to_string()))
    }
}

impl From<&Value> for Shown {
    fn from(value: &Value) -> Self {
        match value {
            Value::String(text) => Shown(quote(text)),
            other => Shown(other.to_string()),
        }
    }
}
