//! What is done to the bytes of an answer on their way: laid out for a person who looks at them, compressed for a client
//! that asks for it (kube-apiserver 1.36).
//!
//! Invariant: a streamed answer stays one; no more of it is held than a piece.

use std::io::Write;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::{HeaderMap, HeaderValue, header};
use http_body_util::BodyExt;
use hyper::body::Body as _;

use super::pretty::Layout;
use crate::rest::query::Query;

/// An answer below this size is not worth the time of compressing it.
const GZIP_BYTES_MIN: u64 = 128 << 10;
/// Fast rather than small, as upstream.
const GZIP_LEVEL: u32 = 1;

/// Put into the extensions of an answer that is written piece by piece and has an end: a long list, not a watch.
#[derive(Clone, Copy, Debug)]
pub(in crate::rest) struct Long;

/// What a client wants of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::rest) struct Wants {
    pretty: bool,
    gzip: bool,
}

impl Wants {
    /// Reads a request.
    pub(in crate::rest) fn of(headers: &HeaderMap, query: &str) -> Wants {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok()).unwrap_or_default();
        let gzip = text(header::ACCEPT_ENCODING).split(',').any(|one| one.trim() == "gzip");
        let agent = text(header::USER_AGENT);
        // Browsers and command line tools show what they get as it is.
        let is_shown = ["curl", "Wget", "Mozilla/5.0"].iter().any(|shower| agent.starts_with(shower));
        let asked = match Query::read(query).text("pretty") {
            "" => None,
            word => Some(matches!(word, "1" | "t" | "T" | "true" | "TRUE" | "True")),
        };
        Wants { pretty: asked.unwrap_or(is_shown), gzip }
    }
}

impl Wants {
    /// Whether the bytes go as they are.
    pub(in crate::rest) fn is_plain(self) -> bool {
        !self.pretty && !self.gzip
    }
}

/// The answer as the client wants it.
pub(in crate::rest) async fn finish(mut response: Response, wants: Wants) -> Response {
    let is_long = response.extensions_mut().remove::<Long>().is_some();
    let size = response.body().size_hint().exact();
    let is_json = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    let pretty = wants.pretty && is_json && (is_long || size.is_some_and(|size| size > 0));
    let gzip = wants.gzip && (is_long || size.is_some_and(|size| size >= GZIP_BYTES_MIN));
    if !pretty && !gzip {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    if gzip {
        parts.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        parts.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    let mut work = Work::new(pretty, gzip);
    if is_long {
        return Response::from_parts(parts, pieces(body, work));
    }
    // A whole answer is at hand already; nothing is waited for.
    let whole = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    // It may take milliseconds: the other requests of this worker go on elsewhere.
    let whole = tokio::task::block_in_place(|| {
        let mut out = work.piece(&whole);
        out.extend(work.end());
        out
    });
    Response::from_parts(parts, Body::from(whole))
}

fn pieces(body: Body, work: Work) -> Body {
    let next = |(mut body, work): (Body, Option<Work>)| async move {
        let mut work = work?;
        loop {
            match body.frame().await {
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    let out = work.piece(&data);
                    if !out.is_empty() {
                        return Some((Ok(Bytes::from(out)), (body, Some(work))));
                    }
                }
                Some(Err(error)) => return Some((Err(error), (body, None))),
                None => return Some((Ok(Bytes::from(work.end())), (body, None))),
            }
        }
    };
    Body::from_stream(stream::unfold((body, Some(work)), next))
}

/// What is to be done, and how far it has come.
struct Work {
    layout: Option<Layout>,
    gzip: Option<GzEncoder<Vec<u8>>>,
}

impl Work {
    fn new(pretty: bool, gzip: bool) -> Work {
        Work {
            layout: pretty.then(Layout::default),
            gzip: gzip.then(|| GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL))),
        }
    }

    fn piece(&mut self, piece: &[u8]) -> Vec<u8> {
        let laid_out = self.layout.as_mut().map(|layout| layout.of(piece));
        let piece = laid_out.as_deref().unwrap_or(piece);
        match &mut self.gzip {
            None => piece.to_vec(),
            Some(gzip) => {
                gzip.write_all(piece).expect("writing into memory does not fail");
                std::mem::take(gzip.get_mut())
            }
        }
    }

    fn end(self) -> Vec<u8> {
        self.gzip.map_or_else(Vec::new, |gzip| gzip.finish().expect("writing into memory does not fail"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn wants(pairs: &[(header::HeaderName, &str)], query: &str) -> (bool, bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(name, value.parse().expect("a header"));
        }
        let wants = Wants::of(&headers, query);
        (wants.pretty, wants.gzip)
    }

    #[test]
    fn clients_say_what_they_want() {
        assert_eq!(wants(&[], ""), (false, false));
        assert_eq!(wants(&[(header::ACCEPT_ENCODING, "deflate, gzip")], ""), (false, true));
        assert_eq!(wants(&[(header::ACCEPT_ENCODING, "identity")], ""), (false, false));
        assert_eq!(wants(&[(header::USER_AGENT, "curl/8.5.0")], ""), (true, false));
        assert_eq!(wants(&[(header::USER_AGENT, "curl/8.5.0")], "pretty=false"), (false, false));
        assert_eq!(wants(&[], "pretty=true"), (true, false));
    }

    async fn finished(size: usize, long: bool, wants: Wants) -> (Option<String>, Vec<u8>) {
        let text = format!("[\"{}\"]\n", "x".repeat(size));
        let mut response = Response::new(Body::from(text));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if long {
            response.extensions_mut().insert(Long);
        }
        let (parts, body) = finish(response, wants).await.into_parts();
        let encoding = parts.headers.get(header::CONTENT_ENCODING).map(|v| v.to_str().expect("text").to_owned());
        (encoding, body.collect().await.expect("a body").to_bytes().to_vec())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn large_and_long_answers_are_compressed_small_ones_are_not() {
        let gzip = Wants { pretty: false, gzip: true };
        let (encoding, body) = finished(1000, false, gzip).await;
        assert_eq!((encoding, body.len()), (None, 1005));
        for (size, long) in [(200_000, false), (1000, true)] {
            let (encoding, body) = finished(size, long, gzip).await;
            assert_eq!(encoding.as_deref(), Some("gzip"));
            let mut text = String::new();
            GzDecoder::new(body.as_slice()).read_to_string(&mut text).expect("gzip");
            assert_eq!(text.len(), size + 5);
        }
        let both = Wants { pretty: true, gzip: true };
        let (_, body) = finished(200_000, false, both).await;
        let mut text = String::new();
        GzDecoder::new(body.as_slice()).read_to_string(&mut text).expect("gzip");
        assert!(text.starts_with("[\n  \"xx"));
    }
}
