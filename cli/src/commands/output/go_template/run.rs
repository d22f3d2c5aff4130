//! A template over an object.

use serde_json::Value;

use super::functions::{call, is_true, text_of};
use super::lex::line_of;
use super::parse::{Block, Node, Operand, Pipeline, parse};

/// A template that was read.
#[derive(Debug, Clone)]
pub(in crate::commands::output) struct GoTemplate {
    text: String,
    block: Block,
}

/// What a block ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

struct Run<'a> {
    template: &'a GoTemplate,
    /// Name and value, the innermost last.
    variables: Vec<(String, Value)>,
    out: String,
}

impl GoTemplate {
    /// Reads a template.
    ///
    /// # Errors
    /// Go's words, with the line.
    pub(in crate::commands::output) fn parse(text: &str) -> Result<GoTemplate, String> {
        Ok(GoTemplate { text: text.to_owned(), block: parse(text)? })
    }

    /// What it makes of an object.
    ///
    /// # Errors
    /// Go's words, with the place.
    pub(in crate::commands::output) fn print(&self, object: &Value) -> Result<String, String> {
        let mut run = Run { template: self, variables: vec![(String::new(), object.clone())], out: String::new() };
        run.block(&self.block, object)?;
        Ok(run.out)
    }
}

impl Run<'_> {
    fn block(&mut self, block: &Block, dot: &Value) -> Result<Flow, String> {
        let depth = self.variables.len();
        let mut flow = Flow::On;
        for node in block {
            flow = self.node(node, dot)?;
            if flow != Flow::On {
                break;
            }
        }
        self.variables.truncate(depth);
        Ok(flow)
    }

    fn node(&mut self, node: &Node, dot: &Value) -> Result<Flow, String> {
        match node {
            Node::Text(text) => self.out.push_str(text),
            Node::Print(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.variables.is_empty() {
                    // A field that is not there is told so.
                    let text = if value.is_null() { "<no value>".to_owned() } else { text_of(&value) };
                    self.out.push_str(&text);
                }
            }
            Node::If(pipeline, body, otherwise) => {
                let depth = self.variables.len();
                let value = self.pipeline(pipeline, dot)?;
                let flow = self.block(if is_true(&value) { body } else { otherwise }, dot)?;
                self.variables.truncate(depth);
                return Ok(flow);
            }
            Node::With(pipeline, body, otherwise) => {
                let depth = self.variables.len();
                let value = self.pipeline(pipeline, dot)?;
                let flow = if is_true(&value) { self.block(body, &value)? } else { self.block(otherwise, dot)? };
                self.variables.truncate(depth);
                return Ok(flow);
            }
            Node::Range(pipeline, body, otherwise) => return self.range(pipeline, body, otherwise, dot),
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    fn range(&mut self, pipeline: &Pipeline, body: &Block, otherwise: &Block, dot: &Value) -> Result<Flow, String> {
        let depth = self.variables.len();
        let over = self.commands(pipeline, dot)?;
        let pairs: Vec<(Value, Value)> = match over {
            Value::Null => Vec::new(),
            Value::Array(list) => list.into_iter().enumerate().map(|(at, value)| (at.into(), value)).collect(),
            Value::Object(map) => map.into_iter().map(|(key, value)| (key.into(), value)).collect(),
            other => return Err(self.fault(pipeline, &format!("range can't iterate over {}", text_of(&other)))),
        };
        if pairs.is_empty() {
            return self.block(otherwise, dot);
        }
        for (key, value) in pairs {
            match pipeline.variables.as_slice() {
                [] => {}
                [name] => self.variables.push((name.clone(), value.clone())),
                [first, second, ..] => {
                    self.variables.push((first.clone(), key));
                    self.variables.push((second.clone(), value.clone()));
                }
            }
            let flow = self.block(body, &value)?;
            self.variables.truncate(depth);
            if flow == Flow::Break {
                break;
            }
        }
        Ok(Flow::On)
    }

    /// What the pipeline comes to, also in its variable.
    fn pipeline(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let value = self.commands(pipeline, dot)?;
        for name in &pipeline.variables {
            if pipeline.declares {
                self.variables.push((name.clone(), value.clone()));
                continue;
            }
            let known = self.variables.iter_mut().rev().find(|(known, _)| known == name);
            match known {
                Some((_, place)) => *place = value.clone(),
                None => return Err(self.fault(pipeline, &format!("undefined variable: ${name}"))),
            }
        }
        Ok(value)
    }

    fn commands(&mut self, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        let mut last: Option<Value> = None;
        for command in &pipeline.commands {
            let value = match command.as_slice() {
                [Operand::Function(name), arguments @ ..] => {
                    let mut values = Vec::new();
                    for argument in arguments {
                        values.push(self.operand(argument, pipeline, dot)?);
                    }
                    values.extend(last.take());
                    call(name, &values).map_err(|why| self.fault(pipeline, &format!("error calling {name}: {why}")))?
                }
                [one] if last.is_none() => self.operand(one, pipeline, dot)?,
                _ => return Err(self.fault(pipeline, "can't give argument to non-function")),
            };
            last = Some(value);
        }
        Ok(last.unwrap_or(Value::Null))
    }

    fn operand(&mut self, operand: &Operand, pipeline: &Pipeline, dot: &Value) -> Result<Value, String> {
        match operand {
            Operand::Field(fields) => self.fields(dot, fields, pipeline),
            Operand::Variable(name, fields) => {
                let known = self.variables.iter().rev().find(|(known, _)| known == name);
                let value = known.map(|(_, value)| value.clone());
                let value = value.ok_or_else(|| self.fault(pipeline, &format!("undefined variable \"${name}\"")))?;
                self.fields(&value, fields, pipeline)
            }
            Operand::Group(inner, fields) => {
                let value = self.commands(inner, dot)?;
                self.fields(&value, fields, pipeline)
            }
            Operand::Function(name) => {
                call(name, &[]).map_err(|why| self.fault(pipeline, &format!("error calling {name}: {why}")))
            }
            Operand::Text(text) => Ok(text.as_str().into()),
            // A whole number is one, also behind a point.
            Operand::Number(number) if number.fract() == 0.0 && number.abs() < 9e15 => Ok((*number as i64).into()),
            Operand::Number(number) => Ok((*number).into()),
            Operand::Bool(is) => Ok((*is).into()),
            Operand::Nil => Ok(Value::Null),
        }
    }

    /// Goes down the fields; the last one may be missing.
    fn fields(&self, value: &Value, fields: &[String], pipeline: &Pipeline) -> Result<Value, String> {
        let mut now = Some(value);
        for field in fields {
            now = match now {
                // What is below a field that is missing is missing, too.
                None => None,
                Some(Value::Object(map)) => map.get(field),
                Some(Value::Null) => {
                    return Err(self.fault(pipeline, &format!("nil pointer evaluating interface {{}}.{field}")));
                }
                Some(other) => {
                    let problem = format!("can't evaluate field {field} in value {}", text_of(other));
                    return Err(self.fault(pipeline, &problem));
                }
            };
        }
        Ok(now.cloned().unwrap_or(Value::Null))
    }

    fn fault(&self, pipeline: &Pipeline, why: &str) -> String {
        let text = &self.template.text;
        let begin = text[..pipeline.at].rfind('\n').map_or(0, |at| at + 1);
        let (line, column) = (line_of(text, pipeline.at), pipeline.at - begin);
        format!("template: output:{line}:{column}: executing \"output\": {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn printed(template: &str) -> Result<String, String> {
        let object = json!({
            "metadata": {"name": "alder", "labels": {"b": "2", "a": "1"}},
            "data": {"h": "30", "dotted.key": "yes"},
            "spec": {"replicas": 3, "ports": [{"port": 80}, {"port": 443}], "none": [], "null": null},
        });
        GoTemplate::parse(template)?.print(&object)
    }

    /// The first ones as recorded with kubectl 1.36.
    #[test]
    fn templates_print_as_go_prints_them() {
        for (template, text) in [
            (
                "{{.metadata.name}}:{{range $k,$v := .data}} {{$k}}={{$v}}{{end}}{{\"\\n\"}}",
                "alder: dotted.key=yes h=30\n",
            ),
            ("{{.metadata.nme}}", "<no value>"),
            ("{{.a.b.c}}", "<no value>"),
            ("{{.spec.replicas}} {{.metadata.labels}} {{.spec.ports}}", "3 map[a:1 b:2] [map[port:80] map[port:443]]"),
            ("{{range .spec.ports}}{{.port}},{{end}}", "80,443,"),
            ("{{range .spec.none}}x{{else}}empty{{end}}", "empty"),
            ("{{range $i, $p := .spec.ports}}{{if $i}}, {{end}}{{$p.port}}{{end}}", "80, 443"),
            ("{{range .spec.ports}}{{if eq .port 443}}{{break}}{{end}}{{.port}}{{end}}", "80"),
            ("{{if and .spec (gt .spec.replicas 2)}}many{{else if .spec}}few{{else}}no{{end}}", "many"),
            ("{{with .metadata}}{{.name}} {{$.spec.replicas}}{{end}}", "alder 3"),
            ("{{with .nothing}}a{{else}}b{{end}}", "b"),
            ("{{$x := .metadata.name}}{{if true}}{{$x = \"new\"}}{{end}}{{$x}}", "new"),
            ("{{index .metadata.labels \"a\"}} {{(index .spec.ports 1).port}} {{.spec.ports | len}}", "1 443 2"),
            ("{{printf \"%s-%03d\" .metadata.name 7}} {{\"Zm91cg==\" | base64decode}}", "alder-007 four"),
            ("a {{- /* trims */ -}} b {{- \"c\" }}", "abc"),
        ] {
            assert_eq!(printed(template).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn what_cannot_be_evaluated_is_told_with_its_place() {
        for (template, fault) in [
            (
                "x\n {{.spec.null.b.c}}",
                "template: output:2:1: executing \"output\": nil pointer evaluating interface {}.b",
            ),
            (
                "{{.metadata.name.x}}",
                "template: output:1:0: executing \"output\": can't evaluate field x in value alder",
            ),
            ("{{$y}}", "template: output:1:0: executing \"output\": undefined variable \"$y\""),
            (
                "{{range .spec.replicas}}{{end}}",
                "template: output:1:0: executing \"output\": range can't iterate over 3",
            ),
            ("{{.metadata .spec}}", "template: output:1:0: executing \"output\": can't give argument to non-function"),
        ] {
            assert_eq!(printed(template), Err(fault.to_owned()), "{template}");
        }
    }
}
