//! Structural schemas: what a CustomResourceDefinition says about its objects (`openAPIV3Schema`), and what follows from
//! it for an object: defaults, pruning, validation (Kubernetes 1.36, apiextensions-apiserver and kube-openapi).
//!
//! * `schema`: a schema in memory, read from its JSON once
//! * `prune`: what the schema does not name goes, and is told; `default` fills in what was left out
//! * `check`: types and values, in the words of the OpenAPI validator; `formats`, `lists` and `embedded` are its parts
//! * `rules`: the rules in CEL; `evaluate` evaluates one and counts what it costs, on values that `values` makes; `cost`
//!   tells the cost before there are values
//!
//! Pure: a schema and values in, values and faults out; nothing here knows the registry.
//!
//! Invariant: no schema and no value, however deep or odd, makes any of this panic or recurse without bound: both come
//! from JSON whose depth is bounded when it is read.

mod check;
mod cost;
mod default;
mod embedded;
mod evaluate;
mod formats;
mod lists;
mod prune;
mod rules;
mod schema;
mod values;

pub(super) use check::{Finding, What, check, check_change};
pub(super) use cost::{RULE_COST_MAX, SCHEMA_COST_MAX, cardinality, elements_max, expression_cost, over_budget};
pub(super) use default::{default, drop_nulls};
pub(super) use embedded::{coerce as coerce_embedded, validate as validate_embedded};
pub(super) use formats::is_supported as is_supported_format;
pub(super) use lists::validate as validate_lists;
pub(super) use prune::prune;
pub(super) use rules::Rules;
pub(super) use schema::{Additional, Schema};
