//! kube-rs' watcher where it once went wrong, over REST.

use std::pin::Pin;

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::{self, Config, Event};
use kube::{Api, ResourceExt};
use listwatch_integration_tests::{Cutter, Server};
use serde_json::json;

use crate::door::{Door, Follow, LIMIT, Speaks, What, config_map, pod, revision, server};
use crate::history::expire;

type Events = Pin<Box<dyn Stream<Item = watcher::Result<Event<ConfigMap>>> + Send>>;

/// A watcher of ConfigMaps behind a proxy, and a writer that the proxy does not touch.
struct Apart {
    server: Server,
    door: Door,
    cutter: Cutter,
    events: Events,
}

impl Apart {
    async fn start(config: Config) -> anyhow::Result<Apart> {
        let server = server()?;
        let door = Door::to(&server, Speaks::Rest).await;
        let cutter = Cutter::start(server.address("insecure")).await?;
        let client = kube::Client::try_from(kube::Config::new(format!("http://{}", cutter.address()).parse()?))?;
        let api: Api<ConfigMap> = Api::namespaced(client, "default");
        Ok(Apart { server, door, cutter, events: Box::pin(watcher::watcher(api, config)) })
    }

    async fn create(&self, name: &str) -> i64 {
        revision(&self.door.create("configmaps", &config_map(name, json!({}))).await.expect("created"))
    }

    /// The next thing that the watcher tells; a lost connection is none. `Err` = what the server said.
    async fn next(&mut self) -> Result<Event<ConfigMap>, String> {
        let told = async {
            loop {
                match self.events.next().await.expect("a watcher never ends") {
                    Ok(event) => return Ok(event),
                    Err(watcher::Error::WatchError(status)) => return Err(status.reason),
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        };
        tokio::time::timeout(LIMIT, told).await.expect("told within the limit")
    }

    /// The names of a whole state, which must come next.
    async fn state(&mut self) -> Vec<String> {
        assert!(matches!(self.next().await, Ok(Event::Init)), "a state begins");
        let mut names = Vec::new();
        loop {
            match self.next().await.expect("no error within a state") {
                Event::InitApply(object) => names.push(object.name_any()),
                Event::InitDone => return names,
                other => panic!("within a state: {other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_23_a_slow_kind_is_kept_ahead_of_the_end_of_history_by_bookmarks() -> anyhow::Result<()> {
    // The server tells how far it has come before it ends a watch; so often does the watcher resume.
    let mut apart = Apart::start(Config::default().timeout(3)).await?;
    apart.create("a").await;
    assert_eq!(apart.state().await, ["a"]);
    let old = apart.door.revision().await;
    apart.door.create("pods", &pod("busy")).await.expect("created");
    for round in 0..50 {
        let patch = json!({"metadata": {"labels": {"round": round.to_string()}}});
        apart.door.merge("pods", "busy", patch).await.expect("changed");
    }
    // A twin that begins later and hears as seldom has heard how far it is when its watch ends. Until then the watcher
    // tells nothing.
    let floor = apart.door.revision().await;
    let follow = Follow { above: old, impatient: true, ..Follow::default() };
    let mut twin = apart.door.watch("configmaps", "default", follow).await.expect("a watch");
    let heard = async {
        let mut heard = 0;
        while let Some(event) = twin.next().await.expect("no error") {
            assert_eq!(event.what, What::Bookmark);
            heard = event.revision;
        }
        heard
    };
    tokio::select! {
        told = apart.events.next() => panic!("nothing has happened to ConfigMaps: {told:?}"),
        heard = heard => assert!(heard >= floor, "{heard} < {floor}"),
    }
    expire(&apart.server).await;
    apart.cutter.cut();
    apart.create("b").await;
    match apart.next().await {
        Ok(Event::Apply(object)) => assert_eq!(object.name_any(), "b"),
        other => panic!("the watch is resumed, no state is taken anew: {other:?}"),
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_24_a_watch_from_before_history_leads_to_a_new_state() -> anyhow::Result<()> {
    for config in [Config::default(), Config::default().streaming_lists()] {
        let mut apart = Apart::start(config).await?;
        apart.create("a").await;
        assert_eq!(apart.state().await, ["a"]);
        apart.cutter.close();
        apart.create("b").await;
        apart.door.delete("configmaps", "a").await.expect("deleted");
        expire(&apart.server).await;
        apart.cutter.open();
        assert_eq!(apart.next().await.expect_err("history is gone"), "Expired");
        assert_eq!(apart.state().await, ["b"], "once, and not for ever the same refusal");
        apart.create("c").await;
        assert!(matches!(apart.next().await, Ok(Event::Apply(object)) if object.name_any() == "c"));
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn row_25_pages_of_any_state_are_all_taken() -> anyhow::Result<()> {
    let mut apart = Apart::start(Config::default().page_size(1).any_semantic()).await?;
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        apart.create(name).await;
    }
    assert_eq!(apart.state().await, names);
    apart.create("f").await;
    assert!(matches!(apart.next().await, Ok(Event::Apply(object)) if object.name_any() == "f"));
    Ok(())
}
