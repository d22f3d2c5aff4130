//! The volumes of one pod: made before its first container, kept up to date while it runs.
//!
//! Invariant: a volume that was made once counts as there; what keeps it from being up to date is told and hinders
//! nobody.

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use listwatch_proto::go_quote::quote;

use super::{
    super::{
        pod::{
            facts::{FactError, Facts},
            volumes::{self, Content, Seen},
        },
        runtime::seam::Mount,
    },
    Context, volume_files,
};
use crate::{client::Cached, runtime::EventType};

/// What one worker knows of its volumes.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// What each was made to hold last.
    made: HashMap<String, Content>,
    /// The fault of each that was told.
    told: HashMap<String, String>,
}

impl Volumes {
    /// Which volumes hold something else now, and what; faults are told. `present`: the directory of the volumes.
    pub(super) fn changed(
        &mut self,
        context: &Context,
        pod: &Cached<Pod>,
        facts: &Facts<'_>,
    ) -> Vec<(String, Content)> {
        let mut changed = Vec::new();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            match volumes::content(facts, volume) {
                Ok(content) => {
                    if self.made.get(&volume.name) != Some(&content) {
                        changed.push((volume.name.clone(), content));
                    }
                }
                Err(FactError::NotSeen(_)) => {}
                Err(FactError::Failed(why)) => self.tell(context, pod, &volume.name, &why),
            }
        }
        changed
    }

    /// Takes down how the making went.
    pub(super) fn made(
        &mut self,
        context: &Context,
        pod: &Cached<Pod>,
        outcomes: Vec<(String, Content, io::Result<()>)>,
    ) {
        for (name, content, outcome) in outcomes {
            match outcome {
                Ok(()) => {
                    self.told.remove(&name);
                    self.made.insert(name, content);
                }
                Err(error) => self.tell(context, pod, &name, &error.to_string()),
            }
        }
    }

    /// Whether every volume of the pod was made, in this life of the kubelet or an earlier one.
    pub(super) fn all_there(&self, spec: &PodSpec, dir: &Path) -> bool {
        spec.volumes.iter().flatten().all(|volume| {
            let path = dir.join(&volume.name);
            let on_disk = if Content::is_read_only(volume) { path.join("..data").exists() } else { path.exists() };
            self.made.contains_key(&volume.name) || on_disk
        })
    }

    fn tell(&mut self, context: &Context, pod: &Cached<Pod>, name: &str, why: &str) {
        if self.told.insert(name.to_owned(), why.to_owned()).as_deref() != Some(why) {
            let message = format!("MountVolume.SetUp failed for volume \"{name}\" : {why}");
            context.recorder.event(pod, EventType::Warning, "FailedMount", message);
        }
    }
}

/// Makes volumes. Blocks.
pub(super) fn make(
    dir: &Path,
    wanted: Vec<(String, Content)>,
    now: Timestamp,
) -> Vec<(String, Content, io::Result<()>)> {
    let make_one = |name: &str, content: &Content| match content {
        Content::Files(files) => volume_files::write(&dir.join(name), files, now),
        Content::Empty => fs::create_dir_all(dir.join(name)),
        Content::Host(path, kind) => host_path(path, kind),
    };
    wanted
        .into_iter()
        .map(|(name, content)| {
            let outcome = make_one(&name, &content);
            (name, content, outcome)
        })
        .collect()
}

/// Checks a path of the machine, or makes it (`hostPath.type`).
fn host_path(path: &Path, kind: &str) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let failed =
        |what: &str| Err(io::Error::other(format!("hostPath type check failed: {} is not a {what}", path.display())));
    let found = fs::metadata(path).ok().map(|metadata| metadata.file_type());
    match (kind, found) {
        ("DirectoryOrCreate", None) => fs::create_dir_all(path),
        ("FileOrCreate", None) => fs::write(path, ""),
        ("DirectoryOrCreate" | "Directory", found) if !found.is_some_and(|kind| kind.is_dir()) => failed("directory"),
        ("FileOrCreate" | "File", found) if !found.is_some_and(|kind| kind.is_file()) => failed("file"),
        ("Socket", found) if !found.is_some_and(|kind| kind.is_socket()) => failed("socket file"),
        ("CharDevice", found) if !found.is_some_and(|kind| kind.is_char_device()) => failed("character device"),
        ("BlockDevice", found) if !found.is_some_and(|kind| kind.is_block_device()) => failed("block device"),
        _ => Ok(()),
    }
}

/// What a container sees of the volumes.
pub(super) fn mounts(dir: &Path, spec: &PodSpec, seen: &[Seen<'_>]) -> Result<Vec<Mount>, String> {
    seen.iter()
        .map(|seen| {
            let volume = spec.volumes.iter().flatten().find(|volume| volume.name == seen.volume);
            let host = volume.and_then(|volume| volume.host_path.as_ref());
            let base = host.map_or_else(|| dir.join(seen.volume), |host| PathBuf::from(&host.path));
            let writable = !volume.is_some_and(Content::is_read_only);
            let source = part(&base, &seen.part, writable)
                .map_err(|error| format!("failed to prepare subPath for volumeMount \"{}\": {error}", seen.volume))?;
            Ok(Mount { source, target: PathBuf::from(seen.target), read_only: seen.read_only })
        })
        .collect()
}

/// A part of a volume: really inside of it, whatever links a container may have put there.
fn part(base: &Path, part: &str, writable: bool) -> io::Result<PathBuf> {
    if part.is_empty() {
        return Ok(base.to_owned());
    }
    let (base, path) = (fs::canonicalize(base)?, base.join(part));
    if writable && !path.exists() {
        fs::create_dir_all(&path)?;
    }
    let path = fs::canonicalize(path)?;
    if !path.starts_with(&base) {
        return Err(io::Error::other(format!("{} leads out of the volume", quote(&part))));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_volume_stays_inside() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let base = folder.path().join("v");
        fs::create_dir(&base).expect("made");
        std::os::unix::fs::symlink("/etc", base.join("out")).expect("made");
        let inside = part(&base, "a/b", true).expect("made on the way");
        assert!(inside.is_dir() && inside.ends_with("v/a/b"));
        assert!(part(&base, "out", true).expect_err("refused").to_string().contains("leads out"));
        assert!(part(&base, "none", false).is_err());
    }

    #[test]
    fn paths_of_the_machine_are_checked_or_made() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let (dir, file) = (folder.path().join("d"), folder.path().join("f"));
        assert!(host_path(&dir, "Directory").is_err());
        host_path(&dir, "DirectoryOrCreate").expect("made");
        host_path(&dir, "Directory").expect("there");
        host_path(&file, "FileOrCreate").expect("made");
        let error = host_path(&file, "Directory").expect_err("a file").to_string();
        assert!(error.starts_with("hostPath type check failed:"), "{error}");
        host_path(&folder.path().join("anything"), "").expect("not checked");
    }
}
