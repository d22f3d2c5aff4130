//! Which definitions get the names that they want (apiextensions-apiserver's naming and establishing controllers).
//!
//! Pure: stored definitions in, statuses out.

use std::collections::HashSet;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::{Value, json};

/// The names of `spec.names` that must be free among resources.
const RESOURCES: [(&str, &str); 2] = [("plural", "PluralConflict"), ("singular", "SingularConflict")];
/// The names that must be free among kinds.
const KINDS: [(&str, &str); 2] = [("kind", "KindConflict"), ("listKind", "ListKindConflict")];

/// Whether a condition of a definition is true.
pub(super) fn is_true(object: &Object, kind: &str) -> bool {
    object.condition(kind).is_some_and(|condition| condition["status"] == "True")
}

/// The definition with the status that it should have; `None` if it has it. `others` are the other definitions of its
/// group.
pub(super) fn settled<'o>(object: &Object, others: impl Iterator<Item = &'o Object>, now: &str) -> Option<Object> {
    let mut new = object.clone();
    let wanted = object.at(&["spec", "names"]).cloned().unwrap_or_default();
    let accepted = object.at(&["status", "acceptedNames"]).cloned().unwrap_or_default();
    if wanted != accepted || object.condition("NamesAccepted").is_none() {
        name(&mut new, &wanted, &accepted, others, now);
    }
    if is_true(&new, "NamesAccepted") && !is_true(&new, "Established") {
        let condition =
            condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted");
        set_condition(&mut new, condition, now);
    }
    (new != *object).then_some(new)
}

fn name<'o>(new: &mut Object, wanted: &Value, accepted: &Value, others: impl Iterator<Item = &'o Object>, now: &str) {
    let (resources, kinds) = taken(others);
    let mut names = accepted.clone();
    let mut refused: Option<(&str, String)> = None;
    let in_use = |name: &str| format!("{} is already in use", quote(&name));
    let text = |from: &Value, key: &str| from[key].as_str().unwrap_or_default().to_owned();
    for ((key, reason), used) in RESOURCES.iter().map(|r| (r, &resources)) {
        let name = text(wanted, key);
        if name != text(accepted, key) && used.contains(&name) {
            refused = Some((reason, in_use(&name)));
        } else {
            names[*key] = name.into();
        }
    }
    if wanted["shortNames"] != accepted["shortNames"] {
        let list = |from: &Value| -> Vec<String> {
            from["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let own = list(accepted);
        let told: Vec<String> = list(wanted)
            .into_iter()
            .filter(|name| !own.contains(name) && resources.contains(name))
            .map(|name| in_use(&name))
            .collect();
        if told.is_empty() {
            put(&mut names, "shortNames", &wanted["shortNames"]);
        } else {
            let told = if let [one] = told.as_slice() { one.clone() } else { format!("[{}]", told.join(", ")) };
            refused = Some(("ShortNamesConflict", told));
        }
    }
    for ((key, reason), used) in KINDS.iter().map(|r| (r, &kinds)) {
        let name = text(wanted, key);
        if name != text(accepted, key) && used.contains(&name) {
            refused = Some((reason, in_use(&name)));
        } else {
            names[*key] = name.into();
        }
    }
    put(&mut names, "categories", &wanted["categories"]);
    new.set(&["status", "acceptedNames"], names);
    let accepted = match &refused {
        None => condition("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => condition("NamesAccepted", "False", reason, message),
    };
    set_condition(new, accepted, now);
    if refused.is_some() && new.condition("Established").is_none() {
        set_condition(new, condition("Established", "False", "NotAccepted", "not all names are accepted"), now);
    }
}

/// The names that other definitions have.
fn taken<'o>(others: impl Iterator<Item = &'o Object>) -> (HashSet<String>, HashSet<String>) {
    let (mut resources, mut kinds) = (HashSet::new(), HashSet::new());
    for other in others {
        let Some(names) = other.at(&["status", "acceptedNames"]) else { continue };
        let text = |key: &str| names[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        resources.extend(RESOURCES.iter().filter_map(|(key, _)| text(key)));
        let short = names["shortNames"].as_array().into_iter().flatten();
        resources.extend(short.filter_map(Value::as_str).map(str::to_owned));
        kinds.extend(KINDS.iter().filter_map(|(key, _)| text(key)));
    }
    (resources, kinds)
}

fn put(names: &mut Value, key: &str, value: &Value) {
    match (value, names.as_object_mut()) {
        (Value::Null, Some(names)) => drop(names.remove(key)),
        (value, Some(names)) => drop(names.insert(key.to_owned(), value.clone())),
        (_, None) => {}
    }
}

pub(super) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

/// Puts a condition in the place of the one of its type; the time stays unless the status changes.
pub(super) fn set_condition(object: &mut Object, mut condition: Value, now: &str) {
    let list = object.at_mut(&["status", "conditions"]);
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    let old = list.iter_mut().find(|old| old["type"] == condition["type"]);
    let same = old.as_ref().is_some_and(|old| old["status"] == condition["status"]);
    condition["lastTransitionTime"] = match &old {
        Some(old) if same => old["lastTransitionTime"].clone(),
        _ => now.into(),
    };
    match old {
        Some(old) => *old = condition,
        None => list.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(kind: &str, short: &[&str], status: Value) -> Object {
        let lower = kind.to_lowercase();
        Object::from_value(json!({"metadata": {"name": format!("{lower}s.example.com")},
            "spec": {"group": "example.com", "names": {"kind": kind, "listKind": format!("{kind}List"),
                "plural": format!("{lower}s"), "singular": lower, "shortNames": short}},
            "status": status}))
        .expect("a map")
    }

    #[test]
    fn names_are_accepted_once_and_then_settled() {
        let new =
            definition("Widget", &["wd"], json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}}));
        let settled_once = settled(&new, std::iter::empty(), "now").expect("it changes");
        let conditions = settled_once.at(&["status", "conditions"]).and_then(Value::as_array).expect("a list");
        let told: Vec<_> = conditions.iter().map(|c| format!("{}={}", c["type"], c["status"])).collect();
        assert_eq!(told, ["\"NamesAccepted\"=\"True\"", "\"Established\"=\"True\""]);
        assert_eq!(settled_once.at(&["status", "acceptedNames"]), settled_once.at(&["spec", "names"]));
        assert_eq!(settled(&settled_once, std::iter::empty(), "later"), None);
    }

    #[test]
    fn a_name_that_another_one_has_is_refused_until_it_is_free() {
        let first = settled(&definition("Widget", &["wd"], json!({})), std::iter::empty(), "now").expect("changes");
        let second = definition("Wodget", &["wd"], json!({}));
        let refused = settled(&second, std::iter::once(&first), "now").expect("changes");
        let told = refused.condition("NamesAccepted").expect("told");
        assert_eq!(
            (told["reason"].as_str(), told["message"].as_str()),
            (Some("ShortNamesConflict"), Some("\"wd\" is already in use"))
        );
        assert!(!is_true(&refused, "Established"));
        assert_eq!(refused.text(&["status", "acceptedNames", "plural"]), "wodgets");
        assert_eq!(settled(&refused, std::iter::once(&first), "later"), None, "nothing has changed");
        let freed = settled(&refused, std::iter::empty(), "later").expect("changes");
        assert!(is_true(&freed, "Established"));
    }
}
