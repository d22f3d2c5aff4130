//! Tokens into a tree.

use listwatch_proto::go_quote::quote;

use super::lex::{Part, Token, line_of, parts};

/// What is done, one after the other.
pub(super) type Block = Vec<Node>;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Text(String),
    /// What it comes to is printed, unless it goes into a variable.
    Print(Pipeline),
    If(Pipeline, Block, Block),
    /// The object is what the pipeline comes to.
    With(Pipeline, Block, Block),
    Range(Pipeline, Block, Block),
    Break,
    Continue,
}

/// Commands, each with what the one before came to as its last argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pipeline {
    /// Variables that it goes into, and whether they are new.
    pub(super) variables: Vec<String>,
    pub(super) declares: bool,
    pub(super) commands: Vec<Vec<Operand>>,
    /// Where it stands in the template.
    pub(super) at: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    Field(Vec<String>),
    Variable(String, Vec<String>),
    Function(String),
    Text(String),
    Number(f64),
    Bool(bool),
    Nil,
    Group(Box<Pipeline>, Vec<String>),
}

/// Reads a template.
///
/// # Errors
/// Go's words, with the line.
pub(super) fn parse(text: &str) -> Result<Block, String> {
    let mut parser = Parser { text, parts: parts(text)?.into_iter().peekable() };
    match parser.block(false)? {
        (block, Stop::Text) => Ok(block),
        (_, Stop::End) => Err("template: output:1: unexpected {{end}}".to_owned()),
        (_, Stop::Else(..)) => Err("template: output:1: unexpected {{else}}".to_owned()),
    }
}

struct Parser<'a> {
    text: &'a str,
    parts: std::iter::Peekable<std::vec::IntoIter<Part>>,
}

/// What a block ends with.
enum Stop {
    Text,
    End,
    /// With what stands behind it: `else if`.
    Else(Vec<Token>, usize),
}

