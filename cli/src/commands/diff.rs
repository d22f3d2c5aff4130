//! `lw diff`: what an apply would change, as the server tells it in a dry run, shown by the machine's own `diff`.
//!
//! Invariants: nothing is stored; the values of Secrets are not shown unless asked for. Exit codes are kubectl's: 0 no
//! difference, 1 differences, more: a failure.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::{Map, Value};

use super::apply::{How, apply};
use super::failure::{Failure, Report};
use super::manifest::{FileArgs, Manifest};
use super::output::without_managers;
use super::session::{Session, SessionArgs};
use super::writing::{DryRun, Validation};
use super::yaml::to_yaml;

/// In place of a Secret's values (kubectl's words).
const MASK: &str = "***";
const MASK_BEFORE: &str = "*** (before)";
const MASK_AFTER: &str = "*** (after)";
/// The exit code of a failure: 1 says that there are differences.
const FAILED: u8 = 2;

/// Show what an apply would change
///
/// `KUBECTL_EXTERNAL_DIFF` names a program other than diff -u -N. Exit code 0: no difference; 1: differences; more: it failed.
///
/// Examples: lw diff -f web.yaml; cat web.yaml | lw diff -f -; lw diff --server-side -f web.yaml
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    session: SessionArgs,
    /// The server merges, and keeps who owns which field
    #[arg(long)]
    server_side: bool,
    /// With --server-side, take fields over that others own
    #[arg(long)]
    force_conflicts: bool,
    /// Who manages the fields
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    field_manager: String,
    /// Show who manages which fields, too
    #[arg(long)]
    show_managed_fields: bool,
    /// Show the values of Secrets
    #[arg(long)]
    show_secrets: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &DiffArgs) -> Result<ExitCode, Failure> {
    match diff(args).await {
        Ok(code) => Ok(code),
        Err(failure) => {
            Report::default().fail(failure);
            Ok(ExitCode::from(FAILED))
        }
    }
}

async fn diff(args: &DiffArgs) -> Result<ExitCode, Failure> {
    args.files.require()?;
    if args.force_conflicts && !args.server_side {
        return Err(Failure::usage("--force-conflicts only works with --server-side"));
    }
    let session = Session::open(&args.session)?;
    let (live, merged) = (Folder::create("LIVE")?, Folder::create("MERGED")?);
    for manifest in args.files.read(&session, "diff") {
        let manifest = manifest?;
        let before = session.api(manifest.kind).get_opt(&manifest.key()).await?.map(|live| live.object);
        let after = pretended(args, &session, &manifest).await?;
        let (before, after) = shown(args, before, after);
        let name = file_name(&after);
        if let Some(before) = before {
            live.write(&name, &before)?;
        }
        merged.write(&name, &after)?;
    }
    compare(&live.0, &merged.0)
}

/// The object as an apply would leave it.
async fn pretended(args: &DiffArgs, session: &Session, manifest: &Manifest) -> Result<Object, Failure> {
    let how = How {
        manager: &args.field_manager,
        server_side: args.server_side,
        force_conflicts: args.force_conflicts,
        dry_run: DryRun::Server,
        validate: Validation::Warn,
        remembers: false,
    };
    match apply(&how, session, manifest).await {
        Ok((object, _)) => Ok(object),
        // kubectl does not say here what it was about.
        Err(Failure::Server { error, .. }) => Err(error.into()),
        Err(failure) => Err(failure),
    }
}

/// Both as a person may see them.
fn shown(args: &DiffArgs, before: Option<Object>, after: Object) -> (Option<Object>, Object) {
    let bare = |object: Object| if args.show_managed_fields { object } else { without_managers(&object) };
    let (mut before, mut after) = (before.map(bare), bare(after));
    if after.api_version() == "v1" && after.kind_name() == "Secret" && !args.show_secrets {
        mask(before.as_mut(), &mut after);
    }
    (before, after)
}

/// Hides values so that a change still shows.
fn mask(before: Option<&mut Object>, after: &mut Object) {
    let data = |object: &Object| object.at(&["data"]).and_then(Value::as_object).cloned();
    let (old, new) = (before.as_ref().and_then(|object| data(object)), data(after));
    let (none, mut hidden_old, mut hidden_new) = (Map::new(), Map::new(), Map::new());
    let (old_data, new_data) = (old.as_ref().unwrap_or(&none), new.as_ref().unwrap_or(&none));
    for (key, value) in old_data {
        let (was, is) = match new_data.get(key) {
            Some(other) if other != value => (MASK_BEFORE, MASK_AFTER),
            _ => (MASK, MASK),
        };
        hidden_old.insert(key.clone(), was.into());
        if new_data.contains_key(key) {
            hidden_new.insert(key.clone(), is.into());
        }
    }
    for key in new_data.keys().filter(|key| !old_data.contains_key(*key)) {
        hidden_new.insert(key.clone(), MASK.into());
    }
    if let (Some(before), Some(_)) = (before, &old) {
        before.set(&["data"], hidden_old);
    }
    if new.is_some() {
        after.set(&["data"], hidden_new);
    }
}

