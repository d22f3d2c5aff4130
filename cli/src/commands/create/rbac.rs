//! `lw create role`, `clusterrole`, `rolebinding` and `clusterrolebinding`.

use std::collections::BTreeMap;

use clap::Args;
use listwatch_proto::resource::Kind;
use serde_json::{Value, json};

use super::command::HowArgs;
use super::name::NameArgs;
use crate::commands::failure::Failure;
use crate::commands::session::kind_named;
use crate::terminal::tell;

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "rbac.authorization.k8s.io/v1";
/// The verbs that the API knows (kubectl 1.36); others are warned of.
const VERBS: &[&str] = &[
    "*",
    "get",
    "delete",
    "list",
    "create",
    "update",
    "patch",
    "watch",
    "proxy",
    "deletecollection",
    "use",
    "bind",
    "escalate",
    "impersonate",
];

/// What a role allows.
#[derive(Debug, Args)]
struct RuleArgs {
    #[command(flatten)]
    name: NameArgs,
    /// What may be done: get, list, watch, create, …
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    verb: Vec<String>,
    /// With what: pods, deployments.apps, pods/log
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    resource: Vec<String>,
    /// Only objects of these names
    #[arg(long, value_name = "NAME")]
    resource_name: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Create a role with one rule
///
/// Examples: lw create role reader --verb=get,list,watch --resource=pods,deployments.apps
#[derive(Debug, Args)]
pub(super) struct RoleArgs {
    #[command(flatten)]
    rule: RuleArgs,
}

/// Create a role of the whole cluster with one rule
///
/// Examples: lw create clusterrole looker --verb=get --resource=nodes; lw create clusterrole h --verb=get
/// --non-resource-url=/healthz
#[derive(Debug, Args)]
pub(super) struct ClusterRoleArgs {
    #[command(flatten)]
    rule: RuleArgs,
    /// Paths that are no objects: /healthz
    #[arg(long = "non-resource-url", value_name = "PATH", value_delimiter = ',')]
    paths: Vec<String>,
}

/// Whom a binding gives a role.
#[derive(Debug, Args)]
struct SubjectArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The role of the whole cluster
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    clusterrole: String,
    /// A user
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    user: Vec<String>,
    /// A group of users
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    group: Vec<String>,
    /// A service account
    #[arg(long, value_name = "NAMESPACE:NAME", value_delimiter = ',')]
    serviceaccount: Vec<String>,
    #[command(flatten)]
    how: HowArgs,
}

/// Give a role to users, groups or service accounts
///
/// Examples: lw create rolebinding read --role=reader --serviceaccount=default:robot
#[derive(Debug, Args)]
pub(super) struct RoleBindingArgs {
    #[command(flatten)]
    subjects: SubjectArgs,
    /// The role of the namespace
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    role: String,
}

/// Give a role of the whole cluster to users, groups or service accounts
///
/// Examples: lw create clusterrolebinding admins --clusterrole=cluster-admin --user=ann
#[derive(Debug, Args)]
pub(super) struct ClusterRoleBindingArgs {
    #[command(flatten)]
    subjects: SubjectArgs,
}

impl RoleArgs {
    /// How the object is created.
    pub(super) fn how(&self) -> &HowArgs {
        &self.rule.how
    }

    /// The object that the flags describe.
    ///
    /// # Errors
    /// If a flag is missing or names a kind that there is not.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.rule.name.one("role")?;
        let verbs = self.rule.verbs()?;
        if self.rule.resource.is_empty() {
            return Err(Failure::usage("at least one resource must be specified"));
        }
        Ok(json!({
            "apiVersion": VERSION, "kind": "Role", "metadata": {"name": name}, "rules": self.rule.rules(&verbs)?,
        }))
    }
}

impl ClusterRoleArgs {
    /// How the object is created.
    pub(super) fn how(&self) -> &HowArgs {
        &self.rule.how
    }

