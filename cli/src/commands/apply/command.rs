//! `lw apply -f`: create what is missing, patch what differs, say which it was.

use std::process::ExitCode;

use clap::Args;
use listwatch_components::client::Patch;
use listwatch_proto::resource::{Object, Reason};
use serde_json::{Map, Value};

use super::super::failure::Failure;
use super::super::manifest::{FileArgs, Manifest, for_each_manifest};
use super::super::session::Session;
use super::super::writing::{DryRun, Validation, WritingArgs, write_params};
use super::last_applied::{self, LastApplied};
use super::server_side::ServerSide;
use super::three_way::{merge_patch, three_way};
use crate::terminal::tell;
use crate::usage::program;

/// The annotation that remembers what was applied (kubectl's own).
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How often a patch is made anew when the object changed under it (kubectl's number).
const TRIES_MAX: u32 = 5;

/// Make objects be as their files say
///
/// Examples: lw apply -f web.yaml; lw apply -f folder/; cat web.yaml | lw apply -f -; lw apply --server-side -f web.yaml
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ApplyArgs {
    #[command(subcommand)]
    memory: Option<LastApplied>,
    #[command(flatten)]
    files: FileArgs,
    #[command(flatten)]
    writing: WritingArgs,
    /// The server merges, and keeps who owns which field
    #[arg(long)]
    server_side: bool,
    /// With --server-side, take fields over that others own
    #[arg(long)]
    force_conflicts: bool,
    /// Refused by name.
    #[arg(long, hide = true)]
    force: bool,
    /// Refused by name.
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    prune: Option<bool>,
}

/// Runs the command.
pub(crate) async fn run(args: &ApplyArgs) -> Result<ExitCode, Failure> {
    if let Some(what) = &args.memory {
        return last_applied::run(what).await;
    }
    if args.prune == Some(true) {
        return Err(Failure::usage("--prune is not supported: delete what is no longer wanted with lw delete"));
    }
    if args.force && args.server_side {
        return Err(Failure::usage("--force cannot be used with --server-side"));
    }
    if args.force {
        return Err(Failure::usage("--force is not supported: replace the object with lw replace --force"));
    }
    if args.force_conflicts && !args.server_side {
        return Err(Failure::usage("--force-conflicts only works with --server-side"));
    }
    if args.writing.dry_run == DryRun::Client && args.server_side {
        return Err(Failure::usage(
            "--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)",
        ));
    }
    args.files.require()?;
    let (session, mut teller) = args.writing.open()?;
    let how = How {
        manager: args.writing.manager(""),
        server_side: args.server_side,
        force_conflicts: args.force_conflicts,
        dry_run: args.writing.dry_run,
        validate: args.writing.validate,
        remembers: true,
    };
    for_each_manifest(&args.files, &session, "apply", async |manifest| {
        let (object, deed) = apply(&how, &session, &manifest).await?;
        teller.tell(manifest.kind, &object, deed)
    })
    .await
}

/// How objects are applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct How<'a> {
    /// Who manages the fields; empty: kubectl's own.
    pub(crate) manager: &'a str,
    /// The server merges.
    pub(crate) server_side: bool,
    /// Fields that others own are taken over.
    pub(crate) force_conflicts: bool,
    /// Who only pretends.
    pub(crate) dry_run: DryRun,
    /// What becomes of unknown fields.
    pub(crate) validate: Validation,
    /// The object remembers what was applied.
    pub(crate) remembers: bool,
}

/// Makes one object be as it is wanted; gives it as it is then, and what was done.
pub(crate) async fn apply(
    how: &How<'_>,
    session: &Session,
    manifest: &Manifest,
) -> Result<(Object, &'static str), Failure> {
    if manifest.object.name().is_empty() {
        return Err(nameless(manifest));
    }
    if how.server_side {
        let by_server = ServerSide {
            manager: how.manager,
            force: how.force_conflicts,
            dry_run: how.dry_run,
            validate: how.validate,
        };
        return Ok((by_server.apply(session, manifest).await?, "serverside-applied"));
    }
    let api = session.api(manifest.kind);
    let manager = if how.manager.is_empty() { "kubectl-client-side-apply" } else { how.manager };
    let params = write_params(manager, how.dry_run, how.validate);
    let wanted = if how.remembers { with_last_applied(&manifest.object) } else { forgetful(&manifest.object) };
    let mut tries = 0;
    loop {
        let live = api.get_opt(&manifest.key()).await.map_err(|e| Failure::during(reading(manifest), e))?;
        let Some(live) = live else {
            if how.dry_run == DryRun::Client {
                return Ok((wanted, "created"));
            }
            match api.create_with(&wanted, &params).await {
                Ok(created) => return Ok((created.object, "created")),
                // Somebody else was faster: then it is there to be patched.
                Err(error) if error.is(Reason::AlreadyExists) && tries < TRIES_MAX => tries += 1,
                Err(error) => return Err(Failure::during(manifest.context("creating"), error)),
            }
            continue;
        };
        let Some((patch, next)) = patch_for(manifest, &wanted, &live.object, how.remembers && tries == 0) else {
            return Ok((live.object, "unchanged"));
        };
        if how.dry_run == DryRun::Client {
            return Ok((next, "configured"));
        }
        match api.patch_with(&manifest.key(), "", &Patch::Merge(patch), &params).await {
            // The server knows spellings of one value that are equal (0.5 and 500m): then nothing has changed.
            Ok(patched) if is_same(&patched.object, &live.object) => return Ok((patched.object, "unchanged")),
            Ok(patched) => return Ok((patched.object, "configured")),
            // A version that the manifest names is wanted, not one that was read a moment ago.
            Err(error) if error.is_conflict() && tries < TRIES_MAX && !names_version(&manifest.object) => tries += 1,
            Err(error) => return Err(Failure::during(manifest.context("patching"), error)),
        }
    }
}

