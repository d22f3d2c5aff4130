//! Our own client, cut off in the worst moments.

use std::sync::{Arc, Mutex};

use listwatch_components::client::{Api, Client, ClientConfig, DeleteParams, Patch, load_kubeconfig};
use listwatch_components::runtime::{Change, IndexerBuilder, Informer, ReflectorConfig, Store};
use listwatch_integration_tests::{Cutter, Server, eventually};
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::door::{LIMIT, config_map, server};
use crate::history::expire;

/// An informer of ConfigMaps behind a proxy, and a writer that the proxy does not touch.
struct Apart {
    server: Server,
    cutter: Cutter,
    store: Store<Object>,
    /// What the handlers were told, in order: `+name`, `~name`, `-name`, with the uid.
    told: Arc<Mutex<Vec<(String, String)>>>,
    writer: Api<Object>,
    _running: DropGuard,
}

fn config_maps() -> &'static Kind {
    Kind::by_name("configmap").expect("known")
}

fn config(server: &Server) -> ClientConfig {
    load_kubeconfig(&server.data_dir().join("kubeconfig"), None).expect("the server wrote it").config
}

impl Apart {
    async fn start() -> anyhow::Result<Apart> {
        let server = server()?;
        let cutter = Cutter::start(server.secure_address()).await?;
        let direct = config(&server);
        let through = ClientConfig { server: format!("https://{}", cutter.address()), ..direct.clone() };
        let client = Client::new(&through)?;
        let reflector = ReflectorConfig { namespace: "default".into(), ..ReflectorConfig::default() };
        let mut informer = Informer::<Object>::with(&client, config_maps(), reflector, IndexerBuilder::new());
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = told.clone();
        informer.on_change(move |change| {
            let sign = match change {
                Change::Added(_) => '+',
                Change::Updated { .. } => '~',
                Change::Deleted(_) => '-',
            };
            let object = change.object();
            let uid = object.object.uid().to_owned();
            log.lock().expect("no panic").push((format!("{sign}{}", object.key.name), uid));
        });
        let store = informer.store();
        let stop = CancellationToken::new();
        tokio::spawn(informer.run(stop.clone()));
        let writer = Api::<Object>::of_kind(&Client::new(&direct)?, config_maps());
        Ok(Apart { server, cutter, store, told, writer, _running: stop.drop_guard() })
    }

    async fn create(&self, name: &str) -> (String, i64) {
        let object = Object::from_value(config_map(name, json!({}))).expect("a map");
        let made = self.writer.create(&object).await.expect("created");
        (made.object.uid().to_owned(), made.revision)
    }

    async fn delete(&self, name: &str) {
        self.writer.delete(&ObjectKey::new("default", name), &DeleteParams::any()).await.expect("deleted");
    }

    async fn change(&self, name: &str, value: &str) -> i64 {
        let patch = Patch::Merge(json!({"data": {"k": value}}));
        self.writer.patch(&ObjectKey::new("default", name), &patch).await.expect("changed").revision
    }

    async fn caught_up(&self, revision: i64) {
        let waited = tokio::time::timeout(LIMIT, self.store.wait_for(revision)).await;
        assert!(waited.is_ok(), "it stands at {:?}, wanted {revision}", self.store.progress());
    }

    fn names(&self) -> Vec<String> {
        self.store.list().iter().map(|object| object.key.name.clone()).collect()
    }

