//! The taints that a node has afterwards: no IO.

use serde_json::{Value, json};

use super::spec::{Spec, Taint};
use crate::commands::failure::Failure;

/// The taints of a node after the change, and what was done: `tainted`. New ones come first, as kubectl puts them; the
/// others stay as they are.
///
/// # Errors
/// If a taint of the same key and effect is there and must not be overwritten, or one to remove is not there.
pub(super) fn plan(
    node: &str,
    old: &[Value],
    spec: &Spec,
    overwrite: bool,
) -> Result<(Vec<Value>, &'static str), Failure> {
    let taken: Vec<&str> =
        spec.set.iter().filter(|t| old.iter().any(|o| is_same(t, o))).map(|t| t.key.as_str()).collect();
    if !overwrite && !taken.is_empty() {
        return Err(Failure::plain(format!(
            "node {node} already has {} taint(s) with same effect(s) and --overwrite is false",
            taken.join(",")
        )));
    }
    let mut next: Vec<Value> = spec.set.iter().map(to_json).collect();
    next.extend(old.iter().filter(|o| !spec.set.iter().any(|t| is_same(t, o))).cloned());
    let has_added = next.len() != old.len();
    let (mut missing, mut has_removed) = (Vec::new(), false);
    for taint in &spec.remove {
        let before = next.len();
        next.retain(|other| !is_same(taint, other));
        has_removed |= next.len() < before;
        if next.len() == before {
            missing.push(format!("taint \"{taint}\" not found"));
        }
    }
    match missing.as_slice() {
        [] => {}
        [one] => return Err(Failure::plain(one.as_str())),
        many => return Err(Failure::Bare(many.join("\n"))),
    }
    let deed = if overwrite || (has_added && has_removed) {
        "modified"
    } else if has_added {
        "tainted"
    } else {
        "untainted"
    };
    Ok((next, deed))
}

/// Key and effect make a taint; without an effect: every one of the key.
fn is_same(taint: &Taint, other: &Value) -> bool {
    other["key"] == taint.key.as_str() && (taint.effect.is_empty() || other["effect"] == taint.effect.as_str())
}

fn to_json(taint: &Taint) -> Value {
    let mut value = json!({"effect": taint.effect, "key": taint.key});
    if !taint.value.is_empty() {
        value["value"] = taint.value.as_str().into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(old: &Value, words: &str, overwrite: bool) -> Result<(Value, &'static str), String> {
        let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
        let spec = Spec::parse(&words).map_err(|f| f.text())?;
        let old = old.as_array().map_or(&[][..], Vec::as_slice);
        plan("node01", old, &spec, overwrite).map(|(next, deed)| (next.into(), deed)).map_err(|f| f.text())
    }

    /// The recorded session taints (kubectl 1.36.3), step by step.
    #[test]
    fn taints_are_set_replaced_and_removed() {
        let nest = json!([{"effect": "NoSchedule", "key": "wasp", "value": "nest"}]);
        let hive = json!([{"effect": "NoSchedule", "key": "wasp", "value": "hive"}]);
        assert_eq!(run(&json!([]), "wasp=nest:NoSchedule", false), Ok((nest.clone(), "tainted")));
        let refused = "error: node node01 already has wasp taint(s) with same effect(s) and --overwrite is false";
        assert_eq!(run(&nest, "wasp=nest:NoSchedule", false), Err(refused.to_owned()));
        assert_eq!(run(&nest, "wasp=hive:NoSchedule", false), Err(refused.to_owned()));
        assert_eq!(run(&nest, "wasp=hive:NoSchedule", true), Ok((hive.clone(), "modified")));
        let two =
            json!([{"effect": "NoSchedule", "key": "bare"}, {"effect": "NoSchedule", "key": "wasp", "value": "hive"}]);
        assert_eq!(run(&hive, "bare:NoSchedule", false), Ok((two.clone(), "tainted")));
        assert_eq!(run(&two, "wasp=other:NoSchedule-", false), Ok((json!([two[0]]), "untainted")));
        assert_eq!(run(&two, "fly=1:NoSchedule bare:NoSchedule-", false).map(|done| done.1), Ok("modified"));
        assert_eq!(run(&two, "wasp- bare-", false), Ok((json!([]), "untainted")));
        assert_eq!(run(&nest, "wasp:NoExecute-", false), Err("error: taint \"wasp:NoExecute\" not found".to_owned()));
        assert_eq!(run(&nest, "wasp- a- b-", false), Err("taint \"a\" not found\ntaint \"b\" not found".to_owned()));
    }

    #[test]
    fn what_is_not_named_stays_as_it_is() {
        let old = json!([{"effect": "NoExecute", "key": "gone", "timeAdded": "2026-01-02T03:04:05Z"}]);
        let (next, _) = run(&old, "a=b:NoSchedule", false).expect("a plan");
        assert_eq!(next[1], old[0]);
    }
}
