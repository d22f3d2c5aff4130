//! The tables in memory.

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

const TABLES: &[&str] = &[
    include_str!("tables/meta_v1.txt"),
    include_str!("tables/core_v1.txt"),
    include_str!("tables/apps_v1.txt"),
    include_str!("tables/coordination_v1.txt"),
    include_str!("tables/scheduling_v1.txt"),
    include_str!("tables/autoscaling_v1.txt"),
    include_str!("tables/autoscaling_v2.txt"),
    include_str!("tables/batch_v1.txt"),
    include_str!("tables/discovery_v1.txt"),
    include_str!("tables/events_v1.txt"),
    include_str!("tables/policy_v1.txt"),
    include_str!("tables/node_v1.txt"),
    include_str!("tables/networking_v1.txt"),
    include_str!("tables/storage_v1.txt"),
    include_str!("tables/resource_v1.txt"),
    include_str!("tables/rbac_v1.txt"),
    include_str!("tables/certificates_v1.txt"),
    include_str!("tables/authentication_v1.txt"),
    include_str!("tables/authorization_v1.txt"),
    include_str!("tables/apiextensions_v1.txt"),
];

/// All tables.
#[derive(Debug)]
pub(crate) struct Schema {
    structs: Vec<Struct>,
    names: HashMap<&'static str, usize>,
}

/// A struct.
#[derive(Debug)]
pub(crate) struct Struct {
    /// `core/v1.ContainerPort`.
    pub(crate) name: &'static str,
    /// With the fields of embedded structs in their places.
    pub(crate) fields: Vec<Field>,
    /// Whether merge and apply treat it as one value.
    pub(crate) atomic: bool,
}

/// A field of a struct.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// In JSON.
    pub(crate) name: &'static str,
    /// What it holds.
    pub(crate) holds: Type,
    /// Whether absent differs from empty.
    pub(crate) pointer: bool,
    /// When it is left out.
    pub(crate) omission: Omission,
    /// The embedded struct it comes from, by its bare name.
    pub(crate) embedded: Option<&'static str>,
    /// Its protobuf number; 0 = it has none of its own.
    pub(crate) protobuf: u16,
    /// The numbers of the messages it stands in: an embedded struct is one on the wire.
    pub(crate) nested: Vec<u16>,
    /// The strategy of a strategic merge: `merge:KEY`, `merge`, `replace`, `retainKeys`; empty = the usual one.
    pub(crate) patch: &'static str,
    /// How apply treats a list: `map:KEY,…`, `set`, `atomic`; empty = atomic.
    pub(crate) list: &'static str,
    /// Whether apply treats a map as one value.
    pub(crate) atomic: bool,
    /// The declared default, as JSON; empty = none.
    pub(crate) default: &'static str,
    /// Whether documents say that it must be there.
    pub(crate) required: bool,
}

impl Field {
    /// What stands for it where nothing is said: the declared default, or what Go has in a field that is never left out
    /// (kube-openapi in Kubernetes 1.36).
    pub(crate) fn unsaid(&self) -> Option<Value> {
        match serde_json::from_str(self.default) {
            Ok(default) => Some(default),
            Err(_) if self.pointer => None,
            Err(_) => self
                .holds
                .empty()
                .filter(|_| self.omission == Omission::Never || matches!(self.holds.plain(), Type::Struct(_))),
        }
    }
}

/// When a field is left out of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Omission {
    /// Never.
    Never,
    /// When it is empty; a struct is never empty.
    Empty,
    /// When it is empty, a struct included.
    Zero,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    String,
    Bool,
    Int32,
    Int64,
    Float64,
    /// Base64 in JSON.
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    /// Whatever JSON it is.
    Any,
    /// A JSON schema, or the other form that may stand in its place.
    SchemaOr(Other),
    /// A named type, with what it stands for.
    Named(&'static str, Box<Type>),
    List(Box<Type>),
    Map(Box<Type>),
    /// By its place in the schema.
    Struct(usize),
}

/// What may stand in place of a JSON schema (apiextensions/v1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// `additionalProperties: true`.
    Bool,
    /// `items: [{…}]`.
    Schemas,
    /// `dependencies: {a: [b]}`.
    Strings,
}

/// The struct that a JSON schema is decoded as.
pub(crate) const JSON_SCHEMA: &str = "apiextensions/v1.JSONSchemaProps";

