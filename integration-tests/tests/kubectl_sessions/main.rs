//! Sessions of real kubectl, recorded against kube-apiserver, controller-manager and scheduler 1.36.3, replayed against
//! `lw up` with simulated nodes.
//!
//! `transcripts/` holds 33 sessions of 862 steps, recorded with kubectl 1.32.4 and, where its words differ, 1.36.3, with
//! KWOK as the kubelet (`stages.yaml` is what it did); `replay.py` runs and compares them, and its comments tell what is
//! not compared. Steps that differ stand in `open-132.txt` and `open-136.txt` with a reason each, and only they may; a `~`
//! before a step says that it may go either way. `REFRESH=1` writes the list of the client at hand and the counts of
//! `docs/conformance.md` anew, and keeps the reasons. `LW_KUBECTL` names another client, 1.32 or 1.36.
//!
//! The same sessions are played with `lw` under the name of kubectl, against the words of 1.36 (`open-lw.txt`). There a
//! reason that begins with `not there:` is a command or a kind that is refused by name; other reasons are differences.
//!
//! The sessions are played on a few clusters at a time, since much of their time is waiting; one client after the other,
//! since twice as many clusters would make each other late.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use listwatch_integration_tests::{Cluster, binary};
use serde_json::Value;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubectl_sessions");

/// How many sessions there are; none may get lost.
const SESSIONS: usize = 33;

/// Sessions of controllers that this version does not have.
const WITHOUT_CONTROLLER: [&str; 4] = ["ctl-cronjob", "ctl-daemonset", "ctl-job", "ctl-statefulset"];

/// How many clusters there are at a time.
const CLUSTERS: usize = 3;

/// Held by the client whose sessions are played.
static TURN: Mutex<()> = Mutex::new(());

/// Sessions that wait for long, with their seconds; others take about [`SECONDS`].
const LONG: [(&str, u32); 5] =
    [("get-watch", 45), ("nodename", 45), ("drain-pdb", 17), ("ctl-recreate", 10), ("sched-node-affinity", 10)];
const SECONDS: u32 = 6;

/// The clients whose words were recorded.
const CLIENTS: [(&str, &str); 2] = [("132", "kubectl 1.32"), ("136", "kubectl 1.36")];

/// The list of `lw` in place of kubectl, and how a reason there begins that is no difference: `lw` does not have it.
const LW: &str = "lw";
const NOT_THERE: &str = "not there:";

/// Between these the document tells the counts.
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/conformance.md");
const BEGIN: &str = "<!-- counts of replayed sessions: held by a test -->";
const END: &str = "<!-- end -->";

/// Said of a step in a list that was written anew, until somebody has looked.
const UNKNOWN: &str = "not looked at yet";

/// A client whose words were recorded, and which ones.
struct Client {
    program: PathBuf,
    variant: &'static str,
    /// Which list tells what goes otherwise.
    list: &'static str,
}

/// The client to run; `None` where there is none.
fn client() -> Option<Client> {
    let wanted = std::env::var_os("LW_KUBECTL").map_or_else(|| PathBuf::from("kubectl"), PathBuf::from);
    let version = |program: &Path| {
        let output = Command::new(program).args(["version", "--client"]).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut program = wanted;
    let mut said = version(&program)?;
    if said.contains("-dispatcher") {
        // A wrapper with words of its own; the clients that it chooses from lie beside it.
        let path = std::env::var_os("PATH")?;
        let found = std::env::split_paths(&path).map(|folder| folder.join(&program)).find(|file| file.exists())?;
        program = found.canonicalize().ok()?.with_file_name("kubectl.1.32");
        said = version(&program)?;
    }
    let variant = CLIENTS
        .map(|(variant, _)| variant)
        .into_iter()
        .find(|variant| said.contains(&format!("Client Version: v1.{}", &variant[1..])))?;
    Some(Client { program, variant, list: variant })
}

/// `lw` under the name of kubectl, which it then takes for its own.
fn lw_as_kubectl(folder: &Path) -> anyhow::Result<Client> {
    let program = folder.join("kubectl");
    std::fs::write(&program, format!("#!/bin/bash\nexec -a kubectl {} \"$@\"\n", binary::lw().display()))?;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    Ok(Client { program, variant: "136", list: LW })
}

fn python_is_there() -> bool {
    Command::new("python3").args(["-c", "import yaml"]).output().is_ok_and(|output| output.status.success())
}

/// Why a step may differ.
#[derive(Clone)]
struct Reason {
    text: String,
    /// Whether it may also go as recorded.
    either_way: bool,
}

/// The steps of a list, `SESSION/STEP`, with the reason each.
fn open(list: &Path) -> anyhow::Result<BTreeMap<String, Reason>> {
    let text = std::fs::read_to_string(list)?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (step, text) = line.split_once(char::is_whitespace).with_context(|| format!("no reason: {line}"))?;
            let either_way = step.starts_with('~');
            let step = step.trim_start_matches('~').to_owned();
            Ok((step, Reason { text: text.trim().to_owned(), either_way }))
        })
        .collect()
}

