//! Contexts: shown, chosen, changed.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_proto::go_quote::quote;
use serde_json::Value;

use super::file::File;
use crate::commands::failure::{Failure, Report};
use crate::commands::session::SessionArgs;
use crate::commands::table::Table;
use crate::terminal::tell;
use crate::usage::program;

/// Show contexts
///
/// Examples: lw config get-contexts; lw config get-contexts blue; lw config get-contexts -o name
#[derive(Debug, Args)]
pub(super) struct GetContextsArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Names of contexts; without them all
    names: Vec<String>,
    /// Form of the output: name
    #[arg(short, long, value_name = "FORM", default_value = "", hide_default_value = true)]
    output: String,
    /// No line with the columns' names
    #[arg(long)]
    no_headers: bool,
}

/// Choose the context that commands use from now on
///
/// Examples: lw config use-context blue
#[derive(Debug, Args)]
pub(super) struct UseArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Name of the context
    name: String,
}

/// Change what a context says, or make one
///
/// Examples: lw config set-context --current --namespace=blue; lw config set-context b --cluster=a --user=me
#[derive(Debug, Args)]
pub(super) struct SetArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Name of the context
    #[arg(default_value = "", hide_default_value = true)]
    context_name: String,
    /// Change the current context
    #[arg(long)]
    current: bool,
    /// Name of the cluster's entry
    #[arg(long = "cluster", value_name = "ENTRY")]
    cluster_entry: Option<String>,
    /// Name of the user's entry
    #[arg(long = "user", value_name = "ENTRY")]
    user_entry: Option<String>,
}

/// Give a context another name
///
/// Examples: lw config rename-context old new
#[derive(Debug, Args)]
pub(super) struct RenameArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// The name that it has
    old: String,
    /// The name that it gets
    new: String,
}

/// Take a context out of the file
///
/// Examples: lw config delete-context blue
#[derive(Debug, Args)]
pub(super) struct DeleteArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Name of the context
    name: String,
}

/// Shows contexts.
pub(super) fn get(args: &GetContextsArgs) -> Result<ExitCode, Failure> {
    let form = args.output.as_str();
    if !["", "name"].contains(&form) {
        let problem = format!("--output {form} is not available in {} config get-contexts", program());
        return Err(Failure::usage(format!("{problem}; resetting to default output format")));
    }
    let file = File::read(&args.session)?;
    let (wanted, missing): (Vec<_>, Vec<_>) = match args.names.is_empty() {
        true => (file.names("contexts"), Vec::new()),
        false => {
            let mut names = args.names.clone();
            names.sort();
            names.into_iter().partition(|name| file.context(name).is_some())
        }
    };
    let mut out = io::stdout().lock();
    if form == "name" {
        for name in &wanted {
            writeln!(out, "{name}")?;
        }
    } else {
        Table::default().print(&mut out, &lines(&file, &wanted, !args.no_headers))?;
    }
    let mut report = Report::default();
    report.fail_all(missing.iter().map(|name| Failure::plain(format!("context {name} not found"))).collect());
    Ok(report.exit_code())
}

fn lines(file: &File, names: &[String], with_header: bool) -> Vec<Vec<String>> {
    let header = ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"].map(str::to_owned).to_vec();
    let rows = names.iter().map(|name| {
        let context = file.context(name);
        let field = |field: &str| context.and_then(|c| c.get(field)?.as_str()).unwrap_or_default().to_owned();
        let mark = if file.current() == name { "*" } else { " " };
        vec![mark.to_owned(), name.clone(), field("cluster"), field("user"), field("namespace")]
    });
    with_header.then_some(header).into_iter().chain(rows).collect()
}

/// Chooses a context.
pub(super) fn switch(args: &UseArgs) -> Result<ExitCode, Failure> {
    let mut file = File::read(&args.session)?;
    if args.name.is_empty() {
        return Err(Failure::plain("empty context names are not allowed"));
    }
    if file.context(&args.name).is_none() {
        return Err(Failure::plain(format!("no context exists with the name: {}", quote(&args.name))));
    }
    file.set_current(&args.name);
    file.write()?;
    say(&format!("Switched to context {}.", quote(&args.name)))
}

