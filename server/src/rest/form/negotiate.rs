//! In which form an answer goes: the first acceptable one of the Accept header, as kube-apiserver 1.36 chooses.
//!
//! What a header names is first put into upstream's order: by weight (`q=`), and what is named outright before what is
//! named by `*`. A weight of 0 only comes last, as upstream does not refuse it.

use http::{HeaderMap, header};
use listwatch_proto::resource::{Reason, Status};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`: objects, lists of them, events and failures; all else goes as JSON.
    Protobuf,
}

/// What is shown of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Shape {
    /// They themselves.
    Object,
    /// Rows of columns.
    Table,
    /// `PartialObjectMetadata`, of one object.
    Metadata,
    /// `PartialObjectMetadataList`, of a collection.
    MetadataList,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) struct Form {
    /// How it is written.
    pub(in crate::rest) encoding: Encoding,
    /// What is shown.
    pub(in crate::rest) shape: Shape,
    /// Of a shape other than the object: `v1` or `v1beta1` of `meta.k8s.io`.
    pub(in crate::rest) version: &'static str,
}

/// So many of a header's media types are put into order: no client names more, and each is compared with all before it.
const ACCEPTED_MAX: usize = 64;

/// One media type of an Accept header.
#[derive(Default)]
struct Accepted<'a> {
    media_type: (&'a str, &'a str),
    weight: f32,
    /// What the answer shall be turned into (`as`, `g` and `v`), if it shall be.
    into: Option<Into<'a>>,
    /// The form of a stream; empty: nothing said.
    stream: &'a str,
    /// The version of the server's own group; empty: nothing said.
    server_version: &'a str,
}

/// What an answer shall be turned into.
#[derive(Default, Clone, Copy)]
struct Into<'a> {
    kind: &'a str,
    group: &'a str,
    version: &'a str,
}

impl<'a> Accepted<'a> {
    /// Reads one; `None` for what has not a kind and a form.
    fn read(one: &'a str) -> Option<Self> {
        let spaces = |text: &'a str| text.trim_matches(' ');
        let mut words = spaces(one).split(';');
        let media_type = match words.next().unwrap_or_default().split_once('/') {
            None | Some((_, "")) if spaces(one.split(['/', ';']).next().unwrap_or_default()) == "*" => ("*", "*"),
            None | Some((_, "")) => return None,
            // A slash at the very end is borne, as upstream bears it.
            Some((kind, form)) => (spaces(kind), spaces(form.strip_suffix('/').unwrap_or(form))),
        };
        if media_type.1.contains('/') {
            return None;
        }
        let mut read = Accepted { media_type, weight: 1.0, ..Accepted::default() };
        for word in words {
            let Some((key, value)) = word.split_once('=').filter(|(_, value)| !value.is_empty()) else { continue };
            let value = value.strip_suffix('=').unwrap_or(value);
            if !value.contains('=') {
                read.set(spaces(key), value);
            }
        }
        Some(read)
    }

    fn set(&mut self, key: &str, value: &'a str) {
        let text = value.trim_matches(' ');
        match key {
            // What is no number weighs nothing, as upstream reads it.
            "q" => self.weight = value.parse().unwrap_or(0.0),
            "as" => self.into.get_or_insert_default().kind = text,
            "g" => self.into.get_or_insert_default().group = text,
            "v" => self.into.get_or_insert_default().version = text,
            "stream" => self.stream = text,
            "sv" => self.server_version = text,
            _ => {}
        }
    }

    fn goes_before(&self, other: &Self) -> bool {
        let any = |one: &Self| (one.media_type.0 == "*", one.media_type.1 == "*");
        let ((any, any_form), (other_any, other_any_form)) = (any(self), any(other));
        self.weight > other.weight || (!any && other_any) || (!any_form && other_any_form)
    }

    /// The encodings that it names, the usual first.
    fn encodings(&self) -> &'static [Encoding] {
        match self.media_type {
            ("*" | "application", "*") => &[Encoding::Json, Encoding::Yaml, Encoding::Protobuf],
            ("application", "json") => &[Encoding::Json],
            ("application", "yaml") => &[Encoding::Yaml],
            ("application", "vnd.kubernetes.protobuf") => &[Encoding::Protobuf],
            _ => &[],
        }
    }

    /// The first of its encodings that can be said as it wishes.
    fn encoding(&self) -> Option<Encoding> {
        self.encodings().iter().copied().find(|encoding| self.is_served_by(*encoding))
    }

    /// Whether the server has such a stream and such a version of itself, none of which objects are turned into.
    fn is_served_by(&self, encoding: Encoding) -> bool {
        let streams = matches!(self.stream, "" | "watch") && (self.stream.is_empty() || encoding != Encoding::Yaml);
        streams && self.server_version.is_empty()
    }
}

fn accepted(text: &str) -> impl Iterator<Item = Accepted<'_>> {
    let mut all: Vec<_> = text.split(',').filter_map(Accepted::read).collect();
    // One that was put ahead of all others stays there, whatever stands behind: upstream's order is no order in the
    // strict sense, so that it is reached in upstream's steps.
    for unsorted in 1..all.len().min(ACCEPTED_MAX) {
        let mut at = unsorted;
        while at > 0 && all[at].goes_before(&all[at - 1]) {
            all.swap(at, at - 1);
            at -= 1;
        }
    }
    all.into_iter()
}

fn accept(headers: &HeaderMap) -> &str {
    let text = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if text.is_empty() { "*/*" } else { text }
}

/// What a route of kube-apiserver answers in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Route {
    /// Objects.
    Object,
    /// Collections, which may be watched.
    Collection,
    /// The version, in JSON alone.
    Json,
}

impl Route {
    fn produces(self) -> &'static [&'static str] {
        const ALL: [&str; 5] = [
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf;stream=watch",
        ];
        match self {
            Route::Json => &ALL[..1],
            Route::Object => &ALL[..3],
            Route::Collection => &ALL,
        }
    }
}

/// Asks what upstream's router asks before any handler: whether one of the media types that are accepted is, word for word,
/// one that the route answers in. Kinds of definitions, `/apis` and the groups have no such route.
///
/// # Errors
/// `NotAcceptable`, in the router's words.
pub(in crate::rest) fn routed(headers: &HeaderMap, route: Route) -> Result<(), Status> {
    let produces = route.produces();
    let mut named = accept(headers).split(',').map(|one| one.split(';').next().unwrap_or_default().trim_matches(' '));
    if named.any(|name| name == "*/*" || produces.contains(&name)) {
        return Ok(());
    }
    let message = format!("406: Not Acceptable\n\nAvailable representations: {}", produces.join(", "));
    Err(Status::new(Reason::NotAcceptable, message))
}

/// The form in which objects go, of a kind that may have no protobuf form.
///
/// # Errors
/// `NotAcceptable` if there is none that client and server both know.
pub(in crate::rest) fn form_of(headers: &HeaderMap, has_protobuf: impl Fn() -> bool) -> Result<Form, NotAcceptable> {
    for one in accepted(accept(headers)) {
        for encoding in one.encodings().iter().copied().filter(|encoding| one.is_served_by(*encoding)) {
            let Some(into) = one.into else {
                if encoding == Encoding::Protobuf && !has_protobuf() {
                    continue;
                }
                return Ok(Form { encoding, shape: Shape::Object, version: "v1" });
            };
            let shape = match into.kind {
                // Every client that reads these reads JSON too.
                _ if encoding == Encoding::Protobuf => continue,
                "Table" => Shape::Table,
                "PartialObjectMetadata" => Shape::Metadata,
                "PartialObjectMetadataList" => Shape::MetadataList,
                _ => continue,
            };
            let version = match into.version {
                "v1" => "v1",
                "v1beta1" => "v1beta1",
                _ => continue,
            };
            if into.group == "meta.k8s.io" {
                return Ok(Form { encoding, shape, version });
            }
        }
    }
    Err(NotAcceptable)
}

/// The encoding of what is never turned into something else.
///
/// # Errors
/// As [`form_of`].
pub(in crate::rest) fn plain(headers: &HeaderMap) -> Result<Encoding, NotAcceptable> {
    let mut all = accepted(accept(headers)).filter(|one| one.into.is_none());
    all.find_map(|one| one.encoding()).ok_or(NotAcceptable)
}

/// How a failure is written: as it is asked for, whatever an object should have been turned into.
pub(in crate::rest) fn encoding(headers: &HeaderMap) -> Encoding {
    plain(headers).unwrap_or(Encoding::Json)
}

/// What of discovery is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum Discovery {
    /// All groups in one document, `apidiscovery.k8s.io/v2`.
    Aggregated,
    /// One document a group version.
    Plain(Encoding),
}

/// The form in which `/api` and `/apis` go.
///
/// # Errors
/// As [`form_of`].
pub(in crate::rest) fn discovery(headers: &HeaderMap) -> Result<Discovery, NotAcceptable> {
    for one in accepted(accept(headers)) {
        let Some(encoding) = one.encoding() else { continue };
        match one.into {
            None => return Ok(Discovery::Plain(encoding)),
            Some(Into { kind: "APIGroupDiscoveryList", group: "apidiscovery.k8s.io", version: "v2" }) => {
                return Ok(Discovery::Aggregated);
            }
            Some(_) => {}
        }
    }
    Err(NotAcceptable)
}

/// The encodings of OpenAPI v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) enum OpenapiV2 {
    Json,
    Protobuf,
}

/// The encoding of OpenAPI v2 that a client reads; `None` = none.
pub(in crate::rest) fn openapi_v2(headers: &HeaderMap) -> Option<OpenapiV2> {
    accepted(accept(headers)).find_map(|one| match one.media_type {
        ("*" | "application", "*") | ("application", "json") => Some(OpenapiV2::Json),
        (
            "application",
            "com.github.proto-openapi.spec.v2@v1.0+protobuf" | "com.github.proto-openapi.spec.v2.v1.0+protobuf",
        ) => Some(OpenapiV2::Protobuf),
        _ => None,
    })
}

/// There is no form that both know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::rest) struct NotAcceptable;

impl From<NotAcceptable> for Status {
    fn from(_: NotAcceptable) -> Status {
        let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        let message = format!("only the following media types are accepted: {types}");
        Status::new(Reason::NotAcceptable, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(accept: &str) -> Result<(Encoding, Shape, &'static str), NotAcceptable> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().expect("a header"));
        form_of(&headers, || true).map(|form| (form.encoding, form.shape, form.version))
    }

    #[test]
    fn the_first_acceptable_form_wins() {
        let object = Ok((Encoding::Json, Shape::Object, "v1"));
        for text in ["", "*/*", "application/json", "text/html, */*;q=0"] {
            assert_eq!(asked(text), object, "{text}");
        }
        let protobuf = Ok((Encoding::Protobuf, Shape::Object, "v1"));
        assert_eq!(asked("application/vnd.kubernetes.protobuf,application/json"), protobuf);
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(asked(metadata), Ok((Encoding::Json, Shape::Metadata, "v1")));
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(asked(table), Ok((Encoding::Json, Shape::Table, "v1")));
        assert_eq!(
            asked("application/json;as=Table;v=v9;g=meta.k8s.io,application/yaml"),
            Ok((Encoding::Yaml, Shape::Object, "v1"))
        );
        for yaml in [
            "application/json;q=0.1, application/yaml;q=0.9",
            "*/*, application/yaml;q=0.5",
            "application/*;q=0.5,application/yaml;q=0.5",
            "application/json;q=x,application/yaml;q=0.1",
        ] {
            assert_eq!(asked(yaml), Ok((Encoding::Yaml, Shape::Object, "v1")), "{yaml}");
        }
        for json in ["application/*", "application/json;q=0.9,application/yaml;q=0.9", "application/json, */*;q=0.8"] {
            assert_eq!(asked(json), object, "{json}");
        }
        let table = Ok((Encoding::Yaml, Shape::Table, "v1"));
        assert_eq!(asked("application/yaml; as = Table; v=v1 ;g=meta.k8s.io"), table);
        for any in ["*", "* ;q=0.1", "application/json;as=", "application/json;stream=watch", "x,application/json/"] {
            assert_eq!(asked(any), object, "{any}");
        }
        for none in [
            "application/json;as=Foo;v=v1;g=meta.k8s.io",
            "application/json;AS=Table;v=v1;g=meta.k8s.io",
            "application/json;v=v1",
            "application/json;stream=foo",
            "application/yaml;stream=watch",
            "application/json;sv=v1",
            "APPLICATION/JSON",
            "application",
            "application/json/x",
            "text/html",
            ",",
        ] {
            assert_eq!(asked(none), Err(NotAcceptable), "{none}");
        }
    }

    #[test]
    fn a_failure_is_told_as_is_whatever_was_asked_for() {
        let told = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            encoding(&headers)
        };
        assert_eq!(told("application/yaml"), Encoding::Yaml);
        assert_eq!(told("application/yaml;as=Table;v=v1;g=meta.k8s.io"), Encoding::Json);
        assert_eq!(told("application/yaml;as=Table;v=v1;g=meta.k8s.io,application/yaml"), Encoding::Yaml);
        assert_eq!(told("text/html"), Encoding::Json);
    }

    #[test]
    fn a_route_wants_one_of_its_media_types_word_for_word() {
        let refused = |accept: &str, route: Route| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            routed(&headers, route).err().map(|status| (status.code, status.message))
        };
        for taken in
            ["", "*/*", "text/html, */*;q=0", "application/json;as=Foo", " application/yaml ", "application/json"]
        {
            assert_eq!(refused(taken, Route::Object), None, "{taken}");
        }
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
                       application/vnd.kubernetes.protobuf";
        for other in ["application/*", "*", "APPLICATION/JSON", "text/html", ","] {
            assert_eq!(refused(other, Route::Object), Some((406, message.to_owned())), "{other}");
        }
        let streams =
            format!("{message}, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch");
        assert_eq!(refused("text/html", Route::Collection), Some((406, streams)));
        assert!(refused("application/yaml", Route::Json).is_some());
    }
}
