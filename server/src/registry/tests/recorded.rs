//! Replays recorded answers of kube-apiserver 1.36.3 on the registry.
//!
//! The data and its origin are told in `tests/data/README.md`. What differs on purpose stands in [`INTENDED`], each with
//! its reason; everything else must be equal. The counts are told in `docs/conformance.md`, which [`counts`] holds to
//! them.

use listwatch_proto::resource::Kind;
use serde_json::Value;

mod compare;
mod replay;

use replay::{replay, target};

const CASES: &str = include_str!("../../../tests/data/kubernetes-api-cases.json");
pub(super) const CONFORMANCE: &str = include_str!("../../../../docs/conformance.md");

/// Cases that differ on purpose.
const INTENDED: &[(&str, &str)] = &[("write-dryrun-003", "the words of dryRun are the door's to check")];

/// How many cases of a set are equal, at least: the counts never fall.
struct Floor {
    /// The row of `docs/conformance.md`.
    row: &'static str,
    cases: usize,
    equal: usize,
}

const DEFAULTS: Floor = Floor { row: "API: defaults", cases: 41, equal: 41 };
const VALIDATION: Floor = Floor { row: "API: validation", cases: 332, equal: 332 };
const OTHERS: Floor = Floor { row: "API: other cases replayed on the registry", cases: 187, equal: 186 };

fn cases() -> Vec<Value> {
    serde_json::from_str(CASES).expect("JSON")
}

fn tag(case: &Value) -> &str {
    case["tag"].as_str().expect("a tag")
}

/// Whether a case is made of plain writes of served kinds: POST or PUT of JSON, nothing asked about unknown fields, no
/// warning recorded.
fn is_plain(case: &Value) -> bool {
    const KINDS: [&str; 9] =
        ["Namespace", "Node", "Pod", "Event", "ConfigMap", "Deployment", "ReplicaSet", "Lease", "PriorityClass"];
    case["steps"].as_array().expect("steps").iter().all(|step| {
        let path = step["p"].as_str().expect("a path");
        let kind: &Kind = target(path.split('?').next().unwrap_or_default()).kind;
        matches!(step["m"].as_str(), Some("POST" | "PUT"))
            && KINDS.contains(&kind.kind)
            && !path.contains("fieldValidation")
            && ["ct", "h", "b64"].iter().all(|key| step[*key].is_null())
            && step["expect"]["w"].is_null()
    })
}

async fn check(floor: &Floor, cases: Vec<Value>) {
    assert_eq!(cases.len(), floor.cases, "{}: another number of cases", floor.row);
    let (mut equal, mut wrong, mut better) = (0, Vec::new(), Vec::new());
    for recorded in &cases {
        let id = recorded["id"].as_str().expect("an id");
        let intended = INTENDED.iter().any(|(intended, _)| *intended == id);
        match replay(recorded).await {
            Ok(()) => {
                equal += 1;
                if intended {
                    better.push(id);
                }
            }
            Err(_) if intended => {}
            Err(why) => wrong.push(format!("{id}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(better.is_empty(), "equal now, take them off the list: {better:?}");
    assert_eq!(equal, floor.equal, "{}: another number of equal answers", floor.row);
    counts(floor, equal);
}

/// The document tells the counts as they are.
fn counts(floor: &Floor, equal: usize) {
    let wanted = format!("| {} | {} | {equal} | {} |", floor.row, floor.cases, floor.cases - equal);
    assert!(CONFORMANCE.lines().any(|line| line == wanted), "docs/conformance.md has no line {wanted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn defaults_are_those_of_the_real_server() {
    let plain = |case: &Value| tag(case).starts_with("defaults/") && is_plain(case);
    check(&DEFAULTS, cases().into_iter().filter(plain).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn faults_are_told_as_the_real_server_tells_them() {
    let plain = |case: &Value| tag(case).starts_with("validation/") && is_plain(case);
    check(&VALIDATION, cases().into_iter().filter(plain).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_answers_are_those_of_the_real_server() {
    let other = |case: &Value| {
        let judged = tag(case).starts_with("defaults/") || tag(case).starts_with("validation/");
        !judged || !is_plain(case)
    };
    check(&OTHERS, cases().into_iter().filter(other).collect()).await;
}
