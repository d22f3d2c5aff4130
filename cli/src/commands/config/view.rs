//! `lw config view`: the kubeconfig without its secrets.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Value, json};

use super::file::{File, entry};
use crate::commands::failure::Failure;
use crate::commands::output::{Printer, to_json};
use crate::commands::session::SessionArgs;
use crate::commands::yaml::to_yaml;

/// In place of what is long and of no interest (kubectl's).
const OMITTED: &str = "DATA+OMITTED";
/// In place of what is secret (kubectl's).
const REDACTED: &str = "REDACTED";
/// Fields of an identity that are long.
const LONG: [&str; 3] = ["certificate-authority-data", "client-certificate-data", "client-key-data"];
/// Fields of an identity that are secret.
const SECRET: [&str; 2] = ["token", "password"];
/// Fields that name files, which may be relative to the kubeconfig's folder.
const FILES: [&str; 4] = ["certificate-authority", "client-certificate", "client-key", "tokenFile"];

/// Show the kubeconfig, without secrets
///
/// Examples: lw config view; lw config view --minify -o jsonpath='{.clusters[0].cluster.server}'; lw config view --raw
#[derive(Debug, Args)]
pub(super) struct ViewArgs {
    #[command(flatten)]
    session: SessionArgs,
    /// Form of the output: json, yaml, jsonpath=…
    #[arg(short, long, value_name = "FORM", default_value = "yaml")]
    output: String,
    /// With certificates and secrets
    #[arg(long)]
    raw: bool,
    /// Only what belongs to the current context
    #[arg(long)]
    minify: bool,
    /// Refused by name.
    #[arg(long, hide = true)]
    flatten: bool,
}

/// Runs the command.
pub(super) fn run(args: &ViewArgs) -> Result<ExitCode, Failure> {
    if args.flatten {
        return Err(Failure::usage("--flatten is not supported: lw up writes files that hold everything; see --raw"));
    }
    let file = File::read(&args.session)?;
    let mut value = file.value;
    if args.minify {
        value = minified(&value, args.session.context())?;
    }
    settle(&mut value, &std::path::absolute(&file.path).unwrap_or(file.path), args.raw);
    let mut out = io::stdout().lock();
    match args.output.as_str() {
        "json" => out.write_all(to_json(&value).as_bytes())?,
        "yaml" => out.write_all(to_yaml(&value).as_bytes())?,
        form => {
            let object = Object::from_value(value).map_err(|_| Failure::plain("the kubeconfig is no map"))?;
            // A template asks for the fields alone; which kind it is given for does not matter.
            let kind = Kind::by_name("configmaps").expect("a served kind");
            Printer::parse(form, false)?.print(&mut out, kind, &object)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Only the context, its cluster and its user.
fn minified(value: &Value, context: Option<&str>) -> Result<Value, Failure> {
    let current = context.or_else(|| value["current-context"].as_str()).unwrap_or_default().to_owned();
    if current.is_empty() {
        return Err(Failure::plain("current-context must exist in order to minify"));
    }
    let context =
        entry(value, "contexts", &current).ok_or_else(|| Failure::plain(format!("cannot locate context {current}")))?;
    let listed = |list: &str, part: &str| {
        let named = context["context"][part].as_str().and_then(|name| entry(value, list, name));
        named.map_or_else(|| json!([]), |entry| json!([entry]))
    };
    let mut minified = value.clone();
    minified["clusters"] = listed("clusters", "cluster");
    minified["users"] = listed("users", "user");
    minified["contexts"] = json!([context]);
    minified["current-context"] = current.into();
    Ok(minified)
}

/// Files get whole paths, lists stand in the order of names; without `raw` what is long or secret is left out.
fn settle(value: &mut Value, path: &Path, raw: bool) {
    let folder = path.parent().unwrap_or(Path::new("/"));
    for (list, part) in [("clusters", "cluster"), ("contexts", "context"), ("users", "user")] {
        let Some(entries) = value[list].as_array_mut() else {
            value[list] = Value::Null;
            continue;
        };
        entries.sort_by_key(|entry| entry["name"].as_str().map(str::to_owned));
        for fields in entries.iter_mut().filter_map(|entry| entry[part].as_object_mut()) {
            for (field, value) in fields {
                let Some(text) = value.as_str().filter(|text| !text.is_empty()) else { continue };
                let field = field.as_str();
                if FILES.contains(&field) {
                    *value = folder.join(text).display().to_string().into();
                } else if !raw && LONG.contains(&field) {
                    *value = OMITTED.into();
                } else if !raw && SECRET.contains(&field) {
                    *value = REDACTED.into();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        json!({"current-context": "b", "kind": "Config", "apiVersion": "v1",
            "clusters": [{"name": "two", "cluster": {"server": "https://b"}},
                {"name": "one", "cluster": {"certificate-authority-data": "QQ==", "certificate-authority": "ca.crt"}}],
            "contexts": [{"name": "b", "context": {"cluster": "two", "user": "me"}},
                {"name": "a", "context": {"cluster": "one", "user": "gone"}}],
            "users": [{"name": "me", "user": {"token": "s3cret", "client-key-data": "QQ=="}}]})
    }

    #[test]
    fn secrets_are_left_out_unless_asked_for() {
        let mut value = sample();
        settle(&mut value, Path::new("/etc/lw/config"), false);
        assert_eq!(value["clusters"][0]["cluster"]["certificate-authority-data"], OMITTED);
        assert_eq!(value["clusters"][0]["cluster"]["certificate-authority"], "/etc/lw/ca.crt");
        assert_eq!(value["users"][0]["user"], json!({"token": REDACTED, "client-key-data": OMITTED}));
        assert_eq!(value["contexts"][0]["name"], "a");
        let mut value = sample();
        settle(&mut value, Path::new("/etc/lw/config"), true);
        assert_eq!(value["users"][0]["user"]["token"], "s3cret");
        let mut empty = json!({});
        settle(&mut empty, Path::new("/x"), false);
        assert_eq!(empty["users"], Value::Null);
    }

    #[test]
    fn what_does_not_belong_to_the_context_can_be_left_out() {
        let value = minified(&sample(), None).expect("the current one");
        assert_eq!(value["clusters"].as_array().map(Vec::len), Some(1));
        assert_eq!(value["clusters"][0]["name"], "two");
        let other = minified(&sample(), Some("a")).expect("the other");
        assert_eq!((&other["current-context"], &other["users"]), (&json!("a"), &json!([])));
        let failure = minified(&sample(), Some("c")).expect_err("none").text();
        assert_eq!(failure, "error: cannot locate context c");
        assert!(minified(&json!({}), None).is_err());
    }
}
