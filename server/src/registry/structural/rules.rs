//! Rules in CEL (`x-kubernetes-validations`): which of them an object does not keep.
//!
//! The kube-cel crate reads them and has their functions; `evaluate` evaluates them, and counts what that costs. Each place
//! of the schema that has rules is read for itself, without the rules below it; who walks the value is this file, so that
//! items of lists are told apart by their keys, not by where they stand.
//!
//! Invariants: a rule that cannot be compiled or evaluated refuses; none is ever passed over. All rules of one object cost
//! at most `OBJECT_MAX`, and what costs more than `SMALL_MAX` is evaluated where nothing else waits for it, one object at a
//! time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::objects::OptionalValue;
use kube_cel::cel::{ExecutionError, Program, Value as CelValue};
use kube_cel::{CompilationError, CompilationResult, CompiledSchema};
use parking_lot::Mutex;
use serde_json::Value;

use super::super::kinds::{Faults, Path, Shown};
use super::evaluate::{CALL_MAX, Evaluation};
use super::lists::keys_of;
use super::values::value_of;

/// What all rules of one object may cost (upstream's `RuntimeCELCostBudget`).
const OBJECT_MAX: u64 = 10_000_000;
/// What may be spent on a thread that serves others as well: a few milliseconds.
const SMALL_MAX: u64 = 10_000;
/// Values in an object that is judged on such a thread.
const SMALL_VALUES_MAX: usize = 5_000;
/// Bytes of a message that a rule makes (Kubernetes 1.36).
const MESSAGE_BYTES_MAX: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The rules of a schema, compiled.
#[derive(Debug, Default)]
pub(in super::super) struct Rules {
    own: Option<CompiledSchema>,
    properties: Vec<(String, Rules)>,
    items: Option<Box<Rules>>,
    additional: Option<Box<Rules>>,
    list_type: String,
    list_keys: Vec<String>,
    is_atomic: bool,
    /// What a value is called in a refusal: the type.
    kind: String,
}

/// A rule that does not compile.
#[derive(Debug)]
pub(in super::super) struct RulesFault {
    /// Which of the rules of its place.
    pub(in super::super) index: usize,
    /// Whether it is the `messageExpression` that does not.
    pub(in super::super) in_message: bool,
    /// Why.
    pub(in super::super) why: String,
}

