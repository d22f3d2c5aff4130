//! `lw apply --server-side`: the server merges, and keeps who owns which field.

use listwatch_components::client::{Error, Patch};
use listwatch_proto::resource::Object;

use crate::commands::failure::Failure;
use crate::commands::manifest::Manifest;
use crate::commands::session::Session;
use crate::commands::writing::{DryRun, Validation, write_params};

/// Whose fields they are unless another name is given (kubectl's own).
const MANAGER: &str = "kubectl";

/// What to do about fields that others own (kubectl 1.36's words).
const WAYS_OUT: &str = "Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts";

/// How an object is applied by the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerSide<'a> {
    /// Empty: kubectl's own.
    pub(super) manager: &'a str,
    pub(super) force: bool,
    pub(super) dry_run: DryRun,
    pub(super) validate: Validation,
}

impl ServerSide<'_> {
    /// Applies one object; gives it as it is then.
    pub(super) async fn apply(self, session: &Session, manifest: &Manifest) -> Result<Object, Failure> {
        let manager = if self.manager.is_empty() { MANAGER } else { self.manager };
        let params = write_params(manager, self.dry_run, self.validate);
        let patch = Patch::Apply { wanted: manifest.object.clone().into_value(), force: self.force };
        match session.api(manifest.kind).patch_with(&manifest.key(), "", &patch, &params).await {
            Ok(applied) => Ok(applied.object),
            Err(Error::Status(status)) if status.code == 409 => {
                Err(Failure::plain(format!("{}\n{WAYS_OUT}", status.message)))
            }
            Err(error) => Err(error.into()),
        }
    }
}
