//! A template's text into tokens.

use listwatch_proto::go_quote::{quote, quote_rune};

/// A part of a template: text, or what stands in `{{ }}`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Part {
    Text(String),
    Action(Vec<Token>, usize),
}

/// A word of an action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// `.a.b`, and `.` alone: no names.
    Field(Vec<String>),
    /// `$x.a.b`: the variable's name without `$`, then the fields.
    Variable(String, Vec<String>),
    /// A function, or a word of the language.
    Word(String),
    Text(String),
    Number(f64),
    Open,
    /// With the fields behind it: `(index .a 0).b`.
    Close(Vec<String>),
    Pipe,
    Comma,
    /// `:=`
    Declare,
    /// `=`
    Assign,
}

/// Cuts a template into its parts; a fault comes with its line.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, String> {
    let fault = |at: usize, why: &str| format!("template: output:{}: {why}", line_of(text, at));
    let mut parts = Vec::new();
    let mut rest = 0;
    let mut trims_next = false;
    loop {
        let open = text[rest..].find("{{").map(|at| rest + at);
        let mut plain = &text[rest..open.unwrap_or(text.len())];
        if trims_next {
            plain = plain.trim_start();
        }
        let Some(open) = open else {
            parts.push(Part::Text(plain.to_owned()));
            return Ok(parts);
        };
        let mut begin = open + 2;
        if text[begin..].starts_with("- ") || text[begin..].starts_with("-\n") || text[begin..].starts_with("-\t") {
            plain = plain.trim_end();
            begin += 1;
        }
        parts.push(Part::Text(plain.to_owned()));
        let comment = text[begin..].trim_start();
        if comment.starts_with("/*") {
            let end = comment.find("*/").ok_or_else(|| fault(open, "unclosed comment"))?;
            let after = comment[end + 2..].trim_start();
            let close = if after.starts_with("-}}") { 3 } else { 2 };
            if !after.starts_with("}}") && close == 2 {
                return Err(fault(open, "comment ends before closing delimiter"));
            }
            trims_next = close == 3;
            rest = text.len() - after.len() + close;
            continue;
        }
        let (tokens, end, trims) = action(text, begin).map_err(|(at, why)| fault(at, &why))?;
        parts.push(Part::Action(tokens, open));
        (rest, trims_next) = (end, trims);
    }
}

/// The line of a place, counted from one.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

type Fault = (usize, String);

/// The tokens of an action, where the text goes on behind it, and whether blanks there are dropped.
fn action(text: &str, begin: usize) -> Result<(Vec<Token>, usize, bool), Fault> {
    let mut tokens = Vec::new();
    let mut at = begin;
    loop {
        let rest = &text[at..];
        let skipped = rest.len() - rest.trim_start().len();
        if skipped > 0 && rest.trim_start().starts_with("-}}") {
            return Ok((tokens, at + skipped + 3, true));
        }
        at += skipped;
        let rest = &text[at..];
        if rest.starts_with("}}") {
            return Ok((tokens, at + 2, false));
        }
        let Some(first) = rest.chars().next() else { return Err((at, "unclosed action".to_owned())) };
        let (token, length) = token(rest, first).map_err(|why| (at, why))?;
        tokens.push(token);
        at += length;
    }
}

fn token(rest: &str, first: char) -> Result<(Token, usize), String> {
    Ok(match first {
        '"' => quoted(rest)?,
        '`' => {
            let end = rest[1..].find('`').ok_or("unterminated raw quoted string")?;
            (Token::Text(rest[1..=end].to_owned()), end + 2)
        }
        '\'' => {
            let (text, length) = until(rest, '\'').ok_or("unterminated character constant")?;
            let c = text.chars().next().ok_or("malformed character constant")?;
            (Token::Number(f64::from(c as u32)), length)
        }
        '(' => (Token::Open, 1),
        ')' => {
            let (fields, length) = fields(&rest[1..])?;
            (Token::Close(fields), length + 1)
        }
        '|' => (Token::Pipe, 1),
        ',' => (Token::Comma, 1),
        ':' if rest.starts_with(":=") => (Token::Declare, 2),
        '=' => (Token::Assign, 1),
        '$' => {
            let name = word(&rest[1..]);
            let (fields, length) = fields(&rest[1 + name.len()..])?;
            (Token::Variable(name.to_owned(), fields), 1 + name.len() + length)
        }
        '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            let (fields, length) = fields(rest)?;
            if fields.is_empty() { (Token::Field(fields), 1) } else { (Token::Field(fields), length) }
        }
        c if c.is_ascii_digit() || "+-.".contains(c) => {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
            let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            let number = rest[..length].replace('_', "").parse();
            (Token::Number(number.map_err(|_| format!("bad number syntax: {}", quote(&rest[..length])))?), length)
        }
        c if c.is_alphabetic() || c == '_' => {
            let name = word(rest);
            (Token::Word(name.to_owned()), name.len())
        }
        c => return Err(format!("unexpected {} in command", quote_rune(c))),
    })
}

fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// `.a.b`, and how long that is.
fn fields(text: &str) -> Result<(Vec<String>, usize), String> {
    let (mut fields, mut at) = (Vec::new(), 0);
    while text[at..].starts_with('.') {
        let name = word(&text[at + 1..]);
        if name.is_empty() {
            if fields.is_empty() {
                break;
            }
            return Err(format!("unexpected <.> after {}", quote(&text[..at])));
        }
        fields.push(name.to_owned());
        at += 1 + name.len();
    }
    Ok((fields, at))
}

/// What stands before the next of this mark that no `\` precedes, and the length with both marks.
fn until(rest: &str, mark: char) -> Option<(String, usize)> {
    let (mut text, mut chars) = (String::new(), rest.char_indices().skip(1));
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => return None,
            '\\' => text.push(match chars.next()?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                other => other,
            }),
            c if c == mark => return Some((text, at + c.len_utf8())),
            c => text.push(c),
        }
    }
    None
}

fn quoted(rest: &str) -> Result<(Token, usize), String> {
    let (text, length) = until(rest, '"').ok_or("unterminated quoted string")?;
    Ok((Token::Text(text), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_actions_are_told_apart() {
        let text = |text: &str| Part::Text(text.to_owned());
        let name = Token::Field(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(parts("x {{.a.b}} y"), Ok(vec![text("x "), Part::Action(vec![name.clone()], 2), text(" y")]));
        assert_eq!(parts("x {{- .a.b -}} y"), Ok(vec![text("x"), Part::Action(vec![name], 2), text("y")]));
        assert_eq!(parts("{{/* no */}}z"), Ok(vec![text(""), text("z")]));
        let Ok(all) = parts("{{$k, $v := range `a` \"b\\n\" 'c' 1.5 (.x).y | len}}") else { panic!("parts") };
        let Part::Action(tokens, _) = &all[1] else { panic!("an action") };
        assert_eq!(tokens.len(), 14, "{tokens:?}");
        assert_eq!(tokens[5], Token::Text("a".to_owned()));
        assert_eq!(tokens[11], Token::Close(vec!["y".to_owned()]));
    }

    #[test]
    fn faults_name_their_line() {
        for (template, fault) in [
            ("{{.metadata.name", "template: output:1: unclosed action"),
            ("a\n{{\"b}}", "template: output:2: unterminated quoted string"),
            ("{{1x}}", "template: output:1: bad number syntax: \"1x\""),
            ("{{/* x", "template: output:1: unclosed comment"),
            ("{{ ; }}", "template: output:1: unexpected ';' in command"),
        ] {
            assert_eq!(parts(template), Err(fault.to_owned()), "{template}");
        }
    }
}
