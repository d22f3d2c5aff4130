//! `lw auth whoami`.

use std::io;
use std::process::ExitCode;

use clap::Args;
use listwatch_proto::resource::Kind;
use serde_json::{Value, json};

use super::command::review;
use crate::commands::failure::Failure;
use crate::commands::output::PrintArgs;
use crate::commands::session::{Session, SessionArgs};
use crate::commands::table::Table;

/// Show as whom the server knows you
///
/// Examples: lw auth whoami; lw auth whoami -o yaml
#[derive(Debug, Args)]
pub(super) struct WhoAmIArgs {
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    print: PrintArgs,
}

/// Runs the command.
pub(super) async fn run(args: &WhoAmIArgs) -> Result<ExitCode, Failure> {
    let printer = args.print.printer()?;
    let session = Session::open(&args.session)?;
    let question = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = review(&session, question).await?;
    let out = &mut io::stdout().lock();
    if let Some(mut printer) = printer {
        let kind = answer.kind().or_else(|| Kind::by_name("selfsubjectreviews"));
        let kind = kind.ok_or_else(|| Failure::plain("the answer is of no known kind"))?;
        printer.print(out, kind, &answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let user = answer.at(&["status", "userInfo"]).cloned().unwrap_or_default();
    Table::default().print(out, &rows(&user))?;
    Ok(ExitCode::SUCCESS)
}

fn rows(user: &Value) -> Vec<Vec<String>> {
    let mut rows = vec![vec!["ATTRIBUTE".to_owned(), "VALUE".to_owned()]];
    let mut add = |name: String, value: String| rows.push(vec![name, value]);
    let list = |value: &Value| {
        let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
        format!("[{}]", texts.collect::<Vec<_>>().join(" "))
    };
    for (field, name) in [("username", "Username"), ("uid", "UID")] {
        if let Some(text) = user[field].as_str().filter(|text| !text.is_empty()) {
            add(name.to_owned(), text.to_owned());
        }
    }
    if user["groups"].as_array().is_some_and(|groups| !groups.is_empty()) {
        add("Groups".to_owned(), list(&user["groups"]));
    }
    for (key, values) in user["extra"].as_object().into_iter().flatten() {
        add(format!("Extra: {key}"), list(values));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attribute_has_a_row() {
        let user = json!({"username": "ann", "uid": "7", "groups": ["a", "b"], "extra": {"k": ["v"]}});
        let lines: Vec<_> = rows(&user).iter().map(|row| row.join("|")).collect();
        assert_eq!(lines, ["ATTRIBUTE|VALUE", "Username|ann", "UID|7", "Groups|[a b]", "Extra: k|[v]"]);
    }
}