fn list_of(variant: &str) -> PathBuf {
    PathBuf::from(format!("{HERE}/open-{variant}.txt"))
}

/// Writes the list of the steps that were found to differ, and keeps what may go either way.
fn write_list(
    client: &Client,
    known: &BTreeMap<String, Reason>,
    found: &BTreeMap<String, String>,
) -> anyhow::Result<()> {
    let mut all: BTreeMap<&String, Reason> =
        known.iter().filter(|(_, reason)| reason.either_way).map(|(step, reason)| (step, reason.clone())).collect();
    for step in found.keys() {
        let unknown = || Reason { text: UNKNOWN.to_owned(), either_way: false };
        all.entry(step).or_insert_with(|| known.get(step).cloned().unwrap_or_else(unknown));
    }
    let name =
        CLIENTS.iter().find(|(list, _)| *list == client.list).map_or("lw in place of kubectl 1.36", |(_, name)| name);
    let mut text = format!("# Steps that go otherwise than recorded with {name}, and why; ~ = may go either way.\n");
    for (step, reason) in all {
        let mark = if reason.either_way { "~" } else { "" };
        text.push_str(&format!("{mark}{step} {}\n", reason.text));
    }
    Ok(std::fs::write(list_of(client.list), text)?)
}

/// The names of the sessions.
fn sessions() -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(format!("{HERE}/transcripts"))? {
        let path = entry?.path();
        names.push(path.file_stem().and_then(|name| name.to_str()).context("a name that is text")?.to_owned());
    }
    names.sort();
    Ok(names)
}

/// The sessions that are played, and how many steps they have.
fn played() -> anyhow::Result<(Vec<String>, usize)> {
    let all = sessions()?;
    ensure!(all.len() == SESSIONS, "{} sessions instead of {SESSIONS}", all.len());
    let played: Vec<String> = all.into_iter().filter(|name| !WITHOUT_CONTROLLER.contains(&name.as_str())).collect();
    let mut steps = 0;
    for name in &played {
        let text = std::fs::read_to_string(format!("{HERE}/transcripts/{name}.yaml"))?;
        steps += text.lines().filter(|line| line.starts_with("- run:")).count();
    }
    Ok((played, steps))
}

/// The sessions in groups that take about the same time.
fn groups<'a>(sessions: &[&'a str]) -> Vec<Vec<&'a str>> {
    let seconds = |name: &str| LONG.iter().find(|(long, _)| *long == name).map_or(SECONDS, |(_, seconds)| *seconds);
    let mut sorted = sessions.to_vec();
    sorted.sort_by_key(|name| std::cmp::Reverse(seconds(name)));
    let mut groups: Vec<(u32, Vec<&str>)> = vec![(0, Vec::new()); CLUSTERS];
    for name in sorted {
        if let Some((taken, group)) = groups.iter_mut().min_by_key(|(taken, _)| *taken) {
            *taken += seconds(name);
            group.push(name);
        }
    }
    groups.into_iter().map(|(_, group)| group).filter(|group| !group.is_empty()).collect()
}

/// The steps that went otherwise, in these sessions, and how. Each group has a cluster of its own.
fn differing(client: &Client, sessions: &[&str]) -> anyhow::Result<BTreeMap<String, String>> {
    std::thread::scope(|scope| {
        let playing: Vec<_> =
            groups(sessions).into_iter().map(|group| scope.spawn(move || differing_on_one(client, &group))).collect();
        let mut found = BTreeMap::new();
        for played in playing {
            found.extend(played.join().map_err(|_| anyhow::anyhow!("a group's thread has panicked"))??);
        }
        Ok(found)
    })
}

fn differing_on_one(client: &Client, sessions: &[&str]) -> anyhow::Result<BTreeMap<String, String>> {
    let cluster = Cluster::start(&["--runtime", "simulated"])?;
    let folder = tempfile::tempdir()?;
    let report = folder.path().join("report.json");
    let mut command = Command::new("python3");
    command.arg(format!("{HERE}/replay.py")).args(["--dir", &format!("{HERE}/transcripts")]).arg("--out").arg(&report);
    command.arg("--kubectl").arg(&client.program).args(["--variant", client.variant]);
    command.arg("--kubeconfig").arg(cluster.data_dir().join("kubeconfig"));
    // What is waited for may take its time on a busy machine.
    command.args(["--only", &sessions.join(","), "--slow", "3"]);
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    ensure!(report.exists(), "replay.py ended with {}: {said}{failed}", output.status);
    let report: Vec<Value> = serde_json::from_slice(&std::fs::read(&report)?)?;
    let step = |found: &Value| {
        let name = format!("{}/{}", found["session"].as_str().unwrap_or_default(), found["step"]);
        (name, format!("{}\nrecorded: {}\ngot: {}", found["run"], found["golden"], found["got"]))
    };
    Ok(report.iter().map(step).collect())
}

