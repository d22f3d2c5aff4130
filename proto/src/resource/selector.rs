//! Label and field selectors: parse, match, print (Kubernetes 1.36).
//!
//! Invariant: an empty selector matches everything; a selector prints to text that parses to the same selector.

use std::fmt;

use serde_json::Value;

use super::Object;

/// Why a selector is refused; the text names the part.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

/// A label selector: all requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(Vec<String>),
    NotIn(Vec<String>),
    Equals(String),
    NotEquals(String),
    Greater(i64),
    Less(i64),
}

impl LabelSelector {
    /// Parses the text form: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>3`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for part in split_outside_parentheses(text) {
            let part = part.trim();
            if part.is_empty() {
                if text.trim().is_empty() {
                    continue;
                }
                return Err(SelectorError(format!("unable to parse requirement: empty part in {text:?}")));
            }
            requirements.push(Requirement::parse(part)?);
        }
        Ok(LabelSelector { requirements })
    }

    /// Reads a `metav1.LabelSelector` (`matchLabels`, `matchExpressions`). Null matches nothing upstream and is the
    /// caller's to decide; here it reads as the empty selector.
    pub fn from_json(selector: &Value) -> Result<Self, SelectorError> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().ok_or_else(|| SelectorError(format!("matchLabels[{key}] must be text")))?;
            requirements.push(Requirement { key: key.clone(), test: Test::Equals(value.to_owned()) });
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            let values: Vec<String> = expression["values"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|v| v.as_str().map(Into::into))
                .collect();
            let test = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Test::In(values),
                "NotIn" => Test::NotIn(values),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::Absent,
                other => return Err(SelectorError(format!("{other:?} is not a valid label selector operator"))),
            };
            requirements.push(Requirement { key, test });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements })
    }

    /// A selector that wants exactly these pairs.
    pub fn of_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let requirements = pairs
            .into_iter()
            .map(|(k, v)| Requirement { key: k.to_owned(), test: Test::Equals(v.to_owned()) })
            .collect();
        LabelSelector { requirements }
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether labels, looked up by key, satisfy every requirement.
    pub fn matches<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|r| r.matches(label(&r.key)))
    }

    /// Whether an object's labels satisfy every requirement.
    pub fn matches_object(&self, object: &Object) -> bool {
        self.matches(|key| object.label(key))
    }
}

impl Requirement {
    fn parse(part: &str) -> Result<Self, SelectorError> {
        let fault = |why: &str| SelectorError(format!("unable to parse requirement: {why}: {part:?}"));
        if let Some(key) = part.strip_prefix('!') {
            return Ok(Requirement { key: label_key(key.trim(), part)?, test: Test::Absent });
        }
        for (sign, not) in [("!=", true), ("==", false), ("=", false)] {
            if let Some((key, value)) = part.split_once(sign) {
                let value = label_value(value.trim(), part)?;
                let test = if not { Test::NotEquals(value) } else { Test::Equals(value) };
                return Ok(Requirement { key: label_key(key.trim(), part)?, test });
            }
        }
        for (sign, greater) in [('>', true), ('<', false)] {
            if let Some((key, value)) = part.split_once(sign) {
                let number = value
                    .trim()
                    .parse()
                    .map_err(|_| fault("for 'Gt', 'Lt' operators, the value must be an integer"))?;
                let test = if greater { Test::Greater(number) } else { Test::Less(number) };
                return Ok(Requirement { key: label_key(key.trim(), part)?, test });
            }
        }
        let mut words = part.splitn(2, char::is_whitespace);
        let key = label_key(words.next().unwrap_or_default(), part)?;
        let Some(rest) = words.next() else { return Ok(Requirement { key, test: Test::Exists }) };
        let rest = rest.trim();
        let (set, not) = match (rest.strip_prefix("notin"), rest.strip_prefix("in")) {
            (Some(set), _) => (set, true),
            (None, Some(set)) => (set, false),
            (None, None) => return Err(fault("expected one of: '=', '!=', '==', 'in', 'notin', '>', '<'")),
        };
        let inner =
            set.trim().strip_prefix('(').and_then(|s| s.strip_suffix(')')).ok_or_else(|| fault("expected '(…)'"))?;
        let values = inner.split(',').map(|v| label_value(v.trim(), part)).collect::<Result<Vec<_>, _>>()?;
        Ok(Requirement { key, test: if not { Test::NotIn(values) } else { Test::In(values) } })
    }

