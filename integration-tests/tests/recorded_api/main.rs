//! What kube-apiserver 1.36.3 answered, asked again of a real `lw server` over HTTPS.
//!
//! `cases.json` holds 1,412 cases with the answers, recorded by running kube-apiserver on etcd 3.6; `replay.py` asks and
//! compares (it needs no more than Python itself). Cases that are not yet answered the same stand in `open.txt`, a line
//! each, and may only get fewer: `REFRESH=1` writes the list anew.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use listwatch_integration_tests::Server;
use serde_json::Value;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recorded_api");

/// How many cases there are; none may get lost.
const CASES: usize = 1412;

fn python_is_there() -> bool {
    if Command::new("python3").arg("--version").output().is_ok() {
        return true;
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "python3 is not installed: apt-get install python3");
    println!("SKIPPED: python3 is not installed");
    false
}

/// A fresh server as the recorded one was: no controllers, an administrator's token.
fn server(folder: &Path) -> anyhow::Result<Server> {
    let tokens = folder.join("tokens.csv");
    std::fs::write(&tokens, "T,admin,1,system:masters\n")?;
    Server::start(&["--token-auth-file", tokens.to_str().context("a temporary folder's path is text")?])
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

#[test]
fn answers_over_rest_are_those_of_the_real_server() -> anyhow::Result<()> {
    if !python_is_there() {
        return Ok(());
    }
    let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(format!("{HERE}/cases.json"))?)?;
    ensure!(cases.len() == CASES, "{} cases instead of {CASES}", cases.len());
    let list = PathBuf::from(format!("{HERE}/open.txt"));
    let folder = tempfile::tempdir()?;
    let differing_now = differing(&server(folder.path())?, folder.path(), &[])?;
    if std::env::var_os("REFRESH").is_some() {
        std::fs::write(&list, differing_now.iter().map(|id| format!("{id}\n")).collect::<String>())?;
    }
    let open: BTreeSet<String> = std::fs::read_to_string(&list)?.lines().map(str::to_owned).collect();
    println!("{} of {CASES} answered the same", CASES - differing_now.len());
    let unexpected: Vec<String> = differing_now.difference(&open).cloned().collect();
    if !unexpected.is_empty() {
        // Times and ages stand in answers: what differs on a busy machine may be equal when it is asked alone.
        let again = differing(&server(folder.path())?, folder.path(), &unexpected)?;
        ensure!(again.is_empty(), "{} cases were answered the same before: {again:?}", again.len());
    }
    let better: Vec<_> = open.difference(&differing_now).collect();
    let row = format!("| API over REST, every case | {CASES} | {} |", CASES - open.len());
    let told = std::fs::read_to_string(format!("{HERE}/../../../docs/conformance.md"))?;
    ensure!(told.contains(&row), "docs/conformance.md does not say {row:?}");
    ensure!(better.is_empty(), "answered the same now, take them off open.txt (REFRESH=1): {better:?}");
    Ok(())
}
