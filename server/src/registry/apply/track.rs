//! Keeps the managers of an object over a create, an update or a patch: what the new object has set belongs to who sent
//! it, and to nobody else.
//!
//! It runs for every write, so that it looks only at what has changed: equal parts are skipped, and sets of other
//! managers are only cut along the changed paths.

use std::sync::OnceLock;

use listwatch_proto::resource::Object;
use serde_json::{Map, Value};

use super::super::kinds::Reset;
use super::super::schema::blank;
use super::super::structural::Schema;
use super::compare::Comparison;
use super::managers::{Entry, Manager, Managers, Operation};
use super::set::FieldSet;
use super::shape::Shape;

/// The longest name that is made of a client's name (Kubernetes 1.36).
const NAME_MAX: usize = 128;

/// Fields of metadata that nobody owns.
const NOBODYS: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// What a client has sent as `metadata.managedFields`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) enum Sent {
    /// None: those of the object stay.
    #[default]
    Nothing,
    /// An empty list, or one empty entry: they are given up.
    Reset,
    /// Entries.
    Entries(Vec<Value>),
}

impl Sent {
    /// Reads the value under `metadata.managedFields`, as it was sent.
    pub(in super::super) fn of(value: Option<&Value>) -> Self {
        match value.and_then(Value::as_array).map(Vec::as_slice) {
            None => Sent::Nothing,
            Some([]) => Sent::Reset,
            Some([Value::Object(one)]) if one.is_empty() => Sent::Reset,
            Some(entries) => Sent::Entries(entries.to_vec()),
        }
    }
}

/// A write whose fields are tracked.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Tracking<'a> {
    /// The schema's name of the object: `core/v1.Pod`.
    pub(in super::super) schema: &'a str,
    /// The schema of a custom resource.
    pub(in super::super) custom: Option<&'static Schema>,
    /// `apps/v1`.
    pub(in super::super) api_version: &'a str,
    /// Empty for the whole object.
    pub(in super::super) subresource: &'a str,
    /// Who writes.
    pub(in super::super) manager: &'a str,
    /// Now, in seconds and RFC 3339.
    pub(in super::super) now: &'a str,
    /// What the write cannot change: nobody comes to own it by it.
    pub(in super::super) reset: Reset,
}

impl Tracking<'_> {
    pub(super) fn shape(&self) -> Shape {
        self.custom.map_or_else(|| Shape::root(self.schema), Shape::custom)
    }

    pub(super) fn manager(&self, operation: Operation) -> Manager {
        Manager {
            name: if self.manager.is_empty() { "unknown".to_owned() } else { self.manager.to_owned() },
            operation,
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
        }
    }

    /// Leaves out what the write does not give to anybody.
    pub(super) fn leave_out_reset(&self, fields: &mut FieldSet) {
        match self.reset {
            Reset::These(paths) => {
                let mut reset = FieldSet::default();
                for path in paths {
                    let path: Vec<String> = path.iter().map(|name| super::element::field(name)).collect();
                    reset.insert(&path);
                }
                fields.subtract_deep(&reset);
            }
            Reset::AllBut(paths) => fields.keep_below(paths),
        }
    }

    /// An object of the kind with nothing in it: what a new one is compared with.
    pub(super) fn blank(&self) -> Map<String, Value> {
        match blank::of(self.schema) {
            Value::Object(blank) if self.custom.is_none() => blank,
            _ => Map::new(),
        }
    }
}

/// The name of a manager: what the request names, or the client's own name up to the first slash.
pub(in super::super) fn manager_name(named: &str, client: &str) -> String {
    if !named.is_empty() {
        return named.to_owned();
    }
    let mut name = String::new();
    for c in client.split('/').next().unwrap_or_default().chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > NAME_MAX {
            break;
        }
        name.push(c);
    }
    name
}

