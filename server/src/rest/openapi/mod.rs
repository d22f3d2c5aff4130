//! OpenAPI: what can be asked of the server, and what its objects are made of, for programs.
//!
//! * [`documents`]: version 3, a document for each group version, made from the schema tables at first use
//! * [`paths`]: the requests of a kind
//! * [`swagger`]: version 2, one document of all, made from the parts of version 3; [`wire`]: its protobuf form
//!
//! What kubectl needs of it: it explains, validates and merges by the schemas, finds out whether a kind takes
//! `fieldValidation` and `dryRun`, and keeps documents by the hash in their address. Version 2 is what it falls back to
//! where version 3 knows nothing: lists of several kinds, and kinds that are not served.

mod documents;
mod paths;
mod swagger;
mod wire;

pub(super) use documents::{Documents, answer};
