//! The command `lw explain`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::{Error, RawRequest};
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Kind;

use super::schema::Document;
use crate::commands::failure::Failure;
use crate::commands::session::{Session, SessionArgs, learn_kinds};
use crate::usage::program;

/// Explain the fields of a kind
///
/// Examples: lw explain pod; lw explain deployment.spec.strategy; lw explain cronjob.spec --recursive
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// KIND, or KIND.FIELD.FIELD
    #[arg(value_name = "KIND[.FIELD]")]
    words: Vec<String>,
    #[command(flatten)]
    session: SessionArgs,
    /// The fields of the fields, too, with a line each
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Another group and version of the kind
    #[arg(long, value_name = "GROUP/VERSION", default_value = "", hide_default_value = true)]
    api_version: String,
    /// Form of the output: plaintext is the only one
    #[arg(short, long, value_name = "FORM", default_value = "plaintext", value_parser = ["plaintext"])]
    output: String,
}

/// Runs the command.
pub(crate) async fn run(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let word = match args.words.as_slice() {
        [] => {
            return Err(Failure::usage(format!(
                "You must specify the type of resource to explain. Use \"{} api-resources\" for a complete list of \
                 supported resources.",
                program()
            )));
        }
        [word] => word,
        _ => return Err(Failure::usage("We accept only this format: explain RESOURCE")),
    };
    let session = Session::open(&args.session)?;
    let (kind, path) = split(word)?;
    let (group, version) = match args.api_version.rsplit_once('/') {
        _ if args.api_version.is_empty() => (kind.group, kind.version),
        Some((group, version)) => (group, version),
        None => ("", args.api_version.as_str()),
    };
    let place = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
    let unknown =
        || Failure::plain(format!("couldn't find resource for \"{group}/{version}, Resource={}\"", kind.plural));
    let answer = match session.client.raw(RawRequest::get(format!("/openapi/v3/{place}"))).await {
        Ok(answer) => answer,
        Err(Error::Status(status)) if status.code == 404 => return Err(unknown()),
        Err(error) => return Err(error.into()),
    };
    let document = serde_json::from_slice(&answer)
        .map_err(|error| Failure::plain(format!("the server's document about {place} does not read: {error}")))?;
    let document = Document(document);
    let schema = document.of_kind(group, version, kind.kind).ok_or_else(unknown)?;
    let out = &mut io::stdout().lock();
    if !group.is_empty() {
        writeln!(out, "GROUP:      {group}")?;
    }
    writeln!(out, "KIND:       {}\nVERSION:    {version}\n", kind.kind)?;
    let Some(text) = document.explain(schema, &path, args.recursive) else {
        let field = path.last().map_or("", String::as_str);
        return Err(Failure::plain(format!("field {} does not exist", quote(&field))));
    };
    writeln!(out, "{text}")?;
    Ok(ExitCode::SUCCESS)
}

/// The kind, by the longest beginning that names one (`deployments.apps.spec`), and the fields behind it.
fn split(word: &str) -> Result<(&'static Kind, Vec<String>), Failure> {
    let words: Vec<&str> = word.split('.').collect();
    let find = || {
        (1..=words.len()).rev().find_map(|count| {
            let kind = Kind::by_name(&words[..count].join("."))?;
            Some((kind, words[count..].iter().map(|word| (*word).to_owned()).collect()))
        })
    };
    let unknown = || Failure::Bare(format!("the server doesn't have a resource type {}", quote(&words[0])));
    find()
        .or_else(|| {
            learn_kinds();
            find()
        })
        .ok_or_else(unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_told_from_its_fields() {
        let split = |word: &str| split(word).map(|(kind, path)| (kind.plural, path.join("."))).map_err(|f| f.text());
        assert_eq!(split("pod.spec.nodeName"), Ok(("pods", "spec.nodeName".to_owned())));
        assert_eq!(split("deployments.apps.spec"), Ok(("deployments", "spec".to_owned())));
        assert_eq!(split("rs"), Ok(("replicasets", String::new())));
        assert_eq!(split("widget.a"), Err("the server doesn't have a resource type \"widget\"".to_owned()));
    }
}
