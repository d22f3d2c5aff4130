//! Reads a template (client-go 1.36, `util/jsonpath`).
//!
//! Invariant: a template of finite length is read in time that grows with it; the nesting of filters and unions is
//! bounded.

/// Filters within filters beyond this are refused, so that no template can exhaust the stack.
const DEPTH_MAX: usize = 32;

/// A template that has been understood.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template(pub(super) Vec<Block>);

/// A piece of a template, at its top.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    /// Printed as it stands.
    Text(String),
    /// What stands in braces.
    Action(Vec<Step>),
    /// `{range PATH}BODY{end}`: the body once for each value of the path.
    Range(Vec<Step>, Vec<Block>),
}

/// A step from values to values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// `"text"`: this instead of the values.
    Text(String),
    /// A number, in filters.
    Number(f64),
    /// `true`, in filters.
    Bool(bool),
    /// `.name`
    Field(String),
    /// `.*`
    Wildcard,
    /// `..`
    Recursive,
    /// `[1]`, `[0:2]`, `[*]`
    Slice(Slice),
    /// `['a','b']`
    Union(Vec<Vec<Step>>),
    /// `[?(@.a=="b")]`
    Filter { left: Vec<Step>, operator: Operator, right: Vec<Step> },
}

/// A part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) from: Option<i64>,
    pub(super) to: End,
    pub(super) step: Option<i64>,
}

/// Where a part of a list ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At the list's end.
    Open,
    /// Behind the item it begins with: `[1]`.
    One,
    /// Before this item; negative: counted from the end.
    At(i64),
}

/// How a filter compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Exists,
    Less,
    Greater,
    Equal,
    NotEqual,
    LessOrEqual,
    GreaterOrEqual,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// kubectl's words for what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Template, String> {
        let mut tokens = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                tokens.push(Token::Text(rest[..open].to_owned()));
            }
            let (steps, keyword, behind) = action(&rest[open + 1..], 0)?;
            tokens.push(match keyword {
                Some(Keyword::Range) => Token::Range(steps),
                Some(Keyword::End) => Token::End,
                None => Token::Action(steps),
            });
            rest = behind;
        }
        if !rest.is_empty() {
            tokens.push(Token::Text(rest.to_owned()));
        }
        let mut tokens = tokens.into_iter();
        let (blocks, was_ended) = nest(&mut tokens);
        if was_ended {
            return Err("not in range, nothing to end".to_owned());
        }
        Ok(Template(blocks))
    }
}

/// The template of a path as it may be given where only a path makes sense: `a.b`, `.a.b`, `{a.b}`, `{.a.b}`.
///
/// # Errors
/// kubectl's words.
pub(crate) fn relaxed(path: &str) -> Result<(String, Template), String> {
    if path.is_empty() {
        return Ok((String::new(), Template(Vec::new())));
    }
    let inner = path.strip_prefix('{').and_then(|p| p.strip_suffix('}')).unwrap_or(path);
    let inner = inner.strip_prefix('.').unwrap_or(inner);
    if inner.is_empty() || inner.contains(['{', '}']) {
        return Err("unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or \
                    '{.name1.name2}'"
            .to_owned());
    }
    let text = format!("{{.{inner}}}");
    let template = Template::parse(&text)?;
    Ok((text, template))
}

enum Token {
    Text(String),
    Action(Vec<Step>),
    Range(Vec<Step>),
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Range,
    End,
}

/// Puts what stands between `{range}` and `{end}` into its range; a range that is never ended goes to the end. Also
/// tells whether an `{end}` was met.
fn nest(tokens: &mut std::vec::IntoIter<Token>) -> (Vec<Block>, bool) {
    // A stack of its own instead of recursion: ranges may be nested as deeply as the template is long.
    let mut open: Vec<(Vec<Step>, Vec<Block>)> = Vec::new();
    let mut blocks = Vec::new();
    for token in tokens {
        match token {
            Token::Text(text) => blocks.push(Block::Text(text)),
            Token::Action(steps) => blocks.push(Block::Action(steps)),
            Token::Range(steps) => open.push((steps, std::mem::take(&mut blocks))),
            Token::End => match open.pop() {
                None => return (blocks, true),
                Some((steps, outer)) => {
                    let body = std::mem::replace(&mut blocks, outer);
                    blocks.push(Block::Range(steps, body));
                }
            },
        }
    }
    while let Some((steps, outer)) = open.pop() {
        let body = std::mem::replace(&mut blocks, outer);
        blocks.push(Block::Range(steps, body));
    }
    (blocks, false)
}

