//! `clients/python` against a server that is killed, connections that are cut or go silent, and history that is expired
//! under it: every change is told once and in order, and after an expiry exactly the difference.
//!
//! Needs a Python with the modules of `clients/python/requirements.txt`: `python3`, or what `LW_PYTHON` names (the
//! program, or the folder of a virtual environment). Where they are missing the test says so and passes, unless
//! `CI=true` demands them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use listwatch_components::client::{Api, Client, DeleteParams, Error, ListParams, Patch, load_kubeconfig, own_writes};
use listwatch_integration_tests::foreign::{self, Told as Program};
use listwatch_integration_tests::{Cutter, Server, eventually, seed};
use listwatch_proto::resource::{Kind, Object, ObjectKey};
use listwatch_proto::v1;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

/// Nothing takes longer unless it is broken; the client finds out about a silent connection after eight seconds.
const LIMIT: Duration = Duration::from_secs(60);
const NAMES: usize = 12;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// A Python that has what the client needs.
fn python() -> Option<PathBuf> {
    foreign::python("grpc, grpc_tools, google.protobuf, yaml", "clients/python/requirements.txt")
}

/// The stubs, made by the command that the README gives.
fn make_stubs(python: &Path, into: &Path) {
    let protos = folder().join("proto/protos");
    let out = |flag: &str| format!("--{flag}={}", into.display());
    let output = Command::new(python)
        .args(["-m", "grpc_tools.protoc", "-I"])
        .arg(protos)
        .args([out("python_out"), out("grpc_python_out"), "listwatch/v1/resources.proto".to_owned()])
        .output()
        .expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// One line of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    kind: String,
    name: String,
    uid: String,
    revision: i64,
    source: String,
}

impl Told {
    fn read(line: &str) -> Told {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let text = |field: &str| value[field].as_str().unwrap_or_else(|| panic!("no {field}: {line}")).to_owned();
        let revision = value["revision"].as_i64().unwrap_or_else(|| panic!("no revision: {line}"));
        Told { kind: text("type"), name: text("name"), uid: text("uid"), revision, source: text("source") }
    }
}

/// What really happened. The revision is known exactly, but for a delete whose answer the server's death has eaten.
#[derive(Debug, Clone)]
struct Fact {
    kind: &'static str,
    name: String,
    uid: String,
    after: i64,
    upto: i64,
}

impl Fact {
    fn at(kind: &'static str, name: &str, uid: &str, revision: i64) -> Fact {
        Fact { kind, name: name.to_owned(), uid: uid.to_owned(), after: revision - 1, upto: revision }
    }

    fn is_told_by(&self, told: &Told) -> bool {
        (self.kind, self.name.as_str(), self.uid.as_str()) == (&told.kind, &told.name, &told.uid)
            && self.after < told.revision
            && told.revision <= self.upto
    }
}

/// The client under test.
struct Watcher {
    program: Program,
    /// Lines that have been compared.
    judged: usize,
}

impl Watcher {
    fn start(python: &Path, stubs: &Path, kubeconfig: &Path) -> Watcher {
        let mut command = Command::new(python);
        command.arg(folder().join("clients/python/pods.py")).arg(kubeconfig).arg("default");
        command.env("PYTHONPATH", stubs).env("PYTHONDONTWRITEBYTECODE", "1");
        Watcher { program: Program::start(command), judged: 0 }
    }

    /// How often the client has said this on standard error.
    fn said(&self, words: &str) -> usize {
        self.program.notes().iter().filter(|line| line.contains(words)).count()
    }

    /// The next `count` lines, and that there are no more.
    async fn next(&mut self, count: usize, context: &str) -> Vec<Told> {
        let from = self.judged;
        let lines = eventually(LIMIT, &format!("{context}: {count} more events"), || async {
            let told = self.program.lines(from);
            if told.len() >= count {
                return Ok(told);
            }
            let notes = self.program.notes();
            Err(format!("{} of {count}: {told:?}; the client says {notes:?}", told.len()))
        })
        .await;
        self.judged += lines.len();
        lines.iter().map(|line| Told::read(line)).collect()
    }

    /// The client tells these changes live: none missing, none repeated, in order.
    async fn expect(&mut self, facts: &[Fact], context: &str) {
        let told = self.next(facts.len(), context).await;
        for (index, (told, fact)) in told.iter().zip(facts).enumerate() {
            assert!(fact.is_told_by(told) && told.source == "watch", "{context}, event {index}: {told:?} for {fact:?}");
        }
        assert_eq!(told.len(), facts.len(), "{context}: told too much: {:?}", &told[facts.len()..]);
        let in_order = told.is_sorted_by(|a, b| a.revision < b.revision);
        assert!(in_order, "{context}: {told:?}");
    }

