//! From proof to user.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use listwatch_proto::resource::{Reason, Status};

use super::Tokens;
use super::service_account::{Believed, ServiceAccounts};
use crate::registry::{Registry, User};
use crate::transport::{Peer, PeerIdentity, websocket};

/// The user without proof.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of everybody who has proved who it is.
pub(super) const AUTHENTICATED: &str = "system:authenticated";

/// The user behind a port that asks for no proof (Kubernetes' former insecure port).
const UNSECURED: &str = "system:unsecured";

/// Judges what a request shows: a client certificate or a bearer token.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a port has one")]
pub enum Authenticator {
    /// Certificates, judged by the connection, static tokens, and those of service accounts.
    Proof(Tokens, ServiceAccounts),
    /// Whoever reaches the port is trusted: for a plain-text port on loopback.
    TrustAll,
}

impl Authenticator {
    /// The user of a request; [`ANONYMOUS`] if it shows nothing. A token goes before a certificate: it is
    /// said for this request, the certificate for the connection.
    ///
    /// # Errors
    /// `Unauthorized` for a certificate or token that does not hold.
    pub async fn user(
        &self,
        registry: &Registry,
        peer: Option<&Peer>,
        headers: &HeaderMap,
    ) -> Result<Arc<User>, Status> {
        if matches!(self, Authenticator::TrustAll) {
            return Ok(Arc::new(user(UNSECURED, &["system:masters".to_owned()])));
        }
        let identity = peer.map(|p| &p.identity);
        let shown = match headers.get(AUTHORIZATION).and_then(bearer) {
            Some(token) => {
                let token = std::str::from_utf8(token).map_err(|_| unauthorized("the bearer token is not UTF-8"))?;
                Some(Cow::Borrowed(token))
            }
            None => websocket::bearer(headers).map_err(unauthorized)?.map(Cow::Owned),
        };
        if let Some(token) = shown {
            let token = &*token;
            // A static token costs no more than to be found.
            if let Authenticator::Proof(tokens, accounts) = self
                && let Some(known) = tokens.user(token).filter(|_| !accounts.audiences().is_empty())
            {
                return Ok(known.clone());
            }
            let believed = self.token(registry, token, &[]).await;
            return believed.map(|believed| Arc::new(believed.user)).map_err(|why| unauthorized(&why));
        }
        match identity {
            Some(PeerIdentity::Certificate(subject)) => Ok(Arc::new(user(&subject.name, &subject.groups))),
            Some(PeerIdentity::Refused(reason)) => Err(unauthorized(reason)),
            _ => Ok(Arc::new(User {
                name: ANONYMOUS.to_owned(),
                groups: vec!["system:unauthenticated".to_owned()],
                ..User::default()
            })),
        }
    }

    /// Whose a token is. `audiences`: those of whom it must be for one; empty = this server's own.
    ///
    /// # Errors
    /// Why it is not believed.
    pub(super) async fn token(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
    ) -> Result<Believed, String> {
        let Authenticator::Proof(tokens, accounts) = self else { return Err("tokens are not looked at".to_owned()) };
        let wanted = if audiences.is_empty() { accounts.audiences() } else { audiences };
        if let Some(known) = tokens.user(token) {
            // A static token is for this server, whatever it calls itself.
            let own = accounts.audiences();
            let shared: Vec<String> = wanted.iter().filter(|audience| own.contains(audience)).cloned().collect();
            if shared.is_empty() {
                return Err("the bearer token is for none of the audiences".to_owned());
            }
            return Ok(Believed { user: User::clone(known), audiences: shared });
        }
        match Box::pin(accounts.believe(registry, token, wanted)).await {
            Some(judged) => judged,
            None => Err("invalid bearer token".to_owned()),
        }
    }

    /// The issuer of service accounts' tokens, if there is one.
    pub(super) fn accounts(&self) -> Option<&ServiceAccounts> {
        match self {
            Authenticator::Proof(_, accounts) => Some(accounts),
            Authenticator::TrustAll => None,
        }
    }
}

fn user(name: &str, groups: &[String]) -> User {
    let mut groups = groups.to_vec();
    groups.push(AUTHENTICATED.to_owned());
    User { name: name.to_owned(), groups, ..User::default() }
}