impl Parser<'_> {
    fn fault(&self, at: usize, why: &str) -> String {
        format!("template: output:{}: {why}", line_of(self.text, at))
    }

    fn block(&mut self, in_range: bool) -> Result<(Block, Stop), String> {
        let mut block = Vec::new();
        loop {
            let (tokens, at) = match self.parts.next() {
                None => return Ok((block, Stop::Text)),
                Some(Part::Text(text)) => {
                    block.push(Node::Text(text));
                    continue;
                }
                Some(Part::Action(tokens, at)) => (tokens, at),
            };
            let word = match tokens.first() {
                Some(Token::Word(word)) => word.as_str(),
                Some(_) => "",
                None => return Err(self.fault(at, "missing value for command")),
            };
            match word {
                "end" => return Ok((block, Stop::End)),
                "else" => return Ok((block, Stop::Else(tokens[1..].to_vec(), at))),
                "if" | "with" | "range" => {
                    let (word, tokens) = (word.to_owned(), tokens[1..].to_vec());
                    block.push(self.control(&word, &tokens, at, in_range)?);
                }
                "break" | "continue" if in_range && tokens.len() == 1 => {
                    block.push(if word == "break" { Node::Break } else { Node::Continue });
                }
                "break" | "continue" => return Err(self.fault(at, &format!("{{{{{word}}}}} outside {{{{range}}}}"))),
                "define" | "block" | "template" => {
                    return Err(self.fault(at, &format!("{{{{{word}}}}} is not supported")));
                }
                _ => block.push(Node::Print(self.pipeline(&tokens, at)?)),
            }
        }
    }

    fn control(&mut self, word: &str, tokens: &[Token], at: usize, in_range: bool) -> Result<Node, String> {
        if tokens.is_empty() {
            return Err(self.fault(at, &format!("missing value for {word}")));
        }
        let pipeline = self.pipeline(tokens, at)?;
        let (body, end) = self.block(in_range || word == "range")?;
        let otherwise = match end {
            Stop::End => Vec::new(),
            Stop::Text => return Err(self.fault(self.text.len(), "unexpected EOF")),
            Stop::Else(more, _) if more.is_empty() => match self.block(in_range)? {
                (block, Stop::End) => block,
                (_, Stop::Text) => return Err(self.fault(self.text.len(), "unexpected EOF")),
                (_, Stop::Else(_, at)) => return Err(self.fault(at, "expected end; found {{else}}")),
            },
            // `else if` is an if in the else, and has the same end.
            Stop::Else(more, at) => match more.split_first() {
                Some((Token::Word(again), rest)) if again == word && word != "range" => {
                    let rest = rest.to_vec();
                    vec![self.control(word, &rest, at, in_range)?]
                }
                _ => return Err(self.fault(at, "unexpected value in {{else}}")),
            },
        };
        Ok(match word {
            "if" => Node::If(pipeline, body, otherwise),
            "with" => Node::With(pipeline, body, otherwise),
            _ => Node::Range(pipeline, body, otherwise),
        })
    }

    fn pipeline(&self, tokens: &[Token], at: usize) -> Result<Pipeline, String> {
        let mut rest = tokens;
        let (mut variables, mut declares) = (Vec::new(), false);
        let mark = tokens.iter().position(|token| matches!(token, Token::Declare | Token::Assign));
        if let Some(mark) = mark {
            for token in &tokens[..mark] {
                match token {
                    Token::Variable(name, fields) if fields.is_empty() && !name.is_empty() => {
                        variables.push(name.clone());
                    }
                    Token::Comma => {}
                    other => return Err(self.fault(at, &format!("unexpected {other:?} in declaration"))),
                }
            }
            declares = tokens[mark] == Token::Declare;
            rest = &tokens[mark + 1..];
        }
        let (commands, end) = self.commands(rest, at)?;
        if end < rest.len() {
            return Err(self.fault(at, &format!("unexpected {:?} in command", rest[end])));
        }
        Ok(Pipeline { variables, declares, commands, at })
    }

    /// Commands up to the end or to a closing bracket, and where that is.
    fn commands(&self, tokens: &[Token], at: usize) -> Result<(Vec<Vec<Operand>>, usize), String> {
        let mut commands = vec![Vec::new()];
        let mut index = 0;
        while let Some(token) = tokens.get(index) {
            index += 1;
            let operand = match token {
                Token::Pipe => {
                    commands.push(Vec::new());
                    continue;
                }
                Token::Close(_) => {
                    index -= 1;
                    break;
                }
                Token::Open => {
                    let (inner, end) = self.commands(&tokens[index..], at)?;
                    let Some(Token::Close(fields)) = tokens.get(index + end) else {
                        return Err(self.fault(at, "unclosed left paren"));
                    };
                    index += end + 1;
                    let group = Pipeline { variables: Vec::new(), declares: false, commands: inner, at };
                    Operand::Group(Box::new(group), fields.clone())
                }
                Token::Field(fields) => Operand::Field(fields.clone()),
                Token::Variable(name, fields) => Operand::Variable(name.clone(), fields.clone()),
                Token::Text(text) => Operand::Text(text.clone()),
                Token::Number(number) => Operand::Number(*number),
                Token::Word(word) => match word.as_str() {
                    "true" => Operand::Bool(true),
                    "false" => Operand::Bool(false),
                    "nil" => Operand::Nil,
                    name if super::functions::is_one(name) => Operand::Function(name.to_owned()),
                    name => return Err(self.fault(at, &format!("function {} not defined", quote(&name)))),
                },
                other => return Err(self.fault(at, &format!("unexpected {other:?} in operand"))),
            };
            commands.last_mut().expect("there is always one").push(operand);
        }
        if commands.iter().any(Vec::is_empty) {
            return Err(self.fault(at, "missing value for command"));
        }
        Ok((commands, index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_must_be_closed_and_words_known() {
        for (template, fault) in [
            ("{{if .a}}x", "unexpected EOF"),
            ("{{end}}", "unexpected {{end}}"),
            ("{{else}}", "unexpected {{else}}"),
            ("{{nope .a}}", "function \"nope\" not defined"),
            ("{{range}}{{end}}", "missing value for range"),
            ("{{}}", "missing value for command"),
            ("{{.a |}}", "missing value for command"),
            ("{{(.a}}", "unclosed left paren"),
            ("{{break}}", "{{break}} outside {{range}}"),
            ("{{define \"x\"}}{{end}}", "{{define}} is not supported"),
        ] {
            assert_eq!(parse(template), Err(format!("template: output:1: {fault}")), "{template}");
        }
        let Ok(block) = parse("{{if .a}}1{{else if .b}}2{{else}}3{{end}}") else { panic!("a template") };
        assert!(matches!(&block[1], Node::If(_, _, otherwise) if matches!(otherwise[0], Node::If(..))));
    }
}
