//! The evaluation of a rule in CEL, which counts what it costs and stops in the middle when that is too much.
//!
//! The walk over the expression is this file's own: the library's knows no budget, and copies a list whenever it reads one.
//! Functions, and operators on rare types, are the library's; they are called on values that are ready, after their cost is
//! paid. The numbers are upstream's (cel-go's runtime cost, Kubernetes 1.36): a name or a field costs one, a list ten, a map
//! thirty, a function what its arguments measure. Where the library here does more work than upstream's, that is paid too.
//!
//! Invariant: nothing is done whose cost has not been paid, and between two payments there is no more work than a small
//! multiple of what was paid.

use std::sync::{Arc, LazyLock};

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use kube_cel::cel::objects::{Key, KeyRef};
use kube_cel::cel::{Context, ExecutionError, Value};

/// What one rule may cost on one value (upstream's `PerCallLimit`).
pub(super) const CALL_MAX: u64 = 1_000_000;
/// What a list costs.
const LIST: u64 = 10;
/// What a map costs.
const MAP: u64 = 30;

/// All functions that rules may call.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

type Result<T = Value> = std::result::Result<T, ExecutionError>;

/// One evaluation.
#[derive(Debug)]
pub(super) struct Evaluation {
    /// What names stand for; the last of a name counts.
    names: Vec<(String, Value)>,
    left: u64,
    spent: u64,
    /// Whether more was wanted than there was.
    pub(super) ran_out: bool,
}

impl Evaluation {
    /// One that may cost `most`.
    pub(super) fn new(names: Vec<(String, Value)>, most: u64) -> Evaluation {
        Evaluation { names, left: most, spent: 0, ran_out: false }
    }

    /// What it has cost so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }

    fn pay(&mut self, cost: u64) -> Result<()> {
        if cost > self.left {
            // Whatever swallows the error finds nothing left either.
            self.spent += self.left;
            self.left = 0;
            self.ran_out = true;
            return Err(ExecutionError::function_error("cost", "operation cancelled: actual cost limit exceeded"));
        }
        self.left -= cost;
        self.spent += cost;
        Ok(())
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// Why it has none; `ran_out` tells whether that is for its cost.
    pub(super) fn value(&mut self, expr: &IdedExpr) -> Result {
        match &expr.expr {
            Expr::Literal(literal) => literal.to_val().as_ref().try_into(),
            Expr::Ident(name) => {
                self.pay(1)?;
                let known = self.names.iter().rev().find(|(own, _)| own == name);
                known.map(|(_, value)| value.clone()).ok_or_else(|| ExecutionError::undeclared_reference(name))
            }
            Expr::Select(select) => {
                let above = self.value(&select.operand)?;
                self.pay(1)?;
                let Value::Map(map) = above else { return Ok(Value::Bool(false)) };
                let found = map.get(&KeyRef::String(&select.field));
                if select.test {
                    return Ok(Value::Bool(found.is_some()));
                }
                found.cloned().ok_or_else(|| ExecutionError::no_such_key(&select.field))
            }
            Expr::List(list) => {
                self.pay(LIST)?;
                let items = list.elements.iter().map(|item| self.value(item)).collect::<Result<Vec<_>>>()?;
                if list.optional_indices.is_empty() {
                    return Ok(Value::List(Arc::new(items)));
                }
                let mut ready = list.clone();
                let bound = bind(ready.elements.iter_mut(), items);
                self.library(Expr::List(ready), bound)
            }
            Expr::Map(map) => {
                self.pay(MAP)?;
                let mut ready = map.clone();
                let mut parts = Vec::new();
                for entry in &mut ready.entries {
                    let EntryExpr::MapEntry(entry) = &mut entry.expr else { return Err(no_structs()) };
                    parts.push(&mut entry.key);
                    parts.push(&mut entry.value);
                }
                let values = parts.iter().map(|part| self.value(part)).collect::<Result<Vec<_>>>()?;
                let bound = bind(parts.into_iter(), values);
                self.library(Expr::Map(ready), bound)
            }
            Expr::Comprehension(round) => self.comprehension(round),
            Expr::Call(call) => self.call(call),
            Expr::Struct(_) | Expr::Unspecified => Err(no_structs()),
        }
    }

    fn comprehension(&mut self, round: &ComprehensionExpr) -> Result {
        let start = self.value(&round.accu_init)?;
        let range = self.value(&round.iter_range)?;
        let keys: Vec<Value>;
        let items = match &range {
            Value::List(items) => items.as_slice(),
            Value::Map(map) => {
                self.pay(tenth(map.map.len() as u64))?;
                keys = map.map.keys().map(Value::from).collect();
                keys.as_slice()
            }
            _ => return Err(ExecutionError::NoSuchOverload),
        };
        let depth = self.names.len();
        self.names.push((round.accu_var.clone(), start));
        let result = self.rounds(round, items, depth);
        self.names.truncate(depth);
        result
    }

    fn rounds(&mut self, round: &ComprehensionExpr, items: &[Value], at: usize) -> Result {
        for item in items {
            if !is_true(self.value(&round.loop_cond))? {
                break;
            }
            self.names.push((round.iter_var.clone(), item.clone()));
            let next = self.value(&round.loop_step);
            self.names.truncate(at + 1);
            self.names[at].1 = next?;
        }
        self.value(&round.result)
    }

    fn call(&mut self, call: &CallExpr) -> Result {
        match (call.func_name.as_str(), call.target.as_deref(), call.args.as_slice()) {
            (operators::CONDITIONAL, None, [cond, yes, no]) => {
                let cond = is_true(self.value(cond))?;
                self.value(if cond { yes } else { no })
            }
            (operators::LOGICAL_OR, None, [left, right]) => self.either(left, right, true),
            (operators::LOGICAL_AND, None, [left, right]) => self.either(left, right, false),
            (operators::LOGICAL_NOT, None, [of]) => {
                let own = is_true(self.value(of))?;
                self.pay(1)?;
                Ok(Value::Bool(!own))
            }
            (operators::NOT_STRICTLY_FALSE, None, [of]) => {
                let own = is_true(self.value(of)).unwrap_or(true);
                self.pay(1)?;
                Ok(Value::Bool(own))
            }
            (operators::ADD, None, [left, right]) => self.add(left, right),
            (name, None, [left, right]) if name.starts_with(['_', '@']) => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                self.operator(call, left, right)
            }
            _ => self.function(call),
        }
    }

