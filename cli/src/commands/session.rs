//! What every command on objects shares: the connection, the namespace, and how objects are named.

use std::path::PathBuf;
use std::sync::{Once, OnceLock};
use std::time::Duration;

use clap::Args;
use listwatch_components::client::{Api, Client, ClientConfig, Impersonation};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{KINDS, Kind, LearnedKind, Object, ObjectKey, Reason, learned};

use super::failure::{Failure, with_causes};
use crate::cluster::locate;
use crate::connection::ConnectionArgs;
use crate::terminal::tell;

/// Flags of every command on objects.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionArgs {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Name of the cluster; without it the running default one
    #[arg(long = "name", env = "LW_NAME", value_name = "CLUSTER", help_heading = "Connection")]
    cluster: Option<String>,
    /// Data folder of the cluster, as `lw up` was given it
    #[arg(long, env = "LW_DATA_DIR", value_name = "DIR", help_heading = "Connection")]
    data_dir: Option<PathBuf>,
    /// Which entry of the kubeconfig; without it the current one
    #[arg(long, value_name = "CONTEXT", help_heading = "Connection")]
    context: Option<String>,
    /// Act as this user, if the server lets you
    #[arg(
        long = "as",
        value_name = "USER",
        default_value = "",
        hide_default_value = true,
        help_heading = "Connection"
    )]
    as_user: String,
    /// Act as a member of this group, too; may be given several times
    #[arg(long, value_name = "GROUP", help_heading = "Connection")]
    as_group: Vec<String>,
    /// Act as the user with this uid
    #[arg(long, value_name = "UID", default_value = "", hide_default_value = true, help_heading = "Connection")]
    as_uid: String,
    /// How long the server may take to answer (5s, 2m); 0: ten seconds
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true, help_heading = "Connection")]
    request_timeout: String,
    /// Namespace of the objects
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

impl SessionArgs {
    /// The kubeconfig that these flags mean, by the same rule as the connection.
    pub(crate) fn kubeconfig(&self) -> Result<PathBuf, Failure> {
        if let Some(path) = &self.connection.kubeconfig {
            return Ok(path.clone());
        }
        locate::kubeconfig(self.cluster.as_deref(), self.data_dir.as_deref())
            .map_err(|error| Failure::plain(with_causes(error.as_ref())))
    }

    /// The context that was asked for.
    pub(crate) fn context(&self) -> Option<&str> {
        self.context.as_deref()
    }

    /// The namespace that was asked for.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Where the server is, and as whom it is asked; and the namespace of what is named without one.
    fn config(&self) -> Result<(ClientConfig, String), Failure> {
        let (cluster, data_dir, context) = (self.cluster.as_deref(), self.data_dir.as_deref(), self.context.as_deref());
        let timeout = request_timeout(&self.request_timeout)?;
        if self.as_user.is_empty() && !(self.as_group.is_empty() && self.as_uid.is_empty()) {
            let problem = "requesting uid, groups or user-extra for \"\" without impersonating a user";
            return Err(Failure::usage(problem));
        }
        let found = self.connection.command(cluster, data_dir, context);
        let (mut config, namespace) = found.map_err(|e| Failure::plain(with_causes(e.as_ref())))?;
        config.impersonate =
            Impersonation { user: self.as_user.clone(), groups: self.as_group.clone(), uid: self.as_uid.clone() };
        config.request_timeout = timeout.unwrap_or(config.request_timeout);
        Ok((config, namespace))
    }
}

/// Seconds, or a duration; `None`: the client's own.
fn request_timeout(text: &str) -> Result<Option<Duration>, Failure> {
    let seconds = text.parse().map(Duration::from_secs).ok();
    let timeout = seconds.or_else(|| super::delete::parse_duration(text).ok()).ok_or_else(|| {
        Failure::usage(
            "Invalid timeout value. Timeout must be a single integer in seconds, or an integer followed by a \
             corresponding time unit (e.g. 1s | 2m | 3h)",
        )
    })?;
    Ok(Some(timeout).filter(|timeout| !timeout.is_zero()))
}

