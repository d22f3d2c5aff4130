//! What a client was told, beside what happened.

use std::collections::BTreeMap;

use serde_json::Value;

/// One change, as it happened or as it was told. A deletion is told with the revision of the object's last state by a
/// client that found it out from a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) revision: i64,
}

impl Change {
    /// Reads a line of a client.
    pub(super) fn read(line: &str) -> Change {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let text = |field: &str| value[field].as_str().unwrap_or_else(|| panic!("no {field}: {line}")).to_owned();
        let revision = value["revision"].as_i64().unwrap_or_else(|| panic!("no revision: {line}"));
        Change { kind: text("type"), name: text("name"), uid: text("uid"), revision }
    }
}

/// The objects there are: uid and revision by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State(pub(super) BTreeMap<String, (String, i64)>);

impl State {
    /// Takes a change in.
    ///
    /// # Errors
    /// If it does not follow from the state: something was missed, or told twice.
    pub(super) fn take(&mut self, change: &Change) -> Result<(), String> {
        let known = self.0.get(&change.name);
        let fits = match (change.kind.as_str(), known) {
            ("ADDED", None) => true,
            ("MODIFIED", Some((uid, revision))) => *uid == change.uid && *revision < change.revision,
            ("DELETED", Some((uid, revision))) => *uid == change.uid && *revision <= change.revision,
            _ => false,
        };
        if !fits {
            return Err(format!("{change:?} does not follow {known:?}"));
        }
        if change.kind == "DELETED" {
            self.0.remove(&change.name);
        } else {
            self.0.insert(change.name.clone(), (change.uid.clone(), change.revision));
        }
        Ok(())
    }
}
