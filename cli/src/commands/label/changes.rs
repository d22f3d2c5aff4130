//! What is to be changed, and what that comes to on one object: no IO.

use std::collections::BTreeMap;

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::{Map, Value};

use crate::commands::failure::Failure;
use crate::commands::names::label_value_fault;

/// Labels or annotations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Words {
    Labels,
    Annotations,
}

/// Keys to set and keys to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) set: BTreeMap<String, String>,
    pub(super) remove: Vec<String>,
}

/// What the changes come to on one object.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// The keys that differ, `null` for those that go.
    pub(super) patch: Map<String, Value>,
    /// Keys to remove that are not there.
    pub(super) missing: Vec<String>,
    /// What was done: `labeled`.
    pub(super) deed: &'static str,
}

impl Words {
    /// The field of the metadata.
    pub(super) fn field(self) -> &'static str {
        match self {
            Words::Labels => "labels",
            Words::Annotations => "annotations",
        }
    }

    /// One of them.
    pub(super) fn singular(self) -> &'static str {
        match self {
            Words::Labels => "label",
            Words::Annotations => "annotation",
        }
    }

    fn value(self, object: &Object, key: &str) -> Option<String> {
        match self {
            Words::Labels => object.label(key),
            Words::Annotations => object.annotation(key),
        }
        .map(str::to_owned)
    }
}

impl Changes {
    /// Whether a word is a change and no object.
    pub(super) fn is_change(word: &str) -> bool {
        (word.contains('=') && !word.starts_with('=')) || (word.ends_with('-') && word != "-")
    }

    /// Reads `key=value` and `key-`.
    ///
    /// # Errors
    /// kubectl's words for a value that is none, or a key that is both set and removed.
    pub(super) fn parse(what: Words, words: &[String]) -> Result<Changes, Failure> {
        let mut changes = Changes::default();
        for word in words {
            let Some((key, value)) = word.split_once('=') else {
                changes.remove.push(word.trim_end_matches('-').to_owned());
                continue;
            };
            if what == Words::Labels {
                if value.contains('=') {
                    return Err(Failure::usage(format!("invalid label spec: {word}")));
                }
                if let Some(fault) = label_value_fault(value) {
                    return Err(Failure::usage(format!("invalid label value: {word}: {fault}", word = quote(&word))));
                }
            }
            changes.set.insert(key.to_owned(), value.to_owned());
        }
        let both: Vec<_> = changes.remove.iter().filter(|key| changes.set.contains_key(*key)).cloned().collect();
        match (both.is_empty(), what) {
            (true, _) => Ok(changes),
            (false, Words::Labels) => Err(Failure::usage("can not both modify and remove a label in the same command")),
            (false, Words::Annotations) => Err(Failure::usage(format!(
                "can not both modify and remove the following annotation(s) in the same command: {}",
                both.join(", ")
            ))),
        }
    }

    /// Whether there is nothing to change.
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// What the changes come to on this object.
    ///
    /// # Errors
    /// If a key has another value and must not be overwritten.
    pub(super) fn on(&self, what: Words, object: &Object, overwrite: bool) -> Result<Outcome, Failure> {
        let mut taken = Vec::new();
        let mut patch = Map::new();
        let mut missing = Vec::new();
        for (key, value) in &self.set {
            match what.value(object, key) {
                Some(now) if now == *value => {}
                Some(now) if !overwrite && key != CHANGE_CAUSE => {
                    taken.push(format!("'{key}' already has a value ({now})"))
                }
                _ => drop(patch.insert(key.clone(), value.as_str().into())),
            }
        }
        if !taken.is_empty() {
            return Err(taken_text(what, &taken));
        }
        let has_set = !patch.is_empty();
        for key in &self.remove {
            if what.value(object, key).is_some() {
                patch.insert(key.clone(), Value::Null);
            } else {
                missing.push(key.clone());
            }
        }
        let has_removed = patch.values().any(Value::is_null);
        let deed = match (what, has_set, has_removed) {
            (Words::Annotations, _, _) => "annotated",
            (_, true, true) => "modified",
            (_, true, false) => "labeled",
            (_, false, true) => "unlabeled",
            (_, false, false) => "not labeled",
        };
        Ok(Outcome { patch, missing, deed })
    }
}