/// What the document tells of each client.
fn told() -> anyhow::Result<String> {
    let (sessions, steps) = played()?;
    let mut text = String::from(
        "| Client | Sessions | Steps | Equal | Equal or not, by chance | Different on purpose |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for (variant, name) in CLIENTS {
        let open = open(&list_of(variant))?;
        let chance = open.values().filter(|reason| reason.either_way).count();
        let different = open.len() - chance;
        let equal = steps - open.len();
        text.push_str(&format!("| {name} | {} | {steps} | {equal} | {chance} | {different} |\n", sessions.len()));
    }
    // With `lw`, of the steps whose command it has.
    let open = open(&list_of(LW))?;
    let missing = open.values().filter(|reason| reason.text.starts_with(NOT_THERE)).count();
    let chance = open.values().filter(|reason| reason.either_way).count();
    let (sessions, has, equal) = (sessions.len(), steps - missing, steps - open.len());
    let different = open.len() - missing - chance;
    text.push_str(&format!(
        "| `lw` in place of kubectl | {sessions} | {has} of {steps} | {equal} | {chance} | {different} |\n"
    ));
    Ok(text)
}

/// Replaces what stands between the marks of the document.
fn between_marks(document: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = document.split_once(BEGIN).context("the document has no place for the counts")?;
    let (_, after) = rest.split_once(END).context("the place for the counts has no end")?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[test]
fn the_document_tells_the_counts() -> anyhow::Result<()> {
    let document = std::fs::read_to_string(DOCUMENT)?;
    let wanted = between_marks(&document, &told()?)?;
    if std::env::var_os("REFRESH").is_some() {
        return Ok(std::fs::write(DOCUMENT, wanted)?);
    }
    ensure!(document == wanted, "docs/conformance.md tells other counts (REFRESH=1)");
    for list in CLIENTS.map(|(variant, _)| variant).into_iter().chain([LW]) {
        let open = open(&list_of(list))?;
        let unexplained: Vec<_> =
            open.iter().filter(|(_, reason)| reason.text == UNKNOWN).map(|(step, _)| step).collect();
        ensure!(unexplained.is_empty(), "no reason is told for {unexplained:?}");
    }
    Ok(())
}

#[test]
fn sessions_of_kubectl_go_as_recorded() -> anyhow::Result<()> {
    let Some(client) = client().filter(|_| python_is_there()) else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "kubectl 1.32 or 1.36 and python3-yaml are not installed"
        );
        println!("SKIPPED: kubectl 1.32 or 1.36, or python3-yaml, is not installed");
        return Ok(());
    };
    only_known_steps_differ(&client)
}

#[test]
fn sessions_with_lw_in_place_of_kubectl_go_as_recorded() -> anyhow::Result<()> {
    if !python_is_there() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "python3-yaml is not installed");
        println!("SKIPPED: python3-yaml is not installed");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    only_known_steps_differ(&lw_as_kubectl(folder.path())?)
}

/// Plays the sessions, and compares the steps that differ with the client's list.
fn only_known_steps_differ(client: &Client) -> anyhow::Result<()> {
    let (sessions, _) = played()?;
    let sessions: Vec<&str> = sessions.iter().map(String::as_str).collect();
    let known = open(&list_of(client.list))?;
    // A turn that ended with a failure is over, too.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = differing(client, &sessions)?;
    if std::env::var_os("REFRESH").is_some() {
        return write_list(client, &known, &found);
    }
    let unexpected: Vec<&String> = found.keys().filter(|step| !known.contains_key(*step)).collect();
    if !unexpected.is_empty() {
        // What differs on a busy machine may be equal when its session is played again, beside fewer others.
        let mut sessions: Vec<&str> = unexpected.iter().filter_map(|step| Some(step.split_once('/')?.0)).collect();
        sessions.dedup();
        let again = differing(client, &sessions)?;
        let still: Vec<_> = again.iter().filter(|(step, _)| !known.contains_key(*step)).collect();
        ensure!(still.is_empty(), "these steps went as recorded before: {still:#?}");
    }
    let better = known.iter().filter(|(step, reason)| !reason.either_way && !found.contains_key(*step));
    let better: Vec<_> = better.map(|(step, _)| step).collect();
    ensure!(
        better.is_empty(),
        "these steps go as recorded now, take them off open-{}.txt (REFRESH=1): {better:?}",
        client.list
    );
    Ok(())
}
