//! What ConfigMaps and Secrets hold: keys from literals, files, folders and lists of variables.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Map, Value, json};

use crate::commands::failure::Failure;

/// Flags that say where keys come from.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    /// A key with its value: key=value
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<String>,
    /// A file whose name is the key, or key=file, or a folder whose files are keys
    #[arg(long, value_name = "[KEY=]FILE", value_delimiter = ',')]
    from_file: Vec<String>,
    /// A file of lines key=value
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    from_env_file: Vec<String>,
    /// Put a hash of what the object holds behind its name
    #[arg(long)]
    append_hash: bool,
}

/// What holds the keys; its words for a key that is none or comes twice differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    ConfigMap,
    Secret,
}

/// What an object holds.
#[derive(Debug)]
pub(super) struct Content {
    holder: Holder,
    name: String,
    data: Map<String, Value>,
    binary: Map<String, Value>,
}

impl SourceArgs {
    /// Reads all sources.
    ///
    /// # Errors
    /// If a file cannot be read, or a key is none or comes twice.
    pub(super) fn read(&self, holder: Holder, name: &str) -> Result<Content, Failure> {
        let has_others = !self.from_file.is_empty() || !self.from_literal.is_empty();
        if has_others && !self.from_env_file.is_empty() {
            return Err(Failure::usage("from-env-file cannot be combined with from-file or from-literal"));
        }
        let mut content = Content { holder, name: name.to_owned(), data: Map::new(), binary: Map::new() };
        for source in &self.from_file {
            content.add_source(source)?;
        }
        for literal in &self.from_literal {
            let pair = literal.split_once('=').filter(|(key, _)| !key.is_empty());
            let (key, value) =
                pair.ok_or_else(|| Failure::usage(format!("invalid literal source {literal}, expected key=value")))?;
            content.add(key, value.as_bytes())?;
        }
        for path in &self.from_env_file {
            content.add_variables(path)?;
        }
        Ok(content)
    }

    /// The object with what it holds, under its own name or with a hash behind that.
    pub(super) fn fill(&self, content: Content, mut object: Value) -> Value {
        if self.append_hash {
            object["metadata"]["name"] = format!("{}-{}", content.name, content.hash(&object["type"])).into();
        }
        for (field, map) in [("data", content.data), ("binaryData", content.binary)] {
            if !map.is_empty() {
                object[field] = Value::Object(map);
            }
        }
        object
    }
}

impl Content {
    fn add_source(&mut self, source: &str) -> Result<(), Failure> {
        let (key, path) = source.split_once('=').map_or((None, source), |(key, path)| (Some(key), path));
        let unreadable = |error: std::io::Error| Failure::plain(format!("error reading {path}: {}", in_go(&error)));
        let facts = fs::metadata(path).map_err(unreadable)?;
        if !facts.is_dir() {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            return self.add(key.unwrap_or(&name), &fs::read(path).map_err(unreadable)?);
        }
        if key.is_some() {
            return Err(Failure::usage("cannot give a key name for a directory path"));
        }
        let mut files: Vec<_> = fs::read_dir(path)
            .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
            .map_err(unreadable)?;
        files.sort();
        for file in files.iter().filter(|file| file.is_file()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            self.add(&name, &fs::read(file).map_err(unreadable)?)?;
        }
        Ok(())
    }

