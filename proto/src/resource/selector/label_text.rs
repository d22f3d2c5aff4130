//! The text of a label selector: words first, then requirements (apimachinery `labels.Parse`).

use super::SelectorError;
use super::label::{Requirement, Test};
use super::names::{key_faults, value_faults};
use crate::go_quote::quote;

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Close,
    Comma,
    Not,
    Equal,
    Greater,
    In,
    Less,
    NotEqual,
    NotIn,
    Open,
    Identifier,
    /// Signs that are no operator.
    Wrong,
    End,
}

const BINARY: &str = "in, notin, =, ==, !=, gt, lt";

fn sign(text: &str) -> Option<Token> {
    Some(match text {
        ")" => Token::Close,
        "," => Token::Comma,
        "!" => Token::Not,
        "=" | "==" => Token::Equal,
        ">" => Token::Greater,
        "<" => Token::Less,
        "!=" => Token::NotEqual,
        "(" => Token::Open,
        _ => return None,
    })
}

fn is_special(b: u8) -> bool {
    matches!(b, b'=' | b'!' | b'(' | b')' | b',' | b'>' | b'<')
}

fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r' | b'\n')
}

/// The words of a text; the last is the end.
fn words(text: &str) -> Vec<(Token, &str)> {
    let bytes = text.as_bytes();
    let (mut at, mut words) = (0, Vec::new());
    loop {
        while bytes.get(at).is_some_and(|b| is_space(*b)) {
            at += 1;
        }
        let begin = at;
        match bytes.get(at) {
            // A zero ends the text, as it does upstream.
            None | Some(0) => {
                words.push((Token::End, ""));
                return words;
            }
            Some(b) if is_special(*b) => {
                // The longest operator that stands here.
                let mut found = None;
                while bytes.get(at).is_some_and(|b| is_special(*b)) {
                    at += 1;
                    match sign(&text[begin..at]) {
                        Some(token) => found = Some((token, at)),
                        None if found.is_some() => break,
                        None => {}
                    }
                }
                let (token, end) = found.unwrap_or((Token::Wrong, at));
                at = end;
                words.push((token, &text[begin..end]));
            }
            Some(_) => {
                while bytes.get(at).is_some_and(|b| *b != 0 && !is_special(*b) && !is_space(*b)) {
                    at += 1;
                }
                let word = &text[begin..at];
                let token = match word {
                    "in" => Token::In,
                    "notin" => Token::NotIn,
                    _ => Token::Identifier,
                };
                words.push((token, word));
            }
        }
    }
}

struct Words<'a> {
    words: Vec<(Token, &'a str)>,
    at: usize,
}

impl<'a> Words<'a> {
    fn operator(&mut self) -> (Token, &'a str) {
        let word = self.words.get(self.at).copied().unwrap_or((Token::End, ""));
        self.at += 1;
        word
    }

    /// The next word, where `in` and `notin` are names like any other.
    fn peek(&self) -> (Token, &'a str) {
        match self.words.get(self.at).copied().unwrap_or((Token::End, "")) {
            (Token::In | Token::NotIn, word) => (Token::Identifier, word),
            other => other,
        }
    }

    fn next(&mut self) -> (Token, &'a str) {
        let word = self.peek();
        self.at += 1;
        word
    }
}

/// Parses a selector.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut words = Words { words: words(text), at: 0 };
    let mut requirements = Vec::new();
    loop {
        match words.peek() {
            (Token::Identifier | Token::Not, _) => {
                let found = requirement(&mut words).map_err(|why| format!("unable to parse requirement: {why}"));
                requirements.push(found.map_err(SelectorError)?);
                match words.next() {
                    (Token::End, _) => return Ok(requirements),
                    (Token::Comma, _) => match words.peek() {
                        (Token::Identifier | Token::Not, _) => {}
                        (_, word) => {
                            return Err(SelectorError(format!("found '{word}', expected: identifier after ','")));
                        }
                    },
                    (_, word) => {
                        return Err(SelectorError(format!("found '{word}', expected: ',' or 'end of string'")));
                    }
                }
            }
            (Token::End, _) => return Ok(requirements),
            (_, word) => {
                let why = format!("found '{word}', expected: !, identifier, or 'end of string'");
                return Err(SelectorError(why));
            }
        }
    }
}

fn requirement(words: &mut Words) -> Result<Requirement, String> {
    let (mut token, mut key) = words.next();
    let absent = token == Token::Not;
    if absent {
        (token, key) = words.next();
    }
    if token != Token::Identifier {
        return Err(format!("found '{key}', expected: identifier"));
    }
    let faults = key_faults(key);
    if !faults.is_empty() {
        return Err(format!("<nil>: Invalid value: {key}: {}", faults.join("; "), key = quote(&key)));
    }
    if absent {
        return Ok(Requirement { key: key.to_owned(), test: Test::Absent });
    }
    if matches!(words.peek().0, Token::End | Token::Comma) {
        return Ok(Requirement { key: key.to_owned(), test: Test::Exists });
    }
    let (operator, word) = words.operator();
    let values = match operator {
        Token::In | Token::NotIn => set(words)?,
        Token::Equal | Token::NotEqual | Token::Greater | Token::Less => vec![exact(words)?],
        _ => return Err(format!("found '{word}', expected: {BINARY}")),
    };
    Ok(Requirement { key: key.to_owned(), test: judged(key, operator, values)? })
}

