//! The requests of a kind, as paths of an OpenAPI v3 document.

use listwatch_proto::resource::{Kind, Storage};
use serde_json::{Map, Value, json};

use super::documents::root;
use crate::registry::Registry;

/// The forms in which an object is answered.
const PRODUCES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// The forms of a patch.
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// Adds the paths of a kind.
pub(super) fn add(kind: &'static Kind, paths: &mut Map<String, Value>) {
    let of = Requests { kind, schema: Registry::openapi_name(kind) };
    let root = root(kind);
    let collection = if kind.namespaced {
        format!("/{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("/{root}/{}", kind.plural)
    };
    if kind.storage == Storage::Nothing {
        paths.insert(collection, json!({"parameters": of.path(&["namespace"]), "post": of.post()}));
        return;
    }
    for subresource in kind.subresources.iter().filter(|name| matches!(**name, "status" | "scale")) {
        paths.insert(format!("{collection}/{{name}}/{subresource}"), of.part(subresource));
    }
    paths.insert(format!("{collection}/{{name}}"), of.object());
    if kind.namespaced {
        paths.insert(format!("/{root}/{}", kind.plural), json!({"get": of.list("ForAllNamespaces")}));
    }
    paths.insert(collection, of.collection());
}

/// The requests of one kind.
struct Requests {
    kind: &'static Kind,
    /// The name of its schema.
    schema: String,
}

impl Requests {
    fn gvk(&self) -> Value {
        json!({"group": self.kind.group, "version": self.kind.version, "kind": self.kind.kind})
    }

    fn path(&self, names: &[&str]) -> Value {
        let of = names.iter().filter(|name| self.kind.namespaced || **name != "namespace");
        of.map(|name| parameter(name, "path", "string")).collect::<Vec<_>>().into()
    }

    fn object(&self) -> Value {
        let mut delete = self.operation("delete", "delete", "", STATUS);
        delete["parameters"] = delete_parameters().into();
        delete["requestBody"] = body(&["*/*"], DELETE_OPTIONS, false);
        json!({
            "parameters": self.path(&["name", "namespace"]),
            "get": self.operation("get", "read", "", &self.schema),
            "put": self.write("put", "replace", "", &self.schema),
            "patch": self.patch("", &self.schema),
            "delete": delete,
        })
    }

    fn part(&self, subresource: &str) -> Value {
        let (schema, suffix) = if subresource == "scale" { (SCALE, "Scale") } else { (&*self.schema, "Status") };
        let mut part = json!({
            "parameters": self.path(&["name", "namespace"]),
            "get": self.operation("get", "read", suffix, schema),
            "put": self.write("put", "replace", suffix, schema),
            "patch": self.patch(suffix, schema),
        });
        if subresource == "scale" {
            for action in ["get", "put", "patch"] {
                part[action]["x-kubernetes-group-version-kind"] =
                    json!({"group": "autoscaling", "version": "v1", "kind": "Scale"});
            }
        }
        part
    }

    fn collection(&self) -> Value {
        let mut delete = self.operation("deletecollection", "delete", "Collection", STATUS);
        delete["parameters"] = delete_parameters().into_iter().chain(list_parameters()).collect::<Vec<_>>().into();
        delete["requestBody"] = body(&["*/*"], DELETE_OPTIONS, false);
        json!({
            "parameters": self.path(&["namespace"]),
            "get": self.list(""), "post": self.post(), "delete": delete,
        })
    }

    fn post(&self) -> Value {
        self.write("post", "create", "", &self.schema)
    }

    fn list(&self, suffix: &str) -> Value {
        let mut list = self.operation("list", "list", suffix, &format!("{}List", self.schema));
        list["parameters"] = list_parameters().into();
        list
    }

    fn write(&self, action: &str, verb: &str, suffix: &str, schema: &str) -> Value {
        let mut write = self.operation(action, verb, suffix, schema);
        write["parameters"] = write_parameters().into();
        write["requestBody"] = body(&["*/*"], schema, true);
        write["responses"]["201"] = answer("Created", schema);
        write
    }

    fn patch(&self, suffix: &str, schema: &str) -> Value {
        let mut patch = self.write("patch", "patch", suffix, schema);
        let mut parameters = write_parameters();
        parameters.push(parameter("force", "query", "boolean"));
        patch["parameters"] = parameters.into();
        patch["requestBody"] = body(&PATCHES, PATCH, true);
        patch
    }

    fn operation(&self, action: &str, verb: &str, suffix: &str, schema: &str) -> Value {
        let Kind { group, version, kind, namespaced, .. } = *self.kind;
        let groups: Vec<&str> =
            if group.is_empty() { vec!["core"] } else { group.trim_end_matches(".k8s.io").split('.').collect() };
        let group: String = groups.iter().map(|part| capital(part)).collect();
        let (scope, tail) = match suffix {
            "ForAllNamespaces" => ("", suffix),
            _ if namespaced => ("Namespaced", suffix),
            _ => ("", suffix),
        };
        let (collection, tail) = if tail == "Collection" { (tail, "") } else { ("", tail) };
        json!({
            "operationId": format!("{verb}{group}{}{collection}{scope}{kind}{tail}", capital(version)),
            "tags": [format!("{}_{version}", first_small(&group))],
            "responses": {"200": answer("OK", schema), "401": {"description": "Unauthorized"}},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": self.gvk(),
        })
    }
}

fn answer(description: &str, schema: &str) -> Value {
    json!({"description": description, "content": content(&PRODUCES, schema)})
}

fn body(forms: &[&str], schema: &str, required: bool) -> Value {
    let mut body = json!({"content": content(forms, schema)});
    if required {
        body["required"] = true.into();
    }
    body
}

fn content(forms: &[&str], schema: &str) -> Map<String, Value> {
    let reference = json!({"schema": {"$ref": format!("#/components/schemas/{schema}")}});
    forms.iter().map(|form| ((*form).to_owned(), reference.clone())).collect()
}

fn parameter(name: &str, place: &str, of: &str) -> Value {
    let mut parameter = json!({"name": name, "in": place, "schema": {"type": of, "uniqueItems": true}});
    if place == "path" {
        parameter["required"] = true.into();
    }
    parameter
}

fn write_parameters() -> Vec<Value> {
    ["dryRun", "fieldManager", "fieldValidation"].map(|name| parameter(name, "query", "string")).to_vec()
}

fn delete_parameters() -> Vec<Value> {
    [
        ("dryRun", "string"),
        ("gracePeriodSeconds", "integer"),
        ("orphanDependents", "boolean"),
        ("propagationPolicy", "string"),
    ]
    .map(|(name, of)| parameter(name, "query", of))
    .to_vec()
}

fn list_parameters() -> Vec<Value> {
    let texts = ["continue", "fieldSelector", "labelSelector", "resourceVersion", "resourceVersionMatch"];
    let mut parameters: Vec<Value> = texts.iter().map(|name| parameter(name, "query", "string")).collect();
    parameters.extend(["limit", "timeoutSeconds"].map(|name| parameter(name, "query", "integer")));
    parameters.extend(["allowWatchBookmarks", "sendInitialEvents", "watch"].map(|n| parameter(n, "query", "boolean")));
    parameters
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn first_small(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use listwatch_proto::resource::KINDS;

    use super::*;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let mut paths = Map::new();
        KINDS.iter().for_each(|kind| add(kind, &mut paths));
        let mut names = BTreeSet::new();
        for (path, operations) in &paths {
            for operation in operations.as_object().expect("a map").values().filter(|value| value.is_object()) {
                let name = operation["operationId"].as_str().expect("a name").to_owned();
                assert!(names.insert(name.clone()), "{name} of {path} is not the only one");
            }
        }
        for known in [
            "readCoreV1NamespacedPod",
            "deleteCoreV1CollectionNamespacedPod",
            "listCoreV1PodForAllNamespaces",
            "patchAppsV1NamespacedDeploymentScale",
            "createRbacAuthorizationV1ClusterRole",
            "replaceCoreV1NodeStatus",
        ] {
            assert!(names.contains(known), "{known}");
        }
    }
}
