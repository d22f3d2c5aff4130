//! Who owns which fields of an object, and server-side apply (Kubernetes 1.36: structured-merge-diff and apimachinery's
//! `managedfields`).
//!
//! [`set`] is a set of fields in the form in which objects carry it, [`element`] one step of a path in it. [`shape`] reads
//! off the schema tables how a value is owned and merged; [`compare`], [`merge`], [`remove`], [`owned`] and [`validate`]
//! walk values along it. [`managers`] are the entries of `metadata.managedFields`; [`track`] keeps them over every write,
//! [`configure`] is apply itself, [`last_applied`] what it does for kubectl, [`scale`] lets the subresource take part,
//! [`conflict`] words the refusals.
//!
//! Invariants: everything here is pure; an object's managedFields are only ever written by [`track`] and [`configure`];
//! what an entry owns is either in the object or was owned before it was taken away.

mod compare;
mod configure;
mod conflict;
mod element;
mod last_applied;
mod managers;
mod merge;
mod owned;
mod remove;
mod scale;
mod set;
mod shape;
#[cfg(test)]
mod tests;
mod track;
mod validate;

pub(super) use configure::{Applied, Configured, apply};
pub(super) use scale::{from_scale, to_scale};
pub(super) use track::{Sent, Tracking, keep_times, manager_name, track};
