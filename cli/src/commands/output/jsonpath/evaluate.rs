//! Walks the steps of a template over an object (client-go 1.36, `util/jsonpath`).
//!
//! A field that is not there is no error: the path leads to nothing. Order is that of the object, whose maps are sorted.

use std::cmp::Ordering;

use serde_json::Value;

use super::parse::{Block, End, Operator, Slice, Step, Template};

/// A value of the object, or one that the template itself holds.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'a> {
    /// From the object.
    Value(&'a Value),
    /// From the template.
    Text(&'a str),
    /// From the template.
    Number(f64),
    /// From the template.
    Bool(bool),
}

impl Template {
    /// The values that each part of the template leads to.
    ///
    /// # Errors
    /// If the template asks of a value what it cannot give, such as the tenth of three items.
    pub(crate) fn find<'a>(&'a self, object: &'a Value) -> Result<Vec<Vec<Found<'a>>>, String> {
        let mut found = Vec::new();
        run(&self.0, object, &mut found)?;
        Ok(found)
    }

    /// The text that the template makes of an object: values of one part with spaces between.
    ///
    /// # Errors
    /// As [`Template::find`].
    pub(crate) fn print(&self, object: &Value) -> Result<String, String> {
        let mut out = String::new();
        for part in self.find(object)? {
            let words: Vec<String> = part.iter().map(|value| value.text()).collect();
            out.push_str(&words.join(" "));
        }
        Ok(out)
    }

    /// Everything that the template finds, as one list.
    ///
    /// # Errors
    /// As [`Template::find`].
    pub(crate) fn values(&self, object: &Value) -> Result<Value, String> {
        let parts = self.find(object)?;
        Ok(parts.into_iter().flatten().map(Found::into_value).collect())
    }
}

impl Found<'_> {
    fn text(&self) -> String {
        match self {
            Found::Value(value) => text_of(value),
            Found::Text(text) => (*text).to_owned(),
            Found::Number(number) => number.to_string(),
            Found::Bool(flag) => flag.to_string(),
        }
    }

    /// The value itself.
    pub(crate) fn into_value(self) -> Value {
        match self {
            Found::Value(value) => value.clone(),
            Found::Text(text) => text.into(),
            Found::Number(number) => number.into(),
            Found::Bool(flag) => flag.into(),
        }
    }
}

/// A value as text: a text as it is, a map or list as JSON in Go's spelling.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        Value::Object(_) | Value::Array(_) => super::super::forms::with_go_escapes(&value.to_string()),
        other => other.to_string(),
    }
}

fn run<'a>(blocks: &'a [Block], object: &'a Value, found: &mut Vec<Vec<Found<'a>>>) -> Result<(), String> {
    for block in blocks {
        match block {
            Block::Text(text) => found.push(vec![Found::Text(text)]),
            Block::Action(steps) => found.push(walk(steps, vec![Found::Value(object)])?),
            Block::Range(steps, body) => {
                for value in walk(steps, vec![Found::Value(object)])? {
                    let Found::Value(value) = value else { return Err("a range needs values".to_owned()) };
                    run(body, value, found)?;
                }
            }
        }
    }
    Ok(())
}

fn walk<'a>(steps: &'a [Step], start: Vec<Found<'a>>) -> Result<Vec<Found<'a>>, String> {
    steps.iter().try_fold(start, |values, step| take(step, values))
}

fn take<'a>(step: &'a Step, values: Vec<Found<'a>>) -> Result<Vec<Found<'a>>, String> {
    let mut next = Vec::new();
    match step {
        Step::Text(text) => next.push(Found::Text(text)),
        Step::Number(number) => next.push(Found::Number(*number)),
        Step::Bool(flag) => next.push(Found::Bool(*flag)),
        Step::Union(parts) => {
            for part in parts {
                next.extend(walk(part, values.clone())?);
            }
        }
        Step::Field(name) => next.extend(objects(&values).filter_map(|v| v.get(name)).map(Found::Value)),
        Step::Wildcard => next.extend(objects(&values).flat_map(children).map(Found::Value)),
        Step::Recursive => objects(&values).for_each(|value| descend(value, &mut next)),
        Step::Slice(slice) => {
            for value in objects(&values).filter(|value| !value.is_null()) {
                cut(slice, value, &mut next)?;
            }
        }
        Step::Filter { left, operator, right } => {
            for value in objects(&values) {
                let list = value
                    .as_array()
                    .ok_or_else(|| format!("{} is not array or slice and cannot be filtered", text_of(value)))?;
                for item in list {
                    if holds(left, *operator, right, item)? {
                        next.push(Found::Value(item));
                    }
                }
            }
        }
    }
    Ok(next)
}

fn objects<'a, 'v>(values: &'v [Found<'a>]) -> impl Iterator<Item = &'a Value> + 'v {
    values.iter().filter_map(|value| if let Found::Value(value) = value { Some(*value) } else { None })
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Object(map) => map.values().collect(),
        Value::Array(list) => list.iter().collect(),
        _ => Vec::new(),
    }
}

/// The value and everything in it that has children. (Parsers bound how deeply values are nested.)
fn descend<'a>(value: &'a Value, found: &mut Vec<Found<'a>>) {
    let inner = children(value);
    if !inner.is_empty() {
        found.push(Found::Value(value));
        inner.into_iter().for_each(|child| descend(child, found));
    }
}

