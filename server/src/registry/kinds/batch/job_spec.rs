//! The rules of a job's spec, also of one in a CronJob (Kubernetes 1.36).

use listwatch_proto::go_quote::quote;
use serde_json::Value;

use super::job::container_names;
use super::{indexes, shown};
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{has, items, text};
use crate::registry::kinds::vocabulary::{counts, names};

/// Pods of an Indexed job that may run at once, and indexes that may fail.
const INDEXED_MAX: i64 = 100_000;
/// Completions above this come with narrower limits when each index has its own backoff.
const COMPLETIONS_SOFT_MAX: i64 = 100_000;
/// Those limits.
const MANY_COMPLETIONS_MAX: i64 = 10_000;
/// Rules of a pod failure policy or of a success policy, and conditions of one rule.
const RULES_MAX: usize = 20;
/// Exit codes of one rule.
const EXIT_CODES_MAX: usize = 255;
/// Bytes of `managedBy`.
const MANAGED_BY_MAX: usize = 63;
/// Bytes of the indexes of one success rule.
const SUCCEEDED_INDEXES_MAX: usize = 64 << 10;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

/// Every fault of the spec, template and selector apart.
pub(super) fn validate(spec: &Value, path: &Path, faults: &mut Faults) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        counts::non_negative(spec, key, path, faults);
    }
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        faults.required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    managed_by(spec, &path.child("managedBy"), faults);
    let is_indexed = spec["completionMode"] == "Indexed";
    match spec["completionMode"].as_str() {
        Some("Indexed") => indexed(spec, path, faults),
        None | Some("NonIndexed") => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes"].iter().filter(|key| has(spec, key)) {
                faults.invalid(&path.child(key), &spec[*key], "requires indexed completion mode");
            }
        }
        Some(other) => faults.not_supported(&path.child("completionMode"), other, &["NonIndexed", "Indexed"]),
    }
    if has(spec, "podFailurePolicy") {
        failure_policy(spec, &path.child("podFailurePolicy").child("rules"), faults);
    }
    if has(spec, "successPolicy") {
        let path = path.child("successPolicy");
        if is_indexed {
            success_policy(spec, &path.child("rules"), faults);
        } else {
            let policy = Shown(shown::success_policy(&spec["successPolicy"]));
            faults.invalid(&path, policy, "requires indexed completion mode");
        }
    }
    replacement_policy(spec, &path.child("podReplacementPolicy"), faults);
}

/// A job's pods end.
pub(super) fn restart_policy(spec: &Value, path: &Path, faults: &mut Faults) {
    let path = path.child("template").child("spec").child("restartPolicy");
    match text(&spec["template"]["spec"], "restartPolicy") {
        "" | "Always" => faults.required(&path, "valid values: \"OnFailure\", \"Never\""),
        policy @ "OnFailure" if has(spec, "podFailurePolicy") => {
            faults.invalid(&path, policy, "only \"Never\" is supported when podFailurePolicy is specified");
        }
        "OnFailure" | "Never" => {}
        other => faults.not_supported(&path, other, &["OnFailure", "Never"]),
    }
}

fn managed_by(spec: &Value, path: &Path, faults: &mut Faults) {
    let Some(manager) = spec["managedBy"].as_str() else { return };
    domain_prefixed_path(manager, path, faults);
    if manager.len() > MANAGED_BY_MAX {
        faults.too_long(path, MANAGED_BY_MAX);
    }
}

/// `acme.io/foo`.
fn domain_prefixed_path(value: &str, path: &Path, faults: &mut Faults) {
    const PATH: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
    if value.is_empty() {
        faults.required(path, "");
        return;
    }
    let Some((host, rest)) = value.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) else {
        faults.invalid(path, value, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    };
    faults.invalid_all(path, host, names::subdomain(host, false));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !rest.bytes().all(allowed) {
        faults.invalid(path, rest, &format!("Invalid path (regex used for validation is '{PATH}')"));
    }
}

