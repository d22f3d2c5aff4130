//! A set of fields, in the form in which objects carry it (`FieldsV1`): a map of steps, in which an empty map is a field
//! of the set, and one with the key `.` a field of the set below which others are.
//!
//! It is worked on in that form, so that nothing is read or written for the managers that a change does not touch.
//!
//! Invariant: no map stands for nothing: what has neither itself nor anything below it in the set is not there.

use serde_json::{Map, Value};

use super::element;

const SELF: &str = ".";

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FieldSet(Map<String, Value>);

/// Whether the field that a node stands for is in the set.
fn is_member(node: &Value) -> bool {
    node.as_object().is_none_or(|below| below.is_empty() || below.contains_key(SELF))
}

fn below(node: &Value) -> Option<&Map<String, Value>> {
    node.as_object().filter(|below| !below.is_empty())
}

/// A node out of its two halves; `None` if it stands for nothing.
fn node(member: bool, mut below: Map<String, Value>) -> Option<Value> {
    below.remove(SELF);
    match (member, below.is_empty()) {
        (false, true) => None,
        (true, false) => {
            below.insert(SELF.to_owned(), Value::Object(Map::new()));
            Some(Value::Object(below))
        }
        _ => Some(Value::Object(below)),
    }
}

fn steps(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    map.iter().filter(|(step, _)| *step != SELF)
}

impl FieldSet {
    /// A set that is known to be one, such as a stored one.
    pub(super) fn of(fields: Map<String, Value>) -> Self {
        FieldSet(fields)
    }

    /// Reads what a client has sent as a set.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(value: &Value) -> Result<Self, String> {
        let Value::Object(map) = value else { return Err("a set of fields must be a map".to_owned()) };
        let mut fields = Map::new();
        for (step, value) in steps(map) {
            let Some(step) = element::normal(step)? else { continue };
            let below = FieldSet::read(value)?.0;
            if let Some(node) = node(is_member(value), below) {
                fields.insert(step, node);
            }
        }
        Ok(FieldSet(fields))
    }

    /// The form in which it is stored.
    pub(super) fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a field into the set; those above it are not put in. The whole object is no field.
    pub(super) fn insert(&mut self, path: &[String]) {
        let Some((last, above)) = path.split_last() else { return };
        let mut map = &mut self.0;
        for step in above {
            let entry = map.entry(step.as_str()).or_insert(Value::Null);
            let is_new = !entry.is_object();
            if is_new {
                *entry = Value::Object(Map::new());
            }
            let Value::Object(below) = entry else { return };
            // A field of the set stays one when another comes below it.
            if below.is_empty() && !is_new {
                below.insert(SELF.to_owned(), Value::Object(Map::new()));
            }
            map = below;
        }
        match map.get_mut(last) {
            Some(Value::Object(below)) if below.is_empty() => {}
            Some(Value::Object(below)) => drop(below.insert(SELF.to_owned(), Value::Object(Map::new()))),
            _ => drop(map.insert(last.clone(), Value::Object(Map::new()))),
        }
    }

    /// Whether a field is in the set.
    pub(super) fn has(&self, path: &[String]) -> bool {
        let Some((last, above)) = path.split_last() else { return false };
        let mut map = &self.0;
        for step in above {
            match map.get(step).and_then(Value::as_object) {
                Some(below) => map = below,
                None => return false,
            }
        }
        map.get(last).is_some_and(is_member)
    }

    /// Whether the field of one step is in the set.
    pub(super) fn has_step(&self, step: &str) -> bool {
        self.0.get(step).is_some_and(is_member)
    }

    /// What the set has below a step; `None` if that is nothing.
    pub(super) fn below(&self, step: &str) -> Option<FieldSet> {
        self.0
            .get(step)
            .and_then(below)
            .map(|map| {
                let mut map = map.clone();
                map.remove(SELF);
                FieldSet(map)
            })
            .filter(|set| !set.is_empty())
    }

    /// Adds another set.
    pub(super) fn add(&mut self, other: &FieldSet) {
        add(&mut self.0, &other.0);
    }

    /// Takes away the fields of another set; what stands below them stays.
    pub(super) fn subtract(&mut self, other: &FieldSet) {
        subtract(&mut self.0, &other.0);
    }

    /// Takes away the fields of another set with all that stands below them.
    pub(super) fn subtract_deep(&mut self, other: &FieldSet) {
        subtract_deep(&mut self.0, &other.0);
    }

    /// Keeps only what stands at or below these paths of field names; `*` stands for any step.
    pub(super) fn keep_below(&mut self, paths: &[&[&str]]) {
        self.0 = kept_below(&self.0, paths);
    }

    /// The fields that both have.
    pub(super) fn common(&self, other: &FieldSet) -> FieldSet {
        FieldSet(common(&self.0, &other.0))
    }

    /// Puts the fields in that stand above others and are named by `is_declared`; it is asked with the path so far and
    /// the step.
    pub(super) fn with_declared<S: Copy>(&self, root: S, child: &impl Fn(S, &str) -> (bool, S)) -> FieldSet {
        FieldSet(with_declared(&self.0, root, child))
    }

    /// The paths of all its fields: at each level first the fields themselves, then what is below them.
    pub(super) fn paths(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        paths(&self.0, &mut Vec::new(), &mut found);
        found
    }
}