/// Writes the managers of the new object into it. `live` is the object as it is; `None` = there is none yet.
pub(in super::super) fn track(write: Tracking<'_>, live: Option<&Object>, new: &mut Object, sent: &Sent) {
    new.remove(&["metadata", "managedFields"]);
    let managers = of_request(live, sent, !write.subresource.is_empty());
    if managers.0.is_empty() && live.is_some() {
        // It was given up; it begins anew with the first apply.
        return;
    }
    let managers = match live {
        Some(live) => update(write, &live.0, &new.0, managers),
        None => update(write, &write.blank(), &new.0, managers),
    };
    set(new, managers);
}

/// Writes managers into an object.
pub(super) fn set(object: &mut Object, managers: Managers) {
    match managers.into_value() {
        Some(entries) => object.set(&["metadata", "managedFields"], entries),
        None => drop(object.remove(&["metadata", "managedFields"])),
    }
}

/// The managers that count: those sent if they are readable, else those of the object.
fn of_request(live: Option<&Object>, sent: &Sent, is_subresource: bool) -> Managers {
    let stored = || live.map(|live| Managers::stored(&live.0)).unwrap_or_default();
    match sent {
        // Through a subresource they cannot be written.
        _ if is_subresource => stored(),
        Sent::Nothing => stored(),
        Sent::Reset => Managers::default(),
        Sent::Entries(entries) => match Managers::read(entries) {
            Ok(managers) if !managers.0.is_empty() => managers,
            _ => stored(),
        },
    }
}

/// The managers after an update.
pub(super) fn update(
    write: Tracking<'_>,
    live: &Map<String, Value>,
    new: &Map<String, Value>,
    mut managers: Managers,
) -> Managers {
    let Ok(compared) = compared(live, new, write.shape()) else {
        // What cannot be told apart is nobody's.
        return Managers::default();
    };
    let compared = compared.without(|fields| write.leave_out_reset(fields));
    if compared.is_empty() {
        return managers;
    }
    let mut written = compared.written();
    if !managers.0.is_empty() {
        let mut gone = written.clone();
        gone.add(&compared.removed);
        managers.take_from_others(&gone, None);
    }
    written.subtract(nobodys());
    if !written.is_empty() {
        let manager = write.manager(Operation::Update);
        let mut entry = Entry { manager, time: Some(write.now.to_owned()), fields: written };
        if let Some(known) = managers.remove(&entry.manager) {
            entry.fields.add(&known.fields);
        }
        managers.put(entry);
    }
    managers.cap();
    managers
}

/// Compares two objects, their managedFields apart.
pub(super) fn compared(
    live: &Map<String, Value>,
    new: &Map<String, Value>,
    shape: Shape,
) -> Result<Comparison, String> {
    Comparison::of_maps(live, new, shape)
}

/// Fields that are never owned.
pub(super) fn nobodys() -> &'static FieldSet {
    static FIELDS: OnceLock<FieldSet> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let mut fields = FieldSet::default();
        for name in ["apiVersion", "kind", "metadata"] {
            fields.insert(&[super::element::field(name)]);
        }
        for name in NOBODYS {
            fields.insert(&[super::element::field("metadata"), super::element::field(name)]);
        }
        fields
    })
}

/// Gives a new object the times of the old one's managers if nothing else differs, so that it is no new object.
pub(in super::super) fn keep_times(new: &mut Object, old: &Object) {
    const PATH: [&str; 2] = ["metadata", "managedFields"];
    let (Some(Value::Array(now)), Some(Value::Array(before))) = (new.at(&PATH), old.at(&PATH)) else { return };
    if now == before || now.len() != before.len() {
        return;
    }
    let same = |a: &Value, b: &Value| match (a.as_object(), b.as_object()) {
        (Some(a), Some(b)) => a.iter().filter(|(k, _)| *k != "time").eq(b.iter().filter(|(k, _)| *k != "time")),
        _ => a == b,
    };
    if !now.iter().zip(before).all(|(now, before)| same(now, before)) {
        return;
    }
    let before = Value::Array(before.clone());
    let now = new.remove(&PATH);
    new.set(&PATH, before);
    if new != old {
        new.set(&PATH, now.unwrap_or_default());
    }
}
