//! The kubeconfig's file, read and replaced as it is: fields that nobody knows stay.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::cluster::replace_file;
use crate::commands::failure::{Failure, with_causes};
use crate::commands::session::SessionArgs;
use crate::commands::yaml::to_yaml;

/// A kubeconfig and where it lies.
#[derive(Debug, Clone)]
pub(super) struct File {
    /// Where it lies.
    pub(super) path: PathBuf,
    /// What it holds: a map.
    pub(super) value: Value,
}

impl File {
    /// Reads the file that the flags mean.
    pub(super) fn read(session: &SessionArgs) -> Result<File, Failure> {
        let path = session.kubeconfig()?;
        let text = std::fs::read(&path).map_err(|error| Failure::plain(format!("read {}: {error}", path.display())))?;
        let value: Value = serde_norway::from_slice(&text)
            .map_err(|error| Failure::plain(format!("error loading config file \"{}\": {error}", path.display())))?;
        if !value.is_object() {
            return Err(Failure::plain(format!("error loading config file \"{}\": it is no map", path.display())));
        }
        Ok(File { path, value })
    }

    /// Replaces the file.
    pub(super) fn write(&self) -> Result<(), Failure> {
        replace_file(&self.path, to_yaml(&self.value).as_bytes())
            .map_err(|error| Failure::plain(with_causes(error.as_ref())))
    }

    /// Name of the context that is used if none is named; empty: none.
    pub(super) fn current(&self) -> &str {
        self.value["current-context"].as_str().unwrap_or_default()
    }

    /// Names one.
    pub(super) fn set_current(&mut self, name: &str) {
        self.value["current-context"] = name.into();
    }

    /// The names in a list of entries (`clusters`, `contexts`, `users`), in order.
    pub(super) fn names(&self, list: &str) -> Vec<String> {
        let entries = self.value[list].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut names: Vec<String> =
            entries.iter().filter_map(|entry| entry["name"].as_str().map(str::to_owned)).collect();
        names.sort();
        names
    }

    /// The context of that name.
    pub(super) fn context(&self, name: &str) -> Option<&Map<String, Value>> {
        entry(&self.value, "contexts", name)?["context"].as_object()
    }

    /// The entry of that name, made if it is not there.
    pub(super) fn context_mut(&mut self, name: &str) -> &mut Value {
        let contexts = self.contexts_mut();
        let at = contexts.iter().position(|entry| entry["name"] == name).unwrap_or_else(|| {
            contexts.push(json!({"name": name, "context": {}}));
            contexts.len() - 1
        });
        let entry = &mut contexts[at];
        if !entry["context"].is_object() {
            entry["context"] = json!({});
        }
        entry
    }

    /// Takes the context of that name out; whether it was there.
    pub(super) fn remove_context(&mut self, name: &str) -> bool {
        let contexts = self.contexts_mut();
        let before = contexts.len();
        contexts.retain(|entry| entry["name"] != name);
        contexts.len() < before
    }

    fn contexts_mut(&mut self) -> &mut Vec<Value> {
        let contexts = &mut self.value["contexts"];
        if !contexts.is_array() {
            *contexts = json!([]);
        }
        contexts.as_array_mut().expect("made a list above")
    }
}

/// The entry of that name in one of a kubeconfig's lists.
pub(super) fn entry<'a>(value: &'a Value, list: &str, name: &str) -> Option<&'a Value> {
    value[list].as_array()?.iter().find(|entry| entry["name"] == name)
}