fn add(own: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (step, theirs) in steps(other) {
        match own.get_mut(step) {
            None => drop(own.insert(step.clone(), theirs.clone())),
            Some(ours) => {
                let member = is_member(ours) || is_member(theirs);
                let mut inside = match std::mem::take(ours) {
                    Value::Object(inside) => inside,
                    _ => Map::new(),
                };
                if let Some(theirs) = below(theirs) {
                    add(&mut inside, theirs);
                }
                *ours = node(member, inside).unwrap_or_default();
            }
        }
    }
}

fn kept_below(own: &Map<String, Value>, paths: &[&[&str]]) -> Map<String, Value> {
    let mut kept = Map::new();
    for (step, value) in steps(own) {
        let is_meant = |name: &str| name == "*" || step.strip_prefix("f:") == Some(name);
        let rest: Vec<&[&str]> = paths
            .iter()
            .filter_map(|path| path.split_first())
            .filter(|(name, _)| is_meant(name))
            .map(|(_, rest)| rest)
            .collect();
        if rest.iter().any(|rest| rest.is_empty()) {
            kept.insert(step.clone(), value.clone());
        } else if let Some(left) = below(value).and_then(|inside| node(false, kept_below(inside, &rest))) {
            kept.insert(step.clone(), left);
        }
    }
    kept
}

/// Takes the inside of a node out of a map, works on it, and puts back what is left.
fn rework(own: &mut Map<String, Value>, step: &str, work: impl FnOnce(&mut Map<String, Value>) -> bool) {
    let Some(Value::Object(mut inside)) = own.get_mut(step).map(std::mem::take) else {
        own.remove(step);
        return;
    };
    let member = work(&mut inside);
    match node(member, inside) {
        Some(left) => drop(own.insert(step.to_owned(), left)),
        None => drop(own.remove(step)),
    }
}

fn subtract(own: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (step, theirs) in steps(other) {
        let Some(ours) = own.get(step) else { continue };
        let member = is_member(ours) && !is_member(theirs);
        rework(own, step, |inside| {
            if let Some(theirs) = below(theirs) {
                subtract(inside, theirs);
            }
            member
        });
    }
}

fn subtract_deep(own: &mut Map<String, Value>, other: &Map<String, Value>) {
    for (step, theirs) in steps(other) {
        let Some(ours) = own.get(step) else { continue };
        if is_member(theirs) {
            own.remove(step);
            continue;
        }
        let member = is_member(ours);
        rework(own, step, |inside| {
            if let Some(theirs) = below(theirs) {
                subtract_deep(inside, theirs);
            }
            member
        });
    }
}

fn common(one: &Map<String, Value>, other: &Map<String, Value>) -> Map<String, Value> {
    let mut both = Map::new();
    for (step, ours) in steps(one) {
        let Some(theirs) = other.get(step) else { continue };
        let inside = match (below(ours), below(theirs)) {
            (Some(ours), Some(theirs)) => common(ours, theirs),
            _ => Map::new(),
        };
        if let Some(node) = node(is_member(ours) && is_member(theirs), inside) {
            both.insert(step.clone(), node);
        }
    }
    both
}

fn with_declared<S: Copy>(
    map: &Map<String, Value>,
    at: S,
    child: &impl Fn(S, &str) -> (bool, S),
) -> Map<String, Value> {
    let each = steps(map).filter_map(|(step, value)| {
        let (declared, next) = child(at, step);
        let inside = below(value).map(|inside| with_declared(inside, next, child)).unwrap_or_default();
        let member = is_member(value) || (declared && !inside.is_empty());
        node(member, inside).map(|node| (step.clone(), node))
    });
    each.collect()
}