    /// Lines of a file of variables: empty ones and comments are none, a name alone takes the value it has here.
    fn add_variables(&mut self, path: &str) -> Result<(), Failure> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::plain(format!("error reading {path}: {}", in_go(&error))))?;
        for line in text.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once('=') {
                Some((key, value)) => self.add(key, value.as_bytes())?,
                None => self.add(line, std::env::var(line).unwrap_or_default().as_bytes())?,
            }
        }
        Ok(())
    }

    fn add(&mut self, key: &str, value: &[u8]) -> Result<(), Failure> {
        let fits = !key.is_empty() && key.len() <= 253 && key != "." && !key.starts_with("..");
        if !fits || !key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)) {
            const RULE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
                                'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
                                '[-._a-zA-Z0-9]+')";
            return Err(Failure::usage(match self.holder {
                Holder::ConfigMap => format!("\"{key}\" is not a valid key name for a ConfigMap: {RULE}"),
                Holder::Secret => format!("\"{key}\" is not valid key name for a Secret {RULE}"),
            }));
        }
        if self.data.contains_key(key) || self.binary.contains_key(key) {
            return Err(Failure::usage(match self.holder {
                Holder::ConfigMap => format!(
                    "cannot add key \"{key}\", another key by that name already exists in Data for ConfigMap \"{}\"",
                    self.name
                ),
                Holder::Secret => format!("cannot add key {key}, another key by that name already exists"),
            }));
        }
        match std::str::from_utf8(value) {
            Ok(text) if self.holder == Holder::ConfigMap => self.data.insert(key.to_owned(), text.into()),
            _ if self.holder == Holder::ConfigMap => self.binary.insert(key.to_owned(), STANDARD.encode(value).into()),
            _ => self.data.insert(key.to_owned(), STANDARD.encode(value).into()),
        };
        Ok(())
    }

    /// The hash that kubectl puts behind a name: of the kind, the name and what is held, ten letters that spell no words.
    fn hash(&self, secret_type: &Value) -> String {
        let mut whole = json!({"kind": "ConfigMap", "name": self.name, "data": self.data});
        match self.holder {
            Holder::ConfigMap if !self.binary.is_empty() => whole["binaryData"] = Value::Object(self.binary.clone()),
            Holder::ConfigMap => {}
            Holder::Secret => {
                whole["kind"] = "Secret".into();
                whole["type"] = secret_type.as_str().unwrap_or_default().into();
            }
        }
        let text = crate::commands::output::with_go_escapes(&whole.to_string());
        let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
        let letter = |digit: u8| match digit {
            0 => 'g',
            1 => 'h',
            3 => 'k',
            0xa => 'm',
            0xe => 't',
            other => char::from_digit(u32::from(other), 16).expect("half a byte is a digit"),
        };
        digest.as_ref().iter().take(5).flat_map(|byte| [letter(byte >> 4), letter(byte & 0xf)]).collect()
    }
}

/// The reason alone, in lower case, as Go tells it.
pub(super) fn in_go(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(holder: Holder, name: &str) -> Content {
        Content { holder, name: name.into(), data: Map::new(), binary: Map::new() }
    }

    #[test]
    fn keys_come_from_files_literals_and_variables() {
        let folder = tempfile::tempdir().expect("folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        fs::create_dir(path("conf")).expect("folder");
        fs::write(path("f1.txt"), "line one\n").expect("written");
        fs::write(path("conf/a.properties"), "x=1\n").expect("written");
        fs::write(path("raw"), [0_u8, 1, 2, 255]).expect("written");
        fs::write(path("env"), "# comment\nA=1\n\nB=two words\n").expect("written");
        let mut content = empty(Holder::ConfigMap, "c");
        content.add_source(&path("f1.txt")).expect("added");
        content.add_source(&format!("renamed={}", path("f1.txt"))).expect("added");
        content.add_source(&path("conf")).expect("added");
        content.add_source(&path("raw")).expect("added");
        content.add_variables(&path("env")).expect("added");
        let expected = json!({"A": "1", "B": "two words", "a.properties": "x=1\n", "f1.txt": "line one\n", "renamed": "line one\n"});
        assert_eq!(Value::Object(content.data), expected);
        assert_eq!(Value::Object(content.binary), json!({"raw": "AAEC/w=="}));
        let mut secret = empty(Holder::Secret, "s");
        secret.add_source(&path("f1.txt")).expect("added");
        assert_eq!(Value::Object(secret.data), json!({"f1.txt": "bGluZSBvbmUK"}));
    }

    #[test]
    fn faults_are_told_in_kubectls_words() {
        let mut content = empty(Holder::ConfigMap, "c4");
        content.add("k", b"1").expect("added");
        let twice = content.add("k", b"2").expect_err("refused").text();
        let expected = "cannot add key \"k\", another key by that name already exists in Data for ConfigMap \"c4\"";
        assert_eq!(twice, format!("error: {expected}"));
        let bad = content.add("bad key", b"1").expect_err("refused").text();
        assert!(bad.starts_with("error: \"bad key\" is not a valid key name for a ConfigMap: "), "{bad}");
        let missing = content.add_source("nofile").expect_err("refused").text();
        assert_eq!(missing, "error: error reading nofile: no such file or directory");
    }

    /// As kubectl's own tests have them.
    #[test]
    fn hashes_are_kubectls() {
        assert_eq!(empty(Holder::ConfigMap, "").hash(&Value::Null), "42745tchd9");
        let mut one = empty(Holder::ConfigMap, "");
        one.add("one", b"").expect("added");
        assert_eq!(one.hash(&Value::Null), "9g67k2htb6");
        assert_eq!(empty(Holder::Secret, "").hash(&json!("my-type")), "t75bgf6ctb");
    }
}