fn cut<'a>(slice: &Slice, value: &'a Value, found: &mut Vec<Found<'a>>) -> Result<(), String> {
    let list = value.as_array().ok_or_else(|| format!("{} is not array or slice", text_of(value)))?;
    let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { at + length } else { at };
    let from = from_end(slice.from.unwrap_or(0));
    let to = match slice.to {
        End::Open => length,
        End::One => from + 1,
        End::At(at) => from_end(at),
    };
    if from == to {
        return Ok(());
    }
    let outside = |at: i64| format!("array index out of bounds: index {at}, length {length}");
    if from < 0 || from >= length {
        return Err(outside(from));
    }
    if to < 0 || to > length {
        return Err(outside(to - 1));
    }
    if from > to {
        return Err(format!("starting index {from} is greater than ending index {to}"));
    }
    let step = slice.step.unwrap_or(1);
    let step = usize::try_from(step).ok().filter(|step| *step > 0).ok_or("step must be > 0")?;
    let index = |at: i64| usize::try_from(at).unwrap_or(0);
    found.extend(list[index(from)..index(to)].iter().step_by(step).map(Found::Value));
    Ok(())
}

fn holds(left: &[Step], operator: Operator, right: &[Step], item: &Value) -> Result<bool, String> {
    let one = |steps: &[Step]| -> Result<Option<Value>, String> {
        let found = walk(steps, vec![Found::Value(item)])?;
        match found.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.into_value())),
            _ => Err("can only compare one element at a time".to_owned()),
        }
    };
    if operator == Operator::Exists {
        return Ok(!walk(left, vec![Found::Value(item)])?.is_empty());
    }
    let (Some(left), Some(right)) = (one(left)?, one(right)?) else { return Ok(false) };
    let order = match (&left, &right) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => None,
    };
    let Some(order) = order else { return Err("incompatible types for comparison".to_owned()) };
    Ok(match operator {
        Operator::Exists => true,
        Operator::Less => order == Ordering::Less,
        Operator::Greater => order == Ordering::Greater,
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list() -> Value {
        json!({"kind": "List", "apiVersion": "v1", "items": [
            {"metadata": {"name": "alder"}, "data": {"dotted.key": "yes", "h": "30"}, "n": 3, "l": [1, 2, 3]},
            {"metadata": {"name": "birch"}, "data": {"h": "25"}, "n": 1, "on": true},
        ]})
    }

    fn print(template: &str) -> String {
        Template::parse(template).unwrap_or_else(|e| panic!("{template}: {e}")).print(&list()).expect("evaluated")
    }

    /// Most of these are from the recorded session get-outputs (kubectl 1.36.3).
    #[test]
    fn templates_print_what_kubectl_prints() {
        for (template, expected) in [
            (r#"{.items[0].data.dotted\.key} {.items[0].data.h}{"\n"}"#, "yes 30\n"),
            (r#"{range .items[*]}{.metadata.name}{"\t"}{.data.h}{"\n"}{end}"#, "alder\t30\nbirch\t25\n"),
            (r#"{.items[?(@.data.h=="25")].metadata.name}{"\n"}"#, "birch\n"),
            (
                r#"{.items[-1].metadata.name} {.items[0:2].metadata.name} {.kind} {.apiVersion}{"\n"}"#,
                "birch alder birch List v1\n",
            ),
            (r#"{.items[0].data}{"\n"}{.nothing}{"\n"}"#, "{\"dotted.key\":\"yes\",\"h\":\"30\"}\n\n"),
            ("{.none[5].x}", ""),
            ("{.items[?(@.n>=2)].n}|{.items[?(@.n!=3)].n}|{.items[?(@.on==true)].n}", "3|1|1"),
            ("{.items[?(@.on)].metadata.name}", "birch"),
            ("{..name}", "alder birch"),
            ("{.items[*]['metadata.name', 'n']}", "alder birch 3 1"),
            ("{.items[0].l[0:3:2]} {.items[0].l[1:]} {.items[0].l[:-1]} {.items[0].l}", "1 3 2 3 1 2 [1,2,3]"),
            ("{$.items[0].metadata.*}", "alder"),
            ("plain {'quoted'} {range .none[*]}never{end}text", "plain quoted text"),
            ("{range .items[*]}{range .l[*]}<{@}>{end}.{end}", "<1><2><3>.."),
            ("{.items[?(@.data.h==\"a)b\")]}", ""),
        ] {
            assert_eq!(print(template), expected, "{template}");
        }
    }

    #[test]
    fn what_a_value_cannot_give_is_refused() {
        for (template, problem) in [
            ("{.items[5]}", "array index out of bounds: index 5, length 2"),
            ("{.items[-3]}", "array index out of bounds: index -1, length 2"),
            ("{.kind[0]}", "List is not array or slice"),
            ("{.items[1:0]}", "starting index 1 is greater than ending index 0"),
            ("{.items[?(@.n==\"a\")]}", "incompatible types for comparison"),
        ] {
            let template_read = Template::parse(template).expect("a template");
            assert_eq!(template_read.print(&list()), Err(problem.to_owned()), "{template}");
        }
    }
}
