//! The kubeconfig: how a client finds a server and who it is there.
//!
//! Only the model; reading files and decoding the embedded data is the client's. Fields that are not known stand in
//! `other`, so that a reader can refuse by name what it does not support.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The provider in the `cluster_info` extension of clusters that Listwatch wrote.
pub const PROVIDER: &str = "listwatch.dev";

/// A kubeconfig file (`client.config` v1 of Kubernetes).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Kubeconfig {
    /// `v1`.
    #[serde(rename = "apiVersion", default)]
    pub api_version: String,
    /// `Config`.
    #[serde(default)]
    pub kind: String,
    /// The context that is used if none is named.
    #[serde(default)]
    pub current_context: String,
    /// Servers.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub clusters: Vec<NamedCluster>,
    /// Pairs of server and identity.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub contexts: Vec<NamedContext>,
    /// Identities.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub users: Vec<NamedUser>,
    /// What else the file holds.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A server under its name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NamedCluster {
    /// Its name.
    pub name: String,
    /// Where it is and how to trust it.
    pub cluster: Cluster,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cluster {
    /// Its URL, `https://127.0.0.1:6443`.
    #[serde(default)]
    pub server: String,
    /// The file of the authority that signed its certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
    /// The same embedded, base64 of PEM; it wins over the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// Do not check the server's certificate at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// The name to check its certificate against, if it is not the URL's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Data of tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_is_empty")]
    pub extensions: Vec<NamedExtension>,
    /// What else the entry holds.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// Data of a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NamedExtension {
    /// Its name.
    pub name: String,
    /// Its content.
    #[serde(default)]
    pub extension: Value,
}

/// An identity under its name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NamedUser {
    /// Its name.
    pub name: String,
    /// What proves it.
    pub user: User,
}

/// What proves an identity.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct User {
    /// The file of a client certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate: Option<String>,
    /// The same embedded, base64 of PEM; it wins over the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_certificate_data: Option<String>,
    /// The file of its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<String>,
    /// The same embedded, base64 of PEM. Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key_data: Option<String>,
    /// A bearer token. Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The file of a bearer token.
    #[serde(rename = "tokenFile", default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<String>,
    /// What else the entry holds (`exec`, `auth-provider`, `username`, …).
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl fmt::Debug for User {
    /// Leaves the secrets out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User")
            .field("client_certificate", &self.client_certificate)
            .field("client_key", &self.client_key)
            .field("token_file", &self.token_file)
            .field("other", &self.other.keys())
            .finish_non_exhaustive()
    }
}

/// A pair of server and identity under its name.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NamedContext {
    /// Its name.
    pub name: String,
    /// The pair.
    pub context: Context,
}

/// A pair of server and identity.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Context {
    /// Name of the cluster entry.
    #[serde(default)]
    pub cluster: String,
    /// Name of the user entry.
    #[serde(default)]
    pub user: String,
    /// The namespace of commands that name none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What else the entry holds.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// A kubeconfig that does not say what is asked of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigError {
    /// No context was named, neither by the caller nor by the file.
    #[error("no current-context is set")]
    NoContext,
    /// A name without an entry.
    #[error("there is no {entry} named {name:?}")]
    Missing {
        /// `context`, `cluster` or `user`.
        entry: &'static str,
        /// The name.
        name: String,
    },
}

/// The entries that belong to one context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Selected<'a> {
    /// The context.
    pub context: &'a NamedContext,
    /// Its server.
    pub cluster: &'a Cluster,
    /// Its identity; `None` if the context names none (anonymous).
    pub user: Option<&'a User>,
}

impl Default for Kubeconfig {
    fn default() -> Self {
        Kubeconfig {
            api_version: "v1".to_owned(),
            kind: "Config".to_owned(),
            current_context: String::new(),
            clusters: Vec::new(),
            contexts: Vec::new(),
            users: Vec::new(),
            other: BTreeMap::new(),
        }
    }
}

impl Kubeconfig {
    /// The entries of the named context, or of the current one.
    pub fn select(&self, context: Option<&str>) -> Result<Selected<'_>, KubeconfigError> {
        let name = context.unwrap_or(&self.current_context);
        if name.is_empty() {
            return Err(KubeconfigError::NoContext);
        }
        let missing = |entry, name: &str| KubeconfigError::Missing { entry, name: name.to_owned() };
        let context = self.contexts.iter().find(|c| c.name == name).ok_or_else(|| missing("context", name))?;
        let wanted = &context.context.cluster;
        let cluster = self.clusters.iter().find(|c| c.name == *wanted).ok_or_else(|| missing("cluster", wanted))?;
        let wanted = &context.context.user;
        let user = match self.users.iter().find(|u| u.name == *wanted) {
            Some(user) => Some(&user.user),
            None if wanted.is_empty() => None,
            None => return Err(missing("user", wanted)),
        };
        Ok(Selected { context, cluster: &cluster.cluster, user })
    }
}

impl Cluster {
    /// Whether Listwatch wrote this entry, so that a command may take it without being asked to.
    pub fn is_ours(&self) -> bool {
        self.extensions.iter().any(|e| e.extension["provider"] == PROVIDER)
    }
}

/// kubectl writes `clusters: null` for an empty list.
fn null_is_empty<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Kubeconfig {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a", "preferences": {},
            "clusters": [{"name": "a", "cluster": {"server": "https://x:1", "certificate-authority-data": "QQ==",
                "extensions": [{"name": "cluster_info", "extension": {"provider": "listwatch.dev"}}]}},
                {"name": "b", "cluster": {"server": "https://y:1", "proxy-url": "http://p"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "me", "namespace": "dev"}},
                {"name": "b", "context": {"cluster": "b", "user": ""}},
                {"name": "c", "context": {"cluster": "gone", "user": "me"}}],
            "users": [{"name": "me", "user": {"token": "s3cret", "exec": {"command": "login"}}}],
        }))
        .expect("a kubeconfig")
    }

    #[test]
    fn a_context_is_selected_with_what_belongs_to_it() {
        let config = sample();
        let selected = config.select(None).expect("current");
        assert_eq!(selected.cluster.server, "https://x:1");
        assert!(selected.cluster.is_ours());
        assert_eq!(selected.user.and_then(|u| u.token.as_deref()), Some("s3cret"));
        let anonymous = config.select(Some("b")).expect("named");
        assert_eq!(anonymous.user, None);
        assert!(!anonymous.cluster.is_ours());
        assert!(anonymous.cluster.other.contains_key("proxy-url"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let config = sample();
        assert_eq!(
            config.select(Some("c")).map(|s| s.cluster),
            Err(KubeconfigError::Missing { entry: "cluster", name: "gone".into() })
        );
        assert_eq!(Kubeconfig::default().select(None).map(|s| s.cluster), Err(KubeconfigError::NoContext));
        let empty: Kubeconfig = serde_json::from_value(json!({"clusters": null, "contexts": null})).expect("nulls");
        assert_eq!(empty.clusters, []);
    }

    #[test]
    fn unknown_entries_survive_and_secrets_are_not_printed() {
        let config = sample();
        let again: Kubeconfig =
            serde_json::from_value(serde_json::to_value(&config).expect("serializes")).expect("reads back");
        assert_eq!(again, config);
        assert!(!format!("{config:?}").contains("s3cret"));
    }
}