/// Reads from behind `{` to its `}`; gives what stands behind that too.
fn action(text: &str, depth: usize) -> Result<(Vec<Step>, Option<Keyword>, &str), String> {
    if depth > DEPTH_MAX {
        return Err("too many filters within filters".to_owned());
    }
    let (mut steps, mut keyword, mut rest) = (Vec::new(), None, text);
    loop {
        let Some(c) = rest.chars().next() else { return Err("unclosed action".to_owned()) };
        let behind = &rest[c.len_utf8()..];
        match c {
            '}' => return Ok((steps, keyword, behind)),
            '\n' => return Err("unclosed action".to_owned()),
            ' ' | '@' | '$' => rest = behind,
            '[' if rest.starts_with("[?(") => rest = filter(&rest[3..], &mut steps, depth)?,
            '[' => rest = array(behind, &mut steps, depth)?,
            '"' | '\'' => rest = quoted(rest, c, &mut steps)?,
            '.' if behind.starts_with('.') => {
                steps.push(Step::Recursive);
                // `..name`: the name is a field like any other.
                let next = behind[1..].chars().next().unwrap_or('}');
                rest = if next.is_alphanumeric() || next == '_' { behind } else { &behind[1..] };
                if rest.len() == behind.len() {
                    rest = field(&behind[1..], &mut steps);
                }
            }
            '.' => rest = field(behind, &mut steps),
            '+' | '-' | '0'..='9' => rest = number(rest, &mut steps)?,
            c if c.is_alphanumeric() || c == '_' => {
                let end = rest.find(is_terminator).unwrap_or(rest.len());
                match &rest[..end] {
                    "range" => keyword = Some(Keyword::Range),
                    "end" => keyword = Some(Keyword::End),
                    "true" => steps.push(Step::Bool(true)),
                    "false" => steps.push(Step::Bool(false)),
                    word => return Err(format!("unrecognized identifier {word}")),
                }
                rest = &rest[end..];
            }
            c => return Err(format!("unrecognized character in action: U+{:04X} '{c}'", u32::from(c))),
        }
    }
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// A name; a backslash takes its character's meaning away.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let (mut name, mut end) = (String::new(), text.len());
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            name.extend(chars.next().map(|(_, c)| c));
        } else if is_terminator(c) {
            end = at;
            break;
        } else {
            name.push(c);
        }
    }
    steps.push(if name == "*" { Step::Wildcard } else { Step::Field(name) });
    &text[end..]
}

fn number<'a>(text: &'a str, steps: &mut Vec<Step>) -> Result<&'a str, String> {
    let end = text[1..].find(|c: char| !(c.is_ascii_digit() || c == '.')).map_or(text.len(), |n| n + 1);
    let word = &text[..end];
    steps.push(Step::Number(word.parse().map_err(|_| format!("cannot parse number {word}"))?));
    Ok(&text[end..])
}

fn quoted<'a>(text: &'a str, quote: char, steps: &mut Vec<Step>) -> Result<&'a str, String> {
    let mut value = String::new();
    let mut chars = text[1..].char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => break,
            '\\' => match chars.next().map(|(_, c)| c) {
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some('r') => value.push('\r'),
                Some(c @ ('\\' | '"' | '\'')) => value.push(c),
                Some(other) => return Err(format!("unquote string {text} error: \\{other} is no escape")),
                None => break,
            },
            c if c == quote => {
                steps.push(Step::Text(value));
                return Ok(&text[at + 2..]);
            }
            c => value.push(c),
        }
    }
    Err("unterminated quoted string".to_owned())
}

fn array<'a>(text: &'a str, steps: &mut Vec<Step>, depth: usize) -> Result<&'a str, String> {
    let end = text.find([']', '\n']).filter(|at| text[*at..].starts_with(']')).ok_or("unterminated array")?;
    let (inner, behind) = (&text[..end], &text[end + 1..]);
    if inner.contains(',') {
        let parts = inner.split(',').map(|part| inside(&format!("[{}]", part.trim_matches(' ')), depth));
        steps.push(Step::Union(parts.collect::<Result<_, _>>()?));
    } else if let Some(key) = inner.strip_prefix('\'').and_then(|k| k.strip_suffix('\'')) {
        steps.extend(inside(&format!(".{key}"), depth)?);
    } else {
        steps.push(Step::Slice(slice(inner).ok_or_else(|| format!("invalid array index {inner}"))?));
    }
    Ok(behind)
}

