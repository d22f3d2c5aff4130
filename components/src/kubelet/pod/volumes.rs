//! What a pod's volumes hold and where its containers see them (Kubernetes 1.36). Pure.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use k8s_openapi::{
    ByteString,
    api::core::v1::{ConfigMap, DownwardAPIVolumeFile, KeyToPath, PodSpec, Volume},
};
use listwatch_proto::go_quote::quote;

use super::facts::{FactError, Facts, token_ask};

/// Mode of a file when nothing says otherwise.
const MODE_DEFAULT: i32 = 0o644;

/// The files of a volume, by path in it.
pub type Files = BTreeMap<String, FileContent>;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    /// What it holds.
    pub bytes: Vec<u8>,
    /// Its permissions.
    pub mode: u32,
}

/// What a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Files that the kubelet writes and keeps up to date.
    Files(Files),
    /// A directory that begins empty and lives as long as the pod.
    Empty,
    /// A path of the machine; the kind is that of `hostPath.type`.
    Host(PathBuf, String),
}

impl Content {
    /// Containers may not write to it.
    pub fn is_read_only(volume: &Volume) -> bool {
        volume.config_map.is_some() || volume.downward_api.is_some() || volume.projected.is_some()
    }
}

/// What the volume holds now.
pub fn content(facts: &Facts<'_>, volume: &Volume) -> Result<Content, FactError> {
    if let Some(source) = &volume.empty_dir {
        return match source.medium.as_deref().unwrap_or_default() {
            "" => Ok(Content::Empty),
            medium => Err(FactError::Failed(format!("emptyDir.medium {medium} is not supported"))),
        };
    }
    if let Some(source) = &volume.host_path {
        return Ok(Content::Host(PathBuf::from(&source.path), source.type_.clone().unwrap_or_default()));
    }
    let mut files = Files::new();
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(MODE_DEFAULT);
        let items = source.items.as_deref().unwrap_or_default();
        config_map(facts, &source.name, items, source.optional == Some(true), mode, &mut files)?;
    } else if let Some(source) = &volume.downward_api {
        let mode = source.default_mode.unwrap_or(MODE_DEFAULT);
        downward(facts, source.items.as_deref().unwrap_or_default(), mode, &mut files)?;
    } else if let Some(projected) = &volume.projected {
        let mode = projected.default_mode.unwrap_or(MODE_DEFAULT);
        for source in projected.sources.iter().flatten() {
            if let Some(source) = &source.config_map {
                let items = source.items.as_deref().unwrap_or_default();
                config_map(facts, &source.name, items, source.optional == Some(true), mode, &mut files)?;
            } else if let Some(source) = &source.downward_api {
                downward(facts, source.items.as_deref().unwrap_or_default(), mode, &mut files)?;
            } else if let Some(source) = &source.service_account_token {
                let token = facts.token(&token_ask(source))?;
                put(&mut files, &source.path, token.into_bytes(), mode)?;
            } else {
                let kind = kind_of(source);
                return Err(FactError::Failed(format!("projected source {kind} is not supported")));
            }
        }
    } else {
        return Err(FactError::Failed(format!("volume source {} is not supported", kind_of(volume))));
    }
    Ok(Content::Files(files))
}

fn config_map(
    facts: &Facts<'_>,
    name: &str,
    items: &[KeyToPath],
    optional: bool,
    mode: i32,
    files: &mut Files,
) -> Result<(), FactError> {
    let Some(map) = facts.config_map(name, optional)? else { return Ok(()) };
    if items.is_empty() {
        let text = map.data.iter().flatten().map(|(key, text)| (key, text.clone().into_bytes()));
        let binary = map.binary_data.iter().flatten().map(|(key, ByteString(bytes))| (key, bytes.clone()));
        for (key, bytes) in text.chain(binary) {
            put(files, key, bytes, mode)?;
        }
        return Ok(());
    }
    for item in items {
        match value(&map, &item.key) {
            Some(bytes) => put(files, &item.path, bytes, item.mode.unwrap_or(mode))?,
            None if optional => {}
            None => {
                return Err(FactError::Failed(format!("configmap references non-existent config key: {}", item.key)));
            }
        }
    }
    Ok(())
}

