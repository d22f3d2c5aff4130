//! Whether a certificate and a private key belong together, in the words of Go's `tls.X509KeyPair`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;

/// A section of a PEM text.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// `CERTIFICATE`.
    label: String,
    der: Vec<u8>,
}

/// What is wrong with the pair; `None` = nothing.
pub(super) fn fault(certificate: &[u8], key: &[u8]) -> Option<String> {
    let (certificate, key) = match (find_certificate(blocks(certificate)), find_key(blocks(key))) {
        (Err(why), _) | (_, Err(why)) => return Some(why),
        (Ok(certificate), Ok(key)) => (certificate, key),
    };
    let Ok((_, parsed)) = x509_parser::parse_x509_certificate(&certificate.der) else {
        return Some("x509: malformed certificate".to_owned());
    };
    let Some(signer) = private_key(key) else { return Some("tls: failed to parse private key".to_owned()) };
    // A key whose public half cannot be told is given the benefit of the doubt.
    let public = signer.public_key()?;
    let theirs = &parsed.tbs_certificate.subject_pki;
    if theirs.raw == &public[..] {
        return None;
    }
    let (_, own) = SubjectPublicKeyInfo::from_der(&public).ok()?;
    Some(if own.algorithm.algorithm == theirs.algorithm.algorithm {
        "tls: private key does not match public key".to_owned()
    } else {
        "tls: private key type does not match public key type".to_owned()
    })
}

fn find_certificate(blocks: Vec<Block>) -> Result<Block, String> {
    let labels: Vec<String> = blocks.iter().map(|block| block.label.clone()).collect();
    if let Some(block) = blocks.into_iter().find(|block| block.label == "CERTIFICATE") {
        return Ok(block);
    }
    Err(match &labels[..] {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but \
                                                    did find a private key; PEM inputs may have been switched"
                .to_owned()
        }
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the \
             following types: [{}]",
            labels.join(" ")
        ),
    })
}

fn find_key(blocks: Vec<Block>) -> Result<Block, String> {
    let labels: Vec<String> = blocks.iter().map(|block| block.label.clone()).collect();
    let is_key = |label: &str| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY");
    if let Some(block) = blocks.into_iter().find(|block| is_key(&block.label)) {
        return Ok(block);
    }
    Err(match &labels[..] {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of \
             the following types: [{}]",
            labels.join(" ")
        ),
    })
}

/// The key, whichever of the three forms it is in; the label does not count.
fn private_key(block: Block) -> Option<std::sync::Arc<dyn rustls::sign::SigningKey>> {
    let der = block.der;
    let forms: [PrivateKeyDer<'static>; 3] = [
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.clone())),
        PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(der.clone())),
        PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(der)),
    ];
    forms.iter().find_map(|form| rustls::crypto::ring::sign::any_supported_type(form).ok())
}

/// The sections of a PEM text; what does not decode is passed over, as Go does.
fn blocks(text: &[u8]) -> Vec<Block> {
    let text = String::from_utf8_lossy(text);
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines().map(str::trim_end) {
        let marked =
            |word: &str| line.strip_prefix(word).and_then(|rest| rest.strip_suffix("-----")).map(str::to_owned);
        if let Some(label) = marked("-----BEGIN ") {
            open = Some((label, String::new()));
        } else if let Some(end) = marked("-----END ") {
            if let Some((label, body)) = open.take().filter(|(label, _)| *label == end)
                && let Ok(der) = STANDARD.decode(body)
            {
                blocks.push(Block { label, der });
            }
        } else if let Some((_, body)) = &mut open
            && !line.contains(':')
        {
            body.push_str(line);
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate =
            rcgen::CertificateParams::new(vec!["a".to_owned()]).expect("valid").self_signed(&key).expect("signed");
        (certificate.pem(), key.serialize_pem())
    }

    #[test]
    fn a_pair_is_one_or_the_fault_is_told() {
        let ((certificate, key), (_, other)) = (pair(), pair());
        let told = |certificate: &str, key: &str| fault(certificate.as_bytes(), key.as_bytes());
        assert_eq!(told(&certificate, &key), None);
        assert_eq!(told(&certificate, &other).as_deref(), Some("tls: private key does not match public key"));
        assert_eq!(told("x", &key).as_deref(), Some("tls: failed to find any PEM data in certificate input"));
        assert_eq!(told(&certificate, "").as_deref(), Some("tls: failed to find any PEM data in key input"));
        assert_eq!(
            told(&certificate, &certificate).as_deref(),
            Some("tls: found a certificate rather than a key in the PEM for the private key")
        );
        assert_eq!(
            told(&key, &key).as_deref(),
            Some(
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs \
                 may have been switched"
            )
        );
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert_eq!(told(broken, &key).as_deref(), Some("x509: malformed certificate"));
        let broken = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert_eq!(told(&certificate, broken).as_deref(), Some("tls: failed to parse private key"));
    }
}
