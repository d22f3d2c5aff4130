//! Informers against a real server: killed under them, they go on where they were, and miss and repeat nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use listwatch_components::client::{Api, Client, ClientConfig, DeleteParams, ListParams, Patch, load_kubeconfig};
use listwatch_components::runtime::{Change, IndexerBuilder, Informer, ReflectorConfig, Store};
use listwatch_integration_tests::{Server, eventually, seed};
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Nothing takes longer unless it is broken.
const LIMIT: Duration = Duration::from_secs(30);
const INFORMERS: usize = 100;

/// Name and revision of every pod.
type State = BTreeMap<String, i64>;

struct Watching {
    store: Store<Object>,
    /// What the handler would believe from the changes alone; an error is the first change that did not follow.
    told: Arc<Mutex<Result<State, String>>>,
    task: JoinHandle<()>,
}

fn pods() -> &'static Kind {
    Kind::by_name("pod").expect("known")
}

fn config(server: &Server) -> ClientConfig {
    let kubeconfig = server.data_dir().join("kubeconfig");
    load_kubeconfig(&kubeconfig, None).expect("the server wrote it").config
}

fn watch(config: &ClientConfig, shutdown: &CancellationToken) -> Watching {
    let client = Client::new(config).expect("a good configuration");
    let reflector = ReflectorConfig { namespace: "default".into(), ..ReflectorConfig::default() };
    let mut informer = Informer::<Object>::with(&client, pods(), reflector, IndexerBuilder::new());
    let told = Arc::new(Mutex::new(Ok(State::new())));
    let log = told.clone();
    informer.on_change(move |change| hear(&mut log.lock().expect("no panic"), change));
    let store = informer.store();
    Watching { store, told, task: tokio::spawn(informer.run(shutdown.clone())) }
}

fn hear(told: &mut Result<State, String>, change: &Change<Object>) {
    let Ok(state) = told else { return };
    let object = change.object();
    let name = object.key.name.clone();
    let before = state.get(&name).copied();
    let fits = match change {
        Change::Added(_) => before.is_none() && state.insert(name, object.revision).is_none(),
        Change::Updated { old, new } => before == Some(old.revision) && state.insert(name, new.revision).is_some(),
        Change::Deleted(_) => before.is_some() && state.remove(&name).is_some(),
    };
    if !fits {
        *told = Err(format!("{} at {} after {before:?}", object.key, object.revision));
    }
}

/// Random writes; a write that the server's death left in doubt is no failure.
async fn write(pods: &Api<Object>, random: &mut StdRng) {
    let name = format!("p{}", random.random_range(0..20));
    let key = ObjectKey::new("default", name.as_str());
    match random.random_range(0..3) {
        0 => {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
                "spec": {"containers": [{"name": "c", "image": "pause"}]},
            });
            drop(pods.create(&Object::from_value(pod).expect("a map")).await);
        }
        1 => {
            let label = random.random_range(0..1000).to_string();
            drop(pods.patch(&key, &Patch::Merge(json!({"metadata": {"labels": {"n": label}}}))).await);
        }
        _ => drop(pods.delete(&key, &DeleteParams::any().grace(0)).await),
    }
}

async fn state_of_server(pods: &Api<Object>) -> (State, i64) {
    let params = ListParams::in_namespace("default");
    let list = eventually(LIMIT, "a list", || pods.list(&params)).await;
    (list.items.iter().map(|p| (p.key.name.clone(), p.revision)).collect(), list.revision)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_informers_outlive_the_server_and_miss_nothing() {
    let mut random = StdRng::seed_from_u64(seed("a_hundred_informers"));
    let mut server = Server::start(&[]).expect("a server");
    let config = config(&server);
    let writer = Api::<Object>::of_kind(&Client::new(&config).expect("a good configuration"), pods());
    let shutdown = CancellationToken::new();
    let watching: Vec<_> = (0..INFORMERS).map(|_| watch(&config, &shutdown)).collect();
    for round in 0..6 {
        for _ in 0..random.random_range(1..40) {
            write(&writer, &mut random).await;
        }
        let (expected, revision) = state_of_server(&writer).await;
        for (index, one) in watching.iter().enumerate() {
            let waited = tokio::time::timeout(LIMIT, one.store.wait_for(revision)).await;
            let progress = one.store.progress();
            assert!(waited.is_ok(), "round {round}: informer {index} stands at {progress:?}, wanted {revision}");
            let cached: State = one.store.list().iter().map(|p| (p.key.name.clone(), p.revision)).collect();
            assert_eq!(cached, expected, "round {round}: informer {index} at {progress:?}, wanted {revision}");
            assert_eq!(*one.told.lock().expect("no panic"), Ok(expected.clone()), "round {round}: informer {index}");
        }
        let restarted =
            if round % 2 == 0 { server.kill_and_restart_in_place() } else { server.stop_and_restart_in_place() };
        restarted.expect("it comes back");
    }
    for one in &watching {
        assert_eq!(one.store.progress().states, 1, "history was there all the time: nobody takes the state anew");
    }
    shutdown.cancel();
    for one in watching {
        tokio::time::timeout(LIMIT, one.task).await.expect("it ends").expect("no panic");
    }
}

/// A controller that deletes waits for its own deletes to show, and other writes meanwhile must not make that longer.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_removal_tells_its_own_revision() {
    let server = Server::start(&[]).expect("a server");
    let client = Client::new(&config(&server)).expect("a good configuration");
    let api = Api::<Object>::of_kind(&client, pods());
    let shutdown = CancellationToken::new();
    let watching = watch(&config(&server), &shutdown);
    let pod = |name: &str| {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
            "spec": {"containers": [{"name": "c", "image": "pause"}]},
        });
        Object::from_value(pod).expect("a map")
    };
    let created = api.create(&pod("a")).await.expect("created");
    let delete = async { api.delete(&created.key, &DeleteParams::uid(created.uid.clone())).await.expect("deleted") };
    let (deleted, writes) = listwatch_components::client::own_writes::record(delete).await;
    assert!(deleted.removed, "a pod that was never scheduled goes at once");
    let [write] = writes.as_slice() else { panic!("one write, not {writes:?}") };
    assert!(write.revision > created.revision);
    tokio::time::timeout(LIMIT, watching.store.wait_for(write.revision)).await.expect("in time").expect("fed");
    assert_eq!(watching.store.seen_up_to(), write.revision);
    assert!(watching.store.is_empty());
    shutdown.cancel();
    watching.task.await.expect("no panic");
}
