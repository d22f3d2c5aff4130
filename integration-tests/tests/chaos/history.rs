//! What really happened, revision by revision, read back from the server's own history after the storm.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use listwatch_components::client::{Api, Client, ListParams, WatchEvent, WatchParams, load_kubeconfig};
use listwatch_integration_tests::Cluster;
use listwatch_proto::resource::{Kind, Object};

/// Beyond the largest count asked for since the count was last exact, no more pods than this exist at any time.
const TOO_MANY: usize = 16;

/// What the history shows.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Revisions that touched the Deployment or its pods.
    pub(crate) revisions: usize,
    /// Pods made, all in all.
    pub(crate) created: usize,
    /// The most pods beyond what was asked for.
    pub(crate) most_beyond: usize,
}

enum Change {
    Asked(usize),
    Pod { uid: String, node: String, alive: bool },
    Gone { uid: String },
}

/// The access of whoever started the cluster.
pub(crate) fn client(cluster: &Cluster) -> anyhow::Result<Client> {
    let kubeconfig = cluster.data_dir().join("kubeconfig");
    Ok(Client::new(&load_kubeconfig(&kubeconfig, None)?.config)?)
}

/// The present revision.
pub(crate) async fn revision(cluster: &Cluster) -> anyhow::Result<i64> {
    let pods = Api::<Object>::of_kind(&client(cluster)?, Kind::by_name("pod").expect("known"));
    Ok(pods.list(&ListParams::default()).await?.revision)
}

/// Checks that between two revisions there were never too many pods, and that none was placed twice.
pub(crate) async fn check(cluster: &Cluster, from: i64, to: i64) -> anyhow::Result<Summary> {
    let mut changes = BTreeMap::new();
    for event in events(cluster, "deployment", from, to).await? {
        if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
            && object.key.name == "myapp"
        {
            let asked = object.object.int(&["spec", "replicas"]).unwrap_or(1);
            changes.insert(object.revision, Change::Asked(usize::try_from(asked)?));
        }
    }
    for event in events(cluster, "pod", from, to).await? {
        let revision = event.revision();
        let change = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let pod = &object.object;
                if pod.label("app") != Some("myapp") {
                    continue;
                }
                Change::Pod {
                    uid: pod.uid().to_owned(),
                    node: pod.text(&["spec", "nodeName"]).to_owned(),
                    alive: !pod.is_terminating(),
                }
            }
            WatchEvent::Deleted(object) => Change::Gone { uid: object.object.uid().to_owned() },
            other => anyhow::bail!("an event that is not one of a pod: {other:?}"),
        };
        anyhow::ensure!(changes.insert(revision, change).is_none(), "two objects changed at revision {revision}");
    }
    judge(changes)
}

fn judge(changes: BTreeMap<i64, Change>) -> anyhow::Result<Summary> {
    let mut summary = Summary { revisions: changes.len(), ..Summary::default() };
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let mut alive: BTreeSet<String> = BTreeSet::new();
    // What is asked for now, and the most that was asked for since the count was last exact.
    let (mut asked, mut most_asked) = (0, 0);
    for (revision, change) in changes {
        match change {
            Change::Asked(count) => asked = count,
            Change::Pod { uid, node, alive: lives } => {
                let place = places.entry(uid.clone()).or_default();
                anyhow::ensure!(
                    place.is_empty() || *place == node,
                    "pod {uid} was on {place} and at revision {revision} on {node:?}"
                );
                *place = node;
                if lives {
                    alive.insert(uid)
                } else {
                    alive.remove(&uid)
                };
            }
            Change::Gone { uid } => drop(alive.remove(&uid)),
        }
        most_asked = most_asked.max(asked);
        anyhow::ensure!(
            alive.len() <= most_asked + TOO_MANY,
            "{} pods at revision {revision}, at most {most_asked} were asked for",
            alive.len()
        );
        summary.most_beyond = summary.most_beyond.max(alive.len().saturating_sub(most_asked));
        if alive.len() == asked {
            most_asked = asked;
        }
    }
    summary.created = places.len();
    Ok(summary)
}

async fn events(cluster: &Cluster, kind: &str, from: i64, to: i64) -> anyhow::Result<Vec<WatchEvent<Object>>> {
    let api = Api::<Object>::of_kind(&client(cluster)?, Kind::by_name(kind).expect("known"));
    let params = WatchParams {
        namespace: "default".into(),
        start_revision: from,
        until_revision: to,
        progress_interval: Duration::from_secs(1),
        ..WatchParams::default()
    };
    let mut watch = api.watch(&params).await?;
    let mut events = Vec::new();
    while let Some(batch) = watch.next().await? {
        events.extend(batch.events.into_iter().filter(|event| !matches!(event, WatchEvent::Bookmark { .. })));
        if batch.revision >= to {
            break;
        }
    }
    Ok(events)
}