/// Changes or makes a context.
pub(super) fn set(args: &SetArgs) -> Result<ExitCode, Failure> {
    match (args.context_name.is_empty(), args.current) {
        (true, false) => return Err(Failure::plain("you must specify a non-empty context name or --current")),
        (false, true) => return Err(Failure::plain("you cannot specify both a context name and --current")),
        _ => {}
    }
    let mut file = File::read(&args.session)?;
    if args.current && file.current().is_empty() {
        return Err(Failure::plain("no current context is set"));
    }
    let name = if args.current { file.current().to_owned() } else { args.context_name.clone() };
    let deed = if file.context(&name).is_some() { "modified" } else { "created" };
    let context = &mut file.context_mut(&name)["context"];
    let namespace = args.session.namespace();
    let fields =
        [("cluster", args.cluster_entry.as_deref()), ("user", args.user_entry.as_deref()), ("namespace", namespace)];
    for (field, value) in fields {
        if let Some(value) = value {
            context[field] = value.into();
        }
    }
    file.write()?;
    say(&format!("Context {} {deed}.", quote(&name)))
}

/// Gives a context another name.
pub(super) fn rename(args: &RenameArgs) -> Result<ExitCode, Failure> {
    let mut file = File::read(&args.session)?;
    let (old, new) = (args.old.as_str(), args.new.as_str());
    let path = file.path.display().to_string();
    if file.context(old).is_none() {
        return Err(Failure::plain(format!("cannot rename the context {}, it's not in {path}", quote(old))));
    }
    if file.context(new).is_some() {
        let what = format!("cannot rename the context {}, the context {}", quote(old), quote(new));
        return Err(Failure::plain(format!("{what} already exists in {path}")));
    }
    file.context_mut(old)["name"] = Value::from(new);
    if file.current() == old {
        file.set_current(new);
    }
    file.write()?;
    say(&format!("Context {} renamed to {}.", quote(old), quote(new)))
}

/// Takes a context out.
pub(super) fn delete(args: &DeleteArgs) -> Result<ExitCode, Failure> {
    let mut file = File::read(&args.session)?;
    let path = file.path.display().to_string();
    if !file.remove_context(&args.name) {
        return Err(Failure::plain(format!("cannot delete context {}, not in {path}", args.name)));
    }
    if file.current() == args.name {
        let lw = program();
        tell!("warning: this removed your active context, use \"{lw} config use-context\" to select a different one");
    }
    file.write()?;
    say(&format!("deleted context {} from {path}", args.name))
}

fn say(text: &str) -> Result<ExitCode, Failure> {
    writeln!(io::stdout().lock(), "{text}")?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> File {
        let value = json!({"current-context": "b", "contexts": [
            {"name": "b", "context": {"cluster": "c", "user": "me", "namespace": "blue", "extensions": []}},
            {"name": "a", "context": {"cluster": "c", "user": "me"}},
        ]});
        File { path: "config".into(), value }
    }

    #[test]
    fn contexts_stand_in_the_order_of_their_names() {
        let file = sample();
        assert_eq!(file.names("contexts"), ["a", "b"]);
        assert_eq!(file.names("users"), [""; 0]);
        let rows = lines(&file, &file.names("contexts"), true);
        assert_eq!(rows[0], ["CURRENT", "NAME", "CLUSTER", "AUTHINFO", "NAMESPACE"]);
        assert_eq!(rows[1], [" ", "a", "c", "me", ""]);
        assert_eq!(rows[2], ["*", "b", "c", "me", "blue"]);
        assert_eq!(lines(&file, &[], false).len(), 0);
    }

    #[test]
    fn a_change_leaves_the_other_fields_and_entries() {
        let mut file = sample();
        file.context_mut("b")["context"]["namespace"] = "red".into();
        assert_eq!(file.context("b").expect("there")["extensions"], json!([]));
        file.context_mut("new")["context"]["cluster"] = "c".into();
        assert_eq!(file.names("contexts"), ["a", "b", "new"]);
        assert!(file.remove_context("a") && !file.remove_context("a"));
        file.set_current("new");
        assert_eq!(file.current(), "new");
        let mut empty = File { path: "config".into(), value: json!({"contexts": null}) };
        assert_eq!(empty.current(), "");
        empty.context_mut("a");
        assert_eq!(empty.names("contexts"), ["a"]);
    }
}
