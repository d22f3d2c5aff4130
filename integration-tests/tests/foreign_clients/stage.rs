//! A server behind a proxy, somebody who writes, and a client under test.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use listwatch_components::client::{Api, Client, DeleteParams, ListParams, Patch, load_kubeconfig, own_writes};
use listwatch_integration_tests::foreign::Told;
use listwatch_integration_tests::{Cutter, Server, eventually};
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use listwatch_proto::v1;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::programs::Program;
use super::told::{Change, State};

/// Nothing takes longer unless it is broken; some clients wait up to 30 s before they try again.
const LIMIT: Duration = Duration::from_secs(90);
const NAMES: usize = 12;

/// The client under test.
struct Watcher {
    program: Told,
    /// Lines that have been looked at.
    judged: usize,
}

impl Watcher {
    fn start(program: &Program, kubeconfig: &Path) -> Watcher {
        let mut command = Command::new(&program.path);
        command.args(&program.args).arg(kubeconfig).env("PYTHONDONTWRITEBYTECODE", "1");
        Watcher { program: Told::start(command), judged: 0 }
    }

    /// The lines there are since the last look.
    fn new_lines(&self) -> Vec<Change> {
        self.program.lines(self.judged).iter().map(|line| Change::read(line)).collect()
    }

    /// The next changes are exactly these, in this order.
    async fn expect(&mut self, changes: &[Change], context: &str) {
        let told = eventually(LIMIT, &format!("{context}: {} changes", changes.len()), || async {
            let told = self.new_lines();
            if told.len() >= changes.len() {
                Ok(told)
            } else {
                Err(format!("{told:?}; it says {:?}", self.program.notes()))
            }
        })
        .await;
        assert_eq!(told, changes, "{context}");
        self.judged += told.len();
    }

    /// What is told leads from one state to the other, each step following from the last, and says no more.
    async fn expect_difference(&mut self, before: &State, after: &State, context: &str) {
        let count = eventually(LIMIT, &format!("{context}: the new state"), || async {
            let (mut state, told) = (before.clone(), self.new_lines());
            for change in &told {
                if let Err(fault) = state.take(change) {
                    panic!("{context}: {fault}, after {told:?}");
                }
            }
            if state == *after { Ok(told.len()) } else { Err(format!("{told:?}; it says {:?}", self.program.notes())) }
        })
        .await;
        self.judged += count;
    }
}

/// The only one who writes ConfigMaps.
struct Writer {
    api: Api<Object>,
    random: StdRng,
    state: State,
}

impl Writer {
    /// One random change; what it came to.
    async fn change(&mut self) -> Change {
        let name = format!("c{}", self.random.random_range(0..NAMES));
        let key = ObjectKey::new("default", name.as_str());
        let (kind, uid, revision) = match self.state.0.get(&name) {
            None => {
                let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"namespace": "default", "name": name}, "data": {"n": "0"}});
                let made = self.api.create(&Object::from_value(map).expect("a map")).await.expect("created");
                ("ADDED", made.uid, made.revision)
            }
            Some((uid, _)) if self.random.random_bool(0.4) => {
                let (outcome, writes) = own_writes::record(self.api.delete(&key, &DeleteParams::any())).await;
                outcome.expect("deleted");
                ("DELETED", uid.clone(), writes.first().expect("a write").revision)
            }
            Some(_) => {
                let patch = json!({"data": {"n": self.random.random::<u32>().to_string()}});
                let changed = self.api.patch(&key, &Patch::Merge(patch)).await.expect("changed");
                ("MODIFIED", changed.uid, changed.revision)
            }
        };
        let change = Change { kind: kind.to_owned(), name, uid, revision };
        self.state.take(&change).expect("it is the only one who writes");
        change
    }

    async fn round(&mut self, count: usize) -> Vec<Change> {
        let mut changes = Vec::with_capacity(count);
        for _ in 0..count {
            changes.push(self.change().await);
        }
        changes
    }
}

/// Everything that a test of a client needs.
pub(super) struct Stage {
    server: Server,
    cutter: Cutter,
    client: Client,
    writer: Writer,
    watcher: Watcher,
    /// Removed with the stage.
    _folder: tempfile::TempDir,
}