/// The schema, read at first use.
pub(crate) fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| Schema::read(TABLES))
}

impl Schema {
    /// The struct of a name such as `core/v1.Pod`.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    /// The struct of a JSON schema.
    pub(crate) fn json_schema(&self) -> Type {
        Type::Struct(self.find(JSON_SCHEMA).expect("the tables declare what a JSON schema is"))
    }

    /// All structs.
    #[cfg(test)]
    pub(crate) fn all(&self) -> impl Iterator<Item = &Struct> {
        self.structs.iter()
    }

    /// A struct by its place.
    pub(crate) fn get(&self, place: usize) -> &Struct {
        &self.structs[place]
    }

    /// Reads tables that the tool has written; they are part of the program, so a fault in them is one of the build.
    fn read(tables: &[&'static str]) -> Schema {
        let lines = || tables.iter().flat_map(|t| t.lines()).filter(|l| !l.starts_with('#'));
        let (mut names, mut aliases) = (HashMap::new(), HashMap::new());
        for line in lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("struct"), Some(name), _) => {
                    let place = names.len();
                    names.insert(name, place);
                }
                (Some("alias"), Some(name), Some(target)) => {
                    aliases.insert(name, target);
                }
                _ => {}
            }
        }
        let known = Known { names: &names, aliases: &aliases };
        let mut structs: Vec<Struct> = Vec::with_capacity(names.len());
        for line in lines() {
            if let Some(rest) = line.strip_prefix("struct ") {
                let (name, atomic) = rest.split_once(' ').unwrap_or((rest, ""));
                structs.push(Struct { name, fields: Vec::new(), atomic: atomic == "atomic" });
            } else if let Some(field) = line.strip_prefix("  ") {
                structs.last_mut().expect("a field stands below its struct").fields.push(known.field(field));
            }
        }
        embed(&mut structs);
        Schema { structs, names }
    }
}

/// Puts the fields of embedded structs in place of them, the innermost first.
fn embed(structs: &mut [Struct]) {
    let is_embedding = |s: &Struct| s.fields.iter().any(|f| f.name == "&");
    while structs.iter().any(is_embedding) {
        for place in 0..structs.len() {
            let Some(at) = structs[place].fields.iter().position(|f| f.name == "&") else { continue };
            let Type::Struct(inner) = structs[place].fields[at].holds else {
                unreachable!("only structs are embedded")
            };
            if is_embedding(&structs[inner]) {
                continue;
            }
            let bare = bare(structs[inner].name);
            let mut fields = structs[inner].fields.clone();
            let number = structs[place].fields[at].protobuf;
            for field in &mut fields {
                field.embedded = Some(bare);
                match number {
                    // The struct is not on the wire, nor is what it holds.
                    0 => field.protobuf = 0,
                    number => field.nested.insert(0, number),
                }
            }
            structs[place].fields.splice(at..=at, fields);
        }
    }
}

/// `ContainerPort` of `core/v1.ContainerPort`.
pub(crate) fn bare(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or(name)
}

struct Known<'a> {
    names: &'a HashMap<&'static str, usize>,
    aliases: &'a HashMap<&'static str, &'static str>,
}

