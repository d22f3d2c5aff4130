//! The scale subresource: the number of replicas, as an autoscaling/v1 Scale.

use listwatch_proto::resource::Status;

use super::apply::Sent;
use super::authorship::Authorship;
use super::body::{self, Expected};
use super::current::ROUNDS_MAX;
use super::error::MODIFIED;
use super::kinds::{Part, write_scale};
use super::patch::{scale_object, scale_of};
use super::update::{invalid_object, too_busy, wanted_revision, wrong_name};
use super::{Registry, RequestContext, StoredObject, Target, WriteOptions, Written};

/// What the body of a scale is.
pub(super) const SCALE: Expected<'static> =
    Expected { api_version: "autoscaling/v1", kind: "Scale", schema: "autoscaling/v1.Scale", custom: None };

impl Registry {
    /// The Scale of an object.
    pub(super) async fn get_scale(&self, target: &Target, min_revision: i64) -> Result<StoredObject, Status> {
        let stored = self.get_object(target, min_revision).await?;
        scale_of(target.kind, &stored)
    }

    /// Sets the number of replicas.
    pub(super) async fn update_scale(
        &self,
        context: &RequestContext,
        target: &Target,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Written, Status> {
        let kind = target.kind;
        let body = body::read(SCALE, body, options.field_validation)?;
        let mut scale = body.object;
        self.place(target, &mut scale)?;
        if scale.name() != target.name {
            return Err(wrong_name(scale.name(), &target.name));
        }
        let wanted = wanted_revision(&scale)?;
        let author = Authorship::of(self, context, target, Part::Main, options);
        for _ in 0..ROUNDS_MAX {
            let Some(current) = self.current(kind, scale.namespace(), &target.name).await? else {
                return Err(Status::not_found(kind, &target.name));
            };
            let (uid, own) = (scale.uid(), current.object.uid());
            if !uid.is_empty() && uid != own {
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
                return Err(Status::conflict(kind, &target.name, &invalid_object(&current, &why)));
            }
            if wanted.is_some_and(|revision| revision != current.revision) {
                return Err(Status::conflict(kind, &target.name, MODIFIED));
            }
            let mut live = scale_object(kind, &current.object)?;
            author.show_in_scale(&mut live, &current.object);
            author.sign(Some(&live), &mut scale, &Sent::Nothing);
            let mut new = write_scale(kind, &current, &scale)?;
            author.take_from_scale(&mut new, &scale);
            if let Some(stored) = self.change(context, kind, Part::Main, new, &current, options.dry_run).await? {
                let object = scale_of(kind, &stored)?;
                return Ok(Written { revision: self.revision(), object, created: false, warnings: body.warnings });
            }
            if wanted.is_some() {
                return Err(Status::conflict(kind, &target.name, MODIFIED));
            }
        }
        Err(too_busy(kind, &target.name))
    }
}