/// A connection and the namespace of what is named without one.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Whether the namespace was asked for by flag.
    pub(crate) is_namespace_given: bool,
    /// How long a request may take, if that was asked for.
    pub(crate) request_timeout: Option<Duration>,
}

/// Objects of one kind that a command names; no names: the whole collection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(crate) kind: &'static Kind,
    pub(crate) names: Vec<String>,
}

impl Session {
    /// Finds the cluster; nothing is dialled yet.
    pub(crate) fn open(args: &SessionArgs) -> Result<Session, Failure> {
        let (config, namespace) = args.config()?;
        let _ = SERVER.set(config.clone());
        let client = Client::new(&config)?.with_warnings(|warning| tell!("Warning: {warning}"));
        let is_namespace_given = args.namespace.is_some();
        let request_timeout = request_timeout(&args.request_timeout)?;
        let namespace = args.namespace.clone().unwrap_or(namespace);
        Ok(Session { client, namespace, is_namespace_given, request_timeout })
    }

    /// Objects of a kind.
    pub(crate) fn api(&self, kind: &'static Kind) -> Api<Object> {
        Api::of_kind(&self.client, kind)
    }

    /// The namespace for objects of this kind: none for cluster-scoped ones.
    pub(crate) fn namespace_of(&self, kind: &Kind) -> &str {
        if kind.namespaced { &self.namespace } else { "" }
    }

    /// Key of an object of this kind in the command's namespace.
    pub(crate) fn key(&self, kind: &Kind, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace_of(kind), name)
    }

    /// Says on standard error that there is nothing, as kubectl does.
    pub(crate) fn say_nothing_found(&self, all_cluster_scoped: bool) {
        if all_cluster_scoped || self.namespace.is_empty() {
            tell!("No resources found");
        } else {
            tell!("No resources found in {} namespace.", self.namespace);
        }
    }

    /// A missing object in a missing namespace is told as a missing namespace, as kubectl does.
    pub(crate) async fn explain_missing(
        &self,
        kind: &'static Kind,
        error: listwatch_components::client::Error,
    ) -> listwatch_components::client::Error {
        if !error.is_not_found() || !kind.namespaced {
            return error;
        }
        let namespaces = Kind::by_name("namespace").expect("a served kind");
        match self.api(namespaces).get(&ObjectKey::new("", self.namespace.as_str())).await {
            Err(missing) if missing.is(Reason::NotFound) => missing,
            _ => error,
        }
    }
}

/// `deployment.apps/web`, `pod/a`.
pub(crate) fn full_name(kind: &Kind, name: &str) -> String {
    if kind.group.is_empty() {
        format!("{}/{name}", kind.singular)
    } else {
        format!("{}.{}/{name}", kind.singular, kind.group)
    }
}

/// The server of this command, once it is known.
static SERVER: OnceLock<ClientConfig> = OnceLock::new();
/// How long the server may take to say what it serves.
const LEARN_MAX: Duration = Duration::from_secs(10);

/// Asks the server once what it serves beside the kinds of the table. What it says is found by name from then on.
pub(crate) fn learn_kinds() {
    static ASKED: Once = Once::new();
    let Some(config) = SERVER.get() else { return };
    ASKED.call_once(|| {
        // Names are looked up in the middle of things, where nothing can be waited for; so it is waited for elsewhere.
        let asking = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let client = Client::new(config).ok()?;
                let answer = tokio::time::timeout(LEARN_MAX, client.discover()).await.ok()?.ok()?;
                Some(answer.resources)
            })
        });
        // A server that does not answer is told of by what the command does next.
        if let Ok(Some(resources)) = asking.join() {
            learned::learn(resources.into_iter().map(LearnedKind::from));
        }
    });
}

/// The kind that a person names.
pub(crate) fn kind_named(word: &str) -> Result<&'static Kind, Failure> {
    if Kind::by_name(word).is_none() {
        learn_kinds();
    }
    Kind::by_name(word).ok_or_else(|| Failure::plain(format!("the server doesn't have a resource type \"{word}\"")))
}

