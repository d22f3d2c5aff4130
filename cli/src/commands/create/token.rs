//! `lw create token`: a token by which a service account is known.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use listwatch_components::client::Error;
use listwatch_proto::resource::Object;
use serde_json::json;

use super::name::NameArgs;
use crate::commands::delete::parse_duration;
use crate::commands::failure::Failure;
use crate::commands::output::PrintArgs;
use crate::commands::session::{Session, SessionArgs, kind_named};

/// Ask for a token by which a service account is known
///
/// Examples: lw create token robot; lw create token robot --duration=24h --audience=https://example.com
#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// For whom it is; without it for the API server
    #[arg(long, value_name = "AUDIENCE")]
    audience: Vec<String>,
    /// How long it shall be good (24h); the server may choose otherwise
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true, value_parser = parse_duration)]
    duration: Duration,
    /// It ends with an object of this kind: Pod, Secret or Node
    #[arg(long, value_name = "KIND", default_value = "", hide_default_value = true)]
    bound_object_kind: String,
    /// The object's name
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    bound_object_name: String,
    /// The object's uid
    #[arg(long, value_name = "UID", default_value = "", hide_default_value = true)]
    bound_object_uid: String,
}

/// Runs the command.
pub(super) async fn run(args: &TokenArgs) -> Result<ExitCode, Failure> {
    let name = args.name.one("token")?;
    let object = args.request()?;
    let printer = args.print.printer()?;
    let session = Session::open(&args.session)?;
    let accounts = kind_named("serviceaccount")?;
    let object = Object::from_value(object).map_err(|_| Failure::plain("the request is none"))?;
    let answer = session.api(accounts).create_part(&session.key(accounts, name), "token", &object).await;
    let answer = answer.map_err(|error| match error {
        Error::Status(status) => Failure::plain(format!("failed to create token: {}", status.message)),
        error => error.into(),
    })?;
    let out = &mut io::stdout();
    if let Some(mut printer) = printer {
        printer.print(out, accounts, &answer.object)?;
        return Ok(ExitCode::SUCCESS);
    }
    let token = answer.object.text(&["status", "token"]);
    if token.is_empty() {
        return Err(Failure::plain("failed to create token: no token in server response"));
    }
    // What is put into a variable or a file ends with the token.
    write!(out, "{token}{}", if out.is_terminal() { "\n" } else { "" })?;
    Ok(ExitCode::SUCCESS)
}

impl TokenArgs {
    fn request(&self) -> Result<serde_json::Value, Failure> {
        if self.audience.iter().any(String::is_empty) {
            return Err(Failure::usage("--audience must not be an empty string"));
        }
        let mut object = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        object["spec"]["audiences"] = json!(self.audience);
        if !self.duration.is_zero() {
            object["spec"]["expirationSeconds"] = self.duration.as_secs().into();
        }
        if self.bound_object_kind.is_empty() {
            for (flag, text) in [("name", &self.bound_object_name), ("uid", &self.bound_object_uid)] {
                if !text.is_empty() {
                    let problem = format!("--bound-object-{flag} can only be set if --bound-object-kind is provided");
                    return Err(Failure::usage(problem));
                }
            }
            return Ok(object);
        }
        if !["Node", "Pod", "Secret"].contains(&self.bound_object_kind.as_str()) {
            return Err(Failure::usage("supported --bound-object-kind values are Node, Pod, Secret"));
        }
        if self.bound_object_name.is_empty() {
            return Err(Failure::usage("--bound-object-name is required if --bound-object-kind is provided"));
        }
        object["spec"]["boundObjectRef"] =
            json!({"kind": self.bound_object_kind, "apiVersion": "v1", "name": self.bound_object_name});
        if !self.bound_object_uid.is_empty() {
            object["spec"]["boundObjectRef"]["uid"] = self.bound_object_uid.as_str().into();
        }
        Ok(object)
    }
}
