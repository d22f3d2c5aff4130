//! What a rule in CEL may cost at most, told from its text and the bounds of the schema, before there is any value.
//!
//! A coarse count: an operation costs one, and what stands in a loop is counted for each round that the schema allows. It is
//! never above upstream's estimate for the same rule (Kubernetes 1.36), which also counts the lengths of texts: what is
//! refused here is refused there. Invariant: numbers only grow to their largest, they never wrap.

use kube_cel::cel::Program;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr};
use serde_json::Value;

/// What one rule may cost (upstream's `StaticEstimatedCostLimit`).
const COST_MAX: u64 = 10_000_000;
/// A loop over an unbounded list costs about this much, so that a single one is always allowed, as upstream mostly does.
const SLACK: u64 = 10;
/// Bytes of the largest request: no list is longer than what fits into it.
const REQUEST_BYTES_MAX: u64 = 3 << 20;

/// Why a rule is too expensive; `None` = it is not, or does not compile.
pub(in super::super) fn too_expensive(rule: &str, schema: &Value) -> Option<String> {
    let program = Program::compile(rule).ok()?;
    let mut names = vec![("self".to_owned(), Some(schema)), ("oldSelf".to_owned(), Some(schema))];
    let cost = cost(program.expression(), &mut names);
    if cost <= COST_MAX.saturating_mul(SLACK) {
        return None;
    }
    let times = cost / COST_MAX;
    let factor = if times > 100 { "more than 100x".to_owned() } else { format!("{times}.0x") };
    Some(format!(
        "estimated rule cost exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    ))
}

/// What names stand for, where the schema tells; the last of a name counts.
type Names<'a> = Vec<(String, Option<&'a Value>)>;

fn cost<'a>(expr: &IdedExpr, names: &mut Names<'a>) -> u64 {
    let sum = |all: &mut dyn Iterator<Item = &IdedExpr>, names: &mut Names<'a>| {
        all.fold(0u64, |sum, one| sum.saturating_add(cost(one, names)))
    };
    match &expr.expr {
        Expr::Call(call) => 1 + sum(&mut call.target.as_deref().into_iter().chain(&call.args), names),
        Expr::Select(select) => 1 + cost(&select.operand, names),
        Expr::List(list) => 1 + sum(&mut list.elements.iter(), names),
        Expr::Map(map) => {
            let entries = map.entries.iter().map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => [&entry.key, &entry.value],
                EntryExpr::StructField(field) => [&field.value, &field.value],
            });
            1 + sum(&mut entries.flatten(), names)
        }
        Expr::Comprehension(round) => {
            let (range, rounds) = (schema_of(&round.iter_range, names), size_of(&round.iter_range, names));
            let before = names.len();
            names.push((round.iter_var.clone(), range.and_then(item_of)));
            let inside = cost(&round.loop_step, names).max(1);
            names.truncate(before);
            cost(&round.iter_range, names).saturating_add(rounds.saturating_mul(inside))
        }
        _ => 0,
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

/// How many rounds a loop over an expression takes at most; what is not known is one round.
fn size_of(expr: &IdedExpr, names: &Names<'_>) -> u64 {
    if let Expr::List(list) = &expr.expr {
        return list.elements.len() as u64;
    }
    let Some(schema) = schema_of(expr, names) else { return 1 };
    let bound = if schema["type"] == "array" { "maxItems" } else { "maxProperties" };
    if let Some(most) = schema[bound].as_u64() {
        return most;
    }
    match schema["type"].as_str() {
        Some("array") => REQUEST_BYTES_MAX / (item_of(schema).map_or(1, bytes_min) + 1),
        // A key in quotes, a colon, and a comma.
        Some("object") if schema.get("additionalProperties").is_some_and(Value::is_object) => {
            REQUEST_BYTES_MAX / (item_of(schema).map_or(1, bytes_min) + 4)
        }
        _ => 1,
    }
}

/// The bytes of the smallest value of a schema.
fn bytes_min(schema: &Value) -> u64 {
    match schema["type"].as_str() {
        Some("string") => schema["minLength"].as_u64().unwrap_or(0) + 2,
        Some("boolean") => 4,
        Some("array") => 2,
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            required.fold(2u64, |sum, name| {
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

    #[test]
    fn loops_within_loops_over_what_has_no_bound_are_too_expensive() {
        let unbounded = json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}});
        let mut bounded = unbounded.clone();
        bounded["properties"]["a"]["maxItems"] = json!(100);
        let twice = "self.a.all(x, self.a.exists_one(y, x == y))";
        let why = too_expensive(twice, &unbounded).expect("too expensive");
        assert!(
            why.starts_with("estimated rule cost exceeds budget by factor of more than 100x (try simplifying"),
            "{why}"
        );
        assert_eq!(too_expensive(twice, &bounded), None);
        assert_eq!(too_expensive("self.a.all(x, x.startsWith('a'))", &unbounded), None);
        assert_eq!(too_expensive("self.a.filter(x, x != '').all(x, x != 'b')", &unbounded), None);
        assert_eq!(too_expensive("self.a.size() > 1 && !('x' in self.a)", &unbounded), None);
    }

    #[test]
    fn lists_in_lists_count_for_each_of_them() {
        let schema = |most: Option<u64>| {
            let mut inner = json!({"type": "array", "items": {"type": "integer"}});
            if let Some(most) = most {
                inner["maxItems"] = json!(most);
            }
            json!({"type": "array", "items": {"type": "object", "properties": {"b": inner}}})
        };
        let rule = "self.all(x, x.b.all(y, y > 0))";
        assert!(too_expensive(rule, &schema(None)).is_some());
        assert!(too_expensive(rule, &schema(Some(10))).is_none());
        let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
        assert!(too_expensive("self.all(k, self.all(l, k == l))", &map).is_some());
        assert_eq!(too_expensive("not a rule", &map), None);
    }
}
