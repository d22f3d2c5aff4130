//! Keys that sign and keys that are believed: ECDSA on P-256 and RSA, in PEM files.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::{PemObject, SectionKind};
use serde_json::{Value, json};
use thiserror::Error;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// A key file that cannot be used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// It cannot be read.
    #[error("read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It holds no key of a kind that is served.
    #[error("{}: {reason} (taken are ECDSA P-256 as PKCS #8 and RSA of at least 2048 bits, in PEM)", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// The algorithm of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Es256,
    Rs256,
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Algorithm::Es256 => "ES256",
            Algorithm::Rs256 => "RS256",
        }
    }
}

/// A public key.
#[derive(Clone, Debug)]
pub(super) struct VerifyingKey {
    /// What names it in the head of a token: the hash of the key (upstream's key id).
    pub(super) id: String,
    pub(super) algorithm: Algorithm,
    /// The point of the curve, or the RSA key in DER.
    key: Vec<u8>,
}

/// A private key.
pub(super) struct SigningKey {
    pair: Pair,
    verifying: VerifyingKey,
}

enum Pair {
    Ecdsa(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl fmt::Debug for SigningKey {
    /// Leaves the secret out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("verifying", &self.verifying).finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<u8>, KeyError> {
    std::fs::read(path).map_err(|source| KeyError::Read { path: path.to_owned(), source })
}

impl SigningKey {
    /// Reads a private key.
    pub(super) fn load(path: &Path) -> Result<Self, KeyError> {
        let text = read(path)?;
        Self::parse(&text).map_err(|reason| KeyError::Unusable { path: path.to_owned(), reason })
    }

    fn parse(pem: &[u8]) -> Result<Self, String> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|error| format!("is no private key ({error})"))?;
        let random = SystemRandom::new();
        let pair = match &der {
            PrivateKeyDer::Pkcs1(key) => {
                Pair::Rsa(RsaKeyPair::from_der(key.secret_pkcs1_der()).map_err(|error| error.to_string())?)
            }
            PrivateKeyDer::Pkcs8(key) => {
                let bytes = key.secret_pkcs8_der();
                match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, bytes, &random) {
                    Ok(pair) => Pair::Ecdsa(pair),
                    Err(_) => Pair::Rsa(RsaKeyPair::from_pkcs8(bytes).map_err(|error| error.to_string())?),
                }
            }
            _ => return Err("is a private key in a form that is not taken".to_owned()),
        };
        let verifying = match &pair {
            Pair::Ecdsa(pair) => VerifyingKey::of_point(pair.public_key().as_ref()),
            Pair::Rsa(pair) => VerifyingKey::of_rsa(pair.public_key().as_ref()),
        };
        Ok(SigningKey { pair, verifying })
    }

    pub(super) fn verifying(&self) -> &VerifyingKey {
        &self.verifying
    }

    /// Signs; `None` if the system gives no randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ecdsa(pair) => pair.sign(&random, message).ok().map(|signature| signature.as_ref().to_vec()),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

impl VerifyingKey {
    /// Reads every key of a file: public keys, or a private key, whose public half is taken.
    pub(super) fn load(path: &Path) -> Result<Vec<Self>, KeyError> {
        let text = read(path)?;
        let unusable = |reason: String| KeyError::Unusable { path: path.to_owned(), reason };
        if let Ok(key) = SigningKey::parse(&text) {
            return Ok(vec![key.verifying]);
        }
        let mut keys = Vec::new();
        for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(&text) {
            let (kind, der) = section.map_err(|error| unusable(format!("is no PEM file ({error})")))?;
            if kind == SectionKind::PublicKey {
                keys.push(Self::of_spki(&der).map_err(unusable)?);
            }
        }
        if keys.is_empty() { Err(unusable("holds no public key".to_owned())) } else { Ok(keys) }
    }

    fn of_spki(der: &[u8]) -> Result<Self, String> {
        let (_, info) = SubjectPublicKeyInfo::from_der(der).map_err(|error| format!("is no public key ({error})"))?;
        let key = info.subject_public_key.data.to_vec();
        match info.parsed().map_err(|error| error.to_string())? {
            PublicKey::EC(point) if point.key_size() == 256 && key.len() == 65 => Ok(Self::of_point(&key)),
            PublicKey::RSA(_) => Ok(Self::of_rsa(&key)),
            _ => Err("is a public key of a kind that is not taken".to_owned()),
        }
    }

    fn of_point(point: &[u8]) -> Self {
        // SubjectPublicKeyInfo of a point on P-256, up to the point.
        const HEAD: [u8; 26] = [
            0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
            0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
        ];
        Self::of(Algorithm::Es256, point, &[&HEAD, point].concat())
    }