fn value(map: &ConfigMap, key: &str) -> Option<Vec<u8>> {
    let text = map.data.as_ref().and_then(|data| data.get(key)).map(|text| text.clone().into_bytes());
    text.or_else(|| map.binary_data.as_ref().and_then(|data| data.get(key)).map(|ByteString(bytes)| bytes.clone()))
}

fn downward(facts: &Facts<'_>, items: &[DownwardAPIVolumeFile], mode: i32, files: &mut Files) -> Result<(), FactError> {
    for item in items {
        let text = match (&item.field_ref, &item.resource_field_ref) {
            (Some(field), _) => facts.field(&field.field_path, true)?,
            (None, Some(selector)) => facts.resource(selector, None)?,
            (None, None) => return Err(FactError::Failed(format!("{} has no source", item.path))),
        };
        put(files, &item.path, text.into_bytes(), item.mode.unwrap_or(mode))?;
    }
    Ok(())
}

/// Paths come from users: none may lead out of the volume, or to the names that updates need.
fn put(files: &mut Files, path: &str, bytes: Vec<u8>, mode: i32) -> Result<(), FactError> {
    let inside = !path.is_empty()
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
        && !path.starts_with("..");
    if !inside {
        return Err(FactError::Failed(format!("invalid path {}", quote(&path))));
    }
    let mode = u32::try_from(mode).unwrap_or(0o644) & 0o777;
    files.insert(path.to_owned(), FileContent { bytes, mode });
    Ok(())
}

/// The name of the source that is set, for messages.
fn kind_of<T: serde::Serialize>(volume: &T) -> String {
    let json = serde_json::to_value(volume).unwrap_or_default();
    let kind = json.as_object().and_then(|fields| fields.keys().find(|key| *key != "name").cloned());
    kind.unwrap_or_else(|| "none".to_owned())
}

/// A volume that a container sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The volume's name.
    pub volume: &'a str,
    /// The part of it that is seen; empty: all.
    pub part: String,
    /// Where.
    pub target: &'a str,
    /// The container may not change it.
    pub read_only: bool,
}

