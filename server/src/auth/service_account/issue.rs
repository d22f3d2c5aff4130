//! A token is made: `create serviceaccounts/token` (Kubernetes 1.36).

use jiff::{SignedDuration, Timestamp};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Cause, Kind, Object, Reason, Status, time};
use serde_json::{Value, json};

use super::super::node;
use super::ServiceAccounts;
use super::jwt;
use crate::registry::{Registry, RequestContext, Target};

const GROUP: &str = "authentication.k8s.io";
const KIND: &str = "TokenRequest";

/// What a token lives unless it is asked otherwise, at least, and at most: seconds.
const LIFE_SECS: i64 = 3600;
const LIFE_SECS_MIN: i64 = 600;
const LIFE_SECS_MAX: i64 = 1 << 32;

/// What the kubelet asks for a pod that did not ask itself; such a token is longer believed than renewed.
const POD_LIFE_SECS: i64 = 3607;
const EXTENDED_LIFE_SECS: i64 = 365 * 24 * 3600;

/// What a token is bound to, beside its account.
#[derive(Default)]
struct Bound {
    pod: Option<Value>,
    secret: Option<Value>,
    node: Option<Value>,
}

/// Answers a request for a token, with what a client should be told.
pub(in super::super) async fn issue(
    accounts: &ServiceAccounts,
    registry: &Registry,
    context: &RequestContext,
    target: &Target,
    mut request: Object,
) -> Result<(Object, Vec<String>), Status> {
    let Some(key) = &accounts.signing else {
        let why = "this server issues no tokens: it was started without --service-account-signing-key-file";
        return Err(Status::new(Reason::NotFound, why));
    };
    // Ahead of all defaults: what a kubelet did not name it did not ask for.
    node::admit_token(registry, &context.user, target, &request).await?;
    check_place(target, &request)?;
    let account = find(registry, target.kind, &target.namespace, &target.name).await?;
    check_uid(&request, &account)?;
    fill_in(accounts, &mut request, &account, registry.time());
    check_life(&request)?;
    let bound = bind(registry, target, &request).await?;

    let mut warnings = Vec::new();
    let mut life = request.int(&["spec", "expirationSeconds"]).unwrap_or(LIFE_SECS);
    let longest = i64::try_from(accounts.options.max_expiration.as_secs()).unwrap_or(i64::MAX);
    if longest > 0 && life > longest {
        warnings.push(format!("requested expiration of {life} seconds shortened to {longest} seconds"));
        life = longest;
        request.set(&["spec", "expirationSeconds"], life);
    }
    let audiences: Vec<&str> = texts(&request, &["spec", "audiences"]);
    let own = audiences.iter().all(|wanted| accounts.audiences().iter().any(|audience| audience == wanted));
    let extend = accounts.options.extend_expiration && bound.pod.is_some() && life == POD_LIFE_SECS && own;
    let (believed, warn_after) = if extend { (EXTENDED_LIFE_SECS, Some(life)) } else { (life, None) };

    let now = registry.time();
    let issuer = accounts.options.issuers.first().map_or(super::DEFAULT_ISSUER, String::as_str);
    let claims = claims(issuer, &account, &bound, &audiences, now.as_second(), believed, warn_after);
    let token = jwt::sign(key, &claims)
        .ok_or_else(|| Status::internal("failed to generate token: the system gives no randomness"))?;
    let expires = now.checked_add(SignedDuration::from_secs(life)).unwrap_or(Timestamp::MAX);
    request.set(&["status"], json!({"token": token, "expirationTimestamp": time(expires)}));
    Ok((request, warnings))
}

fn claims(
    issuer: &str,
    account: &Object,
    bound: &Bound,
    audiences: &[&str],
    now: i64,
    life: i64,
    warn_after: Option<i64>,
) -> Value {
    let (namespace, name) = (account.namespace(), account.name());
    let mut within = json!({"namespace": namespace, "serviceaccount": {"name": name, "uid": account.uid()}});
    for (part, bound) in [("pod", &bound.pod), ("secret", &bound.secret), ("node", &bound.node)] {
        if let Some(reference) = bound {
            within[part] = reference.clone();
        }
    }
    if let Some(seconds) = warn_after {
        within["warnafter"] = (now + seconds).into();
    }
    json!({
        "iss": issuer,
        "sub": format!("system:serviceaccount:{namespace}:{name}"),
        "aud": audiences,
        "exp": now.saturating_add(life),
        "iat": now,
        "nbf": now,
        "jti": uuid::Uuid::new_v4().to_string(),
        "kubernetes.io": within,
    })
}

/// Name and namespace of the body are those of the path, if it names any.
fn check_place(target: &Target, request: &Object) -> Result<(), Status> {
    for (field, own, sent, what) in [
        ("metadata.name", &target.name, request.name(), "name"),
        ("metadata.namespace", &target.namespace, request.namespace(), "namespace"),
    ] {
        if !sent.is_empty() && sent != own {
            let message = format!(
                "Invalid value: {sent}: must match the service account {what} if specified",
                sent = quote(&sent)
            );
            return Err(refused(&target.name, field, message));
        }
    }
    Ok(())
}

fn refused(name: &str, field: &str, message: String) -> Status {
    let cause = Cause { reason: "FieldValueInvalid".to_owned(), message, field: field.to_owned() };
    Status::invalid_as(KIND, GROUP, name, vec![cause])
}

fn conflict(kind: &str, group: &str, name: &str, why: &str) -> Status {
    let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
    let mut status =
        Status::new(Reason::Conflict, format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}"));
    (status.name, status.group, status.kind) = (name.to_owned(), group.to_owned(), kind.to_owned());
    status
}