    /// The client tells the difference of two states: what is gone first, then the rest by revision.
    async fn expect_difference(&mut self, before: &State, after: &State, context: &str) {
        let gone: BTreeSet<_> =
            before.0.iter().filter(|(name, pod)| after.0.get(*name).is_none_or(|now| now.uid != pod.uid)).collect();
        let mut new: Vec<Fact> = Vec::new();
        for (name, pod) in &after.0 {
            match before.0.get(name).filter(|old| old.uid == pod.uid) {
                None => new.push(Fact::at("ADDED", name, &pod.uid, pod.revision)),
                Some(old) if old.revision != pod.revision => {
                    new.push(Fact::at("MODIFIED", name, &pod.uid, pod.revision));
                }
                Some(_) => {}
            }
        }
        new.sort_by_key(|fact| fact.upto);
        let told = self.next(gone.len() + new.len(), context).await;
        assert_eq!(told.len(), gone.len() + new.len(), "{context}: told too much: {told:?}");
        assert!(told.iter().all(|t| t.source == "state"), "{context}: {told:?}");
        let (deleted, rest) = told.split_at(gone.len());
        let names: BTreeSet<_> = deleted.iter().map(|t| (t.kind.as_str(), &t.name, &t.uid)).collect();
        let expected: BTreeSet<_> = gone.iter().map(|(name, pod)| ("DELETED", *name, &pod.uid)).collect();
        assert_eq!(names, expected, "{context}");
        for (told, fact) in rest.iter().zip(&new) {
            assert!(fact.is_told_by(told), "{context}: {told:?} for {fact:?}");
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Live {
    uid: String,
    revision: i64,
    /// Marked by a delete that the server's death has cut in two.
    is_ending: bool,
}

/// The pods there are, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State(BTreeMap<String, Live>);

/// The only one who writes pods; knows what it has done, also when the server died over it.
struct Writer {
    pods: Api<Object>,
    random: StdRng,
    state: State,
    facts: Vec<Fact>,
}

impl Writer {
    fn new(client: &Client, seed: u64) -> Writer {
        let pods = Api::of_kind(client, Kind::by_name("pod").expect("known"));
        Writer { pods, random: StdRng::seed_from_u64(seed), state: State::default(), facts: Vec::new() }
    }

    fn record(&mut self, fact: Fact) {
        if fact.kind == "DELETED" {
            self.state.0.remove(&fact.name);
        } else {
            let live = Live { uid: fact.uid.clone(), revision: fact.upto, is_ending: false };
            self.state.0.insert(fact.name.clone(), live);
        }
        self.facts.push(fact);
    }

    /// One random change that is possible now.
    async fn change(&mut self) {
        let name = format!("p{}", self.random.random_range(0..NAMES));
        let live = self.state.0.get(&name).cloned();
        let outcome = match &live {
            None => self.create(&name).await,
            Some(live) if live.is_ending || self.random.random_bool(0.4) => self.delete(&name, live).await,
            Some(_) => self.update(&name).await,
        };
        match outcome {
            Ok(facts) => facts.into_iter().for_each(|fact| self.record(fact)),
            Err(error) if error.is_transient() => self.settle(&name, live).await,
            Err(error) => panic!("{name}: {error}"),
        }
    }

    async fn create(&mut self, name: &str) -> Result<Vec<Fact>, Error> {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
            "spec": {"containers": [{"name": "c", "image": "pause"}]},
        });
        let pod = self.pods.create(&Object::from_value(pod).expect("a map")).await?;
        Ok(vec![Fact::at("ADDED", name, &pod.uid, pod.revision)])
    }

    async fn update(&mut self, name: &str) -> Result<Vec<Fact>, Error> {
        let patch = json!({"metadata": {"labels": {"n": self.random.random::<u32>().to_string()}}});
        let pod = self.pods.patch(&ObjectKey::new("default", name), &Patch::Merge(patch)).await?;
        Ok(vec![Fact::at("MODIFIED", name, &pod.uid, pod.revision)])
    }

    /// A delete is two changes, as in Kubernetes: the pod is marked, then removed.
    async fn delete(&mut self, name: &str, live: &Live) -> Result<Vec<Fact>, Error> {
        let (key, params) = (ObjectKey::new("default", name), DeleteParams::any());
        let (outcome, writes) = own_writes::record(self.pods.delete(&key, &params)).await;
        let deleted = outcome?;
        assert!(deleted.removed, "a pod that was never scheduled goes at once");
        let last = deleted.object.expect("the object as it last was").revision;
        let marked = (!live.is_ending).then(|| Fact::at("MODIFIED", name, &live.uid, last));
        let removed = Fact::at("DELETED", name, &live.uid, writes.first().expect("a write").revision);
        Ok(marked.into_iter().chain([removed]).collect())
    }

    /// Finds out what became of a change whose answer did not come.
    async fn settle(&mut self, name: &str, before: Option<Live>) {
        let params = ListParams::in_namespace("default").fields(format!("metadata.name={name}"));
        let list = eventually(LIMIT, "the server is back", || self.pods.list(&params)).await;
        let is_ending = list.items.first().is_some_and(|pod| pod.is_terminating());
        match (before, list.items.first()) {
            (None, Some(now)) => self.record(Fact::at("ADDED", name, &now.uid, now.revision)),
            (Some(old), Some(now)) if old.revision != now.revision => {
                assert_eq!(old.uid, now.uid, "nobody else writes pods");
                self.record(Fact::at("MODIFIED", name, &now.uid, now.revision));
            }
            (Some(old), None) => {
                let somewhere =
                    |kind| Fact { after: old.revision, upto: list.revision, ..Fact::at(kind, name, &old.uid, 0) };
                if !old.is_ending {
                    self.record(somewhere("MODIFIED"));
                }
                self.record(somewhere("DELETED"));
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        if let Some(live) = self.state.0.get_mut(name) {
            live.is_ending = is_ending;
        }
    }

    /// Random changes; gives what happened.
    async fn round(&mut self, count: usize) -> Vec<Fact> {
        for _ in 0..count {
            self.change().await;
        }
        std::mem::take(&mut self.facts)
    }
}

/// Everything that a test of the client needs.
struct Stage {
    server: Server,
    cutter: Cutter,
    client: Client,
    writer: Writer,
    watcher: Watcher,
    /// Removed with the stage.
    _folder: tempfile::TempDir,
}

impl Stage {
    /// A server behind a cutting proxy with a few pods, and the client, that has told them.
    async fn set(python: &Path, seed: u64) -> Stage {
        let server = Server::start(&[]).expect("a server");
        let cutter = Cutter::start(server.secure_address()).await.expect("a proxy");
        let kubeconfig = server.data_dir().join("kubeconfig");
        let client =
            Client::new(&load_kubeconfig(&kubeconfig, None).expect("written").config).expect("a good configuration");
        let mut writer = Writer::new(&client, seed);
        writer.round(20).await;
        let folder = tempfile::tempdir().expect("a folder");
        make_stubs(python, folder.path());
        let text = std::fs::read_to_string(&kubeconfig).expect("written");
        let proxied = text.replace(&server.secure_address().to_string(), &cutter.address().to_string());
        assert_ne!(text, proxied, "the kubeconfig names the server");
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, proxied).expect("a writable folder");
        let mut watcher = Watcher::start(python, folder.path(), &kubeconfig);
        watcher.expect_difference(&State::default(), &writer.state, "the state at the start").await;
        Stage { server, cutter, client, writer, watcher, _folder: folder }
    }

    async fn expire(&self) {
        self.client.admin().expire(v1::ExpireRequest { revision: 0 }).await.expect("history is let go");
    }

    /// Changes while the client can neither hear nor ask, history let go before it can.
    async fn expire_unheard(&mut self, restart: bool, context: &str) {
        let before = self.writer.state.clone();
        let refused = self.watcher.said("OUT_OF_RANGE");
        self.watcher.program.stand_still(LIMIT).await;
        self.cutter.cut();
        self.writer.round(60).await;
        self.expire().await;
        if restart {
            self.server.kill_and_restart_in_place().expect("it comes back");
        }
        self.watcher.program.go_on();
        self.watcher.expect_difference(&before, &self.writer.state, context).await;
        assert_eq!(self.watcher.said("OUT_OF_RANGE"), refused + 1, "{context}: the resume was refused");
        let facts = self.writer.round(5).await;
        self.watcher.expect(&facts, context).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_outlives_kills_cuts_and_silence_without_missing_or_repeating_an_event() {
    let Some(python) = python() else { return };
    let seed = seed("the_python_client_outlives");
    let mut random = StdRng::seed_from_u64(seed);
    let mut stage = Box::pin(Stage::set(&python, seed)).await;
    for round in 0..8 {
        let (before, after) = (random.random_range(1..30), random.random_range(1..30));
        let Stage { server, cutter, writer, watcher, .. } = &mut stage;
        let mut facts = writer.round(before).await;
        let context = match round % 4 {
            // Killed in the midst of writes: what they came to is found out afterwards.
            0 | 2 => {
                let (more, restarted) = tokio::join!(writer.round(after), async {
                    tokio::task::block_in_place(|| server.kill_and_restart_in_place())
                });
                restarted.expect("it comes back");
                facts.extend(more);
                format!("round {round}: killed")
            }
            1 => {
                cutter.cut();
                facts.extend(writer.round(after).await);
                cutter.cut();
                format!("round {round}: cut")
            }
            _ => {
                cutter.silence();
                facts.extend(writer.round(after).await);
                format!("round {round}: silent")
            }
        };
        watcher.expect(&facts, &context).await;
    }
    assert!(stage.cutter.accepted() >= 9, "every round has broken the connection");
    assert_eq!(
        stage.watcher.said("with the whole state"),
        0,
        "history was there all the time: nothing was listed anew"
    );
    assert!(stage.watcher.said("going on from revision") >= 8, "every round has ended a stream");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_tells_the_difference_when_history_has_gone() {
    let Some(python) = python() else { return };
    let mut stage = Box::pin(Stage::set(&python, seed("the_python_client_tells_the_difference"))).await;
    // A client that has kept up loses nothing when history goes.
    stage.expire().await;
    let facts = stage.writer.round(10).await;
    stage.watcher.expect(&facts, "expired while in step").await;
    stage.expire_unheard(false, "expired unheard").await;
    stage.expire_unheard(true, "expired unheard, and the server killed").await;
    assert_eq!(stage.watcher.said("with the whole state"), 2, "only a refused resume lists anew");
}