    /// The object that the flags describe.
    ///
    /// # Errors
    /// If a flag is missing, names a kind that there is not, or a path that is none.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.rule.name.one("clusterrole")?;
        let verbs = self.rule.verbs()?;
        if self.rule.resource.is_empty() && self.paths.is_empty() {
            return Err(Failure::usage("one of resource or nonResourceURL must be specified"));
        }
        let mut rules = self.rule.rules(&verbs)?;
        if !self.paths.is_empty() {
            if let Some(wrong) = self.paths.iter().find(|path| *path != "*" && !path.starts_with('/')) {
                return Err(Failure::usage(format!("nonResourceURL should start with /: {wrong}")));
            }
            rules.push(json!({"verbs": verbs, "nonResourceURLs": self.paths}));
        }
        Ok(json!({"apiVersion": VERSION, "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}))
    }
}

impl RuleArgs {
    fn verbs(&self) -> Result<Vec<&str>, Failure> {
        if self.verb.is_empty() {
            return Err(Failure::usage("at least one verb must be specified"));
        }
        let mut verbs: Vec<&str> = Vec::new();
        for verb in self.verb.iter().map(String::as_str) {
            if verb == "*" {
                return Ok(vec!["*"]);
            }
            if !VERBS.contains(&verb) {
                tell!("Warning: '{verb}' is not a standard resource verb");
            }
            if !verbs.contains(&verb) {
                verbs.push(verb);
            }
        }
        Ok(verbs)
    }

    /// One rule for each group of kinds.
    fn rules(&self, verbs: &[&str]) -> Result<Vec<Value>, Failure> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for word in &self.resource {
            let (name, part) = word.split_once('/').map_or((word.as_str(), ""), |(name, part)| (name, part));
            let (plural, group) = match Kind::by_name(name) {
                Some(kind) => (kind.plural.to_owned(), kind.group.to_owned()),
                None if name.starts_with('*') => {
                    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
                    (plural.to_owned(), group.to_owned())
                }
                None => {
                    let kind = kind_named(name)?;
                    (kind.plural.to_owned(), kind.group.to_owned())
                }
            };
            let resource = if part.is_empty() { plural } else { format!("{plural}/{part}") };
            let list = groups.entry(group).or_default();
            if !list.contains(&resource) {
                list.push(resource);
            }
        }
        let rule = |(group, resources): (String, Vec<String>)| {
            let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources});
            if !self.resource_name.is_empty() {
                rule["resourceNames"] = json!(self.resource_name);
            }
            rule
        };
        Ok(groups.into_iter().map(rule).collect())
    }
}

impl SubjectArgs {
    fn subjects(&self) -> Result<Vec<Value>, Failure> {
        let named = |kind: &str, name: &String| json!({"kind": kind, "apiGroup": GROUP, "name": name});
        let mut subjects: Vec<Value> = self.user.iter().map(|name| named("User", name)).collect();
        subjects.extend(self.group.iter().map(|name| named("Group", name)));
        for account in &self.serviceaccount {
            match account.split(':').collect::<Vec<_>>().as_slice() {
                [namespace, name] if !namespace.is_empty() && !name.is_empty() => {
                    subjects.push(json!({"kind": "ServiceAccount", "namespace": namespace, "name": name}));
                }
                _ => return Err(Failure::usage("serviceaccount must be <namespace>:<name>")),
            }
        }
        Ok(subjects)
    }

    fn object(&self, kind: &str, role_kind: &str, role: &str) -> Result<Value, Failure> {
        let name = self.name.one(&kind.to_lowercase())?;
        let mut object = json!({
            "apiVersion": VERSION, "kind": kind, "metadata": {"name": name},
            "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
        });
        let subjects = self.subjects()?;
        if !subjects.is_empty() {
            object["subjects"] = subjects.into();
        }
        Ok(object)
    }
}

impl RoleBindingArgs {
    /// How the object is created.
    pub(super) fn how(&self) -> &HowArgs {
        &self.subjects.how
    }

    /// The object that the flags describe.
    ///
    /// # Errors
    /// Unless exactly one role is named, or if a service account is none.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        match (self.role.as_str(), self.subjects.clusterrole.as_str()) {
            (role, "") if !role.is_empty() => self.subjects.object("RoleBinding", "Role", role),
            ("", role) if !role.is_empty() => self.subjects.object("RoleBinding", "ClusterRole", role),
            _ => {
                self.subjects.name.one("rolebinding")?;
                Err(Failure::usage("exactly one of clusterrole or role must be specified"))
            }
        }
    }
}

impl ClusterRoleBindingArgs {
    /// How the object is created.
    pub(super) fn how(&self) -> &HowArgs {
        &self.subjects.how
    }

    /// The object that the flags describe.
    ///
    /// # Errors
    /// If no role is named, or a service account is none.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        if self.subjects.clusterrole.is_empty() {
            return Err(Failure::usage("required flag(s) \"clusterrole\" not set"));
        }
        self.subjects.object("ClusterRoleBinding", "ClusterRole", &self.subjects.clusterrole)
    }
}
