//! Writes the tables under `src/registry/schema/tables` from the Go types of a Kubernetes release.
//!
//! Usage: `cargo run -p listwatch-server --example schema_tables -- SOURCES`, where SOURCES holds the unpacked Go
//! modules `k8s.io/api` as `api/`, `k8s.io/apimachinery` as `apimachinery/` and `k8s.io/apiextensions-apiserver` as
//! `apiextensions-apiserver/`. The tables hold only facts that the types declare: field names, types, omission, merge
//! and list strategies, defaults, protobuf numbers. Their form is told in `src/registry/schema/mod.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The packages read: the name in the tables, and where the sources are.
const PACKAGES: &[(&str, &str)] = &[
    ("meta/v1", "apimachinery/pkg/apis/meta/v1/types.go"),
    ("core/v1", "api/core/v1/types.go"),
    ("apps/v1", "api/apps/v1/types.go"),
    ("coordination/v1", "api/coordination/v1/types.go"),
    ("scheduling/v1", "api/scheduling/v1/types.go"),
    ("autoscaling/v1", "api/autoscaling/v1/types.go"),
    ("autoscaling/v2", "api/autoscaling/v2/types.go"),
    ("batch/v1", "api/batch/v1/types.go"),
    ("discovery/v1", "api/discovery/v1/types.go"),
    ("events/v1", "api/events/v1/types.go"),
    ("policy/v1", "api/policy/v1/types.go"),
    ("node/v1", "api/node/v1/types.go"),
    ("networking/v1", "api/networking/v1/types.go"),
    ("storage/v1", "api/storage/v1/types.go"),
    ("resource/v1", "api/resource/v1/types.go"),
    ("rbac/v1", "api/rbac/v1/types.go"),
    ("certificates/v1", "api/certificates/v1/types.go"),
    ("authentication/v1", "api/authentication/v1/types.go"),
    ("authorization/v1", "api/authorization/v1/types.go"),
    // Two files, one table.
    ("apiextensions/v1", "apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go"),
    ("apiextensions/v1", "apiextensions-apiserver/pkg/apis/apiextensions/v1/types_jsonschema.go"),
];

/// What is written, with all it needs.
const ROOTS: &[&str] = &[
    "core/v1.Namespace",
    "core/v1.Node",
    "core/v1.Pod",
    "core/v1.Event",
    "core/v1.ConfigMap",
    "core/v1.Binding",
    "core/v1.Secret",
    "core/v1.Service",
    "core/v1.Endpoints",
    "core/v1.ServiceAccount",
    "core/v1.PodTemplate",
    "core/v1.ResourceQuota",
    "core/v1.LimitRange",
    "core/v1.ReplicationController",
    "core/v1.PersistentVolume",
    "core/v1.PersistentVolumeClaim",
    "core/v1.ComponentStatus",
    "certificates/v1.CertificateSigningRequest",
    "apps/v1.DaemonSet",
    "apps/v1.StatefulSet",
    "apps/v1.ControllerRevision",
    "batch/v1.Job",
    "batch/v1.CronJob",
    "discovery/v1.EndpointSlice",
    "events/v1.Event",
    "policy/v1.PodDisruptionBudget",
    "policy/v1.Eviction",
    "node/v1.RuntimeClass",
    "networking/v1.NetworkPolicy",
    "networking/v1.Ingress",
    "networking/v1.IngressClass",
    "networking/v1.IPAddress",
    "networking/v1.ServiceCIDR",
    "storage/v1.StorageClass",
    "storage/v1.CSINode",
    "storage/v1.CSIDriver",
    "storage/v1.CSIStorageCapacity",
    "storage/v1.VolumeAttachment",
    "storage/v1.VolumeAttributesClass",
    "resource/v1.DeviceClass",
    "resource/v1.ResourceClaim",
    "resource/v1.ResourceClaimTemplate",
    "resource/v1.ResourceSlice",
    "autoscaling/v1.HorizontalPodAutoscaler",
    "autoscaling/v2.HorizontalPodAutoscaler",
    "rbac/v1.Role",
    "rbac/v1.RoleBinding",
    "rbac/v1.ClusterRole",
    "rbac/v1.ClusterRoleBinding",
    "authentication/v1.TokenReview",
    "authentication/v1.TokenRequest",
    "authentication/v1.SelfSubjectReview",
    "authorization/v1.SubjectAccessReview",
    "authorization/v1.SelfSubjectAccessReview",
    "authorization/v1.LocalSubjectAccessReview",
    "authorization/v1.SelfSubjectRulesReview",
    "apiextensions/v1.CustomResourceDefinition",
    "apps/v1.Deployment",
    "apps/v1.ReplicaSet",
    "coordination/v1.Lease",
    "scheduling/v1.PriorityClass",
    "autoscaling/v1.Scale",
    "meta/v1.DeleteOptions",
    "meta/v1.Status",
];