impl Rules {
    /// Compiles all rules of a schema; `None` if there are none.
    pub(in super::super) fn read(schema: &Value) -> Option<Rules> {
        let own =
            schema.get("x-kubernetes-validations").and_then(Value::as_array).is_some_and(|rules| !rules.is_empty());
        let properties: Vec<(String, Rules)> = schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(name, below)| Some((name.clone(), Rules::read(below)?)))
            .collect();
        let below = |key: &str| schema.get(key).filter(|below| below.is_object()).and_then(Rules::read).map(Box::new);
        let (items, additional) = (below("items"), below("additionalProperties"));
        if !own && properties.is_empty() && items.is_none() && additional.is_none() {
            return None;
        }
        let text = |key: &str| schema[key].as_str().unwrap_or_default().to_owned();
        let keys = schema["x-kubernetes-list-map-keys"].as_array().map_or(&[][..], Vec::as_slice);
        Some(Rules {
            own: own.then(|| kube_cel::compile_schema(&without_rules_below(schema))),
            properties,
            items,
            additional,
            list_type: text("x-kubernetes-list-type"),
            list_keys: keys.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            is_atomic: text("x-kubernetes-map-type") == "atomic",
            kind: text("type"),
        })
    }

    /// What is wrong with the rules of the place that the schema itself is (not with those below it).
    pub(in super::super) fn faults_of(schema: &Value) -> Vec<RulesFault> {
        let compiled = kube_cel::compile_schema(&without_rules_below(schema));
        let told = |(index, result): (usize, &Result<_, CompilationError>)| {
            let error = result.as_ref().err()?;
            let in_message = matches!(error, CompilationError::MessageExpressionParse { .. });
            let why = match error {
                CompilationError::Parse { source, .. } => format!("compilation failed: {source}"),
                CompilationError::MessageExpressionParse { source, .. } => {
                    format!("messageExpression compilation failed: {source}")
                }
                other => other.to_string(),
            };
            Some(RulesFault { index, in_message, why })
        };
        compiled.validations.iter().enumerate().filter_map(told).collect()
    }

    /// Every rule that a value does not keep; `old` is what it was before, if it was there.
    pub(in super::super) fn validate(&self, value: &Value, old: Option<&Value>, path: &Path, faults: &mut Faults) {
        let mut many = SMALL_VALUES_MAX;
        if is_small(value, &mut many) && old.is_none_or(|old| is_small(old, &mut many)) {
            let (told, is_over) = self.judge(value, old, path, SMALL_MAX);
            if !is_over {
                faults.append(told);
                return;
            }
        }
        // One at a time leaves the machine to all that is not this.
        static LARGE: Mutex<()> = Mutex::new(());
        faults.append(aside(|| {
            let _turn = LARGE.lock();
            self.judge(value, old, path, OBJECT_MAX).0
        }));
    }

    /// What there is to tell with so much to spend, and whether it was not enough.
    fn judge(&self, value: &Value, old: Option<&Value>, path: &Path, budget: u64) -> (Faults, bool) {
        // The rules are a stranger's, and so are their functions: a panic in there is a refusal.
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let mut told = Judgement { faults: Faults::new(), left: budget, is_over: false };
            self.walk(value, old, path, &mut told);
            (told.faults, told.is_over)
        }));
        judged.unwrap_or_else(|_| {
            let mut told = Faults::new();
            told.invalid(path, Shown::of_type(value), "the rules could not be evaluated");
            (told, false)
        })
    }

    fn walk(&self, value: &Value, old: Option<&Value>, path: &Path, told: &mut Judgement) {
        if let Some(own) = self.own.as_ref().filter(|_| !value.is_null()) {
            self.judge_own(own, value, old, path, told);
        }
        if told.is_over {
            return;
        }
        match value {
            Value::Object(fields) => {
                let old = old.filter(|_| !self.is_atomic);
                for (name, rules) in &self.properties {
                    if let Some(own) = fields.get(name) {
                        rules.walk(own, old.and_then(|old| old.get(name)), &path.child(name), told);
                    }
                }
                let Some(rules) = &self.additional else { return };
                for (name, own) in fields {
                    rules.walk(own, old.and_then(|old| old.get(name)), &path.key(name), told);
                }
            }
            Value::Array(items) => {
                let Some(rules) = &self.items else { return };
                for (i, item) in items.iter().enumerate() {
                    rules.walk(item, self.same_item(item, old), &path.index(i), told);
                }
            }
            _ => {}
        }
    }

    /// The rules of this place.
    fn judge_own(&self, own: &CompiledSchema, value: &Value, old: Option<&Value>, path: &Path, told: &mut Judgement) {
        if told.is_over {
            return;
        }
        let parse = &mut |function: &str, text: &str| Evaluation::parsed(function, text);
        let mut names = vec![("self".to_owned(), value_of(value, Some(own), parse))];
        if let Some(old) = old {
            names.push(("oldSelf".to_owned(), value_of(old, Some(own), parse)));
        }
        for rule in &own.validations {
            match rule {
                Ok(rule) => self.judge_rule(rule, value, old, &names, path, told),
                Err(error) => told.faults.invalid(path, self.kind_of(value), &format!("rule compile error: {error}")),
            }
            if told.is_over {
                return;
            }
        }
    }

    fn judge_rule(
        &self,
        rule: &CompilationResult,
        value: &Value,
        old: Option<&Value>,
        names: &[(String, CelValue)],
        path: &Path,
        told: &mut Judgement,
    ) {
        let mut names = names.to_vec();
        if rule.rule.optional_old_self == Some(true) {
            let before = names.iter().find(|(name, _)| name == "oldSelf").map(|(_, before)| before.clone());
            let before = before.map_or_else(OptionalValue::none, OptionalValue::of);
            names.push(("oldSelf".to_owned(), CelValue::Opaque(Arc::new(before))));
        } else if old.is_none() && rule.is_transition_rule {
            return;
        }
        // Nothing has changed: a rule that came later may not make it wrong, but one about changes may.
        let counts = old != Some(value) || rule.is_transition_rule;
        let kind = self.kind_of(value);
        let said = rule.rule.message.as_deref().filter(|said| !said.is_empty()).unwrap_or(&rule.rule.rule).trim();
        let outcome = told.spend(&rule.program, &names);
        let field = rule.rule.field_path.as_deref().unwrap_or_default();
        let why = match outcome {
            Outcome::Value(CelValue::Bool(true)) => return,
            Outcome::Value(CelValue::Bool(false)) => None,
            Outcome::OverBudget => {
                told.faults.invalid(path, kind, OUT_OF_BUDGET);
                return;
            }
            Outcome::OverCall => Some(format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call \
                 cost exceeds limit for rule: {said}"
            )),
            Outcome::Value(_) => Some(format!("rule \"{}\" did not evaluate to bool", rule.rule.rule)),
            Outcome::Error(ExecutionError::UndeclaredReference(name)) => {
                Some(format!("undeclared reference to '{name}' evaluating rule: {said}"))
            }
            Outcome::Error(ExecutionError::NoSuchOverload) => Some(format!(
                "'no such overload': call arguments did not match a supported operator, function or macro signature for \
                 rule: {said}"
            )),
            Outcome::Error(error) => Some(format!("rule evaluation error: {error}")),
        };
        if let Some(why) = why {
            if counts || told.is_over {
                told.faults.invalid(&below(path, field), kind, &why);
            }
            return;
        }
        let made = rule.message_program.as_ref().map(|program| told.spend(program, &names));
        if told.is_over {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will \
                 be run";
            told.faults.invalid(&below(path, field), kind, why);
            return;
        }
        if counts {
            let given = || rule.rule.message.clone().unwrap_or_else(|| format!("failed rule: {}", rule.rule.rule));
            let message = made.and_then(Outcome::message).unwrap_or_else(given);
            self.tell(rule.rule.reason.as_deref(), value, &below(path, field), &message, &mut told.faults);
        }
    }

    /// What a value is called in a refusal that does not show it.
    fn kind_of(&self, value: &Value) -> Shown {
        if self.kind.is_empty() { Shown::of_type(value) } else { Shown::from(&self.kind) }
    }

    fn tell(&self, reason: Option<&str>, value: &Value, at: &Path, message: &str, faults: &mut Faults) {
        let is_big = matches!(self.kind.as_str(), "object" | "array");
        match reason {
            Some("FieldValueForbidden") => faults.forbidden(at, message),
            Some("FieldValueRequired") => faults.required(at, message),
            Some("FieldValueDuplicate") => faults.duplicate(at, value),
            _ if is_big => faults.invalid_unshown(at, message),
            _ => faults.invalid(at, value, message),
        }
    }

    fn same_item<'o>(&self, item: &Value, old: Option<&'o Value>) -> Option<&'o Value> {
        if self.list_type != "map" {
            return None;
        }
        let keys = keys_of(item, &self.list_keys);
        old?.as_array()?.iter().find(|candidate| keys_of(candidate, &self.list_keys) == keys)
    }
}