fn check_uid(request: &Object, account: &Object) -> Result<(), Status> {
    let (asked, own) = (request.uid(), account.uid());
    if asked.is_empty() || asked == own {
        return Ok(());
    }
    let why = format!("the UID in the token request ({asked}) does not match the UID of the service account ({own})");
    Err(conflict(KIND, GROUP, account.name(), &why))
}

/// What the request leaves out.
fn fill_in(accounts: &ServiceAccounts, request: &mut Object, account: &Object, now: Timestamp) {
    if texts(request, &["spec", "audiences"]).is_empty() {
        request.set(&["spec", "audiences"], accounts.audiences().to_vec());
    }
    if request.int(&["spec", "expirationSeconds"]).is_none() {
        request.set(&["spec", "expirationSeconds"], LIFE_SECS);
    }
    for (key, value) in [("name", account.name()), ("namespace", account.namespace()), ("uid", account.uid())] {
        request.set(&["metadata", key], value);
    }
    request.set(&["metadata", "creationTimestamp"], time(now));
}

fn check_life(request: &Object) -> Result<(), Status> {
    let life = request.int(&["spec", "expirationSeconds"]).unwrap_or(LIFE_SECS);
    let refuse = |why: &str| {
        Err(refused("", "spec.expirationSeconds", format!("Invalid value: {life}: may not specify a duration {why}")))
    };
    match life {
        ..LIFE_SECS_MIN => refuse("less than 10 minutes"),
        LIFE_SECS_MIN..=LIFE_SECS_MAX => Ok(()),
        _ => refuse("larger than 2^32 seconds"),
    }
}

/// Finds what the token shall be bound to.
async fn bind(registry: &Registry, target: &Target, request: &Object) -> Result<Bound, Status> {
    let at = |key: &str| request.text(&["spec", "boundObjectRef", key]).to_owned();
    if request.at(&["spec", "boundObjectRef"]).is_none_or(Value::is_null) {
        return Ok(Bound::default());
    }
    let (kind, version, name, uid) = (at("kind"), at("apiVersion"), at("name"), at("uid"));
    let core = !version.contains('/');
    let reference = |object: &Object| Some(json!({"name": object.name(), "uid": object.uid()}));
    let mut bound = Bound::default();
    let own_uid = match kind.as_str() {
        "Pod" if core => {
            let pod = find(registry, served("Pod"), &target.namespace, &name).await?;
            if pod.text(&["spec", "serviceAccountName"]) != target.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
                    quote(&target.name)
                )));
            }
            let node = pod.text(&["spec", "nodeName"]);
            if !node.is_empty() {
                bound.node = match find(registry, served("Node"), "", node).await {
                    Ok(node) => reference(&node),
                    Err(status) if status.code == 404 => Some(json!({"name": node})),
                    Err(status) => return Err(status),
                };
            }
            bound.pod = reference(&pod);
            pod.uid().to_owned()
        }
        "Node" if core => {
            let node = find(registry, served("Node"), "", &name).await?;
            bound.node = reference(&node);
            node.uid().to_owned()
        }
        "Secret" if core => {
            let secret = find(registry, served("Secret"), &target.namespace, &name).await?;
            bound.secret = reference(&secret);
            secret.uid().to_owned()
        }
        _ => {
            let (group, version) = version.split_once('/').unwrap_or(("", &version));
            let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(why));
        }
    };
    if !uid.is_empty() && uid != own_uid {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(conflict(&kind, "", &name, &why));
    }
    Ok(bound)
}

fn served(kind: &str) -> &'static Kind {
    Kind::by_api_version("v1", kind).expect("a served kind")
}

fn texts<'a>(object: &'a Object, path: &[&str]) -> Vec<&'a str> {
    object.at(path).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

async fn find(registry: &Registry, kind: &'static Kind, namespace: &str, name: &str) -> Result<Object, Status> {
    let target = Target::object(kind, namespace, name);
    Ok(registry.get(&RequestContext::user("system:registry"), &target, 0).await?.object().clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(spec: Value) -> Object {
        Object::from_value(json!({"metadata": {}, "spec": spec})).expect("a map")
    }

    #[test]
    fn a_life_is_bounded_both_ways() {
        assert_eq!(check_life(&request(json!({"expirationSeconds": 600}))), Ok(()));
        let short = check_life(&request(json!({"expirationSeconds": 60}))).expect_err("short");
        assert_eq!(
            short.message,
            "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 60: may not specify \
             a duration less than 10 minutes"
        );
        assert!(check_life(&request(json!({"expirationSeconds": (1_i64 << 32) + 1}))).is_err());
    }

    #[test]
    fn a_token_claims_whom_it_is_bound_to() {
        let account = Object::from_value(json!({"metadata": {"name": "robot", "namespace": "n", "uid": "u"}}));
        let bound = Bound { pod: Some(json!({"name": "p", "uid": "q"})), ..Bound::default() };
        let claims = claims("i", &account.expect("a map"), &bound, &["a"], 100, 1000, Some(50));
        assert_eq!((&claims["exp"], &claims["sub"]), (&json!(1100), &json!("system:serviceaccount:n:robot")));
        assert_eq!(claims["kubernetes.io"]["pod"]["name"], "p");
        assert_eq!(claims["kubernetes.io"]["warnafter"], 150);
        assert!(claims["kubernetes.io"].get("node").is_none());
    }

    #[test]
    fn the_body_speaks_of_the_account_of_the_path() {
        let target = Target::object(served("ServiceAccount"), "n", "robot").with_subresource("token");
        let named = |name: &str| Object::from_value(json!({"metadata": {"name": name}})).expect("a map");
        assert_eq!(check_place(&target, &named("robot")), Ok(()));
        let other = check_place(&target, &named("other")).expect_err("another");
        assert!(other.message.contains("must match the service account name if specified"), "{}", other.message);
    }
}
