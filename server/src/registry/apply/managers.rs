//! The entries of `metadata.managedFields`: who owns what, since when.

use listwatch_proto::go_quote::quote;
use serde_json::{Map, Value};

use super::set::FieldSet;

/// How many managers that update are told apart (Kubernetes 1.36).
const UPDATERS_MAX: usize = 10;
/// The manager of what older ones did.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// Who owns fields. Managers that apply are the same in all versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Manager {
    /// Whether both are one.
    pub(super) fn is(&self, other: &Manager) -> bool {
        let version = self.operation == Operation::Apply || self.api_version == other.api_version;
        self.operation == other.operation && self.name == other.name && self.subresource == other.subresource && version
    }
}

/// An entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) manager: Manager,
    /// Of the last change, in seconds and RFC 3339; `None` if nothing is known.
    pub(super) time: Option<String>,
    pub(super) fields: FieldSet,
}

/// The entries of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Managers(pub(super) Vec<Entry>);

impl Managers {
    /// The entries that an object has; none if they are not readable. The stored ones have been read once, so that their
    /// sets are taken as they are.
    pub(super) fn stored(object: &Map<String, Value>) -> Self {
        let entries = object.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        let entries = entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let read: Result<Vec<_>, String> = entries
            .iter()
            .map(|entry| {
                let fields = entry["fieldsV1"].as_object().cloned().unwrap_or_default();
                Ok(Entry { fields: FieldSet::of(fields), ..head(entry)? })
            })
            .collect();
        Managers(read.unwrap_or_default())
    }

    /// The entries that a client has sent.
    ///
    /// # Errors
    /// Why they are none.
    pub(super) fn read(entries: &[Value]) -> Result<Self, String> {
        let mut managers = Managers::default();
        for entry in entries {
            let mut read = head(entry)?;
            if let Some(fields) = entry.get("fieldsV1").filter(|fields| !fields.is_null()) {
                read.fields = FieldSet::read(fields)?;
            }
            managers.put(read);
        }
        Ok(managers)
    }

    /// As they are written: by operation, then time, then name.
    pub(super) fn into_value(mut self) -> Option<Value> {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.0.sort_by(|a, b| {
            let key = |e: &Entry| (e.manager.operation, e.time.clone().unwrap_or_default());
            let rest =
                |e: &Entry| (e.manager.name.clone(), e.manager.api_version.clone(), e.manager.subresource.clone());
            key(a).cmp(&key(b)).then_with(|| rest(a).cmp(&rest(b)))
        });
        (!self.0.is_empty()).then(|| self.0.into_iter().map(Entry::into_value).collect())
    }

    /// The entry of a manager.
    pub(super) fn get(&self, manager: &Manager) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.manager.is(manager))
    }

    pub(super) fn get_mut(&mut self, manager: &Manager) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.manager.is(manager))
    }

    /// Puts an entry in the place of the one of its manager.
    pub(super) fn put(&mut self, entry: Entry) {
        match self.get_mut(&entry.manager) {
            Some(known) => *known = entry,
            None => self.0.push(entry),
        }
    }

    /// Takes fields away from all but one.
    pub(super) fn take_from_others(&mut self, fields: &FieldSet, but: Option<&Manager>) {
        for entry in &mut self.0 {
            if !but.is_some_and(|manager| entry.manager.is(manager)) {
                entry.fields.subtract(fields);
            }
        }
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Puts the oldest updaters of a version together, so that there are not too many.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<Manager> =
            self.0.iter().map(|e| e.manager.clone()).filter(|m| m.operation == Operation::Update).collect();
        let mut count = updaters.len();
        if count <= UPDATERS_MAX {
            return;
        }
        updaters.sort_by_key(|manager| {
            let time = self.get(manager).and_then(|entry| entry.time.clone()).unwrap_or_default();
            (time, manager.name.clone(), manager.api_version.clone(), manager.subresource.clone())
        });
        let mut first_of: Vec<(String, Manager)> = Vec::new();
        for manager in updaters {
            if count <= UPDATERS_MAX {
                return;
            }
            let version = manager.api_version.clone();
            let Some((_, first)) = first_of.iter().find(|(other, _)| *other == version).cloned() else {
                first_of.push((version, manager));
                continue;
            };
            let bucket = Manager {
                name: ANCIENT.to_owned(),
                operation: Operation::Update,
                api_version: version,
                subresource: String::new(),
            };
            let mut entry = match self.remove(&bucket).or_else(|| self.remove(&first)) {
                Some(entry) => Entry { manager: bucket, ..entry },
                None => continue,
            };
            if let Some(younger) = self.remove(&manager) {
                entry.fields.add(&younger.fields);
                // It is the more recent one.
                entry.time = younger.time;
                count -= 1;
            }
            self.0.push(entry);
        }
    }

    /// Takes the entry of a manager out.
    pub(super) fn remove(&mut self, manager: &Manager) -> Option<Entry> {
        let at = self.0.iter().position(|entry| entry.manager.is(manager))?;
        Some(self.0.remove(at))
    }
}