fn indexed(spec: &Value, path: &Path, faults: &mut Faults) {
    let number = |key: &str| spec[key].as_i64();
    let (completions, parallelism, failed) = (number("completions"), number("parallelism"), number("maxFailedIndexes"));
    let failed_at = path.child("maxFailedIndexes");
    if completions.is_none() {
        faults.required(&path.child("completions"), "when completion mode is Indexed");
    }
    if let Some(parallelism) = parallelism.filter(|p| *p > INDEXED_MAX) {
        let why = format!("must be less than or equal to {INDEXED_MAX} when completion mode is Indexed");
        faults.invalid(&path.child("parallelism"), parallelism, &why);
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        faults.invalid(&failed_at, failed, "must be less than or equal to completions");
    }
    if let Some(failed) = failed.filter(|failed| *failed > INDEXED_MAX) {
        faults.invalid(&failed_at, failed, &format!("must be less than or equal to {INDEXED_MAX}"));
    }
    if completions.is_none_or(|c| c <= COMPLETIONS_SOFT_MAX) || !has(spec, "backoffLimitPerIndex") {
        return;
    }
    let why = format!(
        "must be less than or equal to {MANY_COMPLETIONS_MAX} when completions are above {COMPLETIONS_SOFT_MAX} and used \
         with backoff limit per index"
    );
    if failed.is_none() {
        faults.required(&failed_at, &format!("must be specified when completions is above {COMPLETIONS_SOFT_MAX}"));
    }
    if let Some(parallelism) = parallelism.filter(|p| *p > MANY_COMPLETIONS_MAX) {
        faults.invalid(&path.child("parallelism"), parallelism, &why);
    }
    if let Some(failed) = failed.filter(|failed| *failed > MANY_COMPLETIONS_MAX) {
        faults.invalid(&failed_at, failed, &why);
    }
}

fn replacement_policy(spec: &Value, path: &Path, faults: &mut Faults) {
    let Some(policy) = spec["podReplacementPolicy"].as_str() else { return };
    let allowed: &[&str] = if has(spec, "podFailurePolicy") { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if !allowed.contains(&policy) {
        faults.not_supported(path, policy, allowed);
    }
}

/// Go's `%q` of a list of words.
fn listed(words: &[&str]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| quote(&word)).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn failure_policy(spec: &Value, path: &Path, faults: &mut Faults) {
    let rules = items(&spec["podFailurePolicy"], "rules");
    if rules.len() > RULES_MAX {
        faults.too_many(path, rules.len(), RULES_MAX);
    }
    for (i, rule) in rules.iter().enumerate() {
        failure_rule(spec, rule, &path.index(i), faults);
    }
}

fn failure_rule(spec: &Value, rule: &Value, path: &Path, faults: &mut Faults) {
    let at = path.child("action");
    match text(rule, "action") {
        "" => faults.required(&at, &listed(&ACTIONS)),
        action @ "FailIndex" => {
            if !has(spec, "backoffLimitPerIndex") {
                faults.invalid(&at, action, "requires the backoffLimitPerIndex to be set");
            }
        }
        action if ACTIONS.contains(&action) => {}
        action => faults.not_supported(&at, action, &ACTIONS),
    }
    let (codes, conditions) = (&rule["onExitCodes"], items(rule, "onPodConditions"));
    if !codes.is_null() {
        exit_codes(spec, codes, &path.child("onExitCodes"), faults);
    }
    pod_conditions(conditions, &path.child("onPodConditions"), faults);
    match (codes.is_null(), conditions.is_empty()) {
        (false, false) => {
            faults.invalid_unshown(path, "specifying both OnExitCodes and OnPodConditions is not supported");
        }
        (true, true) => faults.invalid_unshown(path, "specifying one of OnExitCodes and OnPodConditions is required"),
        _ => {}
    }
}

fn pod_conditions(patterns: &[Value], path: &Path, faults: &mut Faults) {
    if patterns.len() > RULES_MAX {
        faults.too_many(path, patterns.len(), RULES_MAX);
    }
    for (i, pattern) in patterns.iter().enumerate() {
        let path = path.index(i);
        let kind = text(pattern, "type");
        faults.invalid_all(&path.child("type"), kind, names::qualified(kind));
        match text(pattern, "status") {
            "" => faults.required(&path.child("status"), &listed(&STATUSES)),
            status if STATUSES.contains(&status) => {}
            status => faults.not_supported(&path.child("status"), status, &STATUSES),
        }
    }
}

fn exit_codes(spec: &Value, codes: &Value, path: &Path, faults: &mut Faults) {
    let operator = text(codes, "operator");
    match operator {
        "" => faults.required(&path.child("operator"), &listed(&OPERATORS)),
        known if OPERATORS.contains(&known) => {}
        other => faults.not_supported(&path.child("operator"), other, &OPERATORS),
    }
    if let Some(name) = codes["containerName"].as_str()
        && !container_names(&spec["template"]).contains(&name)
    {
        let why = "must be one of the container or initContainer names in the pod template";
        faults.invalid(&path.child("containerName"), name, why);
    }
    let path = path.child("values");
    let values: Vec<i64> = items(codes, "values").iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        faults.invalid(&path, &codes["values"], "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        faults.too_many(&path, values.len(), EXIT_CODES_MAX);
    }
    for (i, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            faults.invalid(&path.index(i), *value, "must not be 0 for the In operator");
        }
        if values[..i].contains(value) {
            faults.duplicate(&path.index(i), *value);
        }
    }
    if !values.is_sorted() {
        faults.invalid(&path, &codes["values"], "must be ordered");
    }
}

