//! Objects that a command makes up from flags: changed by `--overrides`, created and shown in one way.

use std::io::{self, Write};

use clap::{Args, ValueEnum};
use listwatch_proto::resource::{Kind, Object};
use serde_json::{Map, Value};

use super::apply::{three_way, with_last_applied};
use super::failure::Failure;
use super::output::{PrintArgs, Printer};
use super::session::{Session, SessionArgs, full_name};
use super::writing::{DryRun, Validation, write_params};

/// Flags of the commands that make an object up.
#[derive(Debug, Args)]
pub(crate) struct GeneratedArgs {
    #[command(flatten)]
    session: SessionArgs,
    #[command(flatten)]
    print: PrintArgs,
    /// Only say what would be done: by this program alone (client) or by the server without storing it (server)
    #[arg(long, value_enum, default_value_t = DryRun::None)]
    pub(crate) dry_run: DryRun,
    /// Remember the object in an annotation, for a later apply
    #[arg(long)]
    save_config: bool,
    /// Changes to the object before it is created, as JSON
    #[arg(long, value_name = "JSON", default_value = "", hide_default_value = true)]
    overrides: String,
    /// How they are meant
    #[arg(long, value_enum, value_name = "TYPE", default_value_t = OverrideType::Merge)]
    override_type: OverrideType,
    /// Who manages the fields
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    field_manager: String,
}

/// How overrides are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OverrideType {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Lists are merged by the names of their items.
    Strategic,
}

/// Creates and shows the objects of one command.
pub(crate) struct Maker<'a> {
    args: &'a GeneratedArgs,
    pub(crate) session: Session,
    printer: Option<Printer>,
    manager: String,
}

impl GeneratedArgs {
    /// Finds the cluster; `manager` owns the fields unless another is named.
    pub(crate) fn maker(&self, manager: &str) -> Result<Maker<'_>, Failure> {
        let manager = if self.field_manager.is_empty() { manager } else { &self.field_manager };
        let printer = self.print.printer()?;
        Ok(Maker { args: self, session: Session::open(&self.session)?, printer, manager: manager.to_owned() })
    }

    /// The object with the overrides.
    ///
    /// # Errors
    /// kubectl's words for overrides that do not read, or do not fit.
    pub(crate) fn overridden(&self, object: Value) -> Result<Value, Failure> {
        if self.overrides.is_empty() {
            return Ok(object);
        }
        let wrong = || Failure::plain("Invalid JSON Patch");
        let patch: Value = serde_json::from_str(&self.overrides).map_err(|_| wrong())?;
        Ok(match self.override_type {
            OverrideType::Json => {
                let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|_| wrong())?;
                let mut object = object;
                json_patch::patch(&mut object, &patch).map_err(|error| Failure::plain(error.to_string()))?;
                object
            }
            OverrideType::Merge => {
                let mut object = object;
                json_patch::merge(&mut object, &patch);
                object
            }
            OverrideType::Strategic => match (&object, &patch) {
                (Value::Object(object), Value::Object(patch)) => Value::Object(three_way(&Map::new(), patch, object)),
                _ => return Err(wrong()),
            },
        })
    }
}

impl Maker<'_> {
    /// Creates the object, as far as it is not only pretended; gives it as it is then.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn create(&self, object: Value) -> Result<(&'static Kind, Object), Failure> {
        let mut object = Object::from_value(object).map_err(|_| Failure::plain("the object is none"))?;
        let kind = object.kind().ok_or_else(|| Failure::plain("the kind is not served"))?;
        let is_here = self.args.dry_run == DryRun::Client;
        if kind.namespaced && (!is_here || self.session.is_namespace_given) {
            object.set(&["metadata", "namespace"], self.session.namespace.as_str());
        }
        if self.args.save_config {
            object = with_last_applied(&object);
        }
        if !is_here {
            let params = write_params(&self.manager, self.args.dry_run, Validation::Strict);
            object = self.session.api(kind).create_with(&object, &params).await?.object;
        }
        Ok((kind, object))
    }

    /// Shows the object, or says what was done to it.
    pub(crate) fn show(&mut self, kind: &'static Kind, object: &Object, deed: &str) -> Result<(), Failure> {
        let out = &mut io::stdout();
        match &mut self.printer {
            Some(printer) => printer.print(out, kind, object),
            None => {
                let suffix = self.args.dry_run.suffix();
                Ok(writeln!(out, "{} {deed}{suffix}", full_name(kind, object.name()))?)
            }
        }
    }
}

/// `a=b,c=d` as an object of texts (kubectl's own grammar, narrower than a selector's).
///
/// # Errors
/// kubectl's words.
pub(crate) fn pairs(text: &str) -> Result<Value, Failure> {
    let mut pairs = Map::new();
    for pair in text.split(',') {
        match pair.split('=').collect::<Vec<_>>().as_slice() {
            [key, value] if !key.is_empty() => drop(pairs.insert((*key).to_owned(), (*value).into())),
            ["", _] => return Err(Failure::usage("unexpected empty label key")),
            _ => return Err(Failure::usage(format!("unexpected label spec: {pair}"))),
        }
    }
    Ok(Value::Object(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        generated: GeneratedArgs,
    }

    #[test]
    fn overrides_are_merged_as_asked() {
        let pod = || json!({"spec": {"containers": [{"name": "a", "image": "x"}]}});
        let change = |kind: &str, patch: Value| {
            let (kind, patch) = (format!("--override-type={kind}"), format!("--overrides={patch}"));
            Command::parse_from(["run", &kind, &patch]).generated.overridden(pod()).map_err(|failure| failure.text())
        };
        let container = json!({"name": "a", "tty": true});
        let merged = change("merge", json!({"spec": {"containers": [container]}})).expect("merged");
        assert_eq!(merged["spec"]["containers"], json!([container]));
        let strategic = change("strategic", json!({"spec": {"containers": [container]}})).expect("merged");
        assert_eq!(strategic["spec"]["containers"], json!([{"name": "a", "image": "x", "tty": true}]));
        let op = json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "y"}]);
        assert_eq!(change("json", op).expect("patched")["spec"]["containers"][0]["image"], "y");
        let broken = Command::parse_from(["run", "--overrides={bad"]).generated.overridden(pod());
        assert_eq!(broken.expect_err("refused").text(), "error: Invalid JSON Patch");
    }

    #[test]
    fn pairs_are_read_as_kubectl_does() {
        assert_eq!(pairs("a=b,c=").expect("pairs"), json!({"a": "b", "c": ""}));
        for text in ["a", "=b", "a=b=c", "a=b,"] {
            assert!(pairs(text).is_err(), "{text}");
        }
    }
}