/// An entry without its fields.
fn head(entry: &Value) -> Result<Entry, String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    if text("apiVersion").is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    if text("fieldsType") != "FieldsV1" {
        return Err(format!("invalid fieldsType {} in managed fields entry", quote(&text("fieldsType"))));
    }
    Ok(Entry {
        manager: Manager {
            name: text("manager").to_owned(),
            operation,
            api_version: text("apiVersion").to_owned(),
            subresource: text("subresource").to_owned(),
        },
        time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
        fields: FieldSet::default(),
    })
}

impl Entry {
    fn into_value(self) -> Value {
        let mut entry = Map::new();
        let operation = match self.manager.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let texts = [
            ("manager", self.manager.name),
            ("operation", operation.to_owned()),
            ("apiVersion", self.manager.api_version),
            ("fieldsType", "FieldsV1".to_owned()),
            ("subresource", self.manager.subresource),
            ("time", self.time.unwrap_or_default()),
        ];
        entry.extend(
            texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(key, text)| (key.to_owned(), text.into())),
        );
        entry.insert("fieldsV1".to_owned(), self.fields.into_value());
        Value::Object(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn updater(name: &str, time: &str, field: &str) -> Entry {
        let manager = Manager {
            name: name.into(),
            operation: Operation::Update,
            api_version: "v1".into(),
            subresource: String::new(),
        };
        let fields = FieldSet::read(&json!({ field: {} })).expect("a set");
        Entry { manager, time: Some(time.into()), fields }
    }

    #[test]
    fn the_oldest_updaters_are_put_together() {
        let mut managers = Managers::default();
        for n in 0..12 {
            managers.put(updater(&format!("m{n:02}"), &format!("2026-01-01T00:00:{n:02}Z"), &format!("f:f{n}")));
        }
        managers.cap();
        assert_eq!(managers.0.len(), 10);
        let bucket = managers.0.iter().find(|entry| entry.manager.name == ANCIENT).expect("made");
        assert_eq!(bucket.fields.clone().into_value(), json!({"f:f0": {}, "f:f1": {}, "f:f2": {}}));
        assert_eq!(bucket.time.as_deref(), Some("2026-01-01T00:00:02Z"));
        managers.put(updater("young", "2026-01-01T00:01:00Z", "f:z"));
        managers.cap();
        assert_eq!(managers.0.len(), 10);
        assert!(managers.0.iter().any(|entry| entry.manager.name == "young"));
    }

    #[test]
    fn entries_stand_by_operation_time_and_name() {
        let mut managers = Managers::default();
        for (name, time) in
            [("b", "2026-01-01T00:00:01Z"), ("a", "2026-01-01T00:00:01Z"), ("c", "2026-01-01T00:00:00Z")]
        {
            managers.put(updater(name, time, "f:x"));
        }
        let mut applied = updater("z", "2026-01-01T00:00:09Z", "f:x");
        applied.manager.operation = Operation::Apply;
        managers.put(applied);
        let value = managers.into_value().expect("some");
        let names: Vec<_> =
            value.as_array().expect("a list").iter().map(|e| e["manager"].as_str().expect("named")).collect();
        assert_eq!(names, ["z", "c", "a", "b"]);
    }

    #[test]
    fn what_a_client_sends_must_be_entries() {
        let fine = json!({"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:a": {}}});
        assert_eq!(Managers::read(std::slice::from_ref(&fine)).expect("read").0.len(), 1);
        for (key, value) in [("operation", "Bad"), ("apiVersion", ""), ("fieldsType", "")] {
            let mut wrong = fine.clone();
            wrong[key] = value.into();
            assert!(Managers::read(&[wrong]).is_err(), "{key}");
        }
    }
}
