//! What a rule in CEL may cost at most, told from its text and the bounds of the schema, before there is any value.
//!
//! The count is that of cel-go's estimate as Kubernetes 1.36 sets it up, for all that a rule is mostly made of: names, fields,
//! loops, and the functions whose work grows with their texts and lists. A function of a library counts one, and a size that
//! is not known counts nothing more, so that what is refused here is refused upstream. Invariant: numbers only grow to their
//! largest, they never wrap.

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

/// What one rule may cost (upstream's `StaticEstimatedCostLimit`).
pub(in super::super) const RULE_COST_MAX: u64 = 10_000_000;
/// What all rules of a schema may cost together (upstream's `StaticEstimatedCRDCostLimit`).
pub(in super::super) const SCHEMA_COST_MAX: u64 = 100_000_000;
/// Bytes of the largest request: no list is longer than what fits into it.
const REQUEST_BYTES_MAX: u64 = 3 << 20;
/// What it costs to make a list, a map or an object of a type.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

/// What an expression about a value of a schema costs at most; 0 for one that does not compile, which is told elsewhere.
pub(in super::super) fn expression_cost(expression: &str, schema: &Value) -> u64 {
    let Ok(program) = Program::compile(expression) else { return 0 };
    let mut names = vec![("self".to_owned(), Some(schema)), ("oldSelf".to_owned(), Some(schema))];
    cost(program.expression(), &mut names)
}

/// How often a value of a schema stands in an object at most: as often as the lists and maps above allow, or, where one of
/// them has no bound, as often as the smallest such value fits into a request.
pub(in super::super) fn cardinality(within: Option<u64>, schema: &Value) -> u64 {
    within.unwrap_or_else(|| REQUEST_BYTES_MAX / (bytes_min(schema) + 1))
}

/// How many values stand below one of a schema; `None` = there is no bound.
pub(in super::super) fn elements_max(schema: &Value) -> Option<u64> {
    let bound = |key: &str| schema[key].as_i64().map(|most| u64::try_from(most).unwrap_or(0));
    match schema["type"].as_str() {
        Some("object") if !schema["additionalProperties"].is_null() => bound("maxProperties"),
        Some("array") => bound("maxItems"),
        _ => Some(1),
    }
}

/// Why `what` costs too much; `None` = it does not.
pub(in super::super) fn over_budget(what: &str, cost: u64, most: u64) -> Option<String> {
    if cost <= most {
        return None;
    }
    // Told to a tenth: the loss beyond 2^53 is not seen.
    #[expect(clippy::cast_precision_loss)]
    let times = cost as f64 / most as f64;
    let factor = match times {
        100.0.. if times > 100.0 => "more than 100x".to_owned(),
        ..1.5 => format!("{times:.6}x"),
        _ => format!("{times:.1}x"),
    };
    Some(format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    ))
}

/// What names stand for, where the schema tells; the last of a name counts.
type Names<'a> = Vec<(String, Option<&'a Value>)>;

fn cost<'a>(expr: &IdedExpr, names: &mut Names<'a>) -> u64 {
    match &expr.expr {
        Expr::Ident(_) => 1,
        // A test for presence is free, but for what it looks into.
        Expr::Select(select) => cost(&select.operand, names).saturating_add(u64::from(!select.test)),
        Expr::Call(call) => call_cost(call, names),
        Expr::List(list) => list.elements.iter().fold(LIST_COST, |sum, one| sum.saturating_add(cost(one, names))),
        Expr::Map(map) => {
            map.entries.iter().fold(MAP_COST, |sum, one| sum.saturating_add(entry_cost(&one.expr, names)))
        }
        Expr::Struct(made) => {
            made.entries.iter().fold(STRUCT_COST, |sum, one| sum.saturating_add(entry_cost(&one.expr, names)))
        }
        Expr::Comprehension(round) => loop_cost(round, names),
        _ => 0,
    }
}

fn entry_cost(entry: &EntryExpr, names: &mut Names<'_>) -> u64 {
    match entry {
        EntryExpr::MapEntry(entry) => cost(&entry.key, names).saturating_add(cost(&entry.value, names)),
        EntryExpr::StructField(field) => cost(&field.value, names),
    }
}

fn loop_cost<'a>(round: &ComprehensionExpr, names: &mut Names<'a>) -> u64 {
    let (range, rounds) = (schema_of(&round.iter_range, names), size_of(&round.iter_range, names).unwrap_or(1));
    let around = cost(&round.iter_range, names).saturating_add(cost(&round.accu_init, names));
    let before = names.len();
    names.push((round.accu_var.clone(), None));
    // A loop over a map goes over its keys.
    let item = range.filter(|range| range["type"] == "array").and_then(item_of);
    names.push((round.iter_var.clone(), item));
    if let Some(second) = &round.iter_var2 {
        names.push((second.clone(), range.and_then(item_of)));
    }
    let inside = cost(&round.loop_cond, names).saturating_add(cost(&round.loop_step, names));
    let result = cost(&round.result, names);
    names.truncate(before);
    around.saturating_add(rounds.saturating_mul(inside)).saturating_add(result)
}