/// The token that a request shows, of whatever bytes. Another scheme, or an empty token, shows nothing; a token ends at the
/// next space, and behind two spaces is none (Kubernetes 1.36).
fn bearer(header: &http::HeaderValue) -> Option<&[u8]> {
    let mut parts = header.as_bytes().trim_ascii().splitn(3, |byte| *byte == b' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    Some(token).filter(|token| scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty())
}

fn unauthorized(reason: &str) -> Status {
    Status::new(Reason::Unauthorized, format!("Unauthorized: {reason}"))
}

#[cfg(test)]
mod tests {

    use super::super::service_account::ServiceAccountOptions;
    use super::*;
    use crate::transport::CertificateUser;

    fn registry() -> Registry {
        let store = Arc::new(crate::registry::MemoryStore::new());
        Registry::new(store, crate::clock::SystemClock::shared(), crate::registry::RegistryOptions::default())
    }

    fn peer(identity: PeerIdentity) -> Peer {
        Peer { address: "127.0.0.1:1".parse().unwrap(), identity }
    }

    async fn check(identity: PeerIdentity, authorization: Option<&str>) -> Result<User, Reason> {
        check_bytes(identity, authorization.map(str::as_bytes)).await
    }

    async fn check_bytes(identity: PeerIdentity, authorization: Option<&[u8]>) -> Result<User, Reason> {
        let mut headers = HeaderMap::new();
        if let Some(bytes) = authorization {
            headers.insert(AUTHORIZATION, http::HeaderValue::from_bytes(bytes).unwrap());
        }
        check_headers(identity, headers).await
    }

    async fn check_headers(identity: PeerIdentity, headers: HeaderMap) -> Result<User, Reason> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens.csv");
        std::fs::write(&path, "t1,alice,1,dev").unwrap();
        let accounts = ServiceAccounts::load(ServiceAccountOptions::default()).unwrap();
        let authenticator = Authenticator::Proof(Tokens::load(&path).unwrap(), accounts);
        let judged = authenticator.user(&registry(), Some(&peer(identity)), &headers).await;
        judged.map(|user| User::clone(&user)).map_err(|s| s.reason)
    }

    #[tokio::test]
    async fn a_browsers_token_is_as_good_as_another() {
        let check = async |token: &str| {
            let mut headers = HeaderMap::new();
            let protocols = format!("base64url.bearer.authorization.k8s.io.{token}, v5.channel.k8s.io");
            for (name, value) in
                [("connection", "Upgrade"), ("upgrade", "websocket"), ("sec-websocket-protocol", protocols.as_str())]
            {
                headers.insert(http::HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
            }
            check_headers(PeerIdentity::Nobody, headers).await.map(|user| user.name)
        };
        assert_eq!(check("dDE").await, Ok("alice".to_owned()));
        assert_eq!(check("dDI").await, Err(Reason::Unauthorized));
        assert_eq!(check("%").await, Err(Reason::Unauthorized));
    }

    #[tokio::test]
    async fn a_user_comes_from_proof_alone() {
        let admin =
            || PeerIdentity::Certificate(Arc::new(CertificateUser { name: "admin".into(), groups: vec!["g".into()] }));
        let named = |name: &str, groups: &[&str]| {
            let groups = groups.iter().map(|g| (*g).to_owned()).collect();
            Ok(User { name: name.into(), groups, ..User::default() })
        };
        let alice = || named("alice", &["dev", "system:authenticated"]).map(|user| User { uid: "1".into(), ..user });
        let refused = || PeerIdentity::Refused("expired".into());
        let nobody = named(ANONYMOUS, &["system:unauthenticated"]);
        assert_eq!(check(admin(), None).await, named("admin", &["g", "system:authenticated"]));
        assert_eq!(check(admin(), Some("Bearer wrong")).await, Err(Reason::Unauthorized));
        assert_eq!(check(admin(), Some("Bearer t1")).await, alice());
        assert_eq!(check(PeerIdentity::Nobody, None).await, nobody);
        assert_eq!(check(PeerIdentity::Plain, None).await, nobody);
        assert_eq!(check(PeerIdentity::Nobody, Some("Bearer ")).await, nobody);
        assert_eq!(check(PeerIdentity::Nobody, Some("Basic dDE6")).await, nobody);
        assert_eq!(check(PeerIdentity::Nobody, Some("bearer  t1")).await, nobody);
        assert_eq!(check(PeerIdentity::Nobody, Some(" bearer t1 and more ")).await, alice());
        assert_eq!(check(refused(), Some("Bearer t1")).await, alice());
        for (identity, header) in
            [(PeerIdentity::Nobody, Some("Bearer t2")), (refused(), None), (refused(), Some("Bearer t2"))]
        {
            assert_eq!(check(identity, header).await, Err(Reason::Unauthorized), "{header:?}");
        }
        // A token of any bytes is a token: its bearer is not nobody, nor who the certificate says.
        for bytes in [&b"Bearer t\xc3\xa9"[..], b"Bearer \xff\xfe", b"bearer t1\xff"] {
            assert_eq!(check_bytes(PeerIdentity::Nobody, Some(bytes)).await, Err(Reason::Unauthorized), "{bytes:?}");
            assert_eq!(check_bytes(admin(), Some(bytes)).await, Err(Reason::Unauthorized), "{bytes:?}");
        }
    }
}
