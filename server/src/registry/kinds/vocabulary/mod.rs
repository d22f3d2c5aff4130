//! What all kinds speak in: ways to read a field, to name a fault and to print a cell, and the rules of what stands in
//! many kinds alike.
//!
//! * [`fields`]: reading JSON; [`faults`]: what is wrong and where; [`difference`]: what a change changed
//! * [`metadata`], [`names`], [`selectors`], [`counts`], [`addresses`], [`resources`]: rules of such values
//! * [`print`](mod@print): cells

pub(super) mod addresses;
pub(super) mod counts;
pub(super) mod difference;
pub(super) mod faults;
pub(super) mod fields;
pub(super) mod metadata;
pub(super) mod names;
pub(super) mod print;
pub(super) mod resources;
pub(super) mod selectors;