fn call_cost<'a>(call: &CallExpr, names: &mut Names<'a>) -> u64 {
    let args: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
    let costs: Vec<u64> = args.iter().map(|arg| cost(arg, names)).collect();
    let sum = costs.iter().fold(0u64, |sum, one| sum.saturating_add(*one));
    let size = |at: usize| args.get(at).and_then(|arg| size_of(arg, names));
    let own = match call.func_name.as_str() {
        "_&&_" | "_||_" => 0,
        "_?_:_" => {
            let [asked, yes, no] = costs.as_slice() else { return sum };
            return asked.saturating_add(*yes.max(no));
        }
        "@in" if args.get(1).is_some_and(|range| is_list(range, names)) => size(1).unwrap_or(1),
        "startsWith" | "endsWith" => traversal(size(1).unwrap_or(0)),
        "contains" => traversal(size(0).unwrap_or(0)).saturating_mul(traversal(size(1).unwrap_or(0))),
        "matches" => traversal(size(0).unwrap_or(0).saturating_add(1)).saturating_mul(size(1).unwrap_or(0).div_ceil(4)),
        // What has no size, such as a number, is compared for nothing.
        "_==_" | "_!=_" => traversal(size(0).unwrap_or(0).min(size(1).unwrap_or(0))),
        "_<_" | "_<=_" | "_>_" | "_>=_" if args.iter().all(|arg| is_text(arg, names)) => {
            traversal(size(0).unwrap_or(0).min(size(1).unwrap_or(0)))
        }
        "_+_" if args.iter().all(|arg| is_text(arg, names)) => traversal(size_of_sum(&args, names).unwrap_or(0)),
        _ => 1,
    };
    own.saturating_add(sum)
}

/// Ten letters are looked through at the cost of one step.
fn traversal(letters: u64) -> u64 {
    letters.div_ceil(10)
}

fn is_list(expr: &IdedExpr, names: &Names<'_>) -> bool {
    matches!(expr.expr, Expr::List(_)) || schema_of(expr, names).is_some_and(|schema| schema["type"] == "array")
}

fn is_text(expr: &IdedExpr, names: &Names<'_>) -> bool {
    match &expr.expr {
        Expr::Literal(literal) => matches!(literal, LiteralValue::String(_)),
        Expr::Call(call) => call.func_name == "_+_" && call.args.iter().all(|arg| is_text(arg, names)),
        _ => schema_of(expr, names).is_some_and(|schema| schema["type"] == "string"),
    }
}

/// The schema of what an expression stands for, where it is a part of the value.
fn schema_of<'a>(expr: &IdedExpr, names: &Names<'a>) -> Option<&'a Value> {
    match &expr.expr {
        Expr::Ident(name) => names.iter().rev().find(|(own, _)| own == name).and_then(|(_, schema)| *schema),
        Expr::Select(select) if !select.test => {
            let above = schema_of(&select.operand, names)?;
            above["properties"].get(&select.field).or_else(|| above.get("additionalProperties"))
        }
        Expr::Call(call) if call.func_name == "_[_]" => item_of(schema_of(call.args.first()?, names)?),
        // What is filtered is of the same sort.
        Expr::Comprehension(round) => schema_of(&round.iter_range, names),
        _ => None,
    }
}

fn item_of(schema: &Value) -> Option<&Value> {
    schema.get("items").or_else(|| schema.get("additionalProperties")).filter(|below| below.is_object())
}

/// How many letters, items or entries an expression has at most; `None` = it has none, or it is not known.
fn size_of(expr: &IdedExpr, names: &Names<'_>) -> Option<u64> {
    match &expr.expr {
        Expr::List(list) => Some(list.elements.len() as u64),
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().chars().count() as u64),
        Expr::Call(call) if call.func_name == "_+_" => size_of_sum(&call.args.iter().collect::<Vec<_>>(), names),
        _ => schema_size(schema_of(expr, names)?),
    }
}

fn size_of_sum(args: &[&IdedExpr], names: &Names<'_>) -> Option<u64> {
    args.iter().try_fold(0u64, |sum, arg| Some(sum.saturating_add(size_of(arg, names)?)))
}

/// The size of the largest value of a schema, if it is one that has a size.
fn schema_size(schema: &Value) -> Option<u64> {
    let least = || item_of(schema).map_or(1, bytes_min);
    let within = REQUEST_BYTES_MAX - 2;
    match schema["type"].as_str() {
        Some("array") => Some(elements_max(schema).unwrap_or_else(|| within / (least() + 1))),
        // A key of two bytes, its quotes, a colon, and a comma.
        Some("object") if schema["additionalProperties"].is_object() => {
            Some(elements_max(schema).unwrap_or_else(|| within / (least() + 6)))
        }
        Some("string") => Some(text_size(schema)),
        _ => None,
    }
}