/// What has been found, and what may still be spent.
struct Judgement {
    faults: Faults,
    left: u64,
    /// Whether no more rules are evaluated.
    is_over: bool,
}

/// What became of an expression.
enum Outcome {
    Value(CelValue),
    Error(ExecutionError),
    /// It cost more than one expression may.
    OverCall,
    /// It cost more than was left for the object.
    OverBudget,
}

impl Judgement {
    fn spend(&mut self, program: &Program, names: &[(String, CelValue)]) -> Outcome {
        let most = self.left.min(CALL_MAX);
        let mut evaluation = Evaluation::new(names.to_vec(), most);
        let value = evaluation.value(program.expression());
        self.left -= evaluation.spent().min(self.left);
        if evaluation.ran_out {
            self.is_over = true;
            return if most == CALL_MAX { Outcome::OverCall } else { Outcome::OverBudget };
        }
        value.map_or_else(Outcome::Error, Outcome::Value)
    }
}

impl Outcome {
    /// The message that an expression made, if it is one.
    fn message(self) -> Option<String> {
        let Outcome::Value(CelValue::String(text)) = self else { return None };
        let text = text.trim();
        let is_one = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
        is_one.then(|| text.to_owned())
    }
}

/// Does something that may take a second, so that nothing waits for this thread but who asked.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current() {
        Ok(runtime) if runtime.runtime_flavor() == RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        // Nothing else is served by this thread, or there is no other one to serve it.
        _ => work(),
    }
}

/// Whether a value has at most so many values in it, which are counted off.
fn is_small(value: &Value, left: &mut usize) -> bool {
    let Some(rest) = left.checked_sub(1) else { return false };
    *left = rest;
    match value {
        Value::Object(fields) => fields.values().all(|own| is_small(own, left)),
        Value::Array(items) => items.iter().all(|own| is_small(own, left)),
        _ => true,
    }
}

/// A path below another one: `a.b[0]`.
fn below(path: &Path, rest: &str) -> Path {
    match rest.trim_start_matches('.') {
        "" => path.clone(),
        rest => path.child(rest),
    }
}