fn paths(map: &Map<String, Value>, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut sorted: Vec<_> = steps(map).collect();
    sorted.sort_by(|(a, _), (b, _)| element::order(a, b));
    for (step, value) in &sorted {
        if is_member(value) {
            let mut whole = path.clone();
            whole.push((*step).clone());
            found.push(whole);
        }
    }
    for (step, value) in sorted {
        if let Some(inside) = below(value) {
            path.push(step.clone());
            paths(inside, path, found);
            path.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(value: Value) -> FieldSet {
        FieldSet::read(&value).expect("a set")
    }

    #[test]
    fn fields_are_put_in_and_found() {
        let mut fields = FieldSet::default();
        let path = |text: &str| text.split('/').map(str::to_owned).collect::<Vec<_>>();
        for text in ["f:a", "f:a/f:b", "f:c/f:d", "f:c/f:d", "f:c/f:d/f:e", "f:c"] {
            fields.insert(&path(text));
        }
        let expected = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {".": {}, "f:d": {".": {}, "f:e": {}}}});
        assert_eq!(fields.clone().into_value(), expected);
        assert!(fields.has(&path("f:c/f:d")) && !fields.has(&path("f:c/f:e")) && !fields.has(&[]));
        let order: Vec<_> = fields.paths().iter().map(|path| path.join("/")).collect();
        assert_eq!(order, ["f:a", "f:c", "f:a/f:b", "f:c/f:d", "f:c/f:d/f:e"]);
    }

    #[test]
    fn sets_are_added_subtracted_and_met() {
        let one = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}}});
        let other = json!({"f:a": {}, "f:c": {"f:d": {}, "f:e": {}}, "f:z": {}});
        let mut sum = set(one.clone());
        sum.add(&set(other.clone()));
        let all = json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"f:d": {}, "f:e": {}}, "f:z": {}});
        assert_eq!(sum.into_value(), all);
        let mut rest = set(one.clone());
        rest.subtract(&set(other.clone()));
        assert_eq!(rest.into_value(), json!({"f:a": {"f:b": {}}}));
        let mut rest = set(one.clone());
        rest.subtract_deep(&set(other.clone()));
        assert_eq!(rest.into_value(), json!({}));
        let mut rest = set(json!({"f:status": {"f:x": {}}, "f:metadata": {"f:labels": {".": {}}}, "f:spec": {}}));
        rest.subtract_deep(&set(json!({"f:status": {}, "f:metadata": {"f:labels": {}}})));
        assert_eq!(rest.into_value(), json!({"f:spec": {}}));
        assert_eq!(set(one).common(&set(other)).into_value(), json!({"f:a": {}, "f:c": {"f:d": {}}}));
    }

    #[test]
    fn a_part_owns_only_what_stands_below_it() {
        let mut part = set(json!({
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {"f:nodeName": {}, "f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:resources": {"f:limits": {}}}},
                "f:ephemeralContainers": {".": {}, "k:{\"name\":\"e\"}": {".": {}}}},
        }));
        let mut resources = part.clone();
        resources.keep_below(&[&["spec", "containers", "*", "resources"]]);
        assert_eq!(
            resources.into_value(),
            json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:resources": {"f:limits": {}}}}}})
        );
        part.keep_below(&[&["spec", "ephemeralContainers"]]);
        assert_eq!(
            part.into_value(),
            json!({"f:spec": {"f:ephemeralContainers": {".": {}, "k:{\"name\":\"e\"}": {}}}})
        );
    }

    #[test]
    fn a_parent_and_its_child_are_two_fields() {
        let mut parent = set(json!({"f:a": {}}));
        parent.subtract(&set(json!({"f:a": {"f:b": {}}})));
        assert_eq!(parent.into_value(), json!({"f:a": {}}));
        let mut child = set(json!({"f:a": {"f:b": {}}}));
        child.subtract(&set(json!({"f:a": {}})));
        assert_eq!(child.into_value(), json!({"f:a": {"f:b": {}}}));
    }

    #[test]
    fn what_a_client_sends_is_brought_into_the_one_form() {
        let sent = json!({"k:{\"protocol\": \"TCP\", \"port\":80}": {}, "x:future": {}, "v:1.0": {}});
        assert_eq!(set(sent).into_value(), json!({"k:{\"port\":80,\"protocol\":\"TCP\"}": {}, "v:1.0": {}}));
        for wrong in [json!({"f": {}}), json!({"foo": {}}), json!({"f:a": 1}), json!([]), json!({"k:x": {}})] {
            assert!(FieldSet::read(&wrong).is_err(), "{wrong}");
        }
    }
}