    fn of_rsa(key: &[u8]) -> Self {
        // The algorithm's identifier (rsaEncryption, NULL).
        const ALGORITHM: [u8; 15] =
            [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
        let bits = der(0x03, &[&[0], key].concat());
        Self::of(Algorithm::Rs256, key, &der(0x30, &[&ALGORITHM[..], &bits].concat()))
    }

    fn of(algorithm: Algorithm, key: &[u8], spki: &[u8]) -> Self {
        let hash = ring::digest::digest(&ring::digest::SHA256, spki);
        VerifyingKey { id: URL_SAFE_NO_PAD.encode(hash), algorithm, key: key.to_vec() }
    }

    /// Whether the signature is this key's.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self.algorithm {
            Algorithm::Es256 => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.key).verify(message, signature).is_ok()
            }
            Algorithm::Rs256 => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.key).verify(message, signature).is_ok()
            }
        }
    }

    /// As JSON Web Key.
    pub(super) fn to_jwk(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let algorithm = self.algorithm.name();
        match self.algorithm {
            Algorithm::Es256 => json!({
                "use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": algorithm,
                "x": text(&self.key[1..33]), "y": text(&self.key[33..]),
            }),
            Algorithm::Rs256 => {
                let parts = ring::rsa::PublicKeyComponents::<Vec<u8>>::from(&RsaParts(&self.key));
                json!({
                    "use": "sig", "kty": "RSA", "kid": self.id, "alg": algorithm, "n": text(&parts.n), "e": text(&parts.e),
                })
            }
        }
    }
}

/// An RSA public key in DER: two numbers.
struct RsaParts<'a>(&'a [u8]);

impl From<&RsaParts<'_>> for ring::rsa::PublicKeyComponents<Vec<u8>> {
    fn from(key: &RsaParts<'_>) -> Self {
        let (n, e) = two_numbers(key.0).unwrap_or_default();
        ring::rsa::PublicKeyComponents { n, e }
    }
}

fn two_numbers(der: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (body, _) = content(0x30, der)?;
    let (n, rest) = content(0x02, body)?;
    let (e, _) = content(0x02, rest)?;
    let plain = |number: &[u8]| number.iter().copied().skip_while(|byte| *byte == 0).collect::<Vec<u8>>();
    Some((plain(n), plain(e)))
}

/// The content of an element of this tag, and what stands behind it.
fn content(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&short, rest) = rest.split_first()?;
    let (length, rest) = if short < 0x80 {
        (usize::from(short), rest)
    } else {
        let count = usize::from(short & 0x7f);
        let (bytes, rest) = rest.split_at_checked(count).filter(|_| count <= 4)?;
        (bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte)), rest)
    };
    if first == tag { rest.split_at_checked(length) } else { None }
}

/// An element.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    if length < 0x80 {
        out.push(length as u8);
    } else {
        let bytes: Vec<u8> = length.to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
        out.push(0x80 | bytes.len() as u8);
        out.extend(bytes);
    }
    out.extend(content);
    out
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn signing_key() -> SigningKey {
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        SigningKey::parse(pem.as_bytes()).unwrap()
    }

    #[test]
    fn a_key_verifies_what_it_signed_and_nothing_else() {
        let (key, other) = (signing_key(), signing_key());
        let signature = key.sign(b"claims").unwrap();
        assert!(key.verifying().verifies(b"claims", &signature));
        assert!(!key.verifying().verifies(b"other claims", &signature));
        assert!(!other.verifying().verifies(b"claims", &signature));
        assert_eq!(key.verifying().to_jwk()["x"].as_str().map(str::len), Some(43));
    }

    #[test]
    fn the_id_of_a_key_is_the_hash_of_its_public_half() {
        let dir = tempfile::tempdir().unwrap();
        let (private, public) = (dir.path().join("sa.key"), dir.path().join("sa.pub"));
        let pair = rcgen::KeyPair::generate().unwrap();
        std::fs::write(&private, pair.serialize_pem()).unwrap();
        std::fs::write(&public, pair.public_key_pem()).unwrap();
        let key = SigningKey::load(&private).unwrap();
        assert_eq!(VerifyingKey::load(&public).unwrap()[0].id, key.verifying().id);
        assert_eq!(VerifyingKey::load(&private).unwrap()[0].id, key.verifying().id);
        std::fs::write(&public, "no key").unwrap();
        assert!(VerifyingKey::load(&public).is_err());
    }

    #[test]
    fn der_is_read_as_it_is_written() {
        let long = vec![7; 300];
        let inner = [der(0x02, &[&[0], &long[..]].concat()), der(0x02, &[1, 0, 1])].concat();
        assert_eq!(two_numbers(&der(0x30, &inner)), Some((long, vec![1, 0, 1])));
        assert_eq!(two_numbers(&[0x30, 0x05]), None);
    }
}