/// But for the version, which a dry run leaves alone.
fn is_same(a: &Object, b: &Object) -> bool {
    let bare = |object: &Object| {
        let mut object = object.clone();
        object.remove(&["metadata", "resourceVersion"]);
        object
    };
    bare(a) == bare(b)
}

fn nameless(manifest: &Manifest) -> Failure {
    let generate_name = manifest.object.text(&["metadata", "generateName"]);
    if generate_name.is_empty() {
        let context = format!("error when applying \"{}\"", manifest.source);
        return Failure::plain(format!("{context}: the {} has no metadata.name: give it one", manifest.kind.kind));
    }
    Failure::plain(format!("from {generate_name}: cannot use generate name with apply"))
}

fn reading(manifest: &Manifest) -> String {
    let Manifest { kind, object, source, .. } = manifest;
    let version = kind.api_version();
    format!(
        "error when retrieving current configuration of:\nResource: \"{version}, Resource={}\", GroupVersionKind: \
         \"{version}, Kind={}\"\nName: \"{}\", Namespace: \"{}\"\nfrom server for: \"{source}\"",
        kind.plural,
        kind.kind,
        object.name(),
        object.namespace(),
    )
}

/// What must change, guarded by the version it was computed from, and the object after it; `None`: nothing.
fn patch_for(manifest: &Manifest, wanted: &Object, live: &Object, is_first: bool) -> Option<(Value, Object)> {
    let name = manifest.object.name();
    let last = match live.annotation(LAST_APPLIED) {
        Some(text) => serde_json::from_str(text).unwrap_or_else(|_| Map::new()),
        None => {
            let plural = manifest.kind.name();
            if is_first {
                tell!(
                    "Warning: resource {plural}/{name} is missing the {LAST_APPLIED} annotation which is required by \
                     {lw} apply. {lw} apply should only be used on resources created declaratively by either {lw} \
                     create --save-config or {lw} apply. The missing annotation will be patched automatically.",
                    lw = program(),
                );
            }
            Map::new()
        }
    };
    let next = three_way(&last, &wanted.0, &live.0);
    let mut patch = merge_patch(&live.0, &next);
    if patch.is_empty() {
        return None;
    }
    if live.is_terminating() && is_first {
        tell!("Warning: Detected changes to resource {name} which is currently being deleted.");
    }
    // Lists are sent whole, as they were here: not over what somebody has changed since. A version in the manifest stays,
    // as with kubectl: whoever names one wants to be told if it is no longer the object's.
    let guard = if names_version(wanted) { wanted } else { live };
    let metadata = patch.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    metadata["resourceVersion"] = guard.at(&["metadata", "resourceVersion"]).cloned().unwrap_or(Value::Null);
    Some((Value::Object(patch), Object(next)))
}

/// Whether it says of which version it is made.
fn names_version(object: &Object) -> bool {
    !object.text(&["metadata", "resourceVersion"]).is_empty()
}

/// The object without a memory of itself that the manifest brings, and with a place for one.
fn forgetful(object: &Object) -> Object {
    let mut bare = object.clone();
    if bare.annotations().next().is_none() {
        bare.set(&["metadata", "annotations"], Value::Object(Map::new()));
    }
    bare.remove(&["metadata", "annotations", LAST_APPLIED]);
    bare
}

/// The object with the memory of itself.
pub(crate) fn with_last_applied(object: &Object) -> Object {
    let mut bare = forgetful(object);
    let memory = Value::Object(bare.0.clone()).to_string() + "\n";
    bare.set(&["metadata", "annotations", LAST_APPLIED], memory);
    bare
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_is_guarded_by_the_version_of_the_manifest_or_of_what_was_read() {
        let object = |value: Value| Object::from_value(value).expect("a map");
        let config = |version: &str, data: &str| {
            let mut it = object(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
            it.set(&["data"], json!({"k": data}));
            if !version.is_empty() {
                it.set(&["metadata", "resourceVersion"], version);
            }
            it
        };
        let live = with_last_applied(&config("7", "old"));
        for (named, guard) in [("", "7"), ("5", "5"), ("7", "7")] {
            let given = config(named, "new");
            let kind = given.kind().expect("served");
            let manifest = Manifest { object: given.clone(), kind, source: "x".to_owned() };
            let (patch, _) = patch_for(&manifest, &with_last_applied(&given), &live, true).expect("a change");
            assert_eq!(patch["metadata"]["resourceVersion"], guard, "{named}");
        }
    }
}
