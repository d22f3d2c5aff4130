//! JSON paths, as far as definitions use them: fields, indices, all items, and items of which a field has a value
//! (client-go `jsonpath`).

use serde_json::Value;

/// A path, read.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct JsonPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    /// Negative ones count from the end.
    Index(i64),
    All,
    /// `[?(@.type=="Ready")]`
    Where {
        path: JsonPath,
        operator: Operator,
        value: Value,
    },
    /// `..name`
    Anywhere(String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operator {
    Exists,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`; `None` for one that is not served.
    pub(in super::super) fn read(text: &str) -> Option<JsonPath> {
        let mut steps = Vec::new();
        let mut rest = text.strip_prefix('@').or(text.strip_prefix('$')).unwrap_or(text);
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix("..") {
                let (name, tail) = field(tail)?;
                steps.push(Step::Anywhere(name));
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix(".[") {
                let (step, tail) = bracket(tail)?;
                steps.push(step);
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix('[') {
                let (step, tail) = bracket(tail)?;
                steps.push(step);
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix('.') {
                if tail.is_empty() {
                    break;
                }
                let (name, tail) = field(tail)?;
                steps.push(if name == "*" { Step::All } else { Step::Field(name) });
                rest = tail;
            } else {
                return None;
            }
        }
        Some(JsonPath(steps))
    }

    /// All values that the path leads to.
    pub(in super::super) fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        let mut found = vec![value];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.from(value)).collect();
        }
        found
    }
}

/// A name up to the next step; a backslash takes the meaning of what follows it away.
fn field(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            '.' | '[' => return Some((name, &text[at..])).filter(|(name, _)| !name.is_empty()),
            c => name.push(c),
        }
    }
    Some((name, "")).filter(|(name, _)| !name.is_empty())
}

/// What stands between brackets, and what follows them.
fn bracket(text: &str) -> Option<(Step, &str)> {
    if let Some(inside) = text.strip_prefix("?(") {
        let (condition, rest) = inside.split_once(")]")?;
        return Some((condition_of(condition.trim())?, rest));
    }
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'));
    if let Some(quote) = quote {
        let (name, rest) = text[1..].split_once(quote)?;
        return Some((Step::Field(name.replace("\\.", ".")), rest.strip_prefix(']')?));
    }
    let (inside, rest) = text.split_once(']')?;
    let step = match inside.trim() {
        "*" => Step::All,
        number => Step::Index(number.parse().ok()?),
    };
    Some((step, rest))
}

fn condition_of(text: &str) -> Option<Step> {
    const OPERATORS: [(&str, Operator); 6] = [
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    let split = OPERATORS.iter().find_map(|(sign, operator)| text.split_once(sign).map(|parts| (parts, *operator)));
    let Some(((left, right), operator)) = split else {
        return Some(Step::Where { path: JsonPath::read(text)?, operator: Operator::Exists, value: Value::Null });
    };
    let right = right.trim();
    let quoted = |quote: char| right.strip_prefix(quote).and_then(|right| right.strip_suffix(quote));
    let value = match quoted('"').or(quoted('\'')) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right).ok()?,
    };
    Some(Step::Where { path: JsonPath::read(left.trim())?, operator, value })
}

impl Step {
    fn from<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match (self, value) {
            (Step::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Step::All, Value::Object(fields)) => fields.values().collect(),
            (Step::All, Value::Array(items)) => items.iter().collect(),
            (Step::Index(at), Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let at = if *at < 0 { at + length } else { *at };
                usize::try_from(at).ok().and_then(|at| items.get(at)).into_iter().collect()
            }
            (Step::Where { path, operator, value: wanted }, Value::Array(items)) => items
                .iter()
                .filter(|item| match operator {
                    Operator::Exists => !path.find(item).is_empty(),
                    operator => path.find(item).first().is_some_and(|found| operator.holds(found, wanted)),
                })
                .collect(),
            (Step::Anywhere(name), value) => {
                let mut found = Vec::new();
                anywhere(name, value, &mut found);
                found
            }
            _ => Vec::new(),
        }
    }
}

fn anywhere<'v>(name: &str, value: &'v Value, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(name));
            fields.values().for_each(|below| anywhere(name, below, found));
        }
        Value::Array(items) => items.iter().for_each(|below| anywhere(name, below, found)),
        _ => {}
    }
}

impl Operator {
    fn holds(self, left: &Value, right: &Value) -> bool {
        use std::cmp::Ordering;
        let order = match (left, right) {
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (a, b) if a == b => Some(Ordering::Equal),
            _ => None,
        };
        match self {
            Operator::Exists => true,
            Operator::Equal => order == Some(Ordering::Equal),
            Operator::NotEqual => order != Some(Ordering::Equal),
            Operator::Less => order == Some(Ordering::Less),
            Operator::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Operator::Greater => order == Some(Ordering::Greater),
            Operator::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_values() {
        let value = json!({"spec": {"a.b": 1, "list": [{"n": "x", "v": 1}, {"n": "y", "v": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
        for (path, expected) in [
            (".spec.list[0].n", vec![json!("x")]),
            (".spec.list[-1].v", vec![json!(2)]),
            (".spec.list[*].v", vec![json!(1), json!(2)]),
            (".spec.a\\.b", vec![json!(1)]),
            (".spec['a.b']", vec![json!(1)]),
            (".status.conditions[?(@.type==\"Ready\")].status", vec![json!("True")]),
            (".status.conditions[?(@.type=='Other')].status", vec![json!("False")]),
            (".spec.list[?(@.v>1)].n", vec![json!("y")]),
            ("..v", vec![json!(1), json!(2)]),
            (".spec.none", vec![]),
            (".spec.list[7]", vec![]),
        ] {
            let read = JsonPath::read(path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(read.find(&value).into_iter().cloned().collect::<Vec<_>>(), expected, "{path}");
        }
        for path in ["spec", ".spec[", ".a[x]", ".a[?(@.b==)]"] {
            assert_eq!(JsonPath::read(path), None, "{path}");
        }
    }
}