impl Stage {
    /// A server with a few ConfigMaps, and the client, started behind a proxy.
    pub(super) async fn set_controller(program: Program, seed: u64) -> Box<Stage> {
        let server = Server::start(&[]).expect("a server");
        let cutter = Cutter::start(server.secure_address()).await.expect("a proxy");
        let kubeconfig = server.data_dir().join("kubeconfig");
        let client =
            Client::new(&load_kubeconfig(&kubeconfig, None).expect("written").config).expect("a good configuration");
        let api = Api::of_kind(&client, Kind::by_name("configmap").expect("known"));
        let mut writer = Writer { api, random: StdRng::seed_from_u64(seed), state: State::default() };
        writer.round(20).await;
        let folder = tempfile::tempdir().expect("a folder");
        let text = std::fs::read_to_string(&kubeconfig).expect("written");
        let proxied = text.replace(&server.secure_address().to_string(), &cutter.address().to_string());
        assert_ne!(text, proxied, "the kubeconfig names the server");
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, proxied).expect("a writable folder");
        let watcher = Watcher::start(&program, &kubeconfig);
        Box::new(Stage { server, cutter, client, writer, watcher, _folder: folder })
    }

    /// The same, and the client has told what there is.
    pub(super) async fn set(program: Program, seed: u64) -> Box<Stage> {
        let mut stage = Box::pin(Stage::set_controller(program, seed)).await;
        stage.watcher.expect_difference(&State::default(), &stage.writer.state, "the state at the start").await;
        stage
    }

    async fn expire(&self) {
        self.client.admin().expire(v1::ExpireRequest { revision: 0 }).await.expect("history is let go");
    }

    /// Changes that the client cannot hear, and then what `meanwhile` does.
    async fn unheard(&mut self, count: usize, kill: bool, expire: bool) -> Vec<Change> {
        self.watcher.program.stand_still(LIMIT).await;
        self.cutter.cut();
        let mut changes = self.writer.round(count).await;
        if kill {
            self.server.kill_and_restart_in_place().expect("it comes back");
            eventually(LIMIT, "the server is back", || async {
                self.writer.api.list(&ListParams::in_namespace("default")).await
            })
            .await;
            changes.extend(self.writer.round(count).await);
        }
        if expire {
            self.expire().await;
        }
        self.watcher.program.go_on();
        changes
    }

    /// All that may happen to a client, twice.
    pub(super) async fn outlive_everything(mut self: Box<Self>) {
        for round in 0..2 {
            for (kill, count) in [(false, 20), (true, 10)] {
                let changes = self.writer.round(5).await;
                self.watcher.expect(&changes, &format!("round {round}: undisturbed")).await;
                let changes = self.unheard(count, kill, false).await;
                self.watcher.expect(&changes, &format!("round {round}: cut (server killed: {kill})")).await;
            }
            self.expire().await;
            let changes = self.writer.round(5).await;
            self.watcher.expect(&changes, &format!("round {round}: expired while in step")).await;
            for kill in [false, true] {
                let before = self.writer.state.clone();
                self.unheard(20, kill, true).await;
                let context = format!("round {round}: expired unheard (server killed: {kill})");
                self.watcher.expect_difference(&before, &self.writer.state, &context).await;
                let changes = self.writer.round(5).await;
                self.watcher.expect(&changes, &format!("{context}, then undisturbed")).await;
            }
        }
    }

    /// The same for one that is asked to reconcile: in the end it has seen the last state of each object, and it was
    /// never shown an older state of an object than before.
    pub(super) async fn reconcile_everything(mut self: Box<Self>) {
        for (kill, expire) in [(false, false), (true, false), (false, true), (true, true)] {
            self.unheard(20, kill, expire).await;
            let context = format!("server killed: {kill}, expired: {expire}");
            eventually(LIMIT, &context, || async {
                let mut seen = State::default();
                let told = self.watcher.new_lines();
                for change in &told {
                    let last = seen.0.insert(change.name.clone(), (change.uid.clone(), change.revision));
                    assert!(last.is_none_or(|(_, revision)| revision <= change.revision), "{context}: {told:?}");
                }
                let wanted = &self.writer.state.0;
                let missing: Vec<_> = wanted.iter().filter(|(name, now)| seen.0.get(*name) != Some(now)).collect();
                if missing.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{missing:?}; it says {:?}", self.watcher.program.notes()))
                }
            })
            .await;
        }
    }
}
