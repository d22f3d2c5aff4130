//! What every reconciler is given: the client, the clock, the recorder of Events.

use k8s_openapi::api::core::v1::ObjectReference;
use listwatch_proto::resource::Object;

use crate::client::{Api, Cached, Client};
use crate::clock::SharedClock;
use crate::runtime::{EventType, Recorder};

use super::caches::kind;

/// Handed to each reconciler; cheap to clone.
#[derive(Clone)]
pub struct Tools {
    /// The way to the server.
    pub client: Client,
    /// The time of day.
    pub clock: SharedClock,
    /// Events of this controller.
    pub recorder: Recorder,
}

impl Tools {
    /// Objects of a kind as JSON.
    pub fn api(&self, group: &str, plural: &str) -> Api<Object> {
        Api::of_kind(&self.client, kind(group, plural))
    }

    /// Tells an Event about an object.
    pub fn tell(&self, about: &Cached<Object>, kind: EventType, reason: &str, message: impl Into<String>) {
        self.recorder.event_about(reference(about), kind, reason, message);
    }
}

/// A reference to an object, for Events.
fn reference(about: &Cached<Object>) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned()).filter(|t| !t.is_empty());
    ObjectReference {
        api_version: text(about.object.api_version()),
        kind: text(about.object.kind_name()),
        namespace: text(&about.key.namespace),
        name: text(&about.key.name),
        uid: text(&about.uid),
        resource_version: Some(about.revision.to_string()),
        field_path: None,
    }
}
