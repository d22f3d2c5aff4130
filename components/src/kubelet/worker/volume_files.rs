//! The files of a volume on disk, changed all at once.
//!
//! ```text
//! VOLUME/..2026_01_02_03_04_05.000000006/   one state of all files
//! VOLUME/..data                             a link to the present state, replaced by rename
//! VOLUME/NAME                               a link to ..data/NAME, which is what containers read
//! ```
//!
//! Invariant: a reader that follows `..data` once sees one state, never a mixture, whenever the kubelet dies
//! (Kubernetes 1.36's own layout, which programs that watch for changes rely on).

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};

use jiff::Timestamp;

use super::super::pod::volumes::{FileContent, Files};

/// The link to the present state.
const DATA: &str = "..data";

/// The link that is about to take its place.
const DATA_NEW: &str = "..data_tmp";

/// Brings the volume's files to this state, if they are in another one.
pub(super) fn write(volume: &Path, files: &Files, now: Timestamp) -> io::Result<()> {
    fs::create_dir_all(volume)?;
    if read(&volume.join(DATA))?.as_ref() != Some(files) {
        let state = format!("..{}.{:09}", now.strftime("%Y_%m_%d_%H_%M_%S"), now.subsec_nanosecond());
        let dir = volume.join(&state);
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir(&dir)?;
        for (path, file) in files {
            let path = dir.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&path, &file.bytes)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(file.mode))?;
        }
        remove_if_there(&volume.join(DATA_NEW))?;
        symlink(&state, volume.join(DATA_NEW))?;
        fs::rename(volume.join(DATA_NEW), volume.join(DATA))?;
    }
    tidy(volume, files)
}

/// Makes the links that containers read, and takes away what belongs to earlier states.
fn tidy(volume: &Path, files: &Files) -> io::Result<()> {
    let names: BTreeSet<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &names {
        let link = volume.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(PathBuf::from(DATA).join(name), link)?;
        }
    }
    let present = fs::read_link(volume.join(DATA))?;
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_string_lossy();
        let kept = text == DATA || Path::new(&name) == present || names.contains(&*text);
        if kept {
            continue;
        }
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    Ok(())
}

/// A state as it is on disk; `None` if there is none.
fn read(dir: &Path) -> io::Result<Option<Files>> {
    if !dir.exists() {
        return Ok(None);
    }
    let mut files = Files::new();
    let mut below = vec![String::new()];
    while let Some(path) = below.pop() {
        for entry in fs::read_dir(dir.join(&path))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let inner = if path.is_empty() { name } else { format!("{path}/{name}") };
            if entry.file_type()?.is_dir() {
                below.push(inner);
            } else {
                let mode = entry.metadata()?.mode() & 0o777;
                files.insert(inner, FileContent { bytes: fs::read(entry.path())?, mode });
            }
        }
    }
    Ok(Some(files))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        let file = |text: &str| FileContent { bytes: text.as_bytes().to_vec(), mode: 0o644 };
        list.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn entries(volume: &Path) -> Vec<String> {
        let names = fs::read_dir(volume).expect("readable").flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_state_takes_the_place_of_the_old_one() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let volume = folder.path().join("v");
        write(&volume, &files(&[("a", "1"), ("deep/b", "2")]), at(0)).expect("written");
        assert_eq!(entries(&volume), ["..2027_01_15_08_00_00.000000000", "..data", "a", "deep"]);
        assert_eq!(fs::read_to_string(volume.join("deep/b")).expect("readable"), "2");
        let first = fs::read_link(volume.join(DATA)).expect("a link");
        write(&volume, &files(&[("a", "1"), ("deep/b", "2")]), at(1)).expect("written");
        assert_eq!(fs::read_link(volume.join(DATA)).expect("a link"), first, "nothing has changed");
        write(&volume, &files(&[("a", "3"), ("c", "4")]), at(2)).expect("written");
        assert_eq!(entries(&volume), ["..2027_01_15_08_00_02.000000000", "..data", "a", "c"]);
        assert_eq!(fs::read_to_string(volume.join("a")).expect("readable"), "3");
    }

    #[test]
    fn what_a_dead_kubelet_left_is_no_hindrance() {
        let folder = tempfile::tempdir().expect("temporary directory");
        let volume = folder.path().join("v");
        fs::create_dir_all(volume.join("..2027_01_15_08_00_00.000000000/half")).expect("made");
        symlink("..gone", volume.join(DATA_NEW)).expect("made");
        write(&volume, &files(&[("a", "1")]), at(0)).expect("written");
        assert_eq!(entries(&volume), ["..2027_01_15_08_00_00.000000000", "..data", "a"]);
        assert_eq!(fs::read_to_string(volume.join("a")).expect("readable"), "1");
        fs::remove_file(volume.join("a")).expect("removed");
        write(&volume, &files(&[("a", "1")]), at(1)).expect("written");
        assert!(volume.join("a").exists(), "a link that is missing is made again");
    }
}