/// The values as a test, if they are values.
fn judged(key: &str, operator: Token, values: Vec<String>) -> Result<Test, String> {
    let mut faults = Vec::new();
    if matches!(operator, Token::Greater | Token::Less) && values[0].parse::<i64>().is_err() {
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        faults.push(format!("values[0]: Invalid value: {}: {why}", quote(&values[0])));
    }
    for (at, value) in values.iter().enumerate() {
        let wrong = value_faults(value);
        if !wrong.is_empty() {
            faults.push(format!(
                "values[{at}][{key}]: Invalid value: {value}: {}",
                wrong.join("; "),
                value = quote(&value)
            ));
        }
    }
    match faults.as_slice() {
        [] => {}
        [one] => return Err(one.clone()),
        many => return Err(format!("[{}]", many.join(", "))),
    }
    let number = || values[0].parse().unwrap_or_default();
    Ok(match operator {
        Token::In => Test::In(values),
        Token::NotIn => Test::NotIn(values),
        Token::Greater => Test::Greater(number()),
        Token::Less => Test::Less(number()),
        Token::NotEqual => Test::NotEquals(values[0].clone()),
        _ => Test::Equals(values[0].clone()),
    })
}

fn exact(words: &mut Words) -> Result<String, String> {
    if matches!(words.peek().0, Token::End | Token::Comma) {
        return Ok(String::new());
    }
    match words.next() {
        (Token::Identifier, word) => Ok(word.to_owned()),
        (_, word) => Err(format!("found '{word}', expected: identifier")),
    }
}

/// `(a, b)`, in order and each once. Nothing between two commas, or a comma and a parenthesis, is the empty value.
fn set(words: &mut Words) -> Result<Vec<String>, String> {
    match words.next() {
        (Token::Open, _) => {}
        (_, word) => return Err(format!("found '{word}' expected: '('")),
    }
    let mut values = Vec::new();
    match words.peek() {
        (Token::Close, _) => values.push(String::new()),
        (Token::Identifier | Token::Comma, _) => loop {
            match words.next() {
                (Token::Identifier, word) => {
                    values.push(word.to_owned());
                    match words.peek() {
                        (Token::Comma, _) => {}
                        (Token::Close, _) => break,
                        (_, word) => return Err(format!("found '{word}', expected: ',' or ')'")),
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() || matches!(words.peek().0, Token::Close | Token::Comma) {
                        values.push(String::new());
                    }
                    if words.peek().0 == Token::Close {
                        break;
                    }
                }
                (_, word) => return Err(format!("found '{word}', expected: ',', or identifier")),
            }
        },
        (_, word) => return Err(format!("found '{word}', expected: ',', ')' or identifier")),
    }
    words.next();
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::super::LabelSelector;

    #[test]
    fn broken_selectors_are_refused_in_upstreams_words() {
        let long = "v".repeat(64);
        for (text, why) in [
            (",", "found ',', expected: !, identifier, or 'end of string'"),
            ("(t)", "found '(', expected: !, identifier, or 'end of string'"),
            ("=b", "found '=', expected: !, identifier, or 'end of string'"),
            ("a=b,", "found '', expected: identifier after ','"),
            ("t=a b", "found 'b', expected: ',' or 'end of string'"),
            ("a=b=c", "found '=', expected: ',' or 'end of string'"),
            ("t==1==2", "found '==', expected: ',' or 'end of string'"),
            ("!a=b", "found '=', expected: ',' or 'end of string'"),
            ("t in", "unable to parse requirement: found '' expected: '('"),
            ("t in (a", "unable to parse requirement: found '', expected: ',' or ')'"),
            ("t in (a b)", "unable to parse requirement: found 'b', expected: ',' or ')'"),
            ("t in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
            ("t in (a,=)", "unable to parse requirement: found '=', expected: ',', or identifier"),
            ("a is (b)", "unable to parse requirement: found 'is', expected: in, notin, =, ==, !=, gt, lt"),
            ("!=b", "found '!=', expected: !, identifier, or 'end of string'"),
            ("a=!", "unable to parse requirement: found '!', expected: identifier"),
            (
                "t>",
                "unable to parse requirement: values[0]: Invalid value: \"\": for 'Gt', 'Lt' operators, the value must be an \
                 integer",
            ),
            (
                &format!("t={long}"),
                &format!(
                    "unable to parse requirement: values[0][t]: Invalid value: \"{long}\": must be no more than 63 bytes"
                ),
            ),
            ("/x", "unable to parse requirement: <nil>: Invalid value: \"/x\": prefix part must be non-empty"),
        ] {
            assert_eq!(LabelSelector::parse(text).map_err(|e| e.0), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn empty_values_are_values() {
        for (text, printed) in [
            ("", ""),
            ("t in ()", "t in ()"),
            ("t in (,1)", "t in (,1)"),
            ("t in (b,a,,b)", "t in (,a,b)"),
            ("z,in,a=in", "a=in,in,z"),
            ("t=,u", "t=,u"),
        ] {
            let parsed = LabelSelector::parse(text).expect(text);
            assert_eq!(parsed.to_string(), printed, "{text}");
            assert_eq!(LabelSelector::parse(printed), Ok(parsed), "{text}");
        }
    }
}
