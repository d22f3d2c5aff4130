//! What stands in a request for a certificate (PKCS#10 in PEM) and in a certificate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;

/// The bytes of a field that holds some; what is none reads as empty.
pub(super) fn bytes(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).unwrap_or_default()
}

fn request_of(pem: &[u8]) -> Result<Pem, String> {
    let found = x509_parser::pem::parse_x509_pem(pem).ok().map(|(_, found)| found);
    let found = found.filter(|found| found.label == "CERTIFICATE REQUEST");
    found.ok_or_else(|| "PEM block type must be CERTIFICATE REQUEST".to_owned())
}

/// Whether a request is one, and signed with the key that it names.
///
/// # Errors
/// Why it is not.
pub(super) fn check_request(pem: &[u8]) -> Result<(), String> {
    let found = request_of(pem)?;
    let (rest, request) = X509CertificationRequest::from_der(&found.contents)
        .map_err(|error| format!("the certificate request cannot be read: {error}"))?;
    if !rest.is_empty() {
        return Err("asn1: syntax error: trailing data".to_owned());
    }
    request.verify_signature().map_err(|error| format!("the signature of the certificate request: {error}"))
}

/// The organizations (groups, to Kubernetes) that the subject of an object's request names.
///
/// # Errors
/// Why the request cannot be read.
pub(crate) fn organizations(object: &Object) -> Result<Vec<String>, String> {
    let found = request_of(&bytes(object.text(&["spec", "request"])))?;
    let (_, request) =
        X509CertificationRequest::from_der(&found.contents).map_err(|error| format!("it cannot be read: {error}"))?;
    let named = request.certification_request_info.subject.iter_organization();
    Ok(named.filter_map(|name| name.as_str().ok()).map(str::to_owned).collect())
}

/// Whether PEM holds certificates and nothing else; nothing at all is fine.
///
/// # Errors
/// Why it does not.
pub(super) fn check_certificates(pem: &[u8]) -> Result<(), String> {
    if pem.is_empty() {
        return Ok(());
    }
    let (mut rest, mut blocks) = (pem, 0);
    while let Ok((left, block)) = x509_parser::pem::parse_x509_pem(rest) {
        if block.label != "CERTIFICATE" {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {}", quote(&block.label)));
        }
        if has_headers(&rest[..rest.len() - left.len()]) {
            return Err("no PEM block headers are permitted".to_owned());
        }
        if block.contents.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        block.parse_x509().map_err(|error| format!("x509: malformed certificate: {error}"))?;
        blocks += 1;
        rest = left;
    }
    if blocks == 0 {
        return Err("must contain at least one CERTIFICATE PEM block".to_owned());
    }
    Ok(())
}

/// Headers stand between the first line of a block and its bytes, and have colons, which base64 has not.
fn has_headers(block: &[u8]) -> bool {
    let mut lines = block.split(|byte| *byte == b'\n').skip_while(|line| !line.starts_with(b"-----BEGIN"));
    lines.nth(1).is_some_and(|line| line.contains(&b':'))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    /// A request of this subject, in PEM.
    pub(in super::super) fn request(name: &str, organization: &str) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let key = KeyPair::generate().expect("a key");
        params.serialize_request(&key).expect("a request").pem().expect("PEM")
    }

    /// A certificate, in PEM.
    pub(in super::super) fn certificate() -> String {
        let key = KeyPair::generate().expect("a key");
        CertificateParams::default().self_signed(&key).expect("a certificate").pem()
    }

    #[test]
    fn a_request_is_signed_by_whom_it_is_for() {
        let pem = request("jane", "devs");
        assert_eq!(check_request(pem.as_bytes()), Ok(()));
        let mut der = request_of(pem.as_bytes()).expect("a block").contents;
        let last = der.len() - 3;
        der[last] ^= 1;
        let forged = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n",
            STANDARD.encode(der)
        );
        assert!(check_request(forged.as_bytes()).expect_err("forged").contains("signature"));
        for wrong in ["", "nothing", &certificate()] {
            assert_eq!(check_request(wrong.as_bytes()).expect_err(wrong), "PEM block type must be CERTIFICATE REQUEST");
        }
    }

    #[test]
    fn the_groups_that_are_asked_for_are_read() {
        let mut object = Object::default();
        object.set(&["spec", "request"], STANDARD.encode(request("root", "system:masters")));
        assert_eq!(organizations(&object), Ok(vec!["system:masters".to_owned()]));
        object.set(&["spec", "request"], "");
        assert!(organizations(&object).is_err());
    }

    #[test]
    fn only_certificates_are_issued() {
        let one = certificate();
        assert_eq!(check_certificates(b""), Ok(()));
        assert_eq!(check_certificates(format!("{one}{one}").as_bytes()), Ok(()));
        let mixed = format!("{one}{}", request("a", "b"));
        assert_eq!(
            check_certificates(mixed.as_bytes()).expect_err("mixed"),
            "only CERTIFICATE PEM blocks are allowed, found \"CERTIFICATE REQUEST\""
        );
        assert_eq!(
            check_certificates(b"nothing").expect_err("none"),
            "must contain at least one CERTIFICATE PEM block"
        );
    }
}
