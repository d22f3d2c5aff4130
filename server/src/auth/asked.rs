//! What an HTTP request asks for, read from method, path and parameters as kube-apiserver reads them, whether or not
//! the path is served: a refusal must not tell what is there.

use http::{Method, Uri};

use crate::registry::{Asked, Attributes, ResourceAttributes, exact};

/// What may stand behind a namespace without being a resource in it.
const NAMESPACE_PARTS: [&str; 2] = ["status", "finalize"];

/// What a request asks for.
pub(super) fn of(method: &Method, uri: &Uri) -> Attributes {
    let path = decoded(uri.path());
    resource(method, &path, uri.query().unwrap_or_default())
        .unwrap_or_else(|| Attributes::path(method.as_str().to_ascii_lowercase(), path))
}

fn resource(method: &Method, path: &str, query: &str) -> Option<Attributes> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (group, version, parts) = match parts.as_slice() {
        ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
        ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
        _ => return None,
    };
    let (mut verb, parts) = match parts {
        // The old prefixes are verbs; one that stands alone names nothing.
        [prefix @ ("watch" | "proxy"), rest @ ..] if !rest.is_empty() => (*prefix, rest),
        ["watch" | "proxy"] => return None,
        rest => (verb_of(method), rest),
    };
    let prefixed = matches!(verb, "watch" | "proxy");
    let (namespace, parts) = match parts {
        ["namespaces", namespace, rest @ ..] => match rest {
            [] => (*namespace, parts),
            [part, ..] if NAMESPACE_PARTS.contains(part) => (*namespace, parts),
            rest => (*namespace, rest),
        },
        parts => ("", parts),
    };
    let mut asked = ResourceAttributes {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: parts.first().copied().unwrap_or_default().to_owned(),
        name: parts.get(1).copied().unwrap_or_default().to_owned(),
        namespace: namespace.to_owned(),
        ..ResourceAttributes::default()
    };
    if verb != "proxy" {
        asked.subresource = parts.get(2).copied().unwrap_or_default().to_owned();
    }
    let query = Parameters::read(query);
    if asked.name.is_empty() && verb == "get" {
        verb = if query.watch { "watch" } else { "list" };
        if let Some(name) = exact(&query.field_selector, "metadata.name") {
            name.clone_into(&mut asked.name);
        }
    }
    if asked.name.is_empty() && verb == "delete" {
        verb = "deletecollection";
    }
    if !prefixed && matches!(verb, "list" | "watch" | "deletecollection") {
        (asked.field_selector, asked.label_selector) = (query.field_selector, query.label_selector);
    }
    Some(Attributes { verb: verb.to_owned(), asked: Asked::Resource(asked) })
}

fn verb_of(method: &Method) -> &'static str {
    match *method {
        Method::POST => "create",
        Method::GET | Method::HEAD => "get",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

#[derive(Default)]
struct Parameters {
    watch: bool,
    field_selector: String,
    label_selector: String,
}

impl Parameters {
    /// The first of each name counts.
    fn read(query: &str) -> Self {
        let first = |name: &str| form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == name).map(|(_, v)| v);
        let watch = first("watch").is_some_and(|v| v != "0" && !v.eq_ignore_ascii_case("false"));
        let text = |name: &str| first(name).map(std::borrow::Cow::into_owned).unwrap_or_default();
        Parameters { watch, field_selector: text("fieldSelector"), label_selector: text("labelSelector") }
    }
}

fn decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: Method, uri: &str) -> String {
        let attributes = of(&method, &uri.parse().expect("a URI"));
        let verb = &attributes.verb;
        match attributes.asked {
            Asked::Path(path) => format!("{verb} path {path}"),
            Asked::Resource(a) => {
                format!("{verb} {}/{} {} ns={} name={}", a.group, a.version, a.full_resource(), a.namespace, a.name)
            }
        }
    }

    #[test]
    fn verbs_and_resources_are_read_from_the_path() {
        for (method, uri, expected) in [
            (Method::GET, "/api/v1/namespaces/n/pods", "list /v1 pods ns=n name="),
            (Method::GET, "/api/v1/namespaces/n/pods?watch=1", "watch /v1 pods ns=n name="),
            (Method::GET, "/api/v1/pods?watch=False", "list /v1 pods ns= name="),
            (Method::GET, "/api/v1/namespaces/n/pods?fieldSelector=metadata.name%3Da", "list /v1 pods ns=n name=a"),
            (Method::GET, "/api/v1/namespaces/n/pods/a/log", "get /v1 pods/log ns=n name=a"),
            (Method::GET, "/api/v1/namespaces/n", "get /v1 namespaces ns=n name=n"),
            (Method::PUT, "/api/v1/namespaces/n/finalize", "update /v1 namespaces/finalize ns=n name=n"),
            (Method::GET, "/api/v1/namespaces", "list /v1 namespaces ns= name="),
            (Method::GET, "/api/v1/watch/namespaces/n/pods/a", "watch /v1 pods ns=n name=a"),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/n/deployments",
                "deletecollection apps/v1 deployments ns=n name=",
            ),
            (Method::DELETE, "/apis/apps/v1/namespaces/n/deployments/d", "delete apps/v1 deployments ns=n name=d"),
            (Method::POST, "/apis/no.such/v1/gizmos", "create no.such/v1 gizmos ns= name="),
            (Method::HEAD, "/api/v1/nodes/x", "get /v1 nodes ns= name=x"),
            (Method::GET, "/api/v1", "get path /api/v1"),
            (Method::GET, "/apis/apps/v1", "get path /apis/apps/v1"),
            (Method::GET, "/healthz", "get path /healthz"),
            (Method::POST, "/x%20y", "post path /x y"),
        ] {
            assert_eq!(read(method.clone(), uri), expected, "{method} {uri}");
        }
    }
}
