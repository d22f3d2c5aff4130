//! An object of which only its owners matter: kinds that are collected as garbage and otherwise none of the controllers'
//! business.
//!
//! Invariant: as small as can be; its content is not kept.

use listwatch_proto::resource::OwnerReference;
use serde::Deserialize;

use crate::client::Decode;

/// What the controllers know of such an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bare {
    /// `metadata.ownerReferences`.
    pub owners: Vec<OwnerReference>,
    /// `metadata.finalizers`.
    pub finalizers: Vec<String>,
    /// Whether it has a deletion timestamp.
    pub terminating: bool,
}

#[derive(Deserialize)]
struct Wire {
    metadata: WireMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireMetadata {
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
}

impl Decode for Bare {
    fn decode(wire: &listwatch_proto::v1::Object) -> Result<Self, serde_json::Error> {
        let Wire { metadata } = serde_json::from_slice(&wire.json)?;
        Ok(Bare {
            owners: metadata.owner_references.unwrap_or_default(),
            finalizers: metadata.finalizers.unwrap_or_default(),
            terminating: metadata.deletion_timestamp.is_some(),
        })
    }
}
