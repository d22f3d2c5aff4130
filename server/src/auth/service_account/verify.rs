//! A token is believed: its signature, its time, and that what it is bound to is still there.

use std::collections::BTreeMap;

use listwatch_proto::go_quote::{quote, quote_all};
use listwatch_proto::resource::{Kind, Object, parse_time};

use super::ServiceAccounts;
use super::jwt::{self, Claimed};
use crate::registry::{Registry, RequestContext, Target, User};

/// How far clocks may lie apart.
const LEEWAY_SECS: i64 = 60;

/// Whom a token is of, and for whom of those asked it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Believed {
    pub(in super::super) user: User,
    pub(in super::super) audiences: Vec<String>,
}

impl ServiceAccounts {
    /// Looks at a token; `None` = it is none of ours. `audiences`: those of whom it must be for one.
    ///
    /// # Errors
    /// Why it is not believed.
    pub(in super::super) async fn believe(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
    ) -> Option<Result<Believed, String>> {
        let claimed = jwt::read(token)?;
        let issuer = claimed.text(&["iss"]);
        if !self.options.issuers.iter().any(|own| own == issuer) {
            return None;
        }
        Some(self.judge(registry, &claimed, audiences).await)
    }

    async fn judge(
        &self,
        registry: &Registry,
        claimed: &Claimed<'_>,
        audiences: &[String],
    ) -> Result<Believed, String> {
        if !claimed.is_signed_by(&self.verifying) {
            return Err("invalid bearer token".to_owned());
        }
        let own = claimed.audiences();
        let shared: Vec<String> = audiences.iter().filter(|wanted| own.contains(&wanted.as_str())).cloned().collect();
        if shared.is_empty() {
            return Err(format!(
                "token audiences {own} is invalid for the target audiences {audiences}",
                own = quote_all(&own),
                audiences = quote_all(audiences)
            ));
        }
        let now = registry.time().as_second();
        check_time(claimed, now)?;
        let user = self.bound(registry, claimed, now).await?;
        Ok(Believed { user, audiences: shared })
    }

    /// The user, if everything that the token is bound to is there.
    async fn bound(&self, registry: &Registry, claimed: &Claimed<'_>, now: i64) -> Result<User, String> {
        let within = |part: &'static str, key: &'static str| claimed.text(&["kubernetes.io", part, key]).to_owned();
        let namespace = claimed.text(&["kubernetes.io", "namespace"]).to_owned();
        let (name, uid) = (within("serviceaccount", "name"), within("serviceaccount", "uid"));
        let subject = format!("system:serviceaccount:{namespace}:{name}");
        if namespace.is_empty() || name.is_empty() || uid.is_empty() || claimed.text(&["sub"]) != subject {
            return Err("the token does not name a service account".to_owned());
        }
        let gone = || "service account token has been invalidated".to_owned();
        let account = find(registry, "ServiceAccount", &namespace, &name).await?;
        let account = account.ok_or_else(|| format!("serviceaccounts {} not found", quote(&name)))?;
        if account.uid() != uid {
            return Err(format!("service account UID ({}) does not match claim ({uid})", account.uid()));
        }
        if is_deleted(&account, now) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        let mut extra = BTreeMap::new();
        let mut tell = |key: &str, value: String| {
            extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value]);
        };
        let jti = claimed.text(&["jti"]);
        if !jti.is_empty() {
            tell("credential-id", format!("JTI={jti}"));
        }
        for (part, kind) in [("secret", "Secret"), ("pod", "Pod"), ("node", "Node")] {
            let (name, uid) = (within(part, "name"), within(part, "uid"));
            if name.is_empty() && uid.is_empty() {
                continue;
            }
            // The node of a pod is told, not checked: the pod stands for it.
            if part != "node" || within("pod", "name").is_empty() {
                let namespace = if part == "node" { "" } else { &namespace };
                let object = find(registry, kind, namespace, &name).await?.ok_or_else(gone)?;
                if object.uid() != uid {
                    let own = object.uid();
                    return Err(format!("{part} UID ({own}) does not match service account {part} ref claim ({uid})"));
                }
                if is_deleted(&object, now) {
                    return Err(gone());
                }
            }
            if part != "secret" {
                tell(&format!("{part}-name"), name);
                if !uid.is_empty() {
                    tell(&format!("{part}-uid"), uid);
                }
            }
        }
        let groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
            "system:authenticated".to_owned(),
        ];
        Ok(User { name: subject, uid, groups, extra })
    }
}

fn check_time(claimed: &Claimed<'_>, now: i64) -> Result<(), String> {
    let Some(expires) = claimed.seconds("exp") else { return Err("the token never expires".to_owned()) };
    if expires < now - LEEWAY_SECS {
        return Err("service account token has expired".to_owned());
    }
    if claimed.seconds("nbf").is_some_and(|begins| begins > now + LEEWAY_SECS) {
        return Err("service account token is not valid yet".to_owned());
    }
    if claimed.seconds("iat").is_some_and(|issued| issued > now + LEEWAY_SECS) {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}

/// Whether its end is past; what is on its way may still be served.
fn is_deleted(object: &Object, now: i64) -> bool {
    object.deletion_timestamp().and_then(parse_time).is_some_and(|due| due.as_second() < now - LEEWAY_SECS)
}

/// An object as it is now.
async fn find(registry: &Registry, kind: &str, namespace: &str, name: &str) -> Result<Option<Object>, String> {
    let kind = Kind::by_api_version("v1", kind).expect("a served kind");
    let target = Target::object(kind, namespace, name);
    match registry.get(&RequestContext::user("system:registry"), &target, 0).await {
        Ok(object) => Ok(Some(object.object().clone())),
        Err(status) if status.code == 404 => Ok(None),
        Err(status) => Err(status.message),
    }
}

/// As one claim after the other is looked at.
#[cfg(test)]
mod tests {
    use super::super::key::tests::signing_key;
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_token_has_its_time() {
        let key = signing_key();
        let check = |claims: Value| {
            let token = jwt::sign(&key, &claims).unwrap();
            check_time(&jwt::read(&token).unwrap(), 1000)
        };
        assert_eq!(check(json!({"exp": 1100, "nbf": 990, "iat": 990})), Ok(()));
        assert_eq!(check(json!({"exp": 950})), Ok(()));
        assert!(check(json!({"exp": 939})).unwrap_err().contains("expired"));
        assert!(check(json!({"exp": 2000, "nbf": 1061})).unwrap_err().contains("not valid yet"));
        assert!(check(json!({"exp": 2000, "iat": 1061})).unwrap_err().contains("future"));
        assert!(check(json!({})).is_err());
    }
}
