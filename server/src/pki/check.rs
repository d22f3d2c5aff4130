//! Whether files that are there are good: readable, of one pair, signed by the authority, in their time, with the
//! names they must carry.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{KeyPair, PublicKeyData};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, RootCertStore};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::identity::Usage;
use super::{Error, Identity};

/// The two files of one certificate.
#[derive(Debug, Clone)]
pub(super) struct Files {
    dir: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Files {
    pub(super) fn in_dir(dir: &Path, stem: &str) -> Self {
        Files {
            dir: dir.to_owned(),
            certificate: dir.join(format!("{stem}.crt")),
            key: dir.join(format!("{stem}.key")),
        }
    }

    pub(super) fn damaged(&self, reason: impl Display) -> Error {
        Error::Damaged { path: self.certificate.clone(), pair: self.key.clone(), reason: reason.to_string() }
    }

    fn damaged_key(&self, reason: impl Display) -> Error {
        Error::Damaged { path: self.key.clone(), pair: self.certificate.clone(), reason: reason.to_string() }
    }

    pub(super) fn damaged_authority(&self, reason: impl Display) -> Error {
        Error::DamagedAuthority { path: self.certificate.clone(), dir: self.dir.clone(), reason: reason.to_string() }
    }
}

/// Checks the authority's own files and reads its key.
pub(super) fn authority(files: &Files, certificate: &str, key: &str, now_ms: i64) -> Result<KeyPair, Error> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes())
        .map_err(|e| files.damaged_authority(format!("is not a PEM certificate ({e})")))?;
    let parsed = parse(&der).map_err(|e| files.damaged_authority(e))?;
    if !parsed.is_ca() {
        return Err(files.damaged_authority("is not the certificate of an authority"));
    }
    let key = KeyPair::from_pem(key).map_err(|e| Error::DamagedAuthority {
        path: files.key.clone(),
        dir: files.dir.clone(),
        reason: format!("is not a PEM private key ({e})"),
    })?;
    if parsed.public_key().raw != key.subject_public_key_info() {
        return Err(files.damaged_authority(format!("does not belong to the key {}", files.key.display())));
    }
    in_time(files, &parsed, now_ms)?;
    Ok(key)
}

/// Checks a certificate that the authority should have signed for an identity.
pub(super) fn issued(
    files: &Files,
    identity: &Identity,
    ca: &str,
    certificate: &str,
    key: &str,
    now_ms: i64,
) -> Result<(), Error> {
    let der = CertificateDer::from_pem_slice(certificate.as_bytes())
        .map_err(|e| files.damaged(format!("is not a PEM certificate ({e})")))?;
    let parsed = parse(&der).map_err(|e| files.damaged(e))?;
    let key = KeyPair::from_pem(key).map_err(|e| files.damaged_key(format!("is not a PEM private key ({e})")))?;
    if parsed.public_key().raw != key.subject_public_key_info() {
        return Err(files.damaged(format!("does not belong to the key {}", files.key.display())));
    }
    in_time(files, &parsed, now_ms)?;
    let common_name = parsed.subject().iter_common_name().next().and_then(|n| n.as_str().ok());
    if common_name != Some(identity.user().as_str()) {
        let found = common_name.unwrap_or("nobody");
        return Err(files.damaged(format!("is for {found}, not for {}", identity.user())));
    }
    signed(files, identity, ca, &der, now_ms)
}

fn signed(files: &Files, identity: &Identity, ca: &str, der: &CertificateDer<'_>, now_ms: i64) -> Result<(), Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(ca.as_bytes()).map_err(|e| files.damaged_authority(e))?;
    roots.add(ca).map_err(|e| files.damaged_authority(e))?;
    let roots = Arc::new(roots);
    let now = UnixTime::since_unix_epoch(Duration::from_millis(u64::try_from(now_ms).unwrap_or(0)));
    let wrong = |error: rustls::Error| match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            files.damaged(format!("was not signed by the authority {}", files.dir.join("ca.crt").display()))
        }
        other => files.damaged(other),
    };
    if identity.usage() != Usage::Server {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
            .build()
            .map_err(|e| files.damaged_authority(e))?;
        verifier.verify_client_cert(der, &[], now).map_err(wrong)?;
    }
    if identity.usage() != Usage::Client {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|e| files.damaged_authority(e))?;
        for name in identity.required_names() {
            let missing =
                || Error::MissingName { path: files.certificate.clone(), pair: files.key.clone(), name: name.clone() };
            let server = ServerName::try_from(name.as_str()).map_err(|_| missing())?;
            verifier.verify_server_cert(der, &[], &server, &[], now).map_err(|error| match error {
                rustls::Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                ) => missing(),
                other => wrong(other),
            })?;
        }
    }
    Ok(())
}

fn parse<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, String> {
    match X509Certificate::from_der(der) {
        Ok((_, certificate)) => Ok(certificate),
        Err(error) => Err(format!("is not an X.509 certificate ({error})")),
    }
}

fn in_time(files: &Files, certificate: &X509Certificate<'_>, now_ms: i64) -> Result<(), Error> {
    let validity = certificate.validity();
    let now = now_ms.div_euclid(1000);
    if (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now) {
        return Ok(());
    }
    let text = |seconds| jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |t| t.to_string());
    Err(Error::NotValidNow {
        path: files.certificate.clone(),
        pair: files.key.clone(),
        not_before: text(validity.not_before.timestamp()),
        not_after: text(validity.not_after.timestamp()),
        now: text(now),
    })
}