    /// `||` and `&&`: a side that decides makes good for an error on the other one.
    fn either(&mut self, left: &IdedExpr, right: &IdedExpr, decides: bool) -> Result {
        let left = is_true(self.value(left));
        if left == Ok(decides) {
            return Ok(Value::Bool(decides));
        }
        let right = self.value(right)?;
        match (left, right) {
            (Ok(_), Value::Bool(right)) => Ok(Value::Bool(right)),
            (Err(_), Value::Bool(right)) if right == decides => Ok(Value::Bool(decides)),
            (Err(error), _) => Err(error),
            _ => Err(ExecutionError::NoSuchOverload),
        }
    }

    fn add(&mut self, left: &IdedExpr, right: &IdedExpr) -> Result {
        // What a loop gathers is added to where it is, not copied for each round; nothing else reads it in between.
        if let Expr::Ident(name) = &left.expr
            && name.starts_with('@')
        {
            let right = self.value(right)?;
            self.pay(2 + tenth(weight(&right)))?;
            let known = self.names.iter_mut().rev().find(|(own, _)| own == name);
            let (_, gathered) = known.ok_or_else(|| ExecutionError::undeclared_reference(name))?;
            return std::mem::replace(gathered, Value::Null) + right;
        }
        let (left, right) = (self.value(left)?, self.value(right)?);
        self.pay(tenth(size(&left).saturating_add(size(&right))).max(1))?;
        if let (Value::Bytes(left), Value::Bytes(right)) = (&left, &right) {
            return Ok(Value::Bytes(Arc::new([left.as_slice(), right.as_slice()].concat())));
        }
        left + right
    }

