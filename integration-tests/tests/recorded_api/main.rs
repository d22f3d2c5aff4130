//! What kube-apiserver 1.36.3 answered, asked again of a real `lw server` over HTTPS.
//!
//! `cases.json` holds 1,412 cases with the answers, recorded by running kube-apiserver on etcd 3.6; `replay.py` asks and
//! compares (it needs no more than Python itself). Cases that are answered otherwise stand in `differences.txt`, a line with
//! the reason each, and may only get fewer: `REFRESH=1` writes the list and the counts of `docs/conformance.md` anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use listwatch_integration_tests::Server;
use listwatch_integration_tests::foreign::missing;
use serde_json::Value;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded_api");

/// How many cases there are; none may get lost.
const CASES: usize = 1412;

fn python_is_there() -> bool {
    if Command::new("python3").arg("--version").output().is_ok() {
        return true;
    }
    missing("python3 is not installed: apt-get install python3");
    false
}

/// Between these the document tells the counts.
const BEGIN: &str = "<!-- counts of recorded answers over REST: held by a test -->";
const END: &str = "<!-- end -->";

/// A fresh server as the recorded one was: no controllers, an administrator's token.
fn server(folder: &Path) -> anyhow::Result<Server> {
    let tokens = folder.join("tokens.csv");
    std::fs::write(&tokens, "T,admin,1,system:masters\n")?;
    Server::start(&[
        "--token-auth-file",
        tokens.to_str().context("a temporary folder's path is text")?,
        "--disable-admission-plugins",
        "ServiceAccount",
        "--service-cluster-ip-range",
        "10.0.0.0/16",
    ])
}

/// The cases that are answered otherwise, out of these (all, if none is named).
fn differing(server: &Server, folder: &Path, ids: &[String]) -> anyhow::Result<BTreeSet<String>> {
    let report = folder.join("report.json");
    let compact = folder.join("compact.sh");
    std::fs::write(&compact, format!("exec etcdctl --endpoints {} compact $1", server.client_address()))?;
    let mut command = Command::new("python3");
    command.arg(format!("{HERE}/replay.py")).args(["--cases", &format!("{HERE}/cases.json"), "--token", "T"]);
    command.args(["--server", &format!("https://{}", server.secure_address()), "--jobs", "4"]);
    command.arg("--compact-cmd").arg(format!("sh {} {{rev}}", compact.display())).env("ETCDCTL_API", "3");
    command.arg("--out").arg(&report);
    if !ids.is_empty() {
        command.args(["--id", &ids.join(",")]);
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        report.exists(),
        "replay.py ended with {}: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&std::fs::read(&report)?)?;
    ensure!(report["skipped"].as_array().is_some_and(Vec::is_empty), "cases were left out: {}", report["skipped"]);
    let differing = report["differs"].as_array().context("a list")?;
    for case in differing.iter().filter(|_| !ids.is_empty()) {
        println!("{case}");
    }
    Ok(differing.iter().filter_map(|case| case["id"].as_str().map(str::to_owned)).collect())
}

/// The list of cases that are answered otherwise, with the reason of each.
fn listed(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| line.split_once(": ").unwrap_or((line, "")))
        .map(|(id, why)| (id.to_owned(), why.to_owned()))
        .collect()
}

/// The counts of each tag, as the document tells them.
fn table(cases: &[Value], differing: &BTreeMap<String, String>) -> String {
    let mut tags: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for case in cases {
        let tag = case["tag"].as_str().unwrap_or_default();
        let counts = tags.entry(tag.split_once('/').map_or(tag, |(tag, _)| tag)).or_default();
        counts.0 += 1;
        counts.1 += usize::from(case["id"].as_str().is_some_and(|id| !differing.contains_key(id)));
    }
    let mut text = String::from("| Tag | Cases | Equal |\n|---|---:|---:|\n");
    for (tag, (all, equal)) in &tags {
        text.push_str(&format!("| {tag} | {all} | {equal} |\n"));
    }
    text.push_str(&format!("| **all** | **{}** | **{}** |\n", cases.len(), cases.len() - differing.len()));
    text
}

/// Replaces what stands between the marks of a document.
fn between_marks(document: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = document.split_once(BEGIN).context("the document has no place for the counts")?;
    let (_, after) = rest.split_once(END).context("the place for the counts has no end")?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[test]
fn answers_over_rest_are_those_of_the_real_server() -> anyhow::Result<()> {
    if !python_is_there() {
        return Ok(());
    }
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(format!("{HERE}/cases.json"))?)?;
    ensure!(cases.len() == CASES, "{} cases instead of {CASES}", cases.len());
    let list = PathBuf::from(format!("{HERE}/differences.txt"));
    let document = PathBuf::from(format!("{HERE}/../../../docs/conformance.md"));
    let folder = tempfile::tempdir()?;
    let differing_now = differing(&server(folder.path())?, folder.path(), &[])?;
    let mut known = listed(&std::fs::read_to_string(&list)?);
    if std::env::var_os("REFRESH").is_some() {
        known = differing_now.iter().map(|id| (id.clone(), known.remove(id).unwrap_or_default())).collect();
        let head = "# Cases answered otherwise than by kube-apiserver 1.36.3, each with the reason.\n";
        let lines: String = known.iter().map(|(id, why)| format!("{id}: {why}\n")).collect();
        std::fs::write(&list, format!("{head}{lines}"))?;
        let text = between_marks(&std::fs::read_to_string(&document)?, &table(&cases, &known))?;
        std::fs::write(&document, text)?;
    }
    println!("{} of {CASES} answered the same", CASES - differing_now.len());
    let unexpected: Vec<String> = differing_now.iter().filter(|id| !known.contains_key(*id)).cloned().collect();
    if !unexpected.is_empty() {
        // Times and ages stand in answers: what differs on a busy machine may be equal when it is asked alone.
        let again = differing(&server(folder.path())?, folder.path(), &unexpected)?;
        ensure!(again.is_empty(), "{} cases were answered the same before: {again:?}", again.len());
    }
    let better: Vec<_> = known.keys().filter(|id| !differing_now.contains(*id)).collect();
    ensure!(better.is_empty(), "answered the same now, take them off differences.txt (REFRESH=1): {better:?}");
    let unexplained: Vec<_> = known.iter().filter(|(_, why)| why.trim().is_empty()).map(|(id, _)| id).collect();
    ensure!(unexplained.is_empty(), "no reason is told for {unexplained:?}");
    let told = std::fs::read_to_string(&document)?;
    ensure!(
        told == between_marks(&told, &table(&cases, &known))?,
        "docs/conformance.md tells other counts (REFRESH=1)"
    );
    Ok(())
}