/// Why an object changed: it may always be told anew.
const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

fn taken_text(what: Words, taken: &[String]) -> Failure {
    match (what, taken) {
        (Words::Annotations, _) => Failure::plain(format!(
            "--overwrite is false but found the following declared annotation(s): {}",
            taken.join("; ")
        )),
        (Words::Labels, [one]) => Failure::plain(format!("{one}, and --overwrite is false")),
        (Words::Labels, many) => {
            let lines: Vec<_> = many.iter().map(|one| format!("{one}, and --overwrite is false")).collect();
            Failure::Bare(lines.join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn on(what: Words, words: &str, overwrite: bool) -> Result<(&'static str, Value, Vec<String>), String> {
        let object = json!({"metadata": {"labels": {"b": "2", "z": "9"}, "annotations": {"note": "two words"}}});
        let object = Object::from_value(object).expect("a map");
        let words: Vec<_> = words.split_whitespace().map(str::to_owned).collect();
        let changes = Changes::parse(what, &words).map_err(|f| f.text())?;
        let outcome = changes.on(what, &object, overwrite).map_err(|f| f.text())?;
        Ok((outcome.deed, Value::Object(outcome.patch), outcome.missing))
    }

    /// From the recorded session label-annotate (kubectl 1.36.3).
    #[test]
    fn labels_are_changed_in_kubectls_words() {
        let done = |deed, patch, missing: &[&str]| Ok((deed, patch, missing.iter().map(|m| (*m).to_owned()).collect()));
        let labels = |words: &str| on(Words::Labels, words, false);
        assert_eq!(labels("c=1"), done("labeled", json!({"c": "1"}), &[]));
        assert_eq!(labels("b=2"), done("not labeled", json!({}), &[]));
        assert_eq!(labels("b-"), done("unlabeled", json!({"b": null}), &[]));
        assert_eq!(labels("q-"), done("not labeled", json!({}), &["q"]));
        assert_eq!(labels("c=1 b-"), done("modified", json!({"b": null, "c": "1"}), &[]));
        assert_eq!(labels("d="), done("labeled", json!({"d": ""}), &[]));
        assert_eq!(on(Words::Labels, "b=3", true), done("labeled", json!({"b": "3"}), &[]));
        assert_eq!(labels("b=3"), Err("error: 'b' already has a value (2), and --overwrite is false".to_owned()));
        assert_eq!(
            labels("b=3 z=1"),
            Err("'b' already has a value (2), and --overwrite is false\n'z' already has a value (9), and --overwrite \
                 is false"
                .to_owned())
        );
        assert_eq!(
            labels("d=1 d-"),
            Err("error: can not both modify and remove a label in the same command".to_owned())
        );
        let bad = labels("bad=va/lue").expect_err("refused");
        assert!(bad.starts_with("error: invalid label value: \"bad=va/lue\": a valid label must be"), "{bad}");
    }

    #[test]
    fn annotations_are_changed_in_kubectls_words() {
        let annotations = |words: &str| on(Words::Annotations, words, false);
        assert_eq!(annotations("n=a=b").map(|done| done.1), Ok(json!({"n": "a=b"})));
        assert_eq!(annotations("nothing-").map(|done| done.0), Ok("annotated"));
        assert_eq!(
            annotations("note=other"),
            Err("error: --overwrite is false but found the following declared annotation(s): 'note' already has a \
                 value (two words)"
                .to_owned())
        );
    }

    #[test]
    fn objects_and_changes_are_told_apart() {
        for (word, is_change) in
            [("a=b", true), ("a-", true), ("pod", false), ("=x", false), ("-", false), ("a/b-", true)]
        {
            assert_eq!(Changes::is_change(word), is_change, "{word}");
        }
    }
}
