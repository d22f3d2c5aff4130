//! The ConfigMaps of a namespace through kube-rs: its watcher, its reflector, its Controller.
//!
//! `kube_rs MODE KUBECONFIG [NAMESPACE]`, where MODE is `list` (list, then watch), `stream` (streaming lists) or
//! `controller`. Prints one JSON line for each change that the watcher tells; what a new list tells anew without a change
//! is left out, and what it no longer has is told as gone. The store of a reflector is kept beside it and compared at
//! every change. A `controller` prints a line for each state that it was asked to reconcile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client, ResourceExt};

/// uid and revision of each name.
type Known = BTreeMap<String, (String, i64)>;

fn tell(kind: &str, name: &str, (uid, revision): &(String, i64)) {
    println!("{}", serde_json::json!({"type": kind, "name": name, "uid": uid, "revision": revision}));
}

fn facts(object: &ConfigMap) -> Result<(String, i64)> {
    let revision = object.resource_version().context("an object without resourceVersion")?;
    Ok((object.uid().context("an object without uid")?, revision.parse()?))
}

/// What a change is, seen from what was known.
fn apply(known: &mut Known, name: String, fact: (String, i64)) {
    match known.get(&name) {
        Some(old) if *old == fact => {}
        Some(old) if old.0 == fact.0 => tell("MODIFIED", &name, &fact),
        Some(old) => {
            tell("DELETED", &name, old);
            tell("ADDED", &name, &fact);
        }
        None => tell("ADDED", &name, &fact),
    }
    known.insert(name, fact);
}

async fn watch(api: Api<ConfigMap>, config: Config) -> Result<()> {
    let (store, writer) = reflector::store();
    let events = watcher(api, config).default_backoff().reflect(writer);
    let mut events = std::pin::pin!(events);
    let (mut known, mut initial) = (Known::new(), Known::new());
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => initial.clear(),
            Ok(Event::InitApply(object)) => drop(initial.insert(object.name_any(), facts(&object)?)),
            Ok(Event::InitDone) => {
                let gone: Vec<_> = known.keys().filter(|name| !initial.contains_key(*name)).cloned().collect();
                for name in gone {
                    let fact = known.remove(&name).context("it was known")?;
                    tell("DELETED", &name, &fact);
                }
                let mut now: Vec<_> = std::mem::take(&mut initial).into_iter().collect();
                now.sort_by_key(|(_, (_, revision))| *revision);
                now.into_iter().for_each(|(name, fact)| apply(&mut known, name, fact));
            }
            Ok(Event::Apply(object)) => {
                let fact = facts(&object)?;
                let held = store.get(&ObjectRef::from_obj(&object)).context("the reflector holds what was applied")?;
                ensure!(facts(&held)? == fact, "the reflector holds {:?} of {}", facts(&held)?, object.name_any());
                apply(&mut known, object.name_any(), fact);
            }
            Ok(Event::Delete(object)) => {
                ensure!(store.get(&ObjectRef::from_obj(&object)).is_none(), "the reflector holds what was deleted");
                known.remove(&object.name_any());
                tell("DELETED", &object.name_any(), &facts(&object)?);
            }
            Err(error) => eprintln!("{error}"),
        }
    }
    bail!("the watcher has ended")
}

async fn control(api: Api<ConfigMap>) -> Result<()> {
    let reconcile = |object: Arc<ConfigMap>, _: Arc<()>| async move {
        let fact = facts(&object).map_err(|error| std::io::Error::other(error.to_string()))?;
        tell("MODIFIED", &object.name_any(), &fact);
        Ok::<_, std::io::Error>(Action::await_change())
    };
    let again = |_: Arc<ConfigMap>, _: &std::io::Error, _: Arc<()>| Action::requeue(Duration::from_millis(100));
    let outcomes = Controller::new(api, Config::default()).run(reconcile, again, Arc::new(()));
    outcomes
        .for_each(|outcome| async move {
            if let Err(error) = outcome {
                eprintln!("{error}");
            }
        })
        .await;
    bail!("the controller has ended")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, kubeconfig, rest @ ..] = args.as_slice() else { bail!("usage: kube_rs MODE KUBECONFIG [NAMESPACE]") };
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await?;
    let client = Client::try_from(config)?;
    let namespace = rest.first().map_or("default", String::as_str);
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    match mode.as_str() {
        // Small pages, so that a list takes several.
        "list" => watch(api, Config::default().page_size(5)).await,
        "stream" => watch(api, Config::default().streaming_lists()).await,
        "controller" => control(api).await,
        other => bail!("the mode is list, stream or controller, not {other}"),
    }
}