fn text_size(schema: &Value) -> u64 {
    if let Some(values) = schema["enum"].as_array() {
        return values.iter().filter_map(Value::as_str).map(|value| value.len() as u64).max().unwrap_or(0);
    }
    match (schema["maxLength"].as_u64(), schema["format"].as_str()) {
        // The longest words for a time, and for a duration.
        (_, Some("date")) => 10,
        (_, Some("date-time" | "duration")) => 32,
        // A letter is up to four bytes long.
        (Some(letters), _) => letters.saturating_mul(4),
        (None, _) => REQUEST_BYTES_MAX - 2,
    }
}

/// The bytes of the smallest value of a schema.
fn bytes_min(schema: &Value) -> u64 {
    match schema["type"].as_str() {
        Some("string") => 2,
        Some("boolean") => 4,
        Some("array") => 2,
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let given = required.filter(|name| schema["properties"][*name]["default"].is_null());
            given.fold(2u64, |sum, name| {
                let own = schema["properties"].get(name).map_or(1, bytes_min);
                sum.saturating_add(own).saturating_add(name.len() as u64 + 4)
            })
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn list(items: Value, most: Option<u64>) -> Value {
        let mut list = json!({"type": "array", "items": items});
        if let Some(most) = most {
            list["maxItems"] = json!(most);
        }
        json!({"type": "object", "properties": {"a": list}})
    }

    #[test]
    fn steps_count_as_upstream_counts_them() {
        let whole = json!({"type": "integer"});
        let thing = json!({"type": "object", "properties": {"a": whole, "b": whole}});
        // Read off the refusals of kube-apiserver 1.36.3 for lists of thirty million such things.
        for (rule, schema, steps) in [
            ("self > 0", &whole, 2),
            ("self.a > 0", &thing, 3),
            ("self.a > 0 && self.b > 0 && self.a < self.b", &thing, 11),
            ("self.startsWith('a')", &json!({"type": "string"}), 2),
            ("has(self.a) ? self.a > 0 : true", &thing, 4),
            ("self.a == oldSelf.a", &thing, 4),
            ("not a rule", &thing, 0),
        ] {
            assert_eq!(expression_cost(rule, schema), steps, "{rule}");
        }
        for (rule, each) in [("self.a.all(x, x > 0)", 5), ("self.a.exists_one(x, x > 0)", 4), ("1 in self.a", 1)] {
            let cost = expression_cost(rule, &list(whole.clone(), Some(1_000_000)));
            assert!((each * 1_000_000..each * 1_000_000 + 10).contains(&cost), "{rule}: {cost}");
        }
        let text = json!({"type": "object", "properties": {"s": {"type": "string", "maxLength": 30_000_000}}});
        assert_eq!(expression_cost("self.s.matches('^a.*b$')", &text), 24_000_004);
    }

    #[test]
    fn loops_within_loops_count_for_each_round() {
        let twice = "self.a.all(x, self.a.all(y, x != y))";
        let whole = || json!({"type": "integer"});
        let cost = expression_cost(twice, &list(whole(), Some(10_000)));
        assert!((500_000_000..501_000_000).contains(&cost), "{cost}");
        assert!(expression_cost(twice, &list(whole(), None)) > 100 * RULE_COST_MAX);
        assert!(expression_cost(twice, &list(whole(), Some(100))) < RULE_COST_MAX);
        let inner = list(whole(), None)["properties"]["a"].clone();
        let outer = list(json!({"type": "object", "properties": {"b": inner}}), Some(10));
        let cost = expression_cost("self.a.all(x, x.b.all(y, y > 0))", &outer);
        assert!((70_000_000..90_000_000).contains(&cost), "{cost}");
    }

    #[test]
    fn what_stands_in_lists_counts_for_each_item() {
        let thing = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
        assert_eq!(cardinality(Some(7), &thing), 7);
        assert_eq!(cardinality(None, &thing), (3 << 20) / 3);
        assert_eq!(elements_max(&json!({"type": "array", "maxItems": 5})), Some(5));
        assert_eq!(elements_max(&json!({"type": "array", "maxItems": -5})), Some(0));
        assert_eq!(elements_max(&json!({"type": "array"})), None);
        assert_eq!(elements_max(&json!({"type": "object", "additionalProperties": {}})), None);
        assert_eq!(elements_max(&json!({"type": "object", "maxProperties": 3, "additionalProperties": {}})), Some(3));
        assert_eq!(elements_max(&thing), Some(1));
    }

    #[test]
    fn the_excess_is_told_as_upstream_tells_it() {
        let told = |cost: u64| over_budget("estimated rule cost", cost, RULE_COST_MAX);
        assert_eq!(told(RULE_COST_MAX), None);
        for (cost, factor) in
            [(11_534_336, "1.153434x"), (15_000_000, "1.5x"), (79_000_000, "7.9x"), (1_000_000_001, "more than 100x")]
        {
            let words = told(cost).expect("too much");
            let begin = format!("estimated rule cost exceeds budget by factor of {factor} (try simplifying the rule");
            assert!(words.starts_with(&begin), "{words}");
        }
        assert!(told(1_000_000_000).expect("too much").contains("100.0x"));
    }
}