/// Go types with a JSON form of their own.
const SCALARS: &[(&str, &str)] = &[
    ("meta/v1.Time", "time"),
    ("meta/v1.MicroTime", "microtime"),
    ("meta/v1.Duration", "duration"),
    ("meta/v1.FieldsV1", "any"),
    ("resource.Quantity", "quantity"),
    ("intstr.IntOrString", "intorstring"),
    ("runtime.RawExtension", "any"),
    ("types.UID", "types.UID"),
    ("types.NodeName", "types.NodeName"),
    ("byte", "uint8"),
    ("apiextensions/v1.JSON", "any"),
    ("apiextensions/v1.JSONSchemaPropsOrArray", "schemaorarray"),
    ("apiextensions/v1.JSONSchemaPropsOrBool", "schemaorbool"),
    ("apiextensions/v1.JSONSchemaPropsOrStringArray", "schemaorstrings"),
];

/// One declared type: its markers, and either what it stands for or its fields.
#[derive(Default)]
struct Declared {
    header: String,
    fields: Vec<String>,
    uses: BTreeSet<String>,
}

fn main() -> Result<()> {
    let sources = std::env::args().nth(1).context("usage: schema_tables SOURCES")?;
    let mut types = BTreeMap::new();
    for (package, path) in PACKAGES {
        let path = Path::new(&sources).join(path);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        read_package(package, &text, &mut types)?;
    }
    let mut wanted: Vec<String> = ROOTS.iter().map(|r| (*r).to_owned()).collect();
    let mut reached = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        let declared = types.get(&name).with_context(|| format!("{name} is not declared"))?;
        if reached.insert(name) {
            wanted.extend(declared.uses.iter().cloned());
        }
    }
    let out = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/registry/schema/tables");
    for (package, _) in PACKAGES {
        let mut text = format!("# {package}: from the Go types of Kubernetes 1.36.3 (k8s.io/api v0.36.3)\n");
        for name in reached.iter().filter(|n| n.rsplit_once('.').is_some_and(|(p, _)| p == *package)) {
            let declared = &types[name];
            writeln!(text, "{}", declared.header)?;
            for field in &declared.fields {
                writeln!(text, "  {field}")?;
            }
        }
        let path = out.join(format!("{}.txt", package.replace('/', "_")));
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

fn read_package(package: &str, text: &str, types: &mut BTreeMap<String, Declared>) -> Result<()> {
    let imports = imports(text);
    let mut markers: BTreeMap<String, String> = BTreeMap::new();
    let mut current: Option<(String, Declared)> = None;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(comment) = trimmed.strip_prefix("//") {
            if let Some(marker) = comment.trim().strip_prefix('+') {
                let (key, value) = marker.split_once('=').unwrap_or((marker, ""));
                let value = value.trim();
                markers
                    .entry(key.trim().to_owned())
                    .and_modify(|known| {
                        known.push(',');
                        known.push_str(value);
                    })
                    .or_insert_with(|| value.to_owned());
            }
            continue;
        }
        if let Some((name, mut declared)) = current.take() {
            if line == "}" {
                types.insert(name, declared);
            } else if SCALARS.iter().any(|(scalar, _)| *scalar == name) {
                // Its JSON form is not what its fields say.
                current = Some((name, declared));
            } else {
                if let Some(field) = field(package, text, trimmed, &imports, &markers, &mut declared.uses)? {
                    declared.fields.push(field);
                }
                current = Some((name, declared));
            }
        } else if let Some(rest) = line.strip_prefix("type ") {
            let (name, rest) = rest.split_once(' ').context("a type without a body")?;
            let full = format!("{package}.{name}");
            let mut declared = Declared::default();
            if rest == "struct {" {
                declared.header = format!("struct {full}{}", structure(&markers));
                current = Some((full, declared));
            } else if rest == "struct{}" {
                declared.header = format!("struct {full}");
                types.insert(full, declared);
            } else {
                let target = rest.trim_start_matches("= ").split(" //").next().unwrap_or_default().trim();
                let target = go_type(package, target, &imports, &mut declared.uses);
                declared.header = format!("alias {full} {target}");
                types.insert(full, declared);
            }
        }
        if !trimmed.is_empty() {
            markers.clear();
        }
    }
    Ok(())
}

fn structure(markers: &BTreeMap<String, String>) -> String {
    let kind = markers.get("structType").or(markers.get("mapType"));
    kind.map_or(String::new(), |kind| format!(" {kind}"))
}

