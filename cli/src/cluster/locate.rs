//! Which cluster a command means.
//!
//! Order: `--kubeconfig`, else `--name` or `--data-dir`, else the running default cluster, else `KUBECONFIG`, and that only if Listwatch
//! wrote it: nobody's production cluster gets a `delete` by accident. A cluster whose data lies in an unusual place
//! leaves a note with its name in the state folder, so that every command finds it from any folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use listwatch_proto::kubeconfig::Kubeconfig;

use super::{
    Layout, control,
    layout::{DEFAULT_NAME, check_name, replace_file, state_home},
};

/// The cluster of a name, wherever its data lies.
///
/// # Errors
/// If the name is not one, or is not that of the cluster in `data_dir`, or there is no state folder and no `data_dir`.
pub(crate) fn cluster(name: Option<&str>, data_dir: Option<&Path>) -> anyhow::Result<Layout> {
    let asked = name.unwrap_or(DEFAULT_NAME);
    check_name(asked)?;
    if data_dir.is_some() {
        let layout = Layout::new(asked, data_dir)?;
        return match (real_name(&layout), name) {
            (Some(real), Some(asked)) if real != asked => bail!(
                "--name {asked}: {} is the folder of cluster {real:?}: say --name {real}, or another --data-dir",
                layout.root.display()
            ),
            // The folder says who it is.
            (Some(real), None) => Ok(Layout { name: real, ..layout }),
            _ => Ok(layout),
        };
    }
    let noted = std::fs::read_to_string(note(asked)?).ok().map(|text| PathBuf::from(text.trim_end()));
    let noted = noted.filter(|dir| dir.is_absolute()).map(|dir| Layout::new(asked, Some(&dir))).transpose()?;
    // A note that leads to the folder of another cluster is out of date.
    match noted.filter(|layout| real_name(layout).is_none_or(|real| real == asked)) {
        Some(layout) => Ok(layout),
        None => Layout::new(asked, None),
    }
}

/// The name in the folder's own file, if it holds a cluster.
fn real_name(layout: &Layout) -> Option<String> {
    // A damaged file is told by whoever needs what is in it.
    let file = layout.read_cluster_file().ok().flatten()?;
    check_name(&file.name).is_ok().then_some(file.name)
}

/// The kubeconfig of the cluster that a command means.
///
/// # Errors
/// If none is found: the text says what was looked for and how to name one.
pub(crate) fn kubeconfig(name: Option<&str>, data_dir: Option<&Path>) -> anyhow::Result<PathBuf> {
    if name.is_some() || data_dir.is_some() {
        let layout = cluster(name, data_dir)?;
        if layout.kubeconfig().exists() {
            return Ok(layout.kubeconfig());
        }
        let place = layout.root.display();
        match (name, data_dir) {
            (_, Some(_)) => bail!("there is no cluster in {place}: start one with `lw up --data-dir {place}`"),
            (name, None) => {
                let name = name.unwrap_or(DEFAULT_NAME);
                bail!("there is no cluster {name:?} (looked in {place}): start it with `lw up --name {name}`");
            }
        }
    }
    let default = cluster(None, None).ok();
    if let Some(layout) = default.as_ref().filter(|layout| control::is_running(layout)) {
        return Ok(layout.kubeconfig());
    }
    if let Some(path) = std::env::var_os("KUBECONFIG").map(PathBuf::from) {
        if is_ours(&path) {
            return Ok(path);
        }
        bail!(
            "the default cluster is not running, and KUBECONFIG={} was not written by Listwatch: name a cluster with \
             --name, or that file with --kubeconfig",
            path.display()
        );
    }
    bail!("no cluster is running: start one with `lw up`, or name one with --name or --kubeconfig")
}

fn is_ours(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else { return false };
    let Ok(config) = serde_norway::from_str::<Kubeconfig>(&text) else { return false };
    !config.clusters.is_empty() && config.clusters.iter().all(|entry| entry.cluster.is_ours())
}

/// Leaves a note where the cluster's data lies, if that is not the usual place. Without a state folder there is none.
///
/// # Errors
/// If another cluster of that name runs, or the note cannot be written.
pub(crate) fn remember(layout: &Layout) -> anyhow::Result<()> {
    let (Ok(usual), Ok(note)) = (Layout::new(&layout.name, None), note(&layout.name)) else { return Ok(()) };
    let other = cluster(Some(&layout.name), None)?;
    if other.root != layout.root && control::is_running(&other) {
        bail!(
            "cluster {:?} is already running from {}: stop it with `lw down`, or give this one another --name",
            layout.name,
            other.root.display()
        );
    }
    if usual.root == layout.root {
        return match std::fs::remove_file(&note) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).context("forget the cluster's old place"),
            _ => Ok(()),
        };
    }
    std::fs::create_dir_all(note.parent().expect("a note lies in a folder")).context("make the state folder")?;
    replace_file(&note, layout.root.as_os_str().as_encoded_bytes())
}

fn note(name: &str) -> anyhow::Result<PathBuf> {
    Ok(state_home()?.join("clusters").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::layout::ClusterFile;

    #[test]
    fn a_folder_says_whose_it_is() {
        let folder = tempfile::tempdir().expect("folder");
        let place = Some(folder.path());
        assert_eq!(cluster(None, place).expect("a new one").name, DEFAULT_NAME);
        let file = ClusterFile { name: "a".into(), ..ClusterFile::default() };
        Layout::new("a", place).expect("valid").write_cluster_file(&file).expect("written");
        assert_eq!(cluster(None, place).expect("a").name, "a");
        assert_eq!(cluster(Some("a"), place).expect("a").name, "a");
        let error = cluster(Some("b"), place).expect_err("not b").to_string();
        assert!(error.contains("--name b: ") && error.contains("cluster \"a\""), "{error}");
    }

    #[test]
    fn only_a_kubeconfig_with_our_mark_is_ours() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("config");
        for (text, ours) in [
            (
                "clusters: [{name: a, cluster: {server: x, extensions: [{name: cluster_info, extension: {provider: listwatch.dev}}]}}]",
                true,
            ),
            ("clusters: [{name: a, cluster: {server: x}}]", false),
            ("clusters: []", false),
            ("{", false),
        ] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(is_ours(&path), ours, "{text}");
        }
        assert!(!is_ours(&folder.path().join("absent")));
    }
}
