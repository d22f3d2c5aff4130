//! The place a container sees: the machine's files, with the pod's volumes laid over them at their mount paths.
//!
//! A mount namespace of the container's own, made without root: where the kernel does not let this user mount, a user
//! namespace that maps the user to itself comes first. The new root shows the old one; a directory that lacks a mount
//! point is shown through a small file system in memory that holds its entries and the mount point. Nothing outside of
//! the namespace changes, and all of it is gone with the container's last process. This is no isolation: the container
//! still sees, and may do, all that the kubelet's user may.
//!
//! Invariant: runs in the child between fork and exec, of a program that has one thread.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt, fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{StatVfsMountFlags, statvfs},
    mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change, mount_remount},
    process::{chroot, getegid, geteuid},
    thread::{UnshareFlags, unshare_unsafe},
};

use super::super::record::Mount;

/// A step that failed.
#[derive(Debug)]
pub(super) struct MountError {
    what: String,
    source: io::Error,
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)
    }
}

type Outcome = Result<(), MountError>;

/// Names the step that failed.
trait Step {
    fn step(self, what: impl FnOnce() -> String) -> Outcome;
}

impl<T, E: Into<io::Error>> Step for Result<T, E> {
    fn step(self, what: impl FnOnce() -> String) -> Outcome {
        self.map(drop).map_err(|error| MountError { what: what(), source: error.into() })
    }
}

/// What lies at a path and below it.
#[derive(Debug, Default)]
struct Place<'a> {
    mount: Option<&'a Mount>,
    below: BTreeMap<OsString, Place<'a>>,
}

/// Moves the calling process into a namespace of its own where the mounts are in place. `root` is an empty directory.
pub(super) fn enter(root: &Path, mounts: &[Mount]) -> Outcome {
    separate()?;
    let tree = tree(mounts)?;
    bind(Path::new("/"), root)?;
    // What is mounted here must not be copied along when a directory above it is.
    mount_change(root, MountPropagationFlags::UNBINDABLE).step(|| "set the new root apart".to_owned())?;
    lay(&tree, Path::new("/"), root)?;
    chroot(root).step(|| "change the root".to_owned())
}

/// A mount namespace that nothing comes into and nothing goes out of.
fn separate() -> Outcome {
    // SAFETY: this process has one thread, and nobody else relies on its namespaces.
    let direct = unsafe { unshare_unsafe(UnshareFlags::NEWNS) };
    if direct.is_err() {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        // SAFETY: as above.
        unsafe { unshare_unsafe(UnshareFlags::NEWUSER | UnshareFlags::NEWNS) }.step(|| {
            "make a mount namespace (this machine does not let ordinary users have one; volumes need it)".to_owned()
        })?;
        let write = |file: &str, text: String| fs::write(file, text).step(|| format!("write {file}"));
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .step(|| "part from the mounts of the machine (volumes need that)".to_owned())
}

/// Orders the mounts by the place where they really lie: links of the machine on the way are followed first.
fn tree(mounts: &[Mount]) -> Result<Place<'_>, MountError> {
    let mut root = Place::default();
    for mount in mounts {
        let mut place = &mut root;
        for part in resolve(&mount.target)?.components() {
            if let Component::Normal(name) = part {
                place = place.below.entry(name.to_owned()).or_default();
            }
        }
        place.mount = Some(mount);
    }
    Ok(root)
}

/// The path with the links in its existing part followed.
fn resolve(target: &Path) -> Result<PathBuf, MountError> {
    let mut existing = target.to_owned();
    let mut rest = Vec::new();
    while !existing.exists() {
        match existing.file_name() {
            Some(name) => rest.push(name.to_owned()),
            None => break,
        }
        existing.pop();
    }
    let mut path = fs::canonicalize(&existing)
        .map_err(|source| MountError { what: format!("look at the mount path {}", target.display()), source })?;
    path.extend(rest.iter().rev());
    Ok(path)
}

/// Puts what lies below a directory in place. `at` shows `origin`, a directory of the machine or of a volume.
fn lay(place: &Place<'_>, origin: &Path, at: &Path) -> Outcome {
    let lacks = |name: &OsStr| !origin.join(name).exists();
    if place.below.keys().any(|name| lacks(name)) {
        match place.mount {
            // A mount in a volume: its mount point is made there, as container runtimes do.
            Some(_) => {
                for (name, child) in place.below.iter().filter(|(name, _)| lacks(name)) {
                    mount_point(&origin.join(name), child)?;
                }
            }
            None => mirror(place, origin, at)?,
        }
    }
    for (name, child) in &place.below {
        let (origin, at) = (origin.join(name), at.join(name));
        match child.mount {
            Some(mount) => {
                bind(&mount.source, &at)?;
                lay(child, &mount.source, &at)?;
                if mount.read_only {
                    read_only(&at)?;
                }
            }
            None => lay(child, &origin, &at)?,
        }
    }
    Ok(())
}

/// Shows a directory through a file system in memory, which holds its entries and the mount points that it lacks.
fn mirror(place: &Place<'_>, origin: &Path, at: &Path) -> Outcome {
    mount("tmpfs", at, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, c"mode=0755")
        .step(|| format!("show {} with room for a mount path", origin.display()))?;
    let entries = match fs::read_dir(origin) {
        Ok(entries) => entries,
        // Below a mount point that is not there either.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return make_all(place, at),
        outcome => return outcome.step(|| format!("read {}", origin.display())),
    };
    for entry in entries.flatten() {
        let (from, to) = (entry.path(), at.join(entry.file_name()));
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_symlink() {
            let Ok(target) = fs::read_link(&from) else { continue };
            std::os::unix::fs::symlink(target, &to).step(|| format!("copy the link {}", from.display()))?;
            continue;
        }
        if kind.is_dir() {
            fs::create_dir(&to).step(|| format!("make a place for {}", from.display()))?;
        } else {
            fs::write(&to, "").step(|| format!("make a place for {}", from.display()))?;
        }
        match bind(&from, &to) {
            // It has gone meanwhile.
            Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
            outcome => outcome?,
        }
    }
    make_all(place, at)
}

/// Makes the mount points that are not there.
fn make_all(place: &Place<'_>, at: &Path) -> Outcome {
    for (name, child) in &place.below {
        let point = at.join(name);
        if !point.exists() {
            mount_point(&point, child)?;
        }
    }
    Ok(())
}

fn mount_point(at: &Path, place: &Place<'_>) -> Outcome {
    let outcome = match place.mount {
        Some(mount) if !mount.source.is_dir() => fs::write(at, ""),
        _ => fs::DirBuilder::new().mode(0o755).create(at),
    };
    outcome.step(|| format!("make the mount point {}", at.display()))
}

/// With all that is mounted below: the kernel lets an ordinary user bind only whole trees.
fn bind(source: &Path, at: &Path) -> Outcome {
    mount_bind_recursive(source, at).step(|| format!("mount {} at {}", source.display(), at.display()))
}

/// An ordinary user may only add to what the mount forbids already.
fn read_only(at: &Path) -> Outcome {
    let present = statvfs(at)
        .map_err(|error| MountError { what: format!("look at the mount at {}", at.display()), source: error.into() })?;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY;
    for (is, keep) in [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if present.f_flag.contains(is) {
            flags |= keep;
        }
    }
    mount_remount(at, flags, c"").step(|| format!("make {} read-only", at.display()))
}
