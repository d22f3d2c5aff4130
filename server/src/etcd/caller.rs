//! Who calls: from the connection's certificate and the request's metadata to the [`Origin`] stored with each write.
//!
//! Invariant: the author is only ever what the connection proved; what a client says of itself is kept apart from it.

use std::sync::{Arc, LazyLock};

use tonic::{Extensions, metadata::MetadataMap};

use crate::storage::Origin;
use crate::transport::Peer;

/// Metadata: the name a client gives itself.
const CLIENT_KEY: &str = "lw-client";
/// Metadata: the highest revision the client had seen.
const SEEN_KEY: &str = "lw-seen-revision";

static ANONYMOUS: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("anonymous"));

/// The author of a request.
pub(super) fn author(extensions: &Extensions) -> Arc<str> {
    extensions.get::<Peer>().and_then(Peer::certificate_name).map_or_else(|| ANONYMOUS.clone(), Arc::from)
}

/// The name the client gave itself, cut to what is stored.
pub(super) fn client(metadata: &MetadataMap) -> Option<Arc<str>> {
    let name = metadata.get(CLIENT_KEY)?.to_str().ok()?;
    let end = name.len().min(Origin::CLIENT_BYTES_MAX);
    // Metadata values that are text are ASCII, so any cut is at a character border.
    (end > 0).then(|| Arc::from(&name[..end]))
}

/// Who writes, and what they had seen.
pub(super) fn origin<T>(request: &tonic::Request<T>) -> Origin {
    let metadata = request.metadata();
    let cause = metadata
        .get(SEEN_KEY)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<i64>().ok())
        .map_or(0, |revision| revision.max(0));
    Origin { author: author(request.extensions()), client: client(metadata), cause }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{CertificateUser, PeerIdentity};

    #[test]
    fn origin_keeps_proof_and_claim_apart() {
        let mut request = tonic::Request::new(());
        assert_eq!(origin(&request), Origin::anonymous());
        request.metadata_mut().insert(CLIENT_KEY, "x".repeat(300).parse().expect("ascii"));
        request.metadata_mut().insert(SEEN_KEY, "42".parse().expect("ascii"));
        let user = CertificateUser { name: "system:node:node01".to_owned(), groups: Vec::new() };
        let address = ([127, 0, 0, 1], 1).into();
        request.extensions_mut().insert(Peer { address, identity: PeerIdentity::Certificate(Arc::new(user)) });
        let origin = origin(&request);
        assert_eq!(&*origin.author, "system:node:node01");
        assert_eq!(origin.client.map(|name| name.len()), Some(Origin::CLIENT_BYTES_MAX));
        assert_eq!(origin.cause, 42);
    }

    #[test]
    fn a_cause_that_is_no_revision_is_unknown() {
        for text in ["", "-7", "many", "99999999999999999999"] {
            let mut request = tonic::Request::new(());
            request.metadata_mut().insert(SEEN_KEY, text.parse().expect("ascii"));
            assert_eq!(origin(&request).cause, 0, "{text:?}");
        }
    }
}
