//! `lw api-versions`: the versions of API groups that the server has.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::RawRequest;
use serde_json::Value;

use super::failure::Failure;
use super::session::{Session, SessionArgs};

/// Show the versions of API groups that the server has
///
/// Examples: lw api-versions
#[derive(Debug, Args)]
pub(crate) struct ApiVersionsArgs {
    #[command(flatten)]
    session: SessionArgs,
}

/// Runs the command.
pub(crate) async fn run(args: &ApiVersionsArgs) -> Result<ExitCode, Failure> {
    let session = Session::open(&args.session)?;
    let mut documents = Vec::new();
    for path in ["/api", "/apis"] {
        let answer = session.client.raw(RawRequest::get(path)).await?;
        let document: Value = serde_json::from_slice(&answer)
            .map_err(|error| Failure::plain(format!("couldn't get available api versions from server: {error}")))?;
        documents.push(document);
    }
    let mut out = io::stdout().lock();
    for version in versions(&documents[0], &documents[1]) {
        writeln!(out, "{version}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Those of an `APIVersions` and of an `APIGroupList`, in order.
fn versions(core: &Value, groups: &Value) -> BTreeSet<String> {
    let list = |value: &Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    let core = list(core, "versions");
    let named = list(groups, "groups").into_iter().flat_map(|group| list(&group, "versions"));
    let named = named.map(|version| version["groupVersion"].clone());
    core.into_iter().chain(named).filter_map(|version| version.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn versions_of_all_groups_stand_in_order() {
        let groups = json!({"groups": [
            {"name": "batch", "versions": [{"groupVersion": "batch/v1"}]},
            {"name": "autoscaling", "versions": [{"groupVersion": "autoscaling/v2"}, {"groupVersion": "autoscaling/v1"}]},
        ]});
        let found: Vec<_> = versions(&json!({"versions": ["v1"]}), &groups).into_iter().collect();
        assert_eq!(found, ["autoscaling/v1", "autoscaling/v2", "batch/v1", "v1"]);
        assert!(versions(&json!({}), &json!({"groups": null})).is_empty());
    }
}
