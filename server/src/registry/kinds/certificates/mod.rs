//! The kinds of the API group `certificates.k8s.io`, a file each; [`content`]: what stands in a request and a certificate.

use super::strategy::Strategy;

mod certificate_signing_request;
mod content;

pub(crate) use content::organizations;

/// The rules of a kind of this group.
pub(super) fn strategy(kind: &str) -> Option<&'static dyn Strategy> {
    Some(match kind {
        "CertificateSigningRequest" => &certificate_signing_request::CertificateSigningRequestStrategy,
        _ => return None,
    })
}
