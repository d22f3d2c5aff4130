//! Lists, written piece by piece: only the items that are being written are held as text.

use axum::body::Body;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderValue, StatusCode, header};
use listwatch_proto::resource::{Reason, Status};
use serde_json::{Value, json};

use super::form::answer;
use super::form::finish::Long;
use super::form::negotiate::{Encoding, Form, Shape};
use super::form::table::{self, Carried};
use crate::registry::{ListOptions, ListPage, Registry, RequestContext, StoredObject, Target, protobuf_write};

/// A list below this size is answered in one piece, with its length.
const WHOLE_BYTES_MAX: usize = 128 << 10;
/// Bytes of one piece of a longer one, about: as much as goes out at a time.
const PIECE_BYTES: usize = 64 << 10;
/// What the estimates of a piece's items may be above the truth, before the last of them.
const PIECE_SLACK_BYTES: usize = 4 << 10;

/// Answers a list.
pub(super) async fn list(
    registry: &Registry,
    context: &RequestContext,
    target: &Target,
    options: &ListOptions,
    form: Form,
    carried: Carried,
) -> Result<Response, Status> {
    if form.shape == Shape::Metadata {
        let list = target.kind.list_name();
        return Err(not_acceptable("PartialObjectMetadata", &format!("a list (*core.{list})"), "is"));
    }
    let page = registry.list(context, target, options).await?;
    page_of(registry, target, page, form, carried)
}

