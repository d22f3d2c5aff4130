//! The editor and the file that it is given.
//!
//! Invariant: the file is readable by its owner alone, and stays if the edit fails, so that no work is lost.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use listwatch_proto::go_quote::quote;

use crate::commands::failure::Failure;

/// The editor of the person: `KUBE_EDITOR`, `EDITOR`, else `vi`.
#[derive(Debug, Clone)]
pub(super) struct Editor(String);

impl Editor {
    /// The one that the environment names.
    pub(super) fn of_environment() -> Editor {
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Editor(named("KUBE_EDITOR").or_else(|| named("EDITOR")).unwrap_or_else(|| "vi".to_owned()))
    }

    /// Lets the person edit a text; gives the file and what stands in it then.
    ///
    /// # Errors
    /// If the file cannot be written or read, or the editor fails.
    pub(super) fn edit(&self, text: &str) -> Result<(PathBuf, String), Failure> {
        let path = create(text)?;
        // Through a shell, so that the editor may have flags; the file's name is an argument of its own.
        let status = Command::new("/bin/sh").args(["-c", &format!("{} \"$1\"", self.0), "sh"]).arg(&path).status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) if status.code() == Some(127) => {
                remove(&path);
                return Err(Failure::plain(format!("unable to launch the editor {}", quote(&self.0))));
            }
            _ => {
                remove(&path);
                return Err(Failure::plain(format!("there was a problem with the editor {}", quote(&self.0))));
            }
        }
        let edited =
            fs::read_to_string(&path).map_err(|error| Failure::plain(format!("read {}: {error}", path.display())))?;
        Ok((path, edited))
    }
}

/// Removes a file that is needed no more.
pub(super) fn remove(path: &Path) {
    // It lies in the folder of temporary files: that it could not be removed is nothing to bother a person with.
    drop(fs::remove_file(path));
}

fn create(text: &str) -> Result<PathBuf, Failure> {
    let folder = std::env::temp_dir();
    let mut number = std::process::id();
    loop {
        let path = folder.join(format!("lw-edit-{number}.yaml"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(text.as_bytes());
                written.map_err(|error| Failure::plain(format!("write {}: {error}", path.display())))?;
                return Ok(path);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
            Err(error) => return Err(Failure::plain(format!("create {}: {error}", path.display()))),
        }
    }
}