/// `apps.v1.Deployment.default.web`.
fn file_name(object: &Object) -> String {
    let version = object.api_version().replace('/', ".");
    format!("{version}.{}.{}.{}", object.kind_name(), object.namespace(), object.name())
}

/// A folder of files to compare, readable by its owner alone; it goes when the command ends.
struct Folder(PathBuf);

impl Folder {
    fn create(prefix: &str) -> Result<Folder, Failure> {
        let mut number = std::process::id();
        loop {
            let path = std::env::temp_dir().join(format!("{prefix}-{number}"));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
                Err(error) => return Err(Failure::plain(format!("mkdir {}: {error}", path.display()))),
            }
        }
    }

    fn write(&self, name: &str, object: &Object) -> Result<(), Failure> {
        let path = self.0.join(name);
        fs::write(&path, to_yaml(&object.clone().into_value()))
            .map_err(|error| Failure::plain(format!("write {}: {error}", path.display())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It lies among temporary files: that it could not be removed is nothing to bother a person with.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Lets the machine's program say what differs.
fn compare(live: &Path, merged: &Path) -> Result<ExitCode, Failure> {
    let (program, flags) = differ(std::env::var("KUBECTL_EXTERNAL_DIFF").ok().as_deref());
    std::io::stdout().flush()?;
    let failed = |why: String| Failure::plain(format!("failed to run {}: {why}", quote(&program)));
    let status = std::process::Command::new(&program).args(flags).arg(live).arg(merged).status();
    match status.map(|status| (status, status.code())) {
        Ok((_, Some(0))) => Ok(ExitCode::SUCCESS),
        Ok((_, Some(1))) => Ok(ExitCode::FAILURE),
        Ok((_, Some(code))) => Err(failed(format!("exit status {code}"))),
        Ok((status, None)) => Err(failed(status.to_string())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(failed(format!("exec: {}: executable file not found in $PATH", quote(&program))))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

/// The program and its flags. Of what the environment names only plain words are taken (kubectl's rule).
fn differ(named: Option<&str>) -> (String, Vec<String>) {
    let Some(named) = named.filter(|named| !named.is_empty()) else {
        return ("diff".to_owned(), vec!["-u".to_owned(), "-N".to_owned()]);
    };
    let is_plain = |word: &&str| {
        !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-' || letter == '=')
    };
    let mut words = named.split(' ');
    let program = words.next().unwrap_or_default().to_owned();
    (program, words.filter(is_plain).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(data: Value) -> Object {
        let value =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "n"}, "data": data});
        Object::from_value(value).expect("a map")
    }

    #[test]
    fn values_of_secrets_are_hidden_and_changes_show() {
        let mut before = secret(json!({"same": "YQ==", "other": "YQ==", "gone": "YQ=="}));
        let mut after = secret(json!({"same": "YQ==", "other": "Yg==", "new": "Yg=="}));
        mask(Some(&mut before), &mut after);
        assert_eq!(before.at(&["data"]), Some(&json!({"same": "***", "other": "*** (before)", "gone": "***"})));
        assert_eq!(after.at(&["data"]), Some(&json!({"same": "***", "other": "*** (after)", "new": "***"})));
        let mut alone = secret(json!({"a": "YQ=="}));
        mask(None, &mut alone);
        assert_eq!(alone.at(&["data"]), Some(&json!({"a": "***"})));
        let mut empty = secret(json!(null));
        mask(None, &mut empty);
        assert_eq!(empty.at(&["data"]), Some(&Value::Null));
    }

    #[test]
    fn files_are_named_after_their_objects() {
        assert_eq!(file_name(&secret(json!({}))), "v1.Secret.n.s");
        let role =
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
        let role = Object::from_value(role).expect("a map");
        assert_eq!(file_name(&role), "rbac.authorization.k8s.io.v1.ClusterRole..r");
    }

    #[test]
    fn the_environment_names_the_program() {
        let words = |named| {
            let (program, flags) = differ(named);
            format!("{program} {}", flags.join(" "))
        };
        assert_eq!(words(None), "diff -u -N");
        assert_eq!(words(Some("")), "diff -u -N");
        assert_eq!(words(Some("colordiff -N -u x;y --w=3")), "colordiff -N -u --w=3");
    }
}
