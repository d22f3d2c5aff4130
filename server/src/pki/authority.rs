//! The authority and the certificates it signs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::check::{self, Files};
use super::identity::Usage;
use super::{Error, Identity, file};
use crate::clock::Clock;

/// How long authority and certificates are good for: a cluster in a folder is not renewed by anybody.
const LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);

/// How far a certificate's time begins in the past, for machines whose clocks lag.
const SKEW: Duration = Duration::from_secs(3600);

/// The folder of certificates, opened.
#[derive(Debug)]
pub struct Pki {
    dir: PathBuf,
    ca_pem: String,
    issuer: Issuer<'static, KeyPair>,
    now_ms: i64,
}

/// A certificate and its key, as text and as files.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// For whom.
    pub identity: Identity,
    /// The certificate's file.
    pub certificate_path: PathBuf,
    /// The key's file.
    pub key_path: PathBuf,
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// The key, PEM (PKCS #8). Secret.
    pub key_pem: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials")
            .field("identity", &self.identity)
            .field("certificate_path", &self.certificate_path)
            .finish_non_exhaustive()
    }
}

/// Opens the authority in `dir`, making folder and authority if they are not there.
///
/// # Errors
/// A file that is damaged, expired or cannot be read or written; the message names it and the cure.
pub fn ensure(dir: impl Into<PathBuf>, clock: &dyn Clock) -> Result<Pki, Error> {
    let dir = dir.into();
    file::make_dir(&dir)?;
    let _lock = file::lock_dir(&dir)?;
    let files = Files::in_dir(&dir, "ca");
    let now_ms = clock.wall_ms();
    let (ca_pem, key_pem) = match (file::read(&files.certificate)?, file::read(&files.key)?) {
        (Some(certificate), Some(key)) => (certificate, key),
        (Some(_), None) => return Err(files.damaged_authority("has no key beside it")),
        // The key without the certificate is an interrupted start: it has signed nothing.
        (None, _) => {
            let made =
                make_authority(now_ms).map_err(|source| Error::Make { subject: "the authority".into(), source })?;
            file::write_all(&[(files.key.clone(), made.1.clone()), (files.certificate.clone(), made.0.clone())])?;
            made
        }
    };
    let key = check::authority(&files, &ca_pem, &key_pem, now_ms)?;
    let issuer = Issuer::from_ca_cert_pem(&ca_pem, key).map_err(|e| files.damaged_authority(e.to_string()))?;
    Ok(Pki { dir, ca_pem, issuer, now_ms })
}

impl Pki {
    /// The authority's certificate, PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The authority's certificate file.
    pub fn ca_path(&self) -> PathBuf {
        Files::in_dir(&self.dir, "ca").certificate
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The key that signs service accounts' tokens, made and written if it is not there.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn signing_key(&self) -> Result<PathBuf, Error> {
        let _lock = file::lock_dir(&self.dir)?;
        let path = self.dir.join("sa.key");
        if file::read(&path)?.is_none() {
            let make = |source| Error::Make { subject: "service accounts' tokens".into(), source };
            let key = KeyPair::generate().map_err(make)?;
            file::write_all(&[(path.clone(), key.serialize_pem())])?;
        }
        Ok(path)
    }

    /// The certificate of an identity, made and written if it is not there.
    ///
    /// # Errors
    /// As [`ensure`]; also a certificate that another authority signed, or that lacks a name it must carry.
    pub fn issue(&self, identity: &Identity) -> Result<Credentials, Error> {
        let mut all = self.issue_all(std::slice::from_ref(identity))?;
        Ok(all.pop().expect("one identity gives one certificate"))
    }

    /// The certificates of several identities, in their order, with one round of syncs for all that are new.
    ///
    /// # Errors
    /// As [`Pki::issue`].
    pub fn issue_all(&self, identities: &[Identity]) -> Result<Vec<Credentials>, Error> {
        let _lock = file::lock_dir(&self.dir)?;
        let mut all = Vec::with_capacity(identities.len());
        let mut new = Vec::new();
        for identity in identities {
            identity.check()?;
            let files = Files::in_dir(&self.dir, &identity.stem());
            let (certificate_pem, key_pem) = match (file::read(&files.certificate)?, file::read(&files.key)?) {
                (Some(certificate), Some(key)) => {
                    check::issued(&files, identity, &self.ca_pem, &certificate, &key, self.now_ms)?;
                    (certificate, key)
                }
                (Some(_), None) => return Err(files.damaged("has no key beside it")),
                (None, _) => {
                    let made =
                        self.make(identity).map_err(|source| Error::Make { subject: identity.user(), source })?;
                    new.push((files.key.clone(), made.1.clone()));
                    new.push((files.certificate.clone(), made.0.clone()));
                    made
                }
            };
            all.push(Credentials {
                identity: identity.clone(),
                certificate_path: files.certificate,
                key_path: files.key,
                certificate_pem,
                key_pem,
            });
        }
        file::write_all(&new)?;
        Ok(all)
    }

    fn make(&self, identity: &Identity) -> Result<(String, String), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut names = identity.required_names();
        if let (Identity::Server(_), Some(host)) = (identity, host_name()) {
            names.push(host);
        }
        names.sort_unstable();
        names.dedup();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = subject(&identity.user(), identity.groups());
        set_lifetime(&mut params, self.now_ms);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = match identity.usage() {
            Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
            Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
            Usage::Both => vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth],
        };
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

fn make_authority(now_ms: i64) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name = subject("listwatch-ca", &[]);
    set_lifetime(&mut params, now_ms);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn subject(user: &str, groups: &[&str]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for group in groups {
        name.push(DnType::OrganizationName, *group);
    }
    name.push(DnType::CommonName, user);
    name
}

/// Certificates count whole seconds; the clock is the caller's, so that tests can move it.
fn set_lifetime(params: &mut CertificateParams, now_ms: i64) {
    let now = rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(now_ms / 1000).unwrap_or(0));
    params.not_before = now - SKEW;
    params.not_after = now + LIFETIME;
}

/// The machine's name, if it can stand in a certificate.
fn host_name() -> Option<String> {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_str().ok()?.to_ascii_lowercase();
    let good = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    (good && !name.is_empty()).then_some(name)
}
