//! In which form an answer goes: the first acceptable one of the Accept header, as kube-apiserver 1.36 chooses.
//!
//! What a header names is first put into upstream's order: by weight (`q=`), and what is named outright before what is
//! named by `*`. A weight of 0 only comes last, as upstream does not refuse it.

use http::{HeaderMap, header};
use listwatch_proto::resource::{Reason, Status};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`: objects, lists of them, events and failures; all else goes as JSON.
    Protobuf,
}

/// What is shown of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
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
pub(super) struct Form {
    /// How it is written.
    pub(super) encoding: Encoding,
    /// What is shown.
    pub(super) shape: Shape,
    /// Of a shape other than the object: `v1` or `v1beta1` of `meta.k8s.io`.
    pub(super) version: &'static str,
}

/// So many of a header's media types are put into order: no client names more, and each is compared with all before it.
const ACCEPTED_MAX: usize = 64;

/// One media type of an Accept header.
struct Accepted<'a> {
    media_type: &'a str,
    params: Vec<(&'a str, &'a str)>,
    weight: f32,
}

impl<'a> Accepted<'a> {
    fn read(one: &'a str) -> Self {
        let mut words = one.split(';').map(str::trim);
        let media_type = words.next().unwrap_or_default();
        let params: Vec<_> = words.filter_map(|word| word.split_once('=')).collect();
        let weight = params.iter().rev().find(|(key, _)| *key == "q");
        // What is no number weighs nothing, as upstream reads it.
        let weight = weight.map_or(1.0, |(_, text)| text.parse().unwrap_or(0.0));
        Accepted { media_type, params, weight }
    }

    fn goes_before(&self, other: &Self) -> bool {
        let halves = |one: &Self| {
            let (kind, form) = one.media_type.split_once('/').unwrap_or((one.media_type, one.media_type));
            (kind == "*", form == "*")
        };
        let ((any, any_form), (other_any, other_any_form)) = (halves(self), halves(other));
        self.weight > other.weight || (!any && other_any) || (!any_form && other_any_form)
    }

    fn param(&self, name: &str) -> &str {
        self.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.media_type {
            "*/*" | "application/*" | "application/json" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Encoding::Protobuf),
            _ => None,
        }
    }
}

fn accepted(text: &str) -> impl Iterator<Item = Accepted<'_>> {
    let mut all: Vec<_> = text.split(',').map(Accepted::read).collect();
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
    if text.trim().is_empty() { "*/*" } else { text }
}

/// The form in which objects go.
///
/// # Errors
/// `NotAcceptable` if there is none that client and server both know.
pub(super) fn form(headers: &HeaderMap) -> Result<Form, NotAcceptable> {
    form_of(headers, || true)
}

/// The same for a kind that may have no protobuf form.
///
/// # Errors
/// As [`form`].
pub(super) fn form_of(headers: &HeaderMap, has_protobuf: impl Fn() -> bool) -> Result<Form, NotAcceptable> {
    let mut knows_the_encoding = false;
    for one in accepted(accept(headers)) {
        let Some(encoding) = one.encoding().filter(|e| *e != Encoding::Protobuf || has_protobuf()) else { continue };
        knows_the_encoding = true;
        let shape = match one.param("as") {
            "" => return Ok(Form { encoding, shape: Shape::Object, version: "v1" }),
            // Every client that reads these reads JSON too.
            _ if encoding == Encoding::Protobuf => continue,
            "Table" => Shape::Table,
            "PartialObjectMetadata" => Shape::Metadata,
            "PartialObjectMetadataList" => Shape::MetadataList,
            _ => continue,
        };
        let version = match one.param("v") {
            "v1" => "v1",
            "v1beta1" => "v1beta1",
            _ => continue,
        };
        if one.param("g") == "meta.k8s.io" {
            return Ok(Form { encoding, shape, version });
        }
    }
    Err(if knows_the_encoding { NotAcceptable::Transform } else { NotAcceptable::Type })
}

/// How a failure is written: YAML only if YAML was asked for first.
pub(super) fn encoding(headers: &HeaderMap) -> Encoding {
    accepted(accept(headers)).find_map(|one| one.encoding()).unwrap_or(Encoding::Json)
}

/// What of discovery is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Discovery {
    /// All groups in one document, `apidiscovery.k8s.io/v2`.
    Aggregated,
    /// One document a group version.
    Plain(Encoding),
}

/// The form in which `/api` and `/apis` go.
///
/// # Errors
/// As [`form`].
pub(super) fn discovery(headers: &HeaderMap) -> Result<Discovery, NotAcceptable> {
    let mut knows_the_encoding = false;
    for one in accepted(accept(headers)) {
        let Some(encoding) = one.encoding() else { continue };
        knows_the_encoding = true;
        match (one.param("as"), one.param("g"), one.param("v")) {
            ("", ..) => return Ok(Discovery::Plain(encoding)),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return Ok(Discovery::Aggregated),
            _ => {}
        }
    }
    Err(if knows_the_encoding { NotAcceptable::Transform } else { NotAcceptable::Type })
}

/// The encodings of OpenAPI v2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenapiV2 {
    Json,
    Protobuf,
}

/// The encoding of OpenAPI v2 that a client reads; `None` = none.
pub(super) fn openapi_v2(headers: &HeaderMap) -> Option<OpenapiV2> {
    accepted(accept(headers)).find_map(|one| match one.media_type {
        "*/*" | "application/*" | "application/json" => Some(OpenapiV2::Json),
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        | "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" => Some(OpenapiV2::Protobuf),
        _ => None,
    })
}

/// There is no form that both know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAcceptable {
    /// The media types are known, what they shall show is not.
    Transform,
    /// No media type is known.
    Type,
}

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
        form(&headers).map(|form| (form.encoding, form.shape, form.version))
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
        assert_eq!(asked("application/json;as=Foo;v=v1;g=meta.k8s.io"), Err(NotAcceptable::Transform));
        assert_eq!(asked("text/html"), Err(NotAcceptable::Type));
    }
}