    fn matches(&self, value: Option<&str>) -> bool {
        match (&self.test, value) {
            (Test::Exists, v) => v.is_some(),
            (Test::Absent, v) => v.is_none(),
            (Test::In(set), Some(v)) => set.iter().any(|s| s == v),
            (Test::Equals(want), Some(v)) => want == v,
            (Test::NotIn(set), Some(v)) => !set.iter().any(|s| s == v),
            (Test::NotEquals(other), Some(v)) => other != v,
            (Test::NotIn(_) | Test::NotEquals(_), None) => true,
            (Test::Greater(than), Some(v)) => v.parse::<i64>().is_ok_and(|n| n > *than),
            (Test::Less(than), Some(v)) => v.parse::<i64>().is_ok_and(|n| n < *than),
            (Test::In(_) | Test::Equals(_) | Test::Greater(_) | Test::Less(_), None) => false,
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::Exists => write!(f, "{key}"),
                Test::Absent => write!(f, "!{key}"),
                Test::In(set) => write!(f, "{key} in ({})", set.join(",")),
                Test::NotIn(set) => write!(f, "{key} notin ({})", set.join(",")),
                Test::Equals(value) => write!(f, "{key}={value}"),
                Test::NotEquals(value) => write!(f, "{key}!={value}"),
                Test::Greater(number) => write!(f, "{key}>{number}"),
                Test::Less(number) => write!(f, "{key}<{number}"),
            }?;
        }
        Ok(())
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (i, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn label_key(key: &str, part: &str) -> Result<String, SelectorError> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(p, n)| (Some(p), n));
    let name_ok = !name.is_empty() && name.len() <= 63 && name.bytes().all(is_label_byte);
    let prefix_ok = prefix.is_none_or(|p| {
        !p.is_empty() && p.len() <= 253 && p.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
    });
    if name_ok && prefix_ok {
        Ok(key.to_owned())
    } else {
        Err(SelectorError(format!("unable to parse requirement: {key:?} is not a label key: {part:?}")))
    }
}

fn label_value(value: &str, part: &str) -> Result<String, SelectorError> {
    if value.len() <= 63 && value.bytes().all(is_label_byte) {
        Ok(value.to_owned())
    } else {
        Err(SelectorError(format!("unable to parse requirement: {value:?} is not a label value: {part:?}")))
    }
}

fn is_label_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')
}

/// A field selector: `path=value` and `path!=value`, all of which must hold. Which paths a kind offers is the
/// registry's to say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FieldSelector {
    /// Path, value, and whether it must be equal (true) or must not.
    pub terms: Vec<(String, String, bool)>,
}

impl FieldSelector {
    /// Parses the text form; `\,`, `\=` and `\\` stand for themselves in values.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_unescaped(text, ',') {
            if part.is_empty() {
                continue;
            }
            let at = part
                .find('=')
                .filter(|i| *i > 0)
                .ok_or_else(|| SelectorError(format!("invalid field selector: {text:?}; can't understand {part:?}")))?;
            let (path, value) = part.split_at(at);
            let (path, equal) = path.strip_suffix('!').map_or((path, true), |p| (p, false));
            let value = value[1..].strip_prefix('=').unwrap_or(&value[1..]);
            terms.push((path.trim().to_owned(), unescape(value, text)?, equal));
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

fn unescape(value: &str, whole: &str) -> Result<String, SelectorError> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(e @ ('\\' | ',' | '=')) => out.push(e),
                _ => return Err(SelectorError(format!("invalid field selector: {whole:?}; bad escape"))),
            },
            ',' | '=' => return Err(SelectorError(format!("invalid field selector: {whole:?}; unescaped {c:?}"))),
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(selector: &str, labels: &[(&str, &'static str)], expected: bool) {
        let parsed = LabelSelector::parse(selector).expect(selector);
        let found = |key: &str| labels.iter().find(|l| l.0 == key).map(|l| l.1);
        assert_eq!(parsed.matches(found), expected, "{selector} on {labels:?}");
        assert_eq!(LabelSelector::parse(&parsed.to_string()), Ok(parsed), "{selector} prints what it parses");
    }

    #[test]
    fn label_selectors_match_as_kubernetes_does() {
        let web = &[("app", "web"), ("tier", "3")];
        check("", web, true);
        check("app=web", web, true);
        check("app==web, tier=3", web, true);
        check("app!=web", web, false);
        check("color!=red", web, true);
        check("app in (db, web)", web, true);
        check("app notin (db,web)", web, false);
        check("color notin (red)", web, true);
        check("app", web, true);
        check("!app", web, false);
        check("!color", web, true);
        check("tier>2", web, true);
        check("tier<2", web, false);
        check("app=", web, false);
    }

    #[test]
    fn broken_label_selectors_are_refused() {
        for text in ["a=b=c", "=b", ",", "a in b", "a in (b", "a is (b)", "a>x", "a=b,", "-/=x", "a b"] {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_selector_object_reads_as_its_text() {
        let json = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["1", "2"]}, {"key": "x", "operator": "DoesNotExist"}]});
        assert_eq!(LabelSelector::from_json(&json).map(|s| s.to_string()), Ok("app=web,tier in (1,2),!x".into()));
        assert!(LabelSelector::from_json(&json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})).is_err());
    }

    #[test]
    fn field_selectors_match_and_escape() {
        let selector = FieldSelector::parse("spec.nodeName=,metadata.name!=a\\,b").expect("valid");
        assert!(selector.matches(|path| (path == "metadata.name").then(|| "c".to_owned())));
        assert!(!selector.matches(|path| (path == "metadata.name").then(|| "a,b".to_owned())));
        assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector.clone()));
        assert_eq!(selector.pinned("spec.nodeName"), Some(""));
        for text in ["a", "=b", "a=b=c", "a=\\x"] {
            assert!(FieldSelector::parse(text).is_err(), "{text}");
        }
    }
}
