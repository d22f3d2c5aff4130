//! How a value is owned and merged, read off the schema tables.

use serde_json::Value;

use super::super::schema::table::{Field, Struct, Type, schema};
use super::super::structural::{Additional, Schema};
use super::element;

/// The shape of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// One value.
    Scalar(Scalar),
    /// A list that is one value; items are only looked at to validate them.
    Atomic(Of),
    /// A list in which each item is owned by itself.
    List(Items),
    /// Values under keys of the client's choice.
    Map { values: &'static Type, atomic: bool },
    /// Declared fields.
    Struct { of: &'static Struct, atomic: bool },
    /// Fields of a custom resource; `whole` = it has apiVersion, kind and metadata besides.
    Custom { of: &'static Schema, whole: bool },
    /// Whatever it is: maps by their keys, all else as one value.
    Any,
}

/// What something is, by whichever schema.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    /// A type of the tables.
    Type(&'static Type),
    /// A part of the schema of a custom resource.
    Schema(&'static Schema),
    /// Nothing is said.
    Anything,
}

impl Of {
    pub(super) fn shape(self) -> Shape {
        match self {
            Of::Type(of) => Shape::of_type(of),
            Of::Schema(of) => Shape::of_schema(of),
            Of::Anything => Shape::Any,
        }
    }
}

/// The keys by which items are told apart.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// Items are their own keys.
    None,
    /// `containerPort,protocol`.
    Table(&'static str),
    Listed(&'static [String]),
}

/// Which scalars fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Number,
    Text,
    Flag,
    /// Any of them: quantities, ports.
    Any,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items {
    /// What each is.
    pub(super) of: Of,
    keys: Keys,
}

impl Shape {
    /// The shape of an object of a struct such as `core/v1.Pod`.
    pub(super) fn root(schema_name: &str) -> Shape {
        match schema().find(schema_name) {
            Some(place) => Shape::Struct { of: schema().get(place), atomic: false },
            None => Shape::Any,
        }
    }

    /// The shape of a field.
    pub(super) fn of_field(field: &'static Field) -> Shape {
        match Shape::of_type(&field.holds) {
            Shape::Atomic(of) => match field.list.split_once(':') {
                Some(("map", keys)) => Shape::List(Items { of, keys: Keys::Table(keys) }),
                _ if field.list == "set" => Shape::List(Items { of, keys: Keys::None }),
                _ => Shape::Atomic(of),
            },
            Shape::Map { values, .. } => Shape::Map { values, atomic: field.atomic },
            Shape::Struct { of, atomic } => Shape::Struct { of, atomic: atomic || field.atomic },
            other => other,
        }
    }

    /// The shape of what stands in a list or a map.
    pub(super) fn of_type(of: &'static Type) -> Shape {
        match of.plain() {
            Type::String | Type::Time | Type::MicroTime | Type::Duration | Type::Bytes => Shape::Scalar(Scalar::Text),
            Type::Bool => Shape::Scalar(Scalar::Flag),
            Type::Int32 | Type::Int64 | Type::Float64 => Shape::Scalar(Scalar::Number),
            Type::Quantity | Type::IntOrString => Shape::Scalar(Scalar::Any),
            Type::Any | Type::SchemaOr(_) => Shape::Any,
            Type::Named(..) => unreachable!("a plain type is no named one"),
            Type::List(of) => Shape::Atomic(Of::Type(of)),
            Type::Map(values) => Shape::Map { values, atomic: false },
            Type::Struct(place) => {
                let of = schema().get(*place);
                Shape::Struct { of, atomic: of.atomic }
            }
        }
    }

    /// The shape of a custom resource.
    pub(super) fn custom(of: &'static Schema) -> Shape {
        Shape::Custom { of, whole: true }
    }

    /// The shape of a part of a custom resource.
    fn of_schema(of: &'static Schema) -> Shape {
        if of.int_or_string {
            return Shape::Scalar(Scalar::Any);
        }
        match of.kind.as_str() {
            "string" => Shape::Scalar(Scalar::Text),
            "integer" | "number" => Shape::Scalar(Scalar::Number),
            "boolean" => Shape::Scalar(Scalar::Flag),
            "object" => Shape::Custom { of, whole: of.embedded },
            "array" => {
                let items = of.items.as_deref().map_or(Of::Anything, Of::Schema);
                match of.list_type.as_str() {
                    "map" => Shape::List(Items { of: items, keys: Keys::Listed(&of.list_keys) }),
                    "set" => Shape::List(Items { of: items, keys: Keys::None }),
                    _ => Shape::Atomic(items),
                }
            }
            _ => Shape::Any,
        }
    }

    /// The shape of what stands under a key of a map or struct; `None` for a field that is not declared.
    pub(super) fn under(self, key: &str) -> Option<Shape> {
        match self {
            Shape::Struct { of, .. } => declared(of, key).map(Shape::of_field),
            Shape::Map { values, .. } => Some(Shape::of_type(values)),
            Shape::Custom { whole: true, .. } if key == "metadata" => Some(Shape::root("meta/v1.ObjectMeta")),
            Shape::Custom { whole: true, .. } if matches!(key, "apiVersion" | "kind") => {
                Some(Shape::Scalar(Scalar::Text))
            }
            Shape::Custom { of, .. } => match (of.properties.get(key), &of.additional) {
                (Some(property), _) => Some(Shape::of_schema(property)),
                (None, Some(Additional::Of(values))) => Some(Shape::of_schema(values)),
                (None, Some(Additional::Allowed(true))) => Some(Shape::Any),
                _ if of.preserves => Some(Shape::Any),
                _ => None,
            },
            Shape::Any => Some(Shape::Any),
            _ => None,
        }
    }

    /// The shape below a step of a path, and whether the step names a declared field.
    pub(super) fn step(self, step: &str) -> (bool, Shape) {
        let name = step.strip_prefix("f:");
        match (self, name) {
            (Shape::List(items), None) => (false, items.of.shape()),
            (Shape::Struct { of, .. }, Some(name)) => match declared(of, name) {
                Some(field) => (true, Shape::of_field(field)),
                None => (false, Shape::Any),
            },
            (shape, Some(name)) => (shape.declares(name), shape.under(name).unwrap_or(Shape::Any)),
            _ => (false, Shape::Any),
        }
    }

    /// Whether a map of this shape is one value.
    pub(super) fn is_atomic(self) -> bool {
        match self {
            Shape::Map { atomic, .. } | Shape::Struct { atomic, .. } => atomic,
            Shape::Custom { of, .. } => of.map_type == "atomic",
            Shape::Atomic(_) => true,
            _ => false,
        }
    }

    /// Whether a key is a declared field, rather than one of the client's choice.
    pub(super) fn declares(self, key: &str) -> bool {
        match self {
            Shape::Struct { of, .. } => declared(of, key).is_some(),
            Shape::Custom { of, whole } => {
                of.properties.contains_key(key) || (whole && matches!(key, "apiVersion" | "kind" | "metadata"))
            }
            _ => false,
        }
    }
}

impl Items {
    /// The step to an item.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn step(self, item: &Value) -> Result<String, String> {
        let keys: Vec<&'static str> = match self.keys {
            Keys::None => return element::value(item),
            Keys::Table(keys) => keys.split(',').collect(),
            Keys::Listed(keys) => keys.iter().map(String::as_str).collect(),
        };
        element::keyed(item, &keys, |key| match self.of {
            Of::Type(of) => {
                let Type::Struct(place) = of.plain() else { return None };
                declared(schema().get(*place), key)?.unsaid()
            }
            Of::Schema(of) => of.properties.get(key)?.default.clone(),
            Of::Anything => None,
        })
    }
}

fn declared(of: &'static Struct, name: &str) -> Option<&'static Field> {
    of.fields.iter().find(|field| field.name == name)
}