    fn told(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.told.lock().expect("no panic"))
    }

    /// While `work` is done the informer has no connection and gets none.
    async fn while_cut_off<T>(&self, work: impl Future<Output = T>) -> T {
        self.cutter.close();
        let result = work.await;
        self.cutter.open();
        result
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_17_what_lived_and_died_during_a_cut_leaves_nothing_behind() -> anyhow::Result<()> {
    for history_ends in [false, true] {
        let apart = Apart::start().await?;
        let (_, revision) = apart.create("first").await;
        apart.caught_up(revision).await;
        apart
            .while_cut_off(async {
                apart.create("short").await;
                for round in 0..50 {
                    apart.change("short", &round.to_string()).await;
                }
                apart.delete("short").await;
                apart.delete("first").await;
                if history_ends {
                    expire(&apart.server).await;
                }
            })
            .await;
        let (_, revision) = apart.create("last").await;
        apart.caught_up(revision).await;
        assert_eq!(apart.names(), ["last"]);
        // What the handlers heard adds up to the same: nothing stays that nobody removes.
        let told: Vec<_> = apart.told().into_iter().map(|(what, _)| what).collect();
        for name in ["first", "short"] {
            let count = |sign: &str| told.iter().filter(|what| **what == format!("{sign}{name}")).count();
            assert_eq!(count("+"), count("-"), "{name} in {told:?}");
        }
        apart.delete("last").await;
        eventually(LIMIT, "an empty store", async || if apart.store.is_empty() { Ok(()) } else { Err(apart.names()) })
            .await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_18_a_name_that_lives_again_is_another_object() -> anyhow::Result<()> {
    for history_ends in [false, true] {
        let apart = Apart::start().await?;
        let (before, revision) = apart.create("a").await;
        apart.caught_up(revision).await;
        assert_eq!(apart.told(), [("+a".to_owned(), before.clone())]);
        let (after, revision) = apart
            .while_cut_off(async {
                apart.delete("a").await;
                let made = apart.create("a").await;
                if history_ends {
                    expire(&apart.server).await;
                }
                made
            })
            .await;
        apart.caught_up(revision).await;
        assert_ne!(before, after);
        assert_eq!(apart.told(), [("-a".to_owned(), before), ("+a".to_owned(), after)], "history ends: {history_ends}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_27_a_client_whose_history_is_gone_takes_the_state_anew() -> anyhow::Result<()> {
    let apart = Apart::start().await?;
    let (_, revision) = apart.create("a").await;
    apart.create("b").await;
    apart.caught_up(revision).await;
    assert_eq!(apart.store.progress().states, 1);
    let revision = apart
        .while_cut_off(async {
            apart.delete("b").await;
            let revision = apart.change("a", "w").await;
            expire(&apart.server).await;
            revision
        })
        .await;
    apart.caught_up(revision).await;
    assert_eq!(apart.store.progress().states, 2, "it was told that history is gone");
    assert_eq!(apart.names(), ["a"]);
    let next = apart.change("a", "x").await;
    apart.caught_up(next).await;
    assert_eq!(apart.store.progress().states, 2, "and goes on from there");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_28_a_client_that_hears_only_bookmarks_resumes_at_the_last() -> anyhow::Result<()> {
    let apart = Apart::start().await?;
    let (_, revision) = apart.create("a").await;
    apart.caught_up(revision).await;
    // Others write; of its own kind nothing happens.
    let pods = Api::<Object>::of_kind(&Client::new(&config(&apart.server))?, Kind::by_name("pod").expect("known"));
    let pod = Object::from_value(crate::door::pod("other")).expect("a map");
    let other = pods.create(&pod).await?.revision;
    apart.caught_up(other).await;
    // History ends where the bookmark was; whoever resumed at the last event would have to begin anew.
    expire(&apart.server).await;
    apart.cutter.cut();
    let next = apart.change("a", "w").await;
    apart.caught_up(next).await;
    assert_eq!(apart.store.progress().states, 1, "the revision of the bookmark was used");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_30_a_cut_between_state_and_events_loses_nothing() -> anyhow::Result<()> {
    let apart = Apart::start().await?;
    for round in 0..30 {
        let name = format!("c{}", round % 5);
        let (_, made) = apart.create(&name).await;
        // Cut at a moment that differs from round to round: before, in and after the state.
        apart.cutter.cut();
        if round % 2 == 0 {
            apart.caught_up(made).await;
        }
        apart.delete(&name).await;
        apart.cutter.cut();
    }
    let (_, revision) = apart.create("last").await;
    apart.caught_up(revision).await;
    assert_eq!(apart.names(), ["last"]);
    Ok(())
}
