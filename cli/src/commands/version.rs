//! `lw version`: which release of Kubernetes and of Listwatch this program is, and the server.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::RawRequest;
use listwatch_proto::version::VersionInfo;
use serde::Serialize;

use super::failure::Failure;
use super::output::go_indented;
use super::session::{Session, SessionArgs};
use super::yaml::to_yaml;

/// Show the versions of this program and of the server
///
/// Each is the Kubernetes release that is followed, and the release of Listwatch behind the plus.
///
/// Examples: lw version; lw version --client; lw version -o json
#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Only this program's: no server is asked
    #[arg(long)]
    client: bool,
    /// Form of the output, json or yaml; without it lines
    #[arg(short, long, value_name = "FORM", default_value = "", hide_default_value = true)]
    output: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    client_version: VersionInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_version: Option<VersionInfo>,
}

/// Runs the command. A server that cannot be asked is told behind this program's own version.
pub(crate) async fn run(args: &VersionArgs) -> Result<ExitCode, Failure> {
    if !["", "json", "yaml"].contains(&args.output.as_str()) {
        return Err(Failure::usage("--output must be 'yaml' or 'json'"));
    }
    let (server, failure) = match args.client {
        true => (None, None),
        false => match ask(&args.session).await {
            Ok(info) => (Some(info), None),
            Err(failure) => (None, Some(failure)),
        },
    };
    let versions = Versions { client_version: VersionInfo::client(), server_version: server };
    io::stdout().lock().write_all(shown(&versions, &args.output)?.as_bytes())?;
    failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

async fn ask(args: &SessionArgs) -> Result<VersionInfo, Failure> {
    let answer = Session::open(args)?.client.raw(RawRequest::get("/version")).await?;
    serde_json::from_slice(&answer).map_err(|error| Failure::plain(format!("the server's version: {error}")))
}

fn shown(versions: &Versions, form: &str) -> Result<String, Failure> {
    let unprintable = |error: serde_json::Error| Failure::plain(error.to_string());
    Ok(match form {
        "json" => go_indented(versions).map_err(unprintable)? + "\n",
        // A line more than the document has: kubectl's.
        "yaml" => to_yaml(&serde_json::to_value(versions).map_err(unprintable)?) + "\n",
        _ => {
            let server = versions.server_version.as_ref();
            let server = server.map(|info| format!("Server Version: {}\n", info.git_version));
            format!("Client Version: {}\n{}", versions.client_version.git_version, server.unwrap_or_default())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_shown_as_kubectl_shows_them() {
        let info = |version: &str| VersionInfo { git_version: version.into(), ..VersionInfo::default() };
        let both = Versions { client_version: info("v1"), server_version: Some(info("v2")) };
        assert_eq!(shown(&both, "").expect("text"), "Client Version: v1\nServer Version: v2\n");
        let json = shown(&both, "json").expect("JSON");
        assert!(json.starts_with(
            "{\n  \"clientVersion\": {\n    \"major\": \"\",\n    \"minor\": \"\",\n    \"gitVersion\": \"v1\",\n"
        ));
        assert!(json.ends_with("\n}\n"), "{json}");
        let yaml = shown(&both, "yaml").expect("YAML");
        assert!(yaml.starts_with("clientVersion:\n  buildDate: \"\"\n") && yaml.ends_with("\n\n"), "{yaml}");
        let alone = Versions { client_version: info("v1"), server_version: None };
        assert_eq!(shown(&alone, "").expect("text"), "Client Version: v1\n");
    }
}
