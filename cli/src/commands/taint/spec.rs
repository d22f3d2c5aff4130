//! What the words of `lw taint` ask for: `key=value:Effect`, `key:Effect`, and with `-` behind it to remove.

use crate::commands::failure::Failure;
use crate::commands::names::{label_value_fault, qualified_name_faults};
use crate::usage::see;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// A taint as it is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taint {
    pub(super) key: String,
    pub(super) value: String,
    /// Empty, when it is to be removed: any.
    pub(super) effect: String,
}

/// Taints to set and taints to remove.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Spec {
    pub(super) set: Vec<Taint>,
    pub(super) remove: Vec<Taint>,
}

impl Spec {
    /// Whether a word is a taint and no object.
    pub(super) fn is_change(word: &str) -> bool {
        word.contains('=') || word.contains(':') || word.ends_with('-')
    }

    /// Reads the words.
    ///
    /// # Errors
    /// kubectl's words for what is no taint.
    pub(super) fn parse(words: &[String]) -> Result<Spec, Failure> {
        let usage = |problem: String| Failure::usage(format!("{problem}\n{}", see("taint")));
        let mut spec = Spec::default();
        for word in words {
            if let Some(word) = word.strip_suffix('-') {
                let taint = parse(word).map_err(usage)?;
                spec.remove.push(Taint { value: String::new(), ..taint });
                continue;
            }
            let taint = parse(word).map_err(usage)?;
            if taint.effect.is_empty() {
                return Err(usage(format!("invalid taint spec: {word}")));
            }
            if spec.set.iter().any(|other| other.key == taint.key && other.effect == taint.effect) {
                let Taint { key, value, effect } = &taint;
                return Err(usage(format!(
                    "duplicated taints with the same key and effect: {{{key} {value} {effect} <nil>}}"
                )));
            }
            spec.set.push(taint);
        }
        let mut both = Vec::new();
        for set in &spec.set {
            let same = |r: &&Taint| r.key == set.key && (r.effect.is_empty() || r.effect == set.effect);
            both.extend(spec.remove.iter().filter(same).map(|r| format!("{}={}", r.key, r.effect)));
        }
        if both.is_empty() {
            return Ok(spec);
        }
        Err(Failure::usage(format!(
            "can not both modify and remove the following taint(s) in the same command: {}",
            both.join(", ")
        )))
    }

    /// Whether there is nothing to change.
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }
}

impl std::fmt::Display for Taint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.key)?;
        if !self.value.is_empty() {
            write!(f, "={}", self.value)?;
        }
        if !self.effect.is_empty() {
            write!(f, ":{}", self.effect)?;
        }
        Ok(())
    }
}

fn parse(word: &str) -> Result<Taint, String> {
    let parts: Vec<&str> = word.split(':').collect();
    let (key, value, effect) = match parts[..] {
        [key] => (key, "", ""),
        [pair, effect] => {
            if !EFFECTS.contains(&effect) {
                return Err(format!("invalid taint effect: {effect}, unsupported taint effect"));
            }
            match pair.split('=').collect::<Vec<_>>()[..] {
                [key] => (key, "", effect),
                [key, value] => (key, value, effect),
                _ => return Err(format!("invalid taint spec: {word}")),
            }
        }
        _ => return Err(format!("invalid taint spec: {word}")),
    };
    if let Some(fault) = label_value_fault(value) {
        return Err(format!("invalid taint spec: {word}, {fault}"));
    }
    let faults = qualified_name_faults(key);
    if !faults.is_empty() {
        return Err(format!("invalid taint spec: {word}, {}", faults.join("; ")));
    }
    Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the recorded session taints (kubectl 1.36.3).
    #[test]
    fn what_is_no_taint_is_told_in_kubectls_words() {
        const NAME: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                            with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                            for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        for (words, problem) in [
            (
                "fly=1:NoSchedule|fly=2:NoSchedule",
                "duplicated taints with the same key and effect: {fly 2 NoSchedule <nil>}",
            ),
            ("fly=1:Sometimes", "invalid taint effect: Sometimes, unsupported taint effect"),
            ("fly=1", &format!("invalid taint spec: fly=1, {NAME}")),
            ("=x:NoSchedule", &format!("invalid taint spec: =x:NoSchedule, name part must be non-empty; {NAME}")),
            ("f y=1:NoSchedule", &format!("invalid taint spec: f y=1:NoSchedule, {NAME}")),
            ("a:b:NoSchedule", "invalid taint spec: a:b:NoSchedule"),
        ] {
            let words: Vec<_> = words.split('|').map(str::to_owned).collect();
            let text = Spec::parse(&words).expect_err("refused").text();
            assert_eq!(text, format!("error: {problem}\n{}", see("taint")));
        }
        let both = ["fly=3:NoSchedule".to_owned(), "fly:NoSchedule-".to_owned()];
        assert_eq!(
            Spec::parse(&both).expect_err("refused").text(),
            "error: can not both modify and remove the following taint(s) in the same command: fly=NoSchedule"
        );
    }
}