    /// An operator on two values.
    fn operator(&mut self, call: &CallExpr, left: Value, right: Value) -> Result {
        let name = call.func_name.as_str();
        match (name, &left, &right) {
            (operators::EQUALS | operators::NOT_EQUALS, _, _) => {
                self.pay(comparing(&left, &right))?;
                Ok(Value::Bool((left == right) == (name == operators::EQUALS)))
            }
            (operators::INDEX, Value::List(items), Value::Int(at)) => {
                self.pay(1)?;
                let found = usize::try_from(*at).ok().and_then(|at| items.get(at));
                found.cloned().ok_or(ExecutionError::IndexOutOfBounds(right))
            }
            (operators::INDEX, Value::Map(map), Value::String(key)) => {
                self.pay(1)?;
                let found = map.get(&KeyRef::String(key));
                found.cloned().ok_or_else(|| ExecutionError::no_such_key(key))
            }
            (operators::IN, _, Value::List(items)) => {
                self.pay(1)?;
                for item in items.iter() {
                    self.pay(comparing(&left, item).max(1))?;
                    if left == *item {
                        return Ok(Value::Bool(true));
                    }
                }
                Ok(Value::Bool(false))
            }
            (operators::IN, Value::String(key), Value::Map(map)) => {
                self.pay(1)?;
                Ok(Value::Bool(map.map.contains_key(&Key::String(Arc::clone(key)))))
            }
            (operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS, _, _)
                if is_same_plain(&left, &right) =>
            {
                self.pay(comparing(&left, &right).max(1))?;
                let order = left.partial_cmp(&right);
                Ok(Value::Bool(order.is_some_and(|order| match name {
                    operators::LESS => order.is_lt(),
                    operators::LESS_EQUALS => order.is_le(),
                    operators::GREATER => order.is_gt(),
                    _ => order.is_ge(),
                })))
            }
            _ => {
                let mut ready = call.clone();
                self.pay(1)?;
                let bound = bind(ready.args.iter_mut(), vec![left, right]);
                self.library(Expr::Call(ready), bound)
            }
        }
    }

    /// A function, or a method of a value.
    fn function(&mut self, call: &CallExpr) -> Result {
        let mut ready = call.clone();
        // `math.abs(x)`: what is no name of a value is a part of the name of the function.
        let is_method = call.target.as_deref().is_some_and(|target| match &target.expr {
            Expr::Ident(name) => self.names.iter().any(|(own, _)| own == name),
            _ => true,
        });
        let mut values = Vec::with_capacity(call.args.len() + 1);
        if let Some(target) = call.target.as_deref().filter(|_| is_method) {
            values.push(self.value(target)?);
        }
        for arg in &call.args {
            values.push(self.value(arg)?);
        }
        if let ("size", [of]) = (call.func_name.as_str(), values.as_slice())
            && let Value::List(_) | Value::Map(_) = of
        {
            self.pay(1)?;
            return Ok(Value::Int(i64::try_from(size(of)).unwrap_or(i64::MAX)));
        }
        self.pay(price(&call.func_name, &values))?;
        let target = ready.target.as_deref_mut().filter(|_| is_method);
        let bound = bind(target.into_iter().chain(ready.args.iter_mut()), values);
        self.library(Expr::Call(ready), bound)
    }

    /// The library's own evaluation of an expression whose parts are values; they are copied, which is paid here.
    fn library(&mut self, ready: Expr, bound: Vec<(String, Value)>) -> Result {
        let weight = bound.iter().map(|(_, value)| weight(value)).fold(0, u64::saturating_add);
        // Small values are in the price of the function.
        if weight > 100 {
            self.pay(tenth(weight))?;
        }
        Self::call_library(ready, bound)
    }

    fn call_library(ready: Expr, bound: Vec<(String, Value)>) -> Result {
        let mut context = FUNCTIONS.new_inner_scope();
        for (name, value) in bound {
            context.add_variable_from_value(name, value);
        }
        Value::resolve(&IdedExpr { id: 0, expr: ready }, &context)
    }

    /// A text as a `timestamp` or a `duration`.
    pub(super) fn parsed(function: &str, text: &str) -> Option<Value> {
        let mut ready = CallExpr { func_name: function.to_owned(), target: None, args: vec![IdedExpr::default()] };
        let bound = bind(ready.args.iter_mut(), vec![Value::String(Arc::new(text.to_owned()))]);
        Self::call_library(Expr::Call(ready), bound).ok()
    }
}

