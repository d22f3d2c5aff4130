//! Whose a write is, as the entries of managedFields tell it.

use listwatch_proto::resource::{Object, time};

use super::apply::{Sent, Tracking, from_scale, manager_name, to_scale, track};
use super::custom::{CustomResource, custom};
use super::kinds::{Part, Reset, strategy};
use super::{Registry, RequestContext, Target, WriteOptions};

/// Who writes what, when.
#[derive(Debug)]
pub(super) struct Authorship {
    schema: &'static str,
    custom: Option<&'static CustomResource>,
    api_version: String,
    subresource: String,
    manager: String,
    now: String,
    reset: Reset,
}

impl Authorship {
    /// Of a write to a target, or to its Scale.
    pub(super) fn of(
        registry: &Registry,
        context: &RequestContext,
        target: &Target,
        part: Part,
        options: &WriteOptions,
    ) -> Self {
        let client = context.client.as_deref().unwrap_or(&context.user_agent);
        let of_scale = target.subresource == "scale";
        let rules = strategy(target.kind);
        Authorship {
            schema: if of_scale { "autoscaling/v1.Scale" } else { rules.schema() },
            custom: if of_scale { None } else { custom(target.kind) },
            api_version: if of_scale { "autoscaling/v1".to_owned() } else { target.kind.api_version() },
            subresource: target.subresource.clone(),
            manager: manager_name(&options.field_manager, client),
            now: time(registry.now()),
            reset: if of_scale { Reset::These(&[]) } else { rules.reset_fields(part) },
        }
    }

    /// For the functions that keep the entries.
    pub(super) fn tracking(&self) -> Tracking<'_> {
        Tracking {
            schema: self.schema,
            custom: self.custom.map(|rules| &rules.schema),
            api_version: &self.api_version,
            subresource: &self.subresource,
            manager: &self.manager,
            now: &self.now,
            reset: self.reset,
        }
    }

    /// Writes the entries into a new object or a changed one.
    pub(super) fn sign(&self, live: Option<&Object>, new: &mut Object, sent: &Sent) {
        track(self.tracking(), live, new, sent);
    }

    /// Gives a Scale the entries of its object.
    pub(super) fn show_in_scale(&self, scale: &mut Object, object: &Object) {
        to_scale(scale, object);
    }

    /// Gives a scaled object, which still has its old entries, those of its Scale.
    pub(super) fn take_from_scale(&self, object: &mut Object, scale: &Object) {
        let api_version = object.api_version().to_owned();
        from_scale(object, scale, &api_version);
    }
}
