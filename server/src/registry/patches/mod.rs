//! The languages of patches, on values alone: each says what a document becomes.
//!
//! * [`json_patch`]: operations (RFC 6902); [`merge_patch`]: a document laid over another (RFC 7386);
//!   [`strategic_merge`]: the same, with lists merged as the schema of the kind says

pub(in crate::registry) mod json_patch;
pub(in crate::registry) mod merge_patch;
pub(in crate::registry) mod strategic_merge;