fn success_policy(spec: &Value, path: &Path, faults: &mut Faults) {
    let rules = items(&spec["successPolicy"], "rules");
    if rules.is_empty() {
        faults.required(path, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES_MAX {
        faults.too_many(path, rules.len(), RULES_MAX);
    }
    // An Indexed job without completions has been told of above.
    let completions = spec["completions"].as_i64().unwrap_or(0);
    for (i, rule) in rules.iter().enumerate() {
        success_rule(completions, rule, &path.index(i), faults);
    }
}

fn success_rule(completions: i64, rule: &Value, path: &Path, faults: &mut Faults) {
    let (listed, count) = (rule["succeededIndexes"].as_str(), rule["succeededCount"].as_i64());
    if listed.is_none() && count.is_none() {
        faults.required(path, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(text) = listed {
        let at = path.child("succeededIndexes");
        if text.len() > SUCCEEDED_INDEXES_MAX {
            faults.too_long(&at, SUCCEEDED_INDEXES_MAX);
        }
        match indexes::count(text, completions) {
            Ok(indexes) => total = indexes,
            Err(why) => faults.invalid(&at, text, &format!("error parsing succeededIndexes: {why}")),
        }
    }
    let Some(count) = count else { return };
    let at = path.child("succeededCount");
    if count < 0 {
        faults.invalid(&at, count, "must be greater than or equal to 0");
    }
    if count > completions {
        let why = format!("must be less than or equal to {completions} (the number of specified completions)");
        faults.invalid(&at, count, &why);
    }
    if listed.is_some() && count > total {
        let why = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        faults.invalid(&at, count, &why);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fields(mut spec: Value) -> Vec<String> {
        spec["template"] = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}});
        let mut faults = Faults::new();
        validate(&spec, &Path::new("spec"), &mut faults);
        faults.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn a_failure_policy_names_containers_codes_and_conditions() {
        let rule = |rule: Value| json!({"podFailurePolicy": {"rules": [rule]}});
        let at = |tail: &str| vec![format!("spec.podFailurePolicy.rules[0]{tail}")];
        for (given, expected) in [
            (json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}), vec![]),
            (json!({"action": "FailJob"}), at("")),
            (
                json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [0]}}),
                at(".onExitCodes.values[0]"),
            ),
            (
                json!({"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0], "containerName": "x"}}),
                at(".onExitCodes.containerName"),
            ),
            (json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}), at(".action")),
        ] {
            assert_eq!(fields(rule(given.clone())), expected, "{given}");
        }
    }

    #[test]
    fn indexes_have_their_own_limits() {
        let indexed = |mut spec: Value| {
            spec["completionMode"] = json!("Indexed");
            fields(spec)
        };
        assert_eq!(indexed(json!({})), ["spec.completions"]);
        assert!(
            indexed(json!({"completions": 5, "successPolicy": {"rules": [{"succeededIndexes": "1-3"}]}})).is_empty()
        );
        assert_eq!(
            indexed(json!({"completions": 5, "successPolicy": {"rules": [{"succeededIndexes": "3-9"}]}})),
            ["spec.successPolicy.rules[0].succeededIndexes"]
        );
        assert_eq!(
            indexed(json!({"completions": 200_000, "parallelism": 20_000, "backoffLimitPerIndex": 1})),
            ["spec.maxFailedIndexes", "spec.parallelism"]
        );
        assert_eq!(fields(json!({"backoffLimitPerIndex": 1})), ["spec.backoffLimitPerIndex"]);
    }

    #[test]
    fn a_manager_is_a_path_with_a_domain() {
        for (manager, ok) in [("example.com/m", true), ("m", false), ("A b/c", false), ("a.b/c d", false), ("", false)]
        {
            assert_eq!(fields(json!({"managedBy": manager})).is_empty(), ok, "{manager:?}");
        }
    }
}
