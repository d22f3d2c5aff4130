//! `lw api-resources`: the kinds that the server knows.

use std::collections::HashSet;
use std::io;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use listwatch_proto::v1::ResourceInfo;

use super::failure::Failure;
use super::session::{Session, SessionArgs};
use super::table::Table;

/// Show the kinds that the server knows
///
/// Examples: lw api-resources; lw api-resources --namespaced=true -o name; lw api-resources --verbs=list,watch -o wide
#[derive(Debug, Args)]
pub(crate) struct ApiResourcesArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Form of the output; without it a table
    #[arg(short, long, value_enum)]
    output: Option<Form>,
    /// Only kinds of this group
    #[arg(long, value_name = "GROUP")]
    api_group: Option<String>,
    /// Only kinds whose objects live in namespaces (true) or in none (false)
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    namespaced: Option<bool>,
    /// Only kinds that know all of these verbs
    #[arg(long, value_name = "VERB", value_delimiter = ',')]
    verbs: Vec<String>,
    /// Only kinds of all of these categories
    #[arg(long, value_name = "CATEGORY", value_delimiter = ',')]
    categories: Vec<String>,
    /// In the order of names or kinds instead of groups
    #[arg(long, value_enum)]
    sort_by: Option<Order>,
    /// No line with the columns' names
    #[arg(long)]
    no_headers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Wide,
    Name,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    Name,
    Kind,
}

/// Runs the command.
pub(crate) async fn run(args: &ApiResourcesArgs) -> Result<ExitCode, Failure> {
    let session = Session::open(&args.session)?;
    let mut kinds = preferred(session.client.discover().await?.resources);
    kinds.retain(|kind| is_wanted(args, kind));
    kinds.sort_by_cached_key(|kind| {
        let first = match args.sort_by {
            None => kind.group.clone(),
            Some(Order::Name) => kind.plural.clone(),
            Some(Order::Kind) => kind.kind.clone(),
        };
        (first, kind.plural.clone())
    });
    let mut lines = Vec::new();
    if !args.no_headers && args.output != Some(Form::Name) {
        let wide: &[&str] = if args.output == Some(Form::Wide) { &["VERBS", "CATEGORIES"] } else { &[] };
        let names = ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"];
        lines.push(names.iter().chain(wide).map(|name| (*name).to_owned()).collect());
    }
    lines.extend(kinds.iter().map(|kind| line(args, kind)));
    Table::default().print(&mut io::stdout().lock(), &lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Of a kind that is served in several versions the preferred one, which the server names first.
fn preferred(kinds: Vec<ResourceInfo>) -> Vec<ResourceInfo> {
    let mut seen = HashSet::new();
    kinds.into_iter().filter(|kind| seen.insert((kind.group.clone(), kind.plural.clone()))).collect()
}

fn is_wanted(args: &ApiResourcesArgs, kind: &ResourceInfo) -> bool {
    args.api_group.as_ref().is_none_or(|group| *group == kind.group)
        && args.namespaced.is_none_or(|namespaced| namespaced == kind.namespaced)
        && args.verbs.iter().all(|verb| kind.verbs.contains(verb))
        && args.categories.iter().all(|category| kind.categories.contains(category))
}

fn line(args: &ApiResourcesArgs, kind: &ResourceInfo) -> Vec<String> {
    if args.output == Some(Form::Name) {
        let name = if kind.group.is_empty() { kind.plural.clone() } else { format!("{}.{}", kind.plural, kind.group) };
        return vec![name];
    }
    let version = if kind.group.is_empty() { kind.version.clone() } else { format!("{}/{}", kind.group, kind.version) };
    let mut cells =
        vec![kind.plural.clone(), kind.short_names.join(","), version, kind.namespaced.to_string(), kind.kind.clone()];
    if args.output == Some(Form::Wide) {
        cells.extend([kind.verbs.join(","), kind.categories.join(",")]);
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_versions_the_first_is_shown() {
        let kind = |group: &str, version: &str, plural: &str| ResourceInfo {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            ..ResourceInfo::default()
        };
        let all = vec![kind("a", "v2", "x"), kind("a", "v1", "x"), kind("a", "v1", "y"), kind("", "v1", "x")];
        let shown: Vec<String> =
            preferred(all).iter().map(|k| format!("{} {} {}", k.group, k.version, k.plural)).collect();
        assert_eq!(shown, ["a v2 x", "a v1 y", " v1 x"]);
    }
}