/// Puts names in place of expressions, and tells what the names stand for.
fn bind<'e>(parts: impl Iterator<Item = &'e mut IdedExpr>, values: Vec<Value>) -> Vec<(String, Value)> {
    let mut bound = Vec::with_capacity(values.len());
    for (at, (part, value)) in parts.zip(values).enumerate() {
        // No name of a rule begins so.
        let name = format!("@{at}");
        part.expr = Expr::Ident(name.clone());
        bound.push((name, value));
    }
    bound
}

fn no_structs() -> ExecutionError {
    ExecutionError::function_error("struct", "messages are not supported")
}

fn is_true(value: Result) -> Result<bool> {
    match value? {
        Value::Bool(own) => Ok(own),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

fn is_same_plain(left: &Value, right: &Value) -> bool {
    matches!(
        (left, right),
        (Value::Int(_), Value::Int(_)) | (Value::UInt(_), Value::UInt(_)) | (Value::String(_), Value::String(_))
    )
}

/// A tenth, rounded up: what going through so many characters costs.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// What one value measures: bytes of a text, items of a list.
fn size(value: &Value) -> u64 {
    (match value {
        Value::List(items) => items.len(),
        Value::Map(map) => map.map.len(),
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 1,
    }) as u64
}

/// What a value measures with all that is in it.
fn weight(value: &Value) -> u64 {
    match value {
        Value::List(items) => items.iter().map(weight).fold(1, u64::saturating_add),
        Value::Map(map) => {
            let key = |key: &Key| if let Key::String(text) = key { text.len() as u64 } else { 1 };
            map.map.iter().fold(1, |sum: u64, (name, own)| sum.saturating_add(key(name)).saturating_add(weight(own)))
        }
        own => size(own).max(1),
    }
}

/// What comparing two values costs.
fn comparing(left: &Value, right: &Value) -> u64 {
    let both = size(left).min(size(right));
    match (left, right) {
        // Different lengths are told at once.
        (Value::List(a), Value::List(b)) if a.len() == b.len() => tenth(weight(left).saturating_add(weight(right))),
        (Value::Map(a), Value::Map(b)) if a.map.len() == b.map.len() => {
            tenth(weight(left).saturating_add(weight(right)))
        }
        (Value::List(_), Value::List(_)) | (Value::Map(_), Value::Map(_)) => 1,
        _ => tenth(both),
    }
}

/// What a function costs on values, the target first.
fn price(function: &str, values: &[Value]) -> u64 {
    let of = |at: usize| values.get(at).map_or(0, size);
    let all = values.iter().map(weight).fold(0, u64::saturating_add);
    let product = |a: u64, b: u64| a.saturating_mul(b);
    let own = match (function, values) {
        ("contains", [Value::String(_), _]) => product(tenth(of(0)), tenth(of(1))),
        ("matches" | "find" | "findAll", _) => product(tenth(of(0) + 1), of(1).div_ceil(4)),
        // Each of the one with each of the other.
        ("contains" | "equivalent" | "intersects", [Value::List(_), Value::List(_)]) => product(all, of(0).max(of(1))),
        ("distinct" | "sort" | "indexOf" | "lastIndexOf", [Value::List(_), ..]) => product(tenth(all), of(0)),
        // As many as the number says.
        ("range", _) => values
            .iter()
            .map(|value| if let Value::Int(own) = value { *own } else { 0 })
            .max()
            .map_or(0, |most| u64::try_from(most).unwrap_or(0)),
        // A text may stand between any two letters.
        ("replace", [Value::String(own), _, Value::String(to), ..]) => {
            tenth(product(own.len() as u64 + 1, to.len() as u64 + 1))
        }
        ("join", [Value::List(items), Value::String(between)]) => {
            tenth(all.saturating_add(product(items.len() as u64, between.len() as u64)))
        }
        // Each piece is a value of its own.
        ("split", _) => all,
        _ => 0,
    };
    own.max(tenth(all)).max(1)
}
