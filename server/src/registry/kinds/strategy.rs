//! What a kind answers to the generic verbs.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::{Kind, LabelSelector, Object};

use super::allocation::Allocation;
use super::view::View;
use super::vocabulary::faults::Faults;
use super::vocabulary::metadata::OwnMetadata;
use super::vocabulary::names;
use crate::registry::table::{Cell, Column};
use crate::registry::{Propagation, User};

/// Which part of an object a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but the status.
    Main,
    /// The status, and the metadata that a controller may write with it.
    Status,
    /// `spec.finalizers` of a namespace.
    Finalize,
    /// The ephemeral containers of a pod.
    EphemeralContainers,
    /// The resources of a pod's containers.
    Resize,
    /// The conditions that say whether a certificate is granted.
    Approval,
}

impl Part {
    /// The part that a subresource owns; empty = the object. `None` = it owns none.
    pub(in super::super) fn of(subresource: &str) -> Option<Part> {
        Some(match subresource {
            "" => Part::Main,
            "status" => Part::Status,
            "finalize" => Part::Finalize,
            "ephemeralcontainers" => Part::EphemeralContainers,
            "resize" => Part::Resize,
            "approval" => Part::Approval,
            _ => return None,
        })
    }

    /// The subresource that owns the part.
    pub(in super::super) fn subresource(self) -> &'static str {
        match self {
            Part::Main => "",
            Part::Status => "status",
            Part::Finalize => "finalize",
            Part::EphemeralContainers => "ephemeralcontainers",
            Part::Resize => "resize",
            Part::Approval => "approval",
        }
    }
}

