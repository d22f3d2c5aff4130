//! Acting as somebody else: who asks must be allowed to impersonate each part of it (Kubernetes 1.36).

use std::collections::BTreeMap;

use http::HeaderMap;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Reason, Status};

use super::ANONYMOUS;
use crate::registry::{Asked, Attributes, Registry, ResourceAttributes, User};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Whom a request wants to act as, if anybody.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

/// The user that a request acts as, if it is allowed to; `None` = as who it is.
///
/// # Errors
/// `Forbidden`; 400 for headers that name no user.
pub(super) async fn user(registry: &Registry, asker: &User, headers: &HeaderMap) -> Result<Option<User>, Status> {
    let Some(wanted) = read(headers)? else { return Ok(None) };
    let judged = async {
        for attributes in needed(&wanted) {
            registry.authorize(asker, &attributes).await?;
        }
        Ok::<_, Status>(())
    };
    Box::pin(judged).await?;
    Ok(Some(become_user(wanted)))
}

fn read(headers: &HeaderMap) -> Result<Option<Wanted>, Status> {
    // Nearly every request.
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Ok(None);
    }
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let one = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let groups: Vec<String> = headers.get_all(GROUP).iter().map(text).collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            let key = extra_key(&key.to_lowercase());
            extra.entry(key).or_default().push(text(value));
        }
    }
    let wanted = Wanted { user: one(USER), groups, uid: one(UID), extra };
    if !wanted.user.is_empty() {
        return Ok(Some(wanted));
    }
    if wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty() {
        return Ok(None);
    }
    let mut status = Status::new(Reason::BadRequest, nameless(&wanted));
    status.code = 400;
    Err(status)
}

/// The key of an extra, of which a header's name says every letter in lower case; what is not escaped well stands for
/// itself (Kubernetes 1.36).
fn extra_key(encoded: &str) -> String {
    let is_hex = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_hexdigit);
    let bytes = encoded.as_bytes();
    let mut escapes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    if !escapes.all(|(at, _)| is_hex(bytes.get(at + 1)) && is_hex(bytes.get(at + 2))) {
        return encoded.to_owned();
    }
    percent_encoding::percent_decode_str(encoded).decode_utf8_lossy().into_owned()
}

/// What is said of groups, uid or extras without a user, as Go writes a structure.
fn nameless(wanted: &Wanted) -> String {
    let texts = |texts: &[String]| {
        let quoted: Vec<String> = texts.iter().map(quote).collect();
        if quoted.is_empty() { "[]string(nil)".to_owned() } else { format!("[]string{{{}}}", quoted.join(", ")) }
    };
    let extra: Vec<String> =
        wanted.extra.iter().map(|(key, values)| format!("{}:{}", quote(key), texts(values))).collect();
    let extra = if extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        format!("map[string][]string{{{}}}", extra.join(", "))
    };
    let (uid, groups) = (quote(&wanted.uid), texts(&wanted.groups));
    format!(
        "requested &user.DefaultInfo{{Name:\"\", UID:{uid}, Groups:{groups}, Extra:{extra}}} without impersonating a user \
         name"
    )
}

/// What the asker must be allowed.
fn needed(wanted: &Wanted) -> Vec<Attributes> {
    let asked = |group: &str, resource: &str, subresource: &str, namespace: &str, name: &str| Attributes {
        verb: "impersonate".to_owned(),
        asked: Asked::Resource(ResourceAttributes {
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..ResourceAttributes::default()
        }),
    };
    let mut all = vec![match service_account(&wanted.user) {
        Some((namespace, name)) => asked("", "serviceaccounts", "", namespace, name),
        None => asked("", "users", "", "", &wanted.user),
    }];
    all.extend(wanted.groups.iter().map(|group| asked("", "groups", "", "", group)));
    let authentication = "authentication.k8s.io";
    for (key, values) in &wanted.extra {
        all.extend(values.iter().map(|value| asked(authentication, "userextras", key, "", value)));
    }
    if !wanted.uid.is_empty() {
        all.push(asked(authentication, "uids", "", "", &wanted.uid));
    }
    all
}

fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// The groups that go with a name, where none are asked for, and those that every user has.
fn become_user(wanted: Wanted) -> User {
    let mut groups = wanted.groups;
    if groups.is_empty()
        && let Some((namespace, _)) = service_account(&wanted.user)
    {
        groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    }
    let (every, unproven) = ("system:authenticated", "system:unauthenticated");
    let has = |name: &str| groups.iter().any(|group| group == name);
    if wanted.user == ANONYMOUS {
        if !has(unproven) {
            groups.push(unproven.to_owned());
        }
    } else if !has(every) && !has(unproven) {
        groups.push(every.to_owned());
    }
    User { name: wanted.user, uid: wanted.uid, groups, extra: wanted.extra }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().expect("a value")))
            .collect()
    }

    #[test]
    fn parts_are_read_and_each_needs_a_right() {
        assert_eq!(read(&HeaderMap::new()), Ok(None));
        let wrong = read(&headers(&[(GROUP, "g")])).expect_err("refused");
        let expected = "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"g\"}, \
                        Extra:map[string][]string(nil)} without impersonating a user name";
        assert_eq!(wrong.message, expected);
        let wrong = read(&headers(&[(UID, "1"), ("impersonate-extra-a", "1")])).expect_err("refused");
        let expected = "requested &user.DefaultInfo{Name:\"\", UID:\"1\", Groups:[]string(nil), \
                        Extra:map[string][]string{\"a\":[]string{\"1\"}}} without impersonating a user name";
        assert_eq!(wrong.message, expected);
        for (encoded, key) in
            [("acme.com%2fproject", "acme.com/project"), ("%41b", "Ab"), ("a%zz%41", "a%zz%41"), ("%4", "%4")]
        {
            assert_eq!(extra_key(encoded), key);
        }
        let mut all = headers(&[(USER, "u"), (UID, "7"), ("impersonate-extra-acme.com%2fproject", "p")]);
        all.append(GROUP, "g".parse().expect("a value"));
        all.append(GROUP, "h".parse().expect("a value"));
        let wanted = read(&all).expect("read").expect("somebody");
        assert_eq!(wanted.extra["acme.com/project"], ["p"]);
        let resources: Vec<_> = needed(&wanted)
            .into_iter()
            .map(|attributes| match attributes.asked {
                Asked::Resource(asked) => format!("{} {}", asked.full_resource(), asked.name),
                Asked::Path(path) => path,
            })
            .collect();
        assert_eq!(resources, ["users u", "groups g", "groups h", "userextras/acme.com/project p", "uids 7"]);
        assert_eq!(become_user(wanted).groups, ["g", "h", "system:authenticated"]);
    }

    #[test]
    fn a_service_account_brings_its_groups() {
        let robot = read(&headers(&[(USER, "system:serviceaccount:n:robot")])).expect("read").expect("somebody");
        assert_eq!(needed(&robot).len(), 1);
        assert_eq!(
            become_user(robot).groups,
            ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]
        );
    }
}
