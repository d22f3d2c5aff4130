//! From proof to user.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use listwatch_proto::resource::{Reason, Status};

use super::Tokens;
use crate::registry::User;
use crate::transport::{Peer, PeerIdentity};

/// The user without proof.
pub const ANONYMOUS: &str = "system:anonymous";

/// The user behind a port that asks for no proof (Kubernetes' former insecure port).
const UNSECURED: &str = "system:unsecured";

/// Judges what a request shows: a client certificate or a bearer token.
#[derive(Debug)]
pub enum Authenticator {
    /// Certificates, judged by the connection, and tokens.
    Proof(Tokens),
    /// Whoever reaches the port is trusted: for a plain-text port on loopback.
    TrustAll,
}

impl Authenticator {
    /// The user of a request; [`ANONYMOUS`] if it shows nothing. A certificate that holds goes before a token.
    ///
    /// # Errors
    /// `Unauthorized` for a certificate or token that does not hold.
    pub fn user(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Result<User, Status> {
        let Authenticator::Proof(tokens) = self else { return Ok(user(UNSECURED, &["system:masters".to_owned()])) };
        let identity = peer.map(|p| &p.identity);
        if let Some(PeerIdentity::Certificate(subject)) = identity {
            return Ok(user(&subject.name, &subject.groups));
        }
        if let Some(token) = headers.get(AUTHORIZATION).and_then(bearer) {
            let known = tokens.user(token).ok_or_else(|| unauthorized("the bearer token is not known"))?;
            return Ok(User { uid: known.uid.clone(), ..user(&known.name, &known.groups) });
        }
        match identity {
            Some(PeerIdentity::Refused(reason)) => Err(unauthorized(reason)),
            _ => Ok(User {
                name: ANONYMOUS.to_owned(),
                groups: vec!["system:unauthenticated".to_owned()],
                ..User::default()
            }),
        }
    }
}

fn user(name: &str, groups: &[String]) -> User {
    let mut groups = groups.to_vec();
    groups.push("system:authenticated".to_owned());
    User { name: name.to_owned(), groups, ..User::default() }
}

/// The token that a request shows. Another scheme, or an empty token, shows nothing (Kubernetes 1.36).
fn bearer(header: &http::HeaderValue) -> Option<&str> {
    let (scheme, token) = header.to_str().ok()?.trim().split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

fn unauthorized(reason: &str) -> Status {
    Status::new(Reason::Unauthorized, format!("Unauthorized: {reason}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::transport::CertificateUser;

    fn peer(identity: PeerIdentity) -> Peer {
        Peer { address: "127.0.0.1:1".parse().unwrap(), identity }
    }

    fn check(identity: PeerIdentity, authorization: Option<&str>) -> Result<User, Reason> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.csv");
        std::fs::write(&path, "t1,alice,1,dev").unwrap();
        let mut headers = HeaderMap::new();
        if let Some(text) = authorization {
            headers.insert(AUTHORIZATION, text.parse().unwrap());
        }
        Authenticator::Proof(Tokens::load(&path).unwrap()).user(Some(&peer(identity)), &headers).map_err(|s| s.reason)
    }

    #[test]
    fn a_user_comes_from_proof_alone() {
        let admin =
            || PeerIdentity::Certificate(Arc::new(CertificateUser { name: "admin".into(), groups: vec!["g".into()] }));
        let named = |name: &str, groups: &[&str]| {
            let groups = groups.iter().map(|g| (*g).to_owned()).collect();
            Ok(User { name: name.into(), groups, ..User::default() })
        };
        let alice = || named("alice", &["dev", "system:authenticated"]).map(|user| User { uid: "1".into(), ..user });
        let refused = || PeerIdentity::Refused("expired".into());
        let nobody = named(ANONYMOUS, &["system:unauthenticated"]);
        assert_eq!(check(admin(), None), named("admin", &["g", "system:authenticated"]));
        assert_eq!(check(admin(), Some("Bearer wrong")), named("admin", &["g", "system:authenticated"]));
        assert_eq!(check(PeerIdentity::Nobody, None), nobody);
        assert_eq!(check(PeerIdentity::Plain, None), nobody);
        assert_eq!(check(PeerIdentity::Nobody, Some("Bearer ")), nobody);
        assert_eq!(check(PeerIdentity::Nobody, Some("Basic dDE6")), nobody);
        assert_eq!(check(PeerIdentity::Nobody, Some("bearer  t1")), alice());
        assert_eq!(check(refused(), Some("Bearer t1")), alice());
        for (identity, header) in
            [(PeerIdentity::Nobody, Some("Bearer t2")), (refused(), None), (refused(), Some("Bearer t2"))]
        {
            assert_eq!(check(identity, header), Err(Reason::Unauthorized), "{header:?}");
        }
    }
}