/// Which fields a write to a part leaves as they are, whatever it says: nobody comes to own them by it. Paths are of
/// field names; `*` stands for every item of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// These, with all below them.
    These(&'static [&'static [&'static str]]),
    /// All but these, with all below them.
    AllBut(&'static [&'static [&'static str]]),
}

/// What is left as it is where a status may bring no metadata either.
pub(super) const STATUS_ALONE: Reset = Reset::These(&[&["metadata"], &["spec"]]);

/// How a deletion waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    /// The kind knows no grace: what has no finalizers goes at once.
    None,
    /// The object is marked, and goes after so many seconds at the latest (0 = now).
    Seconds(i64),
}

/// How the verbs treat objects of a kind, where that is a fact and no rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// How the kind's own rules look at metadata.
    pub(crate) own_metadata: OwnMetadata,
    /// Whether `metadata.generation` counts changes of the spec.
    pub(crate) has_generation: bool,
    /// Whether an update without resourceVersion is taken.
    pub(crate) allows_unconditional_update: bool,
    /// Whether an update makes the object if there is none.
    pub(crate) allows_create_on_update: bool,
    /// Whether the answer to a delete is the object, also when it is gone; else it is a Status.
    pub(crate) tells_what_it_deleted: bool,
    /// Whether somebody collects what objects of the kind own.
    pub(crate) has_dependents: bool,
    /// Whether an object goes by itself after the time that the server is told (`--event-ttl`).
    pub(crate) expires: bool,
    /// Whether other objects lie in one of these: it counts as lying in itself then (Kubernetes 1.36).
    pub(crate) is_place: bool,
}

impl Habits {
    /// Those of a kind that says nothing else.
    pub(crate) const USUAL: Habits = Habits {
        own_metadata: OwnMetadata::Change,
        has_generation: true,
        allows_unconditional_update: true,
        allows_create_on_update: false,
        tells_what_it_deleted: false,
        has_dependents: true,
        expires: false,
        is_place: false,
    };
}

/// The rules of a kind. The object is in canonical form wherever one is handed in.
pub(crate) trait Strategy: Send + Sync {
    /// The schema's name of the kind: `core/v1.Pod`.
    fn schema(&self) -> &'static str;

    /// How the verbs treat objects of the kind.
    fn habits(&self) -> Habits {
        Habits::USUAL
    }

    /// Fills in what was left out (upstream's defaulting). Runs on every decoded object.
    fn default(&self, _object: &mut Object) {}

    /// Takes away what a client may not set at birth, and admits the object (upstream's admission).
    ///
    /// # Errors
    /// Why the object is forbidden.
    fn prepare_create(&self, _object: &mut Object) -> Result<(), String> {
        Ok(())
    }

    /// Writes down who asks for a new object, where the kind keeps that.
    fn name_requester(&self, _object: &mut Object, _user: &User) {}

    /// Brings a new object that has been found valid into the form in which it is read.
    fn canonicalize(&self, _object: &mut Object) {}

    /// Takes over from the old object what this part may not change.
    fn prepare_update(&self, _part: Part, _new: &mut Object, _old: &Object) {}

    /// Writes down when something came about, where the kind keeps such a time (`now` in RFC 3339); runs after
    /// [`Strategy::prepare_update`].
    fn mark_time(&self, _part: Part, _new: &mut Object, _old: &Object, _now: &str) {}

    /// Every fault of a new object, metadata apart.
    fn validate_create(&self, object: &Object, faults: &mut Faults);

    /// Every fault of a change, metadata apart: where the kind does not say, those of a new object.
    fn validate_update(&self, _part: Part, new: &Object, _old: &Object, faults: &mut Faults) {
        self.validate_create(new, faults);
    }

    /// What is wrong with a name of this kind, or a prefix of one.
    fn name_faults(&self, name: &str, prefix: bool) -> Vec<String> {
        names::subdomain(name, prefix)
    }

    /// What a person should be told about a valid object.
    fn warnings(&self, _object: &Object) -> Vec<String> {
        Vec::new()
    }

    /// What a person should be told about a valid change.
    fn update_warnings(&self, _part: Part, new: &Object, _old: &Object) -> Vec<String> {
        self.warnings(new)
    }

    /// What is told on every request that names the kind, since it is on its way out.
    fn deprecation(&self) -> Option<&'static str> {
        None
    }

    /// Fields that a write to this part cannot change.
    fn reset_fields(&self, part: Part) -> Reset {
        match part {
            Part::Status => Reset::These(&[&["spec"]]),
            _ => Reset::These(&[&["status"]]),
        }
    }

    /// What the server hands out to objects of the kind.
    fn allocation(&self) -> Option<&'static dyn Allocation> {
        None
    }

    /// The subresource of a kept kind that objects of this one, which are not kept, are another way to: it is sent to their
    /// collection, and the object names whom it is for.
    fn stands_for(&self) -> Option<(&'static Kind, &'static str)> {
        None
    }

    /// The objects of a kind that is made when it is read, given whether the store answers, or why not.
    fn computed(&self, _store: Result<(), String>) -> Vec<Object> {
        Vec::new()
    }

    /// The other form of objects that another kind keeps; the rules above and below are then asked of the kept form.
    fn view(&self) -> Option<&'static dyn View> {
        None
    }

    /// Whether a change counts as a new generation.
    fn is_new_generation(&self, new: &Object, old: &Object) -> bool {
        new.0.get("spec") != old.0.get("spec")
    }

    /// What upstream's passage between versions puts into an object with nothing in it.
    fn blank(&self, _blank: &mut Object) {}

    /// Why the object of this name may never be deleted; `None` = it may.
    fn stays(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// The object as its first deletion leaves it, of a kind that is held until what is in it is gone. It goes when
    /// [`Strategy::may_go`] says so. `asked` has the finalizers of what the client asked for.
    fn held(&self, _old: &Object, _asked: &Object, _now: &str) -> Option<Object> {
        None
    }

    /// How a deletion waits, given what the client asked for.
    fn grace(&self, _object: &Object, _asked: Option<i64>) -> Grace {
        Grace::None
    }

    /// What becomes of the dependents when the client does not say.
    fn default_propagation(&self) -> Option<Propagation> {
        None
    }

    /// Fields of [`Strategy::fields`] that watchers mostly select by, the most selective first: watchers are found by them.
    fn indexed_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// What a person should be told who deletes without saying what becomes of the dependents.
    fn delete_warnings(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the `scale` subresource tells as the selector of the pods that are scaled; empty = none.
    fn scale_selector(&self, object: &Object) -> String {
        let selector = object.at(&["spec", "selector"]).and_then(|s| LabelSelector::from_json(s).ok());
        selector.filter(|s| !s.is_empty()).map_or_else(String::new, |selector| selector.to_string())
    }

    /// Whether an object that is being deleted may now go.
    fn may_go(&self, object: &Object) -> bool {
        object.finalizers().next().is_none()
            && object.int(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
    }

    /// Paths that field selectors may name, beside `metadata.name` and `metadata.namespace`.
    fn fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// How a path that is not among them is refused.
    fn unknown_field(&self, path: &str) -> String {
        format!("{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", quote(&path))
    }

    /// The value of one of [`Strategy::fields`].
    fn field(&self, object: &Object, path: &str) -> Option<String> {
        let keys: Vec<&str> = path.split('.').collect();
        Some(object.text(&keys).to_owned())
    }

    /// The printed columns.
    fn columns(&self) -> &'static [Column];

    /// The printed cells; `now` in seconds since 1970.
    fn cells(&self, object: &Object, now: i64) -> Vec<Cell>;
}

/// Takes these top-level fields from the old object.
pub(super) fn keep(new: &mut Object, old: &Object, fields: &[&str]) {
    for field in fields {
        match old.0.get(*field) {
            Some(value) => drop(new.0.insert((*field).to_owned(), value.clone())),
            None => drop(new.0.remove(*field)),
        }
    }
}

/// How the kinds refuse a field selector that have always had some.
pub(in crate::registry) fn label_not_supported(path: &str) -> String {
    format!("field label not supported: {path}")
}

/// Takes the metadata from the old object that a part of it cannot change (apimachinery `ResetObjectMetaForStatus`).
pub(super) fn keep_metadata(new: &mut Object, old: &Object) {
    for key in ["labels", "annotations", "finalizers", "ownerReferences"] {
        match old.at(&["metadata", key]) {
            Some(value) => new.set(&["metadata", key], value.clone()),
            None => drop(new.remove(&["metadata", key])),
        }
    }
}

/// Every fault of a new object, or of a change from an old one, as texts.
#[cfg(test)]
pub(super) fn told(rules: &dyn Strategy, new: serde_json::Value, old: Option<serde_json::Value>) -> Vec<String> {
    let object = |value| Object::from_value(value).expect("a map");
    let mut faults = Faults::new();
    match old {
        None => rules.validate_create(&object(new), &mut faults),
        Some(old) => rules.validate_update(Part::Main, &object(new), &object(old), &mut faults),
    }
    faults.told()
}
