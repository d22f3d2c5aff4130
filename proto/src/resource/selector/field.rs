//! Field selectors.

use std::fmt;

use super::SelectorError;

/// A field selector: `path=value` and `path!=value`, all of which must hold. Which paths a kind offers is the
/// registry's to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    /// Path, value, and whether it must be equal (true) or must not.
    pub terms: Vec<(String, String, bool)>,
}

impl FieldSelector {
    /// Parses the text form; `\,`, `\=` and `\\` stand for themselves in values. Terms come in order of their text.
    ///
    /// # Errors
    /// In apimachinery's words.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut parts = split_unescaped(text, ',');
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (path, value, equal) = term(part)
                .ok_or_else(|| SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")))?;
            // Nothing that must, or must not, be nothing is no condition (apimachinery).
            if !path.is_empty() || !value.is_empty() {
                terms.push((path.to_owned(), unescape(value)?, equal));
            }
        }
        Ok(FieldSelector { terms })
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether the fields, looked up by path, satisfy every term; an absent field reads as empty text.
    pub fn matches(&self, field: impl Fn(&str) -> Option<String>) -> bool {
        self.terms.iter().all(|(path, value, equal)| (field(path).unwrap_or_default() == *value) == *equal)
    }

    /// The value that a path must equal, if the selector pins it.
    pub fn pinned(&self, path: &str) -> Option<&str> {
        self.terms.iter().find(|(p, _, equal)| *equal && p == path).map(|(_, v, _)| v.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (path, value, equal)) in self.terms.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{}{path}{}{value}", if i > 0 { "," } else { "" }, if *equal { "=" } else { "!=" })?;
        }
        Ok(())
    }
}

fn split_unescaped(text: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == separator => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Path, value, and whether they must be equal. A path is taken as it stands, up to the first operator.
fn term(part: &str) -> Option<(&str, &str, bool)> {
    part.char_indices().find_map(|(at, _)| {
        let (path, rest) = part.split_at(at);
        let after = |sign: &str| rest.strip_prefix(sign);
        let equal = || after("==").or_else(|| after("=")).map(|value| (path, value, true));
        after("!=").map(|value| (path, value, false)).or_else(equal)
    })
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let bad = |sequence: String| SelectorError(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(e @ ('\\' | ',' | '=')) => out.push(e),
                Some(other) => return Err(bad(format!("\\{other}"))),
                None => return Err(bad("\\".to_owned())),
            },
            // Go prints the number of the character.
            ',' | '=' => {
                let why = format!("invalid field selector: unescaped character in value: {}", u32::from(c));
                return Err(SelectorError(why));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_selectors_match_and_escape() {
        let selector = FieldSelector::parse("spec.nodeName=,metadata.name!=a\\,b").expect("valid");
        assert!(selector.matches(|path| (path == "metadata.name").then(|| "c".to_owned())));
        assert!(!selector.matches(|path| (path == "metadata.name").then(|| "a,b".to_owned())));
        assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector.clone()));
        assert_eq!(selector.pinned("spec.nodeName"), Some(""));
        // A path may be empty: that it is none of the kind's is for the registry to say.
        assert_eq!(FieldSelector::parse("=b").map(|s| s.terms), Ok(vec![(String::new(), "b".to_owned(), true)]));
        for nothing in ["=", "==", "!=", ",=,"] {
            assert_eq!(FieldSelector::parse(nothing).map(|s| s.is_empty()), Ok(true), "{nothing}");
        }
    }

    #[test]
    fn broken_field_selectors_are_refused_in_upstreams_words() {
        for (text, why) in [
            ("a", "invalid selector: 'a'; can't understand 'a'"),
            ("z=1,a>b", "invalid selector: 'z=1,a>b'; can't understand 'a>b'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            ("a=\\x", "invalid field selector: invalid escape sequence: \\x"),
            ("a=\\", "invalid field selector: invalid escape sequence: \\"),
        ] {
            assert_eq!(FieldSelector::parse(text).map_err(|e| e.0), Err(why.to_owned()), "{text}");
        }
    }
}
