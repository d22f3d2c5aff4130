//! Kinds that are another form of what a kind of another group keeps: one store, two views.
//!
//! Invariant: within the registry, and in the rules of the view, an object is always in the form in which it is kept; the
//! view's own form is what a body is read in and what is answered.

use listwatch_proto::resource::{Kind, Object};

/// The two forms of a view's objects.
pub(crate) trait View: Send + Sync {
    /// The kind that keeps the objects. What is invalid is told of it (upstream judges the inner form).
    fn kept_by(&self) -> &'static Kind;

    /// From the view's form to the one that is kept.
    fn kept(&self, object: Object) -> Object;

    /// From the form that is kept to the view's.
    fn shown(&self, object: Object) -> Object;
}