/// The schema with its own rules, but none of those below.
fn without_rules_below(schema: &Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("x-kubernetes-validations");
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut stripped = schema.clone();
    let own = schema.get("x-kubernetes-validations").cloned();
    strip(&mut stripped);
    if let (Some(own), Some(fields)) = (own, stripped.as_object_mut()) {
        fields.insert("x-kubernetes-validations".to_owned(), own);
    }
    stripped
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn told(schema: &Value, value: Value, old: Option<Value>) -> Vec<String> {
        let mut faults = Faults::new();
        let rules = Rules::read(schema).expect("there are rules");
        rules.validate(&value, old.as_ref(), &Path::new(""), &mut faults);
        faults.told()
    }

    #[test]
    fn rules_are_kept_or_told() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "x-kubernetes-validations": [{"rule": "self.min <= self.max", "message": "min above max"},
                {"rule": "self.min >= 0", "reason": "FieldValueForbidden", "messageExpression": "'min is ' + string(self.min)"}],
            "properties": {"min": {"type": "integer"}, "max": {"type": "integer"},
                "name": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}}}}});
        let spec = |min: i64, max: i64, name: &str| json!({"spec": {"min": min, "max": max, "name": name}});
        assert_eq!(told(&schema, spec(1, 2, "a"), None), [""; 0]);
        assert_eq!(told(&schema, spec(3, 2, "a"), None), ["spec: Invalid value: min above max"]);
        assert_eq!(told(&schema, spec(-3, 2, "a"), None), ["spec: Forbidden: min is -3"]);
        assert_eq!(
            told(&schema, spec(1, 2, "b"), Some(spec(1, 2, "a"))),
            ["spec.name: Invalid value: \"b\": failed rule: self == oldSelf"]
        );
    }

    #[test]
    fn what_was_before_may_be_optional() {
        let rule = json!([{"rule": "!oldSelf.hasValue() || self >= oldSelf.value()", "optionalOldSelf": true}]);
        let schema = json!({"type": "integer", "x-kubernetes-validations": rule});
        assert_eq!(told(&schema, json!(1), None), [""; 0]);
        assert_eq!(told(&schema, json!(2), Some(json!(1))), [""; 0]);
        assert_eq!(told(&schema, json!(1), Some(json!(2))).len(), 1);
    }

    #[test]
    fn items_are_the_same_by_their_keys() {
        let schema = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}},
                      "x-kubernetes-validations": [{"rule": "self.v >= oldSelf.v"}]}});
        let old = json!([{"n": "a", "v": 5}, {"n": "b", "v": 1}]);
        let new = json!([{"n": "b", "v": 2}, {"n": "c", "v": 0}, {"n": "a", "v": 4}]);
        assert_eq!(told(&schema, new, Some(old)), ["[2]: Invalid value: failed rule: self.v >= oldSelf.v"]);
    }

    /// A schema of a list of texts with a rule.
    fn list_with(rule: &str) -> Value {
        json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": rule}]})
    }

    fn texts(count: usize) -> Value {
        (0..count).map(|i| format!("i{i}")).collect()
    }

    #[test]
    fn rules_that_cost_too_much_are_stopped_in_the_middle() {
        let stopped = |rule: &str, items: usize| {
            let told = told(&list_with(rule), texts(items), None);
            assert_eq!(told.len(), 1, "{rule}: {told:?}");
            assert_eq!(
                told[0],
                format!(
                    ": Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further \
                     validation rules will be run due to call cost exceeds limit for rule: {rule}"
                )
            );
        };
        stopped("self.all(a, self.filter(b, a == b).size() == 1)", 5_000);
        stopped("self.all(a, self.all(b, self.all(c, self.all(e, a + b + c + e != 'zz'))))", 300);
        stopped("self.all(a, true || self.all(b, false)) && self.map(a, self.map(b, a + b)).size() >= 0", 2_000);
        // Errors that another side makes good for.
        stopped("self.all(a, self.all(b, self.all(c, a + b + c != 'zz')) || true)", 300);
        // Values that grow, and functions that work long for few words.
        stopped("lists.range(100000000).size() > 0", 1);
        stopped("lists.range(900000).map(i, 'aaaaaaaaaa').join('').replace('', 'bbbbbbbbbbbbbbbb') != ''", 1);
        let doubled = (0..40).fold("[self[0]]".to_owned(), |so_far, _| format!("{so_far}.map(s, s + s)"));
        stopped(&format!("{doubled}.size() == 1"), 1);
    }

    #[test]
    fn what_upstream_allows_is_allowed() {
        // 300 times 300 rounds are within what one rule may cost.
        assert_eq!(told(&list_with("self.all(a, self.exists(b, a == b))"), texts(300), None), [""; 0]);
        assert_eq!(
            told(&list_with("self.filter(a, a != '').map(a, a + 'x').size() == 20000"), texts(20_000), None),
            [""; 0]
        );
        let long =
            told(&list_with("self.all(a, a.startsWith('i')) && 'i3' in self && self[2] == 'i2'"), texts(9), None);
        assert_eq!(long, [""; 0]);
    }

    #[test]
    fn all_rules_of_an_object_share_a_budget() {
        let rule = json!([{"rule": "self.l.all(a, self.l.all(b, a == b || a != b))"}]);
        let schema = json!({"type": "array", "items": {"type": "object", "x-kubernetes-validations": rule,
            "properties": {"l": {"type": "array", "items": {"type": "string"}}}}});
        let items = |count: usize| Value::Array(vec![json!({"l": texts(150)}); count]);
        assert_eq!(told(&schema, items(20), None), [""; 0]);
        let told = told(&schema, items(200), None);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with(&format!("Invalid value: \"object\": {OUT_OF_BUDGET}")), "{told:?}");
    }

    #[test]
    fn expressions_mean_what_they_mean_to_kubernetes() {
        let schema = |rule: &str| {
            json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}], "properties": {
                "at": {"type": "string", "format": "date-time"}, "for": {"type": "string", "format": "duration"},
                "a-b": {"type": "integer"}, "m": {"type": "object", "additionalProperties": {"type": "integer"}},
                "l": {"type": "array", "items": {"type": "integer"}}}})
        };
        let value = json!({"at": "2024-01-02T03:04:05Z", "for": "90s", "a-b": 3, "m": {"x-y": 1, "z": 2},
            "l": [3, 1, 2]});
        for rule in [
            "self.at < timestamp('2025-01-01T00:00:00Z') && self.at.getFullYear() == 2024",
            "self.__for__ > duration('1m')",
            "self.a__dash__b == 3 && has(self.m) && !has(self.x)",
            "self.m['x-y'] == 1 && 'z' in self.m && self.m.all(k, self.m[k] > 0) && self.m.size() == 2",
            "self.l.map(x, x * 2) == [6, 2, 4] && self.l.filter(x, x > 1).size() == 2 && self.l.exists_one(x, x == 3)",
            "self.l.sum() == 6 && self.l.max() == 3 && !self.l.isSorted() && self.l.indexOf(2) == 2",
            "self.l.map(x, x > 1, x + 1) == [4, 3] && self.l[0] - 1 == 2 && -self.l[1] == -1",
            "math.greatest(self.l) == 3 && quantity('1Gi').isGreaterThan(quantity('1Mi'))",
            "sets.contains(self.l, [1, 2]) && !sets.intersects(self.l, [7])",
            "isURL('https://a.b/c') && url('https://a.b/c').getHost() == 'a.b'",
            "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'abc'.matches('^a.c$')",
            "{'k': self.l[0]}.k == 3 && {'k': 1}['k'] == 1 && b'a' + b'b' == b'ab'",
            "optional.of(self.l).hasValue() && optional.none().orValue(4) == 4 && optional.of(1).value() == 1",
            "self.x == 1 || true",
            "(1 > 2 ? 'a' : 'b') == 'b' && 1.5 > 1 && 'size'.size() == 4 && type(1) != null || true",
        ] {
            assert_eq!(told(&schema(rule), value.clone(), None), [""; 0], "{rule}");
        }
        assert_eq!(
            told(&schema("self.l[0] == 1"), value.clone(), None),
            [": Invalid value: failed rule: self.l[0] == 1"]
        );
        assert_eq!(told(&schema("self.l[9] == 1"), value.clone(), None).len(), 1);
        assert_eq!(told(&schema("self.l"), value, None).len(), 1);
    }

    #[test]
    fn a_rule_that_does_not_compile_is_told() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}, {"rule": "self."}]});
        let faults = Rules::faults_of(&schema);
        assert_eq!(faults.iter().map(|f| (f.index, f.in_message)).collect::<Vec<_>>(), [(1, false)]);
        assert!(faults[0].why.starts_with("compilation failed: "), "{}", faults[0].why);
    }
}