/// What stands within an action, read as an action of its own.
fn inside(text: &str, depth: usize) -> Result<Vec<Step>, String> {
    action(&format!("{text}}}"), depth + 1).map(|(steps, _, _)| steps)
}

fn slice(text: &str) -> Option<Slice> {
    if text == "*" {
        return Some(Slice { from: None, to: End::Open, step: None });
    }
    let parts: Vec<&str> = text.split(':').collect();
    let number = |index: usize| match parts.get(index) {
        None | Some(&"") => Some(None),
        Some(word) if word.starts_with('+') => None,
        Some(word) => word.parse::<i64>().ok().map(Some),
    };
    if parts.len() > 3 || text.is_empty() {
        return None;
    }
    let from = number(0)?;
    let to = match (parts.len(), number(1)?) {
        (1, _) => End::One,
        (_, None) => End::Open,
        (_, Some(at)) => End::At(at),
    };
    Some(Slice { from, to, step: number(2)? })
}

/// From behind `[?(` to behind `)]`.
fn filter<'a>(text: &'a str, steps: &mut Vec<Step>, depth: usize) -> Result<&'a str, String> {
    let (mut quote, mut before, mut end) = (None, ' ', None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('\n', _) => break,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open && before != '\\' => quote = None,
            (')', None) => {
                end = Some(at);
                break;
            }
            _ => {}
        }
        before = c;
    }
    let end = end.ok_or("unterminated filter")?;
    let behind = text[end + 1..].strip_prefix(']').ok_or("unclosed array expect ]")?;
    let inner = &text[..end];
    let is_sign = |c: char| "!<>=".contains(c);
    let Some(at) = inner.find(is_sign).filter(|at| *at > 0) else {
        steps.push(Step::Filter { left: inside(inner, depth)?, operator: Operator::Exists, right: Vec::new() });
        return Ok(behind);
    };
    let sign_end = inner[at..].find(|c| !is_sign(c)).map_or(inner.len(), |n| at + n);
    let operator = match &inner[at..sign_end] {
        "<" => Operator::Less,
        ">" => Operator::Greater,
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<=" => Operator::LessOrEqual,
        ">=" => Operator::GreaterOrEqual,
        other => return Err(format!("unrecognized filter operator {other}")),
    };
    let (left, right) = (inside(&inner[..at], depth)?, inside(&inner[sign_end..], depth)?);
    steps.push(Step::Filter { left, operator, right });
    Ok(behind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_told_in_kubectls_words() {
        for (text, problem) in [
            ("{.data", "unclosed action"),
            ("{.metadata[}", "unterminated array"),
            ("{.a[x]}", "invalid array index x"),
            ("{.a[?(@.b==\"c\"]}", "unterminated filter"),
            ("{.a[?(@.b)}", "unclosed array expect ]"),
            ("{.a[?(@.b=~\"c\")]}", "unrecognized filter operator ="),
            ("{\"a}", "unterminated quoted string"),
            ("{metadata.name}", "unrecognized identifier metadata"),
            ("{end}", "not in range, nothing to end"),
            ("{.a|.b}", ""),
        ] {
            match Template::parse(text) {
                Err(told) => assert_eq!(told, problem, "{text}"),
                Ok(template) => assert_eq!(problem, "", "{text}: {template:?}"),
            }
        }
        assert!(Template::parse(&"{.a[?(@.b".repeat(2000)).is_err());
        assert!(Template::parse(&"{range .a}".repeat(10_000)).is_ok());
    }

    #[test]
    fn a_path_alone_may_come_without_braces_or_dot() {
        for path in ["a.b", ".a.b", "{a.b}", "{.a.b}"] {
            let (text, template) = relaxed(path).expect("a path");
            assert_eq!(text, "{.a.b}");
            assert_eq!(template.0, [Block::Action(vec![Step::Field("a".into()), Step::Field("b".into())])]);
        }
        assert!(relaxed("{.a}{.b}").is_err());
        assert_eq!(relaxed(".metadata["), Err("unterminated array".to_owned()));
    }
}
