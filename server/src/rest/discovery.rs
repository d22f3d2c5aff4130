//! What is served: the groups, their versions and resources, in the aggregated form (`apidiscovery.k8s.io/v2`) and in the
//! older ones, a document each.

use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use listwatch_proto::resource::{Kind, Status, Storage};
use serde_json::{Value, json};

use super::form::answer;
use super::form::negotiate::{self, Discovery, Encoding};
use crate::registry::Kinds;

/// The verbs of a custom resource, in upstream's order.
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs of one whose definition is being deleted.
const ENDING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
/// The media type of the aggregated form, word for word as clients ask for it.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// `/api`.
pub(super) fn core_versions(kinds: &Kinds, headers: &HeaderMap) -> Result<Response, Status> {
    match negotiate::discovery(headers)? {
        Discovery::Aggregated => Ok(aggregated(kinds, headers, &[""])),
        Discovery::Plain(encoding) => {
            let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let address = json!([{"clientCIDR": "0.0.0.0/0", "serverAddress": host}]);
            let versions = json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": address});
            Ok(answer::value(StatusCode::OK, encoding, &versions))
        }
    }
}

/// `/apis`.
pub(super) fn groups(kinds: &Kinds, headers: &HeaderMap) -> Result<Response, Status> {
    let names = kinds.groups();
    match negotiate::discovery(headers)? {
        Discovery::Aggregated => Ok(aggregated(kinds, headers, &names)),
        Discovery::Plain(encoding) => {
            let groups: Vec<Value> = names.iter().map(|name| group_object(kinds, name)).collect();
            let list = json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups});
            Ok(answer::value(StatusCode::OK, encoding, &list))
        }
    }
}

/// `/apis/apps`.
pub(super) fn group(kinds: &Kinds, headers: &HeaderMap, name: &str) -> Result<Response, Status> {
    let mut group = group_object(kinds, name);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Ok(answer::value(StatusCode::OK, plain(headers)?, &group))
}

/// `/api/v1`, `/apis/apps/v1`.
pub(super) fn resources(kinds: &Kinds, headers: &HeaderMap, group: &str, version: &str) -> Result<Response, Status> {
    let encoding = plain(headers)?;
    let of_version = kinds.all().filter(|k| k.group == group && k.version == version);
    let mut resources: Vec<Value> = of_version.flat_map(|kind| legacy(kinds, kind)).collect();
    resources.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Ok(answer::value(StatusCode::OK, encoding, &list))
}