/// Alias to package, as `v1` to `core/v1`.
fn imports(text: &str) -> BTreeMap<String, String> {
    let mut imports = BTreeMap::new();
    let block = text.split_once("import (").and_then(|(_, rest)| rest.split_once("\n)")).map_or("", |(block, _)| block);
    for line in block.lines() {
        let Some((alias, path)) = line.trim().split_once('"') else { continue };
        let path = path.trim_end_matches('"');
        let package = path
            .strip_prefix("k8s.io/api/")
            .or(path.strip_prefix("k8s.io/apimachinery/pkg/apis/"))
            .unwrap_or(path.rsplit('/').next().unwrap_or(path));
        let last = path.rsplit('/').next().unwrap_or(path);
        let alias = if alias.trim().is_empty() { last } else { alias.trim() };
        imports.insert(alias.to_owned(), package.to_owned());
    }
    imports
}

/// A Go type in the tables' words; declared types it needs are noted.
fn go_type(package: &str, text: &str, imports: &BTreeMap<String, String>, uses: &mut BTreeSet<String>) -> String {
    if let Some(rest) = text.strip_prefix('*') {
        return format!("*{}", go_type(package, rest, imports, uses));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return format!("[]{}", go_type(package, rest, imports, uses));
    }
    if let Some((key, value)) = text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        let key = go_type(package, key, imports, uses);
        return format!("map[{key}]{}", go_type(package, value, imports, uses));
    }
    let name = match text.split_once('.') {
        Some((alias, name)) => format!("{}.{name}", imports.get(alias).map_or(alias, String::as_str)),
        None if text.starts_with(char::is_uppercase) => format!("{package}.{text}"),
        None => text.to_owned(),
    };
    if let Some((_, scalar)) = SCALARS.iter().find(|(go, _)| *go == name) {
        return (*scalar).to_owned();
    }
    if name.contains('.') {
        uses.insert(name.clone());
    }
    name
}

/// A default as JSON; `ref(NAME)` is looked up among the constants.
fn constant<'a>(default: &'a str, text: &'a str) -> Result<&'a str> {
    let Some(name) = default.strip_prefix("ref(").and_then(|rest| rest.strip_suffix(')')) else { return Ok(default) };
    text.lines()
        .filter(|line| line.split_whitespace().next() == Some(name))
        .find_map(|line| line.split_once("= ").map(|(_, value)| value.trim()))
        .with_context(|| format!("the constant {name} is not declared"))
}

fn field(
    package: &str,
    text: &str,
    line: &str,
    imports: &BTreeMap<String, String>,
    markers: &BTreeMap<String, String>,
    uses: &mut BTreeSet<String>,
) -> Result<Option<String>> {
    let Some((declaration, tags)) = line.split_once('`') else { return Ok(None) };
    let tags = tags.split('`').next().unwrap_or_default();
    let tag = |name: &str| {
        let start = tags.find(&format!("{name}:\""))? + name.len() + 2;
        Some(&tags[start..start + tags[start..].find('"')?])
    };
    let json = tag("json").context("a field without a JSON name")?;
    let mut words = declaration.split_whitespace();
    let first = words.next().context("a field without a name")?;
    let (json, omission) = json.split_once(',').unwrap_or((json, ""));
    if json == "-" {
        return Ok(None);
    }
    let mut out = match words.next() {
        // An embedded struct: its fields stand among these.
        None => {
            let go = go_type(package, first, imports, uses);
            if !json.is_empty() { format!("{json} {go}") } else { format!("& {go}") }
        }
        Some(go) => format!("{json} {}", go_type(package, go, imports, uses)),
    };
    if omission.contains("omitzero") {
        out.push_str(" zero");
        if markers.contains_key("required") {
            out.push_str(" required");
        }
    } else if omission.contains("omitempty") {
        out.push_str(" omit");
        if markers.contains_key("required") {
            out.push_str(" required");
        }
    } else if markers.contains_key("optional") {
        out.push_str(" optional");
    }
    if let Some(number) = tag("protobuf").and_then(|p| p.split(',').nth(1)) {
        write!(out, " pb={number}")?;
    }
    match (tag("patchStrategy"), tag("patchMergeKey")) {
        (Some(strategy), Some(key)) => write!(out, " patch={strategy}:{key}")?,
        (Some(strategy), None) => write!(out, " patch={strategy}")?,
        (None, Some(key)) => bail!("merge key {key} without a strategy: {line}"),
        (None, None) => {}
    }
    match (markers.get("listType").map(String::as_str), markers.get("listMapKey")) {
        (Some("map"), Some(keys)) => write!(out, " list=map:{keys}")?,
        (Some(kind), _) => write!(out, " list={kind}")?,
        (None, _) => {}
    }
    out.push_str(&structure(markers).replace(' ', " map="));
    if let Some(default) = markers.get("default") {
        write!(out, " default={}", constant(default, text)?)?;
    }
    Ok(Some(out))
}