/// Reads `KIND [NAME…]`, `KIND,KIND`, `all`, `KIND/NAME …`.
pub(crate) fn parse_targets(words: &[String]) -> Result<Vec<Target>, Failure> {
    let slashed = words.iter().filter(|w| w.contains('/')).count();
    if slashed > 0 {
        if slashed < words.len() {
            return Err(Failure::usage(format!(
                "there is no need to specify a resource type as a separate argument when passing arguments in \
                 resource/name form (e.g. '{lw} get resource/<resource_name>' instead of '{lw} get resource \
                 resource/<resource_name>'",
                lw = crate::usage::program()
            )));
        }
        return slashed_targets(words);
    }
    let Some((kinds, names)) = words.split_first() else { return Ok(Vec::new()) };
    let mut targets = Vec::new();
    for word in kinds.split(',').filter(|w| !w.is_empty()) {
        // A kind of several versions is meant in its preferred one.
        let is_preferred =
            |k: &'static Kind| Kind::by_name(&k.name().to_string()).is_none_or(|preferred| preferred == k);
        let is_in = |k: &&'static Kind| k.categories.contains(&word) && is_preferred(k);
        let mut in_category: Vec<&'static Kind> = KINDS.iter().filter(is_in).collect();
        if !in_category.is_empty() || Kind::by_name(word).is_none() {
            learn_kinds();
            in_category.extend(learned::learned().into_iter().filter(is_in));
        }
        if in_category.is_empty() {
            targets.push(Target { kind: kind_named(word)?, names: names.to_vec() });
        } else {
            targets.extend(in_category.into_iter().map(|kind| Target { kind, names: names.to_vec() }));
        }
    }
    Ok(targets)
}

/// Neighbours of one kind become one target, so that they are shown in one table.
fn slashed_targets(words: &[String]) -> Result<Vec<Target>, Failure> {
    let mut targets: Vec<Target> = Vec::new();
    for word in words {
        let Some((kind, name)) =
            word.split_once('/').filter(|(k, n)| !k.is_empty() && !n.is_empty() && !n.contains('/'))
        else {
            return Err(Failure::usage(format!(
                "arguments in resource/name form must have a single resource and name: {}",
                quote(&word)
            )));
        };
        let kind = kind_named(kind)?;
        match targets.last_mut() {
            Some(last) if last.kind == kind => last.names.push(name.to_owned()),
            _ => targets.push(Target { kind, names: vec![name.to_owned()] }),
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(&'static str, String)>, String> {
        let words: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
        let targets = parse_targets(&words).map_err(|f| f.text())?;
        Ok(targets.into_iter().map(|t| (t.kind.plural, t.names.join(","))).collect())
    }

    #[test]
    fn objects_are_named_in_every_way_that_kubectl_knows() {
        let one = |kind, names: &str| (kind, names.to_owned());
        assert_eq!(parse("po"), Ok(vec![one("pods", "")]));
        assert_eq!(parse("pods a b"), Ok(vec![one("pods", "a,b")]));
        assert_eq!(parse("po,deploy"), Ok(vec![one("pods", ""), one("deployments", "")]));
        assert_eq!(parse("pod/a deploy/b deployment.apps/c"), Ok(vec![one("pods", "a"), one("deployments", "b,c")]));
        let all: Vec<_> = parse("all").expect("a category").into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(all[..3], ["pods", "replicationcontrollers", "services"]);
        assert!(all.contains(&"deployments") && !all.contains(&"configmaps"), "{all:?}");
        assert_eq!(all.iter().filter(|kind| **kind == "horizontalpodautoscalers").count(), 1, "{all:?}");
        assert_eq!(parse("pods.v1."), Ok(vec![one("pods", "")]));
        assert!(parse("widget").expect_err("unknown").contains("the server doesn't have a resource type \"widget\""));
        assert!(parse("pod pod/a").is_err());
        assert!(parse("pod/").is_err());
    }
}
