//! `lw create configmap`.

use clap::Args;
use serde_json::{Value, json};

use super::command::HowArgs;
use super::content::{Holder, SourceArgs};
use super::name::NameArgs;
use crate::commands::failure::Failure;

/// Create a ConfigMap
///
/// Examples: lw create configmap notes --from-literal=a=1; lw create configmap conf --from-file=conf/
#[derive(Debug, Args)]
pub(super) struct ConfigMapArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    pub(super) how: HowArgs,
}

impl ConfigMapArgs {
    /// The object that the flags describe.
    ///
    /// # Errors
    /// If a file cannot be read, or a key is none or comes twice.
    pub(super) fn object(&self) -> Result<Value, Failure> {
        let name = self.name.one("configmap")?;
        let content = self.sources.read(Holder::ConfigMap, name)?;
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        Ok(self.sources.fill(content, object))
    }
}
