//! The media type of a body, read as Go's `mime.ParseMediaType` reads it: names in any case, parameters that are well
//! formed, a semicolon at the end for nothing.

use http::{HeaderMap, header};

/// The type and form of what is sent, in small letters; nothing said is JSON. `None` for what names none.
pub(in crate::rest) fn of(headers: &HeaderMap) -> Option<String> {
    match headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?")) {
        None | Some("") => Some("application/json".to_owned()),
        Some(text) => parse(text),
    }
}

/// The text of the header up to its first semicolon, as the router of upstream compares it.
pub(in crate::rest) fn word(headers: &HeaderMap) -> &str {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default()
}

fn parse(text: &str) -> Option<String> {
    let (name, mut rest) = text.split_at(text.find(';').unwrap_or(text.len()));
    let name = name.trim().to_lowercase();
    let is_type = match name.split_once('/') {
        Some((kind, form)) => is_token(kind) && is_token(form),
        None => is_token(&name),
    };
    if !is_type {
        return None;
    }
    let mut known: Vec<(String, String)> = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(name);
        }
        let Some((key, value, behind)) = parameter(rest) else {
            return (rest.trim() == ";").then_some(name);
        };
        if known.iter().any(|(other, said)| *other == key && *said != value) {
            return None;
        }
        known.push((key, value));
        rest = behind;
    }
}

/// The first parameter of `; key=value; …`, and what stands behind it.
fn parameter(text: &str) -> Option<(String, String, &str)> {
    let text = text.strip_prefix(';')?.trim_start();
    let (key, rest) = text.split_at(text.find(|c| !is_token_char(c)).unwrap_or(text.len()));
    let rest = rest.trim_start().strip_prefix('=')?.trim_start();
    if key.is_empty() {
        return None;
    }
    let (value, rest) = match rest.strip_prefix('"') {
        Some(quoted) => unquoted(quoted)?,
        None => {
            let (value, rest) = rest.split_at(rest.find(|c| !is_token_char(c)).unwrap_or(rest.len()));
            (value.to_owned(), rest)
        }
    };
    if value.is_empty() && !rest.is_empty() && !text.contains('"') {
        return None;
    }
    Some((key.to_lowercase(), value, rest))
}

/// A quoted text without its quotes, and what stands behind it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match letters.next()?.1 {
                special if special.is_ascii_punctuation() => value.push(special),
                other => value.extend(['\\', other]),
            },
            '\r' | '\n' => return None,
            other => value.push(other),
        }
    }
    None
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_token_char)
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_media_type_is_read_in_any_case_and_with_its_parameters() {
        for text in [
            "application/json",
            "APPLICATION/Json",
            " application/json ",
            "application/json;",
            "application/json ;charset=utf-8",
            "application/json; charset = \"utf-8\" ; x=y;",
            "application/json; a=b; A=b",
            "application/json; a=\"x\\\"y\"",
        ] {
            assert_eq!(parse(text).as_deref(), Some("application/json"), "{text}");
        }
        assert_eq!(parse("json").as_deref(), Some("json"));
    }

    #[test]
    fn what_is_not_well_formed_names_nothing() {
        for text in [
            ";",
            "a/b/c",
            "application/json; charset",
            "application/json; =x",
            "application/json; a=b; a=c",
            "application/json; a=\"x",
            "application/json,application/yaml",
            "application/json x",
            "*/",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(of(&HeaderMap::new()).as_deref(), Some("application/json"));
    }
}