impl Known<'_> {
    fn field(&self, line: &'static str) -> Field {
        let mut words = line.split(' ');
        let (name, text) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (pointer, text) = text.strip_prefix('*').map_or((false, text), |t| (true, t));
        let mut field = Field {
            name,
            holds: self.holds(text),
            pointer,
            omission: Omission::Never,
            embedded: None,
            protobuf: 0,
            nested: Vec::new(),
            patch: "",
            list: "",
            atomic: false,
            default: "",
            required: true,
        };
        for word in words {
            match word.split_once('=') {
                None if word == "omit" => (field.omission, field.required) = (Omission::Empty, false),
                None if word == "optional" => field.required = false,
                None if word == "required" => field.required = true,
                None if word == "zero" => (field.omission, field.required) = (Omission::Zero, false),
                Some(("pb", number)) => field.protobuf = number.parse().unwrap_or(0),
                Some(("patch", strategy)) => field.patch = strategy,
                Some(("list", kind)) => field.list = kind,
                Some(("map", kind)) => field.atomic = kind == "atomic",
                Some(("default", json)) => field.default = json,
                _ => panic!("the schema table has the unknown word {word:?} in {line:?}"),
            }
        }
        field
    }

    fn holds(&self, text: &'static str) -> Type {
        match text {
            "string" => Type::String,
            "bool" => Type::Bool,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "float64" => Type::Float64,
            "[]uint8" => Type::Bytes,
            "time" => Type::Time,
            "microtime" => Type::MicroTime,
            "duration" => Type::Duration,
            "quantity" => Type::Quantity,
            "intorstring" => Type::IntOrString,
            "any" => Type::Any,
            "schemaorbool" => Type::SchemaOr(Other::Bool),
            "schemaorarray" => Type::SchemaOr(Other::Schemas),
            "schemaorstrings" => Type::SchemaOr(Other::Strings),
            "types.UID" | "types.NodeName" => Type::Named(text, Box::new(Type::String)),
            _ => self.composed(text),
        }
    }

    fn composed(&self, text: &'static str) -> Type {
        if let Some(of) = text.strip_prefix("[]") {
            return Type::List(Box::new(self.holds(of.trim_start_matches('*'))));
        }
        if let Some((_, of)) = text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            return Type::Map(Box::new(self.holds(of)));
        }
        if let Some(place) = self.names.get(text) {
            return Type::Struct(*place);
        }
        let target = self.aliases.get(text).unwrap_or_else(|| panic!("the schema tables do not declare {text:?}"));
        Type::Named(text, Box::new(self.holds(target)))
    }
}

impl Type {
    /// What Go has where nothing is said; `None` = nothing either.
    pub(crate) fn empty(&self) -> Option<Value> {
        match self.plain() {
            Type::String => Some("".into()),
            Type::Bool => Some(false.into()),
            Type::Int32 | Type::Int64 | Type::Float64 | Type::Duration => Some(0.into()),
            Type::Struct(_) => Some(json!({})),
            _ => None,
        }
    }

    /// As Go prints it in a message: `[]v1.Toleration`, `map[string]string`.
    pub(crate) fn go_name(&self) -> String {
        match self {
            Type::String => "string".into(),
            Type::Bool => "bool".into(),
            Type::Int32 => "int32".into(),
            Type::Int64 => "int64".into(),
            Type::Float64 => "float64".into(),
            Type::Bytes => "[]uint8".into(),
            Type::Time | Type::MicroTime | Type::Duration | Type::Quantity | Type::IntOrString => "string".into(),
            Type::Any => "interface {}".into(),
            Type::SchemaOr(Other::Bool) => "v1.JSONSchemaPropsOrBool".into(),
            Type::SchemaOr(Other::Schemas) => "v1.JSONSchemaPropsOrArray".into(),
            Type::SchemaOr(Other::Strings) => "v1.JSONSchemaPropsOrStringArray".into(),
            Type::Named(name, _) => name.split_once('/').map_or(*name, |(_, n)| n).to_owned(),
            Type::List(of) => format!("[]{}", of.go_name()),
            Type::Map(of) => format!("map[string]{}", of.go_name()),
            Type::Struct(place) => {
                let name = schema().get(*place).name;
                name.split_once('/').map_or(name, |(_, n)| n).to_owned()
            }
        }
    }

    /// What a named type stands for; any other is itself.
    pub(crate) fn plain(&self) -> &Type {
        match self {
            Type::Named(_, of) => of.plain(),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_hold_what_kubernetes_declares() {
        let pod = schema().get(schema().find("core/v1.PodSpec").expect("declared"));
        let field = |name: &str| pod.fields.iter().find(|f| f.name == name).expect("declared");
        assert_eq!(field("containers").patch, "merge:name");
        assert_eq!(field("containers").list, "map:name");
        assert_eq!(field("containers").omission, Omission::Never);
        assert_eq!(field("tolerations").list, "atomic");
        assert!(field("terminationGracePeriodSeconds").pointer);
        assert_eq!(field("restartPolicy").holds.go_name(), "v1.RestartPolicy");
        assert_eq!(field("tolerations").holds.go_name(), "[]v1.Toleration");
        let probe = schema().get(schema().find("core/v1.Probe").expect("declared"));
        let http = probe.fields.iter().find(|f| f.name == "httpGet").expect("embedded");
        assert_eq!(http.embedded, Some("ProbeHandler"));
    }
}