/// The volumes that a container sees, with `subPathExpr` expanded from its environment.
pub fn seen<'a>(
    spec: &'a PodSpec,
    container: &'a k8s_openapi::api::core::v1::Container,
    env: &[(String, String)],
) -> Result<Vec<Seen<'a>>, FactError> {
    let mut list = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = spec.volumes.iter().flatten().find(|volume| volume.name == mount.name);
        let volume =
            volume.ok_or_else(|| FactError::Failed(format!("volume {} is not in the pod", quote(&mount.name))))?;
        let part = match &mount.sub_path_expr {
            Some(expression) if !expression.is_empty() => {
                let known = env.iter().cloned().collect();
                let part = super::env::expand(expression, &known);
                if part.contains("$(") {
                    return Err(FactError::Failed(format!("missing value for {}", quote(&expression))));
                }
                part
            }
            _ => mount.sub_path.clone().unwrap_or_default(),
        };
        if Path::new(&part).components().any(|step| !matches!(step, Component::Normal(_))) {
            return Err(FactError::Failed(format!("invalid subPath {}", quote(&part))));
        }
        let read_only = mount.read_only == Some(true) || Content::is_read_only(volume);
        list.push(Seen { volume: &volume.name, part, target: &mount.mount_path, read_only });
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::{super::facts::tests::with, *};
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::{Value, json};

    /// `path=text@mode` of each file, or the error.
    fn made(volume: Value) -> Result<Vec<String>, String> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
        }))
        .expect("a pod");
        let volume = serde_json::from_value(volume).expect("a volume");
        match with(&pod, |facts| content(&facts, &volume)).map_err(|error| error.to_string())? {
            Content::Files(files) => Ok(files
                .into_iter()
                .map(|(path, file)| format!("{path}={}@{:o}", String::from_utf8_lossy(&file.bytes), file.mode))
                .collect()),
            other => Ok(vec![format!("{other:?}")]),
        }
    }

    #[test]
    fn config_maps_are_files() {
        let all = made(json!({"name": "v", "configMap": {"name": "map"}})).expect("made");
        assert_eq!(all, ["color=blue@644", "logo=\u{1}\u{2}@644", "size=big@644"]);
        let some = made(json!({"name": "v", "configMap": {"name": "map", "defaultMode": 0o400, "items": [
            {"key": "color", "path": "a/b"}, {"key": "size", "path": "s", "mode": 0o755},
        ]}}));
        assert_eq!(some.expect("made"), ["a/b=blue@400", "s=big@755"]);
        let missing = json!({"name": "v", "configMap": {"name": "map", "items": [{"key": "k", "path": "p"}]}});
        assert_eq!(made(missing), Err("configmap references non-existent config key: k".into()));
        assert_eq!(
            made(json!({"name": "v", "configMap": {"name": "gone"}})),
            Err("configmap \"gone\" not found".into())
        );
        assert_eq!(made(json!({"name": "v", "configMap": {"name": "gone", "optional": true}})), Ok(vec![]));
        let out = json!({"name": "v", "configMap": {"name": "map", "items": [{"key": "size", "path": "../../x"}]}});
        assert_eq!(made(out), Err("invalid path \"../../x\"".into()));
    }

    #[test]
    fn several_sources_make_one_volume() {
        let files = made(json!({"name": "v", "projected": {"defaultMode": 0o600, "sources": [
            {"configMap": {"name": "map", "items": [{"key": "size", "path": "size"}]}},
            {"downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}, "mode": 0o644},
            ]}},
        ]}}));
        assert_eq!(files.expect("made"), ["cpu=2@644", "labels=app=\"x\"@600", "size=big@600"]);
        let token = |audience: &str| {
            made(json!({"name": "v", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "audience": audience, "expirationSeconds": 3607}},
            ]}}))
        };
        assert_eq!(token("vault"), Ok(vec!["token=token for \"vault\"@644".to_owned()]));
        assert_eq!(token("refused"), Err("failed to fetch token: no".into()));
        assert!(token("later").expect_err("asked for").contains("not seen"));
        let secret = json!({"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}});
        assert_eq!(made(secret), Err("projected source secret is not supported".into()));
    }

    #[test]
    fn what_cannot_be_given_is_named() {
        assert_eq!(
            made(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})),
            Err("volume source persistentVolumeClaim is not supported".into())
        );
        assert_eq!(
            made(json!({"name": "v", "emptyDir": {"medium": "Memory"}})),
            Err("emptyDir.medium Memory is not supported".into())
        );
        assert_eq!(made(json!({"name": "v", "emptyDir": {}})), Ok(vec!["Empty".into()]));
    }

    #[test]
    fn a_container_sees_what_it_mounts() {
        let spec: PodSpec = serde_json::from_value(json!({
            "containers": [{"name": "c", "volumeMounts": [
                {"name": "cm", "mountPath": "/etc/app"},
                {"name": "data", "mountPath": "/data", "subPathExpr": "$(POD)/logs"},
                {"name": "data", "mountPath": "/all", "readOnly": true},
            ]}],
            "volumes": [{"name": "cm", "configMap": {"name": "map"}}, {"name": "data", "emptyDir": {}}],
        }))
        .expect("a spec");
        let list = seen(&spec, &spec.containers[0], &[("POD".to_owned(), "web".to_owned())]).expect("seen");
        let text: Vec<_> =
            list.iter().map(|s| format!("{} {:?} {} {}", s.volume, s.part, s.target, s.read_only)).collect();
        assert_eq!(text, ["cm \"\" /etc/app true", "data \"web/logs\" /data false", "data \"\" /all true"]);
        assert!(seen(&spec, &spec.containers[0], &[]).is_err(), "a name that is not there");
    }
}
