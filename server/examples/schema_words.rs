//! Writes the words of the OpenAPI documents under `src/registry/schema/words`: what each struct and field means, which
//! values it may have.
//!
//! Usage: `cargo run -p listwatch-server --example schema_words -- FOLDER`, where FOLDER holds the documents that a
//! kube-apiserver of the release serves below `/openapi/v3`, one file each. Only what the tables of
//! `src/registry/schema/tables` declare is taken. The texts are Kubernetes' documentation (Apache License 2.0); the form
//! is told in `src/registry/schema/words.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

/// How names in the documents begin, and in the tables.
const PREFIXES: [(&str, &str); 3] = [
    ("io.k8s.apimachinery.pkg.apis.meta.", "meta/"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.", "apiextensions/"),
    ("io.k8s.api.", ""),
];
/// Schemas that are told of though they are no structs.
const SCALARS: [&str; 10] = [
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];
/// What no declared type says: the named forms of "any JSON".
const ANY: [&str; 3] = [SCALARS[0], SCALARS[4], SCALARS[6]];

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).context("usage: schema_words FOLDER")?;
    let mut schemas = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("read {folder}"))? {
        let document: Value = serde_json::from_slice(&std::fs::read(entry?.path())?)?;
        for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
            schemas.insert(name.clone(), schema.clone());
        }
    }
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/registry/schema");
    let declared = declared(&here.join("tables"))?;
    let mut packages: BTreeMap<String, String> = BTreeMap::new();
    for (name, schema) in &schemas {
        let Some(told) = in_tables(name) else { continue };
        let of_declared = told.strip_suffix("List").is_some_and(|one| declared.contains(one));
        if !declared.contains(&told) && !of_declared && !SCALARS.contains(&name.as_str()) {
            continue;
        }
        let package = told.rsplit_once('.').map_or("meta/v1", |(package, _)| package).to_owned();
        let package = if package.contains('/') { package } else { "meta/v1".to_owned() };
        structure(packages.entry(package).or_default(), &told, schema)?;
    }
    let object = &schemas["io.k8s.api.core.v1.Pod"]["properties"];
    let meta = packages.entry("meta/v1".to_owned()).or_default();
    writeln!(
        meta,
        "object \"\"\n  apiVersion {}\n  kind {}",
        described(&object["apiVersion"]),
        described(&object["kind"])
    )?;
    for (package, text) in packages {
        let head = format!("# {package}: from the OpenAPI documents of Kubernetes 1.36.3 (Apache License 2.0)\n");
        let path = here.join("words").join(format!("{}.txt", package.replace('/', "_")));
        std::fs::write(&path, head + &text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// The names of the structs in the tables.
fn declared(tables: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(tables)? {
        let text = std::fs::read_to_string(entry?.path())?;
        let structs = text.lines().filter_map(|line| line.strip_prefix("struct ")?.split(' ').next());
        names.extend(structs.map(str::to_owned));
    }
    Ok(names)
}

/// `core/v1.Pod` of `io.k8s.api.core.v1.Pod`; a scalar keeps its name.
fn in_tables(name: &str) -> Option<String> {
    if SCALARS.contains(&name) {
        return Some(name.to_owned());
    }
    let (rest, before) = PREFIXES.iter().find_map(|(long, short)| Some((name.strip_prefix(long)?, short)))?;
    let dots: Vec<&str> = rest.split('.').collect();
    match (dots.as_slice(), *before) {
        ([version, name], before) if !before.is_empty() => Some(format!("{before}{version}.{name}")),
        ([group, version, name], "") => Some(format!("{group}/{version}.{name}")),
        _ => None,
    }
}

fn structure(out: &mut String, name: &str, schema: &Value) -> Result<()> {
    writeln!(out, "{name} {}", described(schema))?;
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    for (field, property) in properties {
        if is_of_every_object(field, property) {
            continue;
        }
        write!(out, "  {field} {}", described(property))?;
        let places = [property, &property["items"], &property["additionalProperties"]];
        if let Some(values) = places.iter().find_map(|place| place.get("enum")) {
            write!(out, " enum={values}")?;
        }
        let referred = places.iter().find_map(|place| place["$ref"].as_str().or(place["allOf"][0]["$ref"].as_str()));
        let referred = referred.and_then(|reference| reference.rsplit('/').next());
        if let Some(any) = referred.filter(|name| ANY.contains(name)) {
            write!(out, " ref={any}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn described(schema: &Value) -> Value {
    Value::from(schema["description"].as_str().unwrap_or_default())
}

/// Kind and apiVersion mean the same in every object, and are told once, of `object`.
fn is_of_every_object(field: &str, property: &Value) -> bool {
    let words = property["description"].as_str().unwrap_or_default();
    (field == "kind" && words.starts_with("Kind is a string value representing the REST resource"))
        || (field == "apiVersion"
            && words.starts_with("APIVersion defines the versioned schema of this representation"))
}
