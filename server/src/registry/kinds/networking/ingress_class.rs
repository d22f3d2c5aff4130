//! IngressClass: who serves ingresses, and how.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::reference;
use crate::registry::kinds::strategy::{Habits, Part, Strategy};
use crate::registry::kinds::vocabulary::faults::{Faults, Path};
use crate::registry::kinds::vocabulary::fields::{default, text as field};
use crate::registry::kinds::vocabulary::metadata::OwnMetadata;
use crate::registry::kinds::vocabulary::names;
use crate::registry::kinds::vocabulary::print::{AGE, NAME, NONE, age, column, text};
use crate::registry::table::{Cell, Column};

pub(super) struct IngressClassStrategy;

/// Marks the class of ingresses that name none.
const DEFAULT: &str = "ingressclass.kubernetes.io/is-default-class";
/// Bytes of a controller's name.
const CONTROLLER_MAX: usize = 250;

const COLUMNS: &[Column] = &[
    NAME,
    column("Controller", "string", "Controller that is responsible for handling this class", 0),
    column("Parameters", "string", "A reference to a resource with additional parameters", 0),
    AGE,
];

impl Strategy for IngressClassStrategy {
    fn schema(&self) -> &'static str {
        "networking/v1.IngressClass"
    }

    fn default(&self, object: &mut Object) {
        if object.at(&["spec", "parameters"]).is_some_and(Value::is_object) {
            default(object.at_mut(&["spec", "parameters"]), "scope", "Cluster");
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let path = Path::new("spec");
        let controller = object.text(&["spec", "controller"]);
        if controller.len() > CONTROLLER_MAX {
            faults.too_long(&path.child("controller"), CONTROLLER_MAX);
        }
        domain_path(controller, &path.child("controller"), faults);
        if let Some(parameters) = object.at(&["spec", "parameters"]).filter(|p| !p.is_null()) {
            validate_parameters(parameters, &path.child("parameters"), faults);
        }
    }

    fn validate_update(&self, _part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        let controller = |object: &Object| object.text(&["spec", "controller"]).to_owned();
        if controller(new) != controller(old) {
            faults.invalid(&Path::new("spec.controller"), &controller(new), "field is immutable");
        }
        self.validate_create(new, faults);
    }

    fn habits(&self) -> Habits {
        Habits { own_metadata: OwnMetadata::Whole, ..Habits::USUAL }
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let mut name = object.name().to_owned();
        if object.annotation(DEFAULT) == Some("true") {
            name.push_str(" (default)");
        }
        let parameters = object.at(&["spec", "parameters"]).filter(|p| !p.is_null()).map_or(NONE.to_owned(), |p| {
            let group = p["apiGroup"].as_str().map(|group| format!(".{group}")).unwrap_or_default();
            format!("{}{group}/{}", field(p, "kind"), field(p, "name"))
        });
        vec![text(name), text(object.text(&["spec", "controller"])), text(parameters), age(object, now)]
    }
}

/// `example.com/controller`.
fn domain_path(text: &str, path: &Path, faults: &mut Faults) {
    const INVALID: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    if text.is_empty() {
        faults.required(path, "");
        return;
    }
    match text.split_once('/') {
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            faults.invalid_all(path, domain, names::subdomain(domain, false));
            let in_path = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
            if !rest.bytes().all(in_path) {
                faults.invalid(path, rest, INVALID);
            }
        }
        _ => faults.invalid(path, text, "must be a domain-prefixed path (such as \"acme.io/foo\")"),
    }
}

fn validate_parameters(parameters: &Value, path: &Path, faults: &mut Faults) {
    reference::typed(parameters, path, faults);
    let (at, namespace) = (path.child("namespace"), parameters["namespace"].as_str());
    match parameters["scope"].as_str() {
        None => faults.required(&path.child("scope"), ""),
        Some("Namespace") => match namespace {
            None => faults.required(&at, "`parameters.scope` is set to 'Namespace'"),
            Some(namespace) => faults.invalid_all(&at, namespace, names::label(namespace, false)),
        },
        Some("Cluster") if namespace.is_some() => {
            faults.forbidden(&at, "`parameters.scope` is set to 'Cluster'");
        }
        Some("Cluster") => {}
        Some(other) => faults.not_supported(&path.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn controllers_and_parameters_are_judged() {
        let told = |spec: Value| -> Vec<String> {
            let mut object = Object::from_value(json!({"spec": spec})).expect("a map");
            IngressClassStrategy.default(&mut object);
            let mut faults = Faults::new();
            IngressClassStrategy.validate_create(&object, &mut faults);
            faults.told()
        };
        assert!(told(json!({"controller": "a.b/c", "parameters": {"kind": "K", "name": "n"}})).is_empty());
        assert_eq!(told(json!({})), ["spec.controller: Required value"]);
        assert_eq!(
            told(json!({"controller": "c"})),
            ["spec.controller: Invalid value: \"c\": must be a domain-prefixed path (such as \"acme.io/foo\")"]
        );
        assert_eq!(
            told(json!({"controller": "a.b/c", "parameters": {"kind": "K", "name": "n", "scope": "Namespace"}})),
            ["spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"]
        );
    }
}
