//! The three-way merge of `apply`: from what was applied last, what is wanted now and what is there, to what shall be.
//!
//! A field is set if the manifest names it, removed if the manifest named it last time and does so no more, and left
//! alone otherwise. The outcome is a whole object; [`merge_patch`] tells its difference from what is there.

use serde_json::{Map, Value};

use super::merge_keys::{ListMerge, is_choice, list_merge};

type Fields = Map<String, Value>;

/// What shall be.
pub(crate) fn three_way(last: &Fields, wanted: &Fields, live: &Fields) -> Fields {
    let mut result = live.clone();
    for field in last.keys().filter(|field| !wanted.contains_key(*field)) {
        result.remove(field);
    }
    for (field, value) in wanted {
        match merged(field, last.get(field), value, live.get(field)) {
            Some(value) => drop(result.insert(field.clone(), value)),
            None => drop(result.remove(field)),
        }
    }
    result
}

/// One field that the manifest names; `None`: it goes.
fn merged(field: &str, last: Option<&Value>, wanted: &Value, live: Option<&Value>) -> Option<Value> {
    match (wanted, live) {
        (Value::Null, _) => None,
        (Value::Object(wanted), Some(Value::Object(live))) => {
            let empty = Fields::new();
            let last = last.and_then(Value::as_object).unwrap_or(&empty);
            let mut next = three_way(last, wanted, live);
            if is_choice(field) && next != *live {
                next.retain(|key, _| wanted.contains_key(key));
            }
            Some(Value::Object(next))
        }
        (Value::Array(wanted), Some(Value::Array(live))) => {
            let last = last.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            Some(Value::Array(merged_list(field, last, wanted, live)))
        }
        (Value::Object(wanted), _) => Some(Value::Object(without_nulls(wanted))),
        _ => Some(wanted.clone()),
    }
}

fn merged_list(field: &str, last: &[Value], wanted: &[Value], live: &[Value]) -> Vec<Value> {
    match list_merge(field) {
        ListMerge::Replace => wanted.to_vec(),
        ListMerge::Set => {
            let mut next = wanted.to_vec();
            next.extend(live.iter().filter(|v| !wanted.contains(v) && !last.contains(v)).cloned());
            next
        }
        ListMerge::ByKey(key) => {
            let find = |list: &[Value], item: &Value| list.iter().find(|i| i.get(key) == item.get(key)).cloned();
            if wanted.iter().chain(live).any(|item| item.get(key).is_none()) {
                return wanted.to_vec();
            }
            let mut next: Vec<_> = wanted
                .iter()
                .filter_map(|item| merged("", find(last, item).as_ref(), item, find(live, item).as_ref()))
                .collect();
            // What others added stays, behind; what was applied last and is wanted no more goes.
            next.extend(live.iter().filter(|i| find(wanted, i).is_none() && find(last, i).is_none()).cloned());
            next
        }
    }
}

/// A null in a manifest means "not there", also where nothing is yet.
fn without_nulls(fields: &Fields) -> Fields {
    fields.iter().filter_map(|(field, value)| Some((field.clone(), merged(field, None, value, None)?))).collect()
}

/// The RFC 7386 patch that turns one object into another.
pub(crate) fn merge_patch(from: &Fields, to: &Fields) -> Fields {
    let mut patch = Fields::new();
    for field in from.keys().filter(|field| !to.contains_key(*field)) {
        patch.insert(field.clone(), Value::Null);
    }
    for (field, value) in to {
        match (from.get(field), value) {
            (Some(before), after) if before == after => {}
            (Some(Value::Object(before)), Value::Object(after)) => {
                patch.insert(field.clone(), Value::Object(merge_patch(before, after)));
            }
            _ => drop(patch.insert(field.clone(), value.clone())),
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        value.as_object().expect("a map").clone()
    }

    fn check(last: Value, wanted: Value, live: Value, expected: Value) {
        let (last, wanted, live) = (fields(last), fields(wanted), fields(live));
        let next = three_way(&last, &wanted, &live);
        assert_eq!(Value::Object(next.clone()), expected);
        // The patch leads there.
        let mut patched = Value::Object(live.clone());
        apply(&mut patched, &Value::Object(merge_patch(&live, &next)));
        assert_eq!(patched, expected);
        assert!(merge_patch(&next, &three_way(&wanted, &wanted, &next)).is_empty(), "applying again changes nothing");
    }

    /// RFC 7386, section 2.
    fn apply(target: &mut Value, patch: &Value) {
        let Value::Object(patch) = patch else { return *target = patch.clone() };
        if !target.is_object() {
            *target = json!({});
        }
        let map = target.as_object_mut().expect("made a map above");
        for (field, value) in patch {
            if value.is_null() {
                map.remove(field);
            } else {
                apply(map.entry(field.clone()).or_insert(Value::Null), value);
            }
        }
    }

    #[test]
    fn what_was_never_applied_stays_and_what_no_longer_is_goes() {
        check(
            json!({"a": 1, "b": {"c": 1, "d": 2}}),
            json!({"b": {"c": 5}}),
            json!({"a": 1, "b": {"c": 1, "d": 2, "theirs": 3}, "default": true}),
            json!({"b": {"c": 5, "theirs": 3}, "default": true}),
        );
        check(json!({}), json!({"a": null, "b": {"c": null}}), json!({"a": 1}), json!({"b": {}}));
    }

    #[test]
    fn containers_are_merged_by_name_in_the_order_of_the_manifest() {
        check(
            json!({"containers": [{"name": "a", "image": "1", "tty": true}, {"name": "old"}]}),
            json!({"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "3"}]}),
            json!({"containers": [{"name": "a", "image": "1", "tty": true, "policy": "x"}, {"name": "old"}, {"name": "injected"}]}),
            json!({"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "3", "policy": "x"}, {"name": "injected"}]}),
        );
    }

    #[test]
    fn other_lists_are_replaced_and_finalizers_are_a_set() {
        check(
            json!({"args": ["a"], "finalizers": ["x"]}),
            json!({"args": ["b"], "finalizers": ["y"]}),
            json!({"args": ["a", "theirs"], "finalizers": ["x", "theirs"]}),
            json!({"args": ["b"], "finalizers": ["y", "theirs"]}),
        );
    }

    #[test]
    fn another_strategy_drops_the_fields_of_the_one_before() {
        let live = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}});
        check(
            json!({}),
            json!({"strategy": {"type": "Recreate"}}),
            live.clone(),
            json!({"strategy": {"type": "Recreate"}}),
        );
        check(json!({}), json!({"strategy": {"type": "RollingUpdate"}}), live.clone(), live);
    }
}