fn verbs(kinds: &Kinds, kind: &'static Kind) -> &'static [&'static str] {
    match kind.extension {
        None => kind.verbs(),
        Some(_) if kinds.is_ending(kind) => &ENDING_VERBS,
        Some(_) => &CUSTOM_VERBS,
    }
}

fn plain(headers: &HeaderMap) -> Result<Encoding, Status> {
    Ok(negotiate::plain(headers)?)
}

fn group_object(kinds: &Kinds, name: &str) -> Value {
    let versions: Vec<Value> =
        kinds.versions(name).iter().map(|v| json!({"groupVersion": format!("{name}/{v}"), "version": v})).collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

/// The resource and its parts in the form of `APIResourceList`.
fn legacy(kinds: &Kinds, kind: &'static Kind) -> Vec<Value> {
    let mut main = json!({
        "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
        "verbs": verbs(kinds, kind),
    });
    if matches!(kind.storage, Storage::Own | Storage::View) {
        main["storageVersionHash"] = storage_hash(kinds, kind).into();
    }
    if !kind.short_names.is_empty() {
        main["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        main["categories"] = json!(kind.categories);
    }
    let parts = kind.subresources.iter().map(|part| {
        let (group, version, name, verbs) = part_of(kind, part);
        let mut value = json!({
            "name": format!("{}/{part}", kind.plural), "singularName": "", "namespaced": kind.namespaced, "kind": name,
            "verbs": verbs,
        });
        if (group, version) != (kind.group, kind.version) {
            value["group"] = group.into();
            value["version"] = version.into();
        }
        value
    });
    std::iter::once(main).chain(parts).collect()
}

/// The verbs of a part.
pub(super) fn verbs_of_part(kind: &'static Kind, part: &str) -> &'static [&'static str] {
    part_of(kind, part).3
}

/// The kind that a part answers in, and its verbs.
fn part_of(
    kind: &'static Kind,
    part: &str,
) -> (&'static str, &'static str, Cow<'static, str>, &'static [&'static str]) {
    let verbs: &[&str] = match part {
        "attach" | "exec" | "portforward" => &["create", "get"],
        "binding" | "eviction" | "token" => &["create"],
        "finalize" => &["update"],
        "log" => &["get"],
        "proxy" => &["create", "delete", "get", "patch", "update"],
        _ => &["get", "patch", "update"],
    };
    let (group, version, name) = match part {
        "scale" => ("autoscaling", "v1", "Scale".into()),
        "eviction" => ("policy", "v1", "Eviction".into()),
        "token" => ("authentication.k8s.io", "v1", "TokenRequest".into()),
        "binding" => (kind.group, kind.version, "Binding".into()),
        "attach" => (kind.group, kind.version, format!("{}AttachOptions", kind.kind).into()),
        "exec" => (kind.group, kind.version, format!("{}ExecOptions", kind.kind).into()),
        "portforward" => (kind.group, kind.version, format!("{}PortForwardOptions", kind.kind).into()),
        "proxy" => (kind.group, kind.version, format!("{}ProxyOptions", kind.kind).into()),
        _ => (kind.group, kind.version, kind.kind.into()),
    };
    (group, version, name, verbs)
}

/// Stands for the form in which objects of a kind are stored, as upstream tells it (`discovery.StorageVersionHash`): clients
/// only compare it.
fn storage_hash(kinds: &Kinds, kind: &Kind) -> String {
    use base64::Engine as _;
    let stored = stored_as(kinds, kind);
    let form = format!("{}/{}/{}", stored.group, stored.version, stored.kind);
    let hash = ring::digest::digest(&ring::digest::SHA256, form.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(&hash.as_ref()[..8])
}

/// The kind in whose form objects are stored: of built-in kinds that are kept in one place the first.
fn stored_as<'a>(kinds: &'a Kinds, kind: &'a Kind) -> &'a Kind {
    let first = || kinds.all().find(|other| other.collection_key("") == kind.collection_key(""));
    if kind.extension.is_some() { kind } else { first().unwrap_or(kind) }
}

fn aggregated(kinds: &Kinds, headers: &HeaderMap, groups: &[&str]) -> Response {
    let items: Vec<Value> = groups.iter().map(|group| aggregated_group(kinds, group)).collect();
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items,
    });
    let text = list.to_string();
    let etag = etag(&text);
    let known = headers.get(header::IF_NONE_MATCH).is_some_and(|given| given.as_bytes() == etag.as_bytes());
    let mut response = if known {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        answer::whole(StatusCode::OK, Encoding::Json, (text + "\n").into())
    };
    let put = response.headers_mut();
    put.insert(header::CONTENT_TYPE, HeaderValue::from_static(AGGREGATED));
    put.insert(header::VARY, HeaderValue::from_static("Accept"));
    put.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    put.insert(header::ETAG, HeaderValue::from_str(&etag).expect("hexadecimal digits in quotes are a header value"));
    response
}

/// A quoted fingerprint of a document.
pub(super) fn etag(text: impl AsRef<[u8]>) -> String {
    let mut hasher = DefaultHasher::new();
    text.as_ref().hash(&mut hasher);
    format!("\"{:016X}\"", hasher.finish())
}

fn aggregated_group(kinds: &Kinds, group: &str) -> Value {
    let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
    let mut versions: Vec<(&str, Vec<Value>)> = Vec::new();
    for kind in kinds.all().filter(|k| k.group == group) {
        let resource = aggregated_resource(kinds, kind);
        match versions.iter_mut().find(|(version, _)| *version == kind.version) {
            Some((_, resources)) => resources.push(resource),
            None => versions.push((kind.version, vec![resource])),
        }
    }
    let order = kinds.versions(group);
    versions.sort_by_key(|(version, _)| order.iter().position(|own| own == version));
    let versions: Vec<Value> = versions
        .into_iter()
        .map(|(version, mut resources)| {
            resources.sort_by(|a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kinds: &Kinds, kind: &'static Kind) -> Value {
    let response_kind =
        |group: &str, version: &str, name: &str| json!({"group": group, "version": version, "kind": name});
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response_kind("", "", kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kinds, kind),
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    let parts: Vec<Value> = kind
        .subresources
        .iter()
        .map(|part| {
            let (group, version, name, verbs) = part_of(kind, part);
            let own = (group, version) == (kind.group, kind.version);
            let (group, version) = if own { ("", "") } else { (group, version) };
            json!({"subresource": part, "responseKind": response_kind(group, version, &name), "verbs": verbs})
        })
        .collect();
    if !parts.is_empty() {
        resource["subresources"] = parts.into();
    }
    resource
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_told_as_upstream_tells_it() {
        let hash = |name: &str| storage_hash(&Kinds::default(), Kind::by_name(name).expect("known"));
        assert_eq!(hash("configmap"), "qFsyl6wFWjQ=");
        assert_eq!(hash("deployment.apps"), "8aSe+NMegvE=");
        // Served twice, stored once.
        for (group, version, plural, told) in [
            ("autoscaling", "v1", "horizontalpodautoscalers", "qwQve8ut294="),
            ("autoscaling", "v2", "horizontalpodautoscalers", "qwQve8ut294="),
            ("events.k8s.io", "v1", "events", "r2yiGXH7wu8="),
        ] {
            let kind = Kind::by_plural(group, version, plural).expect("known");
            assert_eq!(storage_hash(&Kinds::default(), kind), told, "{group}/{version}");
        }
    }
}