/// Answers with a page of a collection.
///
/// # Errors
/// `NotAcceptable` for a form that a list has not.
pub(super) fn page_of(
    registry: &Registry,
    target: &Target,
    page: ListPage,
    form: Form,
    carried: Carried,
) -> Result<Response, Status> {
    if form.encoding == Encoding::Protobuf {
        return Ok(protobuf(target, page));
    }
    let mut writer = Writer::new(registry.clone(), target, page, form, carried);
    let first = writer.piece(if writer.is_long() { PIECE_BYTES } else { WHOLE_BYTES_MAX });
    if writer.is_done() || form.encoding == Encoding::Yaml {
        let mut whole = first;
        if !writer.is_done() {
            let mut all = BytesMut::from(whole.as_ref());
            while !writer.is_done() {
                all.put(writer.piece(PIECE_BYTES));
            }
            whole = all.freeze();
        }
        return Ok(answer::whole(StatusCode::OK, form.encoding, whole));
    }
    let pieces = stream::unfold((Some(first), writer), |(first, mut writer)| async move {
        match first {
            Some(first) => Some((Ok::<_, std::convert::Infallible>(first), (None, writer))),
            None if writer.is_done() => None,
            None => Some((Ok(writer.piece(PIECE_BYTES)), (None, writer))),
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.extensions_mut().insert(Long);
    Ok(response)
}

/// A list in protobuf form. Its length stands at its beginning, so each item is made twice: to be measured, and to be
/// written when its turn comes.
fn protobuf(target: &Target, page: ListPage) -> Response {
    let item = |item: &StoredObject| item.protobuf_item().map(|message| protobuf_write::list_item(&message));
    let metadata = protobuf_write::list_metadata(page.revision, &page.continue_token, page.remaining);
    let length = metadata.len() + page.items.iter().filter_map(|one| item(one).map(|bytes| bytes.len())).sum::<usize>();
    let (api_version, kind) = (target.kind.api_version(), format!("{}List", target.kind.kind));
    let mut head = protobuf_write::envelope_head(&api_version, &kind, length);
    head.extend(metadata);
    let mut items = page.items.into_iter();
    let mut piece = move |mut out: Vec<u8>| {
        while out.len() < WHOLE_BYTES_MAX {
            let Some(next) = items.next() else {
                protobuf_write::envelope_tail(&mut out);
                return (out, true);
            };
            out.extend(item(&next).unwrap_or_default());
        }
        (out, false)
    };
    let (first, done) = piece(head);
    if done {
        return answer::protobuf(StatusCode::OK, first);
    }
    let pieces = stream::unfold((Some(first), piece, false), |(first, mut piece, done)| async move {
        match first {
            Some(first) => Some((Ok::<_, std::convert::Infallible>(Bytes::from(first)), (None, piece, done))),
            None if done => None,
            None => {
                let (out, done) = piece(Vec::new());
                Some((Ok(Bytes::from(out)), (None, piece, done)))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(answer::PROTOBUF));
    response.extensions_mut().insert(Long);
    response
}

/// 406: a form that does not fit to what was asked of.
pub(super) fn not_acceptable(asked: &str, is: &str, verb: &str) -> Status {
    let message = format!("you requested {asked}, but the requested object {verb} {is}");
    Status::new(Reason::NotAcceptable, message)
}

/// Writes a list in pieces.
struct Writer {
    registry: Registry,
    form: Form,
    carried: Carried,
    /// What stands before the items; taken by the first piece.
    head: Option<String>,
    items: std::vec::IntoIter<StoredObject>,
    written: usize,
    done: bool,
}

impl Writer {
    fn new(registry: Registry, target: &Target, page: ListPage, form: Form, carried: Carried) -> Writer {
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        // A list of custom resources says also that there is no more.
        let says_the_end = target.kind.extension.is_some() && form.shape == Shape::Object;
        if !page.continue_token.is_empty() || says_the_end {
            metadata["continue"] = page.continue_token.into();
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        let meta_version = format!("meta.k8s.io/{}", form.version);
        let head = match form.shape {
            Shape::Table => format!(
                "{{\"kind\":\"Table\",\"apiVersion\":\"{meta_version}\",\"metadata\":{metadata},\"columnDefinitions\":{},\
                 \"rows\":[",
                table::columns(&registry, target.kind)
            ),
            Shape::Object => format!(
                "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
                target.kind.list_name(),
                target.kind.api_version()
            ),
            Shape::Metadata | Shape::MetadataList => format!(
                "{{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"{meta_version}\",\"metadata\":{metadata},\
                 \"items\":["
            ),
        };
        Writer { registry, form, carried, head: Some(head), items: page.items.into_iter(), written: 0, done: false }
    }

    fn is_done(&self) -> bool {
        self.done
    }

    /// Whether objects as they are stored are more than goes in one piece; what else is shown is seen only when written.
    fn is_long(&self) -> bool {
        let mut bytes = 0;
        self.form.shape == Shape::Object
            && self.items.as_slice().iter().any(|item| {
                bytes += item.raw().len();
                bytes >= WHOLE_BYTES_MAX
            })
    }

    /// The next text, of about so many bytes.
    fn piece(&mut self, bytes: usize) -> Bytes {
        // Room for what is coming, so that a short list is a small piece.
        let mut room = self.head.as_ref().map_or(0, String::len) + 4;
        for item in self.items.as_slice() {
            room += item.size_max() + 1;
            if room > bytes + PIECE_SLACK_BYTES {
                break;
            }
        }
        let mut out = BytesMut::with_capacity(room);
        if let Some(head) = self.head.take() {
            out.put(head.as_bytes());
        }
        while out.len() < bytes {
            let Some(item) = self.items.next() else {
                out.put_slice(b"]}\n");
                self.done = true;
                break;
            };
            if self.written > 0 {
                out.put_u8(b',');
            }
            self.written += 1;
            match self.form.shape {
                Shape::Object => item.put_item(&mut out),
                Shape::Table => out.put(table::row(&self.registry, &item, self.carried, self.form.version).as_bytes()),
                Shape::Metadata | Shape::MetadataList => out.put(table::metadata(&item, self.form.version)),
            }
        }
        out.freeze()
    }
}

/// One object in the form that was asked for.
pub(super) fn one(
    registry: &Registry,
    object: &StoredObject,
    form: Form,
    carried: Carried,
    code: StatusCode,
) -> Result<Response, Status> {
    let kind = object.kind();
    if form.encoding == Encoding::Protobuf
        && let Some(message) = object.protobuf()
    {
        return Ok(answer::protobuf(code, message));
    }
    let json = match form.shape {
        Shape::Object => {
            let mut json = BytesMut::with_capacity(object.size_max() + 1);
            object.put_json(&mut json);
            json.put_u8(b'\n');
            return Ok(answer::whole(code, form.encoding, json.freeze()));
        }
        Shape::Metadata => table::metadata(object, form.version),
        Shape::MetadataList => {
            return Err(not_acceptable(
                "PartialObjectMetadataList",
                &format!("a list (*core.{})", kind.kind),
                "is not",
            ));
        }
        Shape::Table => {
            let row = table::row(registry, object, carried, form.version);
            let table = json!({
                "kind": "Table", "apiVersion": format!("meta.k8s.io/{}", form.version),
                "metadata": {"resourceVersion": object.revision().to_string()},
                "columnDefinitions": table::shown(registry.columns_of(object)), "rows": [],
            });
            table_with_row(&table, &row)
        }
    };
    let mut json = BytesMut::from(json.as_ref());
    json.put_u8(b'\n');
    Ok(answer::whole(code, form.encoding, json.freeze()))
}

/// A table with one row put in, which is text already.
pub(super) fn table_with_row(table: &Value, row: &str) -> Bytes {
    // `rows` is the last key in order.
    Bytes::from(table.to_string().replacen("\"rows\":[]", &format!("\"rows\":[{row}]"), 1))
}
