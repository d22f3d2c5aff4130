//! Label selectors: match and print; `label_text` parses.

use std::fmt;

use serde_json::{Map, Value, json};

use super::super::Object;
use super::{SelectorError, label_text};
use crate::go_quote::quote;

/// A label selector: all requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) key: String,
    pub(super) test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Test {
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
    /// Parses the text form: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>3`. Requirements come in order of key.
    ///
    /// # Errors
    /// In apimachinery's words.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut requirements = label_text::parse(text)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
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
                other => {
                    return Err(SelectorError(format!("{} is not a valid label selector operator", quote(&other))));
                }
            };
            requirements.push(Requirement { key, test });
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(LabelSelector { requirements })
    }

    /// As a `metav1.LabelSelector`: equalities are `matchLabels`, all else `matchExpressions`.
    ///
    /// # Errors
    /// For a comparison of numbers, which no object can hold. In apimachinery's words.
    pub fn to_json(&self) -> Result<Value, SelectorError> {
        let mut labels = Map::new();
        let mut expressions = Vec::new();
        for Requirement { key, test } in &self.requirements {
            let (operator, values) = match test {
                Test::Equals(value) => {
                    labels.insert(key.clone(), value.as_str().into());
                    continue;
                }
                Test::In(values) => ("In", values.clone()),
                Test::NotIn(values) => ("NotIn", values.clone()),
                Test::NotEquals(value) => ("NotIn", vec![value.clone()]),
                Test::Exists => ("Exists", Vec::new()),
                Test::Absent => ("DoesNotExist", Vec::new()),
                Test::Greater(_) => return Err(unsupported("gt")),
                Test::Less(_) => return Err(unsupported("lt")),
            };
            let mut expression = json!({"key": key, "operator": operator});
            if !values.is_empty() {
                expression["values"] = json!(values);
            }
            expressions.push(expression);
        }
        let mut selector = Map::new();
        if !labels.is_empty() {
            selector.insert("matchLabels".to_owned(), Value::Object(labels));
        }
        if !expressions.is_empty() {
            selector.insert("matchExpressions".to_owned(), Value::Array(expressions));
        }
        Ok(Value::Object(selector))
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

fn unsupported(operator: &str) -> SelectorError {
    SelectorError(format!("{} isn't supported in label selectors", quote(&operator)))
}

impl Requirement {
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
    fn an_object_holds_a_selector_that_reads_back() {
        for text in ["a=b", "a=b,c in (d,e)", "a!=b,!c,d,e notin (f)"] {
            let selector = LabelSelector::parse(text).expect("a selector");
            let held = selector.to_json().expect("held");
            let back = LabelSelector::from_json(&held).expect("read");
            for (key, value) in [("a", "b"), ("a", "x"), ("c", "d"), ("d", "1"), ("e", "f")] {
                let label = |asked: &str| (asked == key).then_some(value);
                assert_eq!(back.matches(label), selector.matches(label), "{text} {key}={value}");
            }
        }
        assert!(LabelSelector::parse("a>3").expect("a selector").to_json().is_err());
    }

    #[test]
    fn a_selector_object_reads_as_its_text() {
        let json = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["1", "2"]}, {"key": "x", "operator": "DoesNotExist"}]});
        assert_eq!(LabelSelector::from_json(&json).map(|s| s.to_string()), Ok("app=web,tier in (1,2),!x".into()));
        assert!(LabelSelector::from_json(&json!({"matchExpressions": [{"key": "a", "operator": "Like"}]})).is_err());
    }
}
