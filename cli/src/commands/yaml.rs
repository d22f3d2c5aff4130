//! Prints objects as YAML the way kubectl does: keys in order, lists flush with their key, quotes only where a plain
//! scalar would not read back as it is: double ones around what would be no text, else single ones.

use serde_json::Value;

/// A value as a YAML document, with a line break at its end.
pub(crate) fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => block(value, 0, &mut out),
        Value::Array(list) if !list.is_empty() => block(value, 0, &mut out),
        scalar => {
            inline(scalar, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

/// A map or list that is not empty, each entry on lines of its own.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                pad(indent, out);
                // A key stands on one line.
                out.push_str(&if key.contains('\n') { double_quoted(key) } else { scalar_text(key, indent) });
                out.push(':');
                entry(value, indent, out);
            }
        }
        Value::Array(list) => {
            for item in list {
                pad(indent, out);
                out.push('-');
                item_of_list(item, indent, out);
            }
        }
        _ => {}
    }
}

/// What stands behind `key:`.
fn entry(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Value::Array(list) if !list.is_empty() => {
            out.push('\n');
            block(value, indent, out);
        }
        scalar => {
            out.push(' ');
            inline(scalar, indent + 2, out);
            out.push('\n');
        }
    }
}

/// What stands behind `-`.
fn item_of_list(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut inner = String::new();
            block(value, indent + 2, &mut inner);
            out.push(' ');
            out.push_str(inner.trim_start_matches(' '));
        }
        Value::Array(list) if !list.is_empty() => {
            let mut inner = String::new();
            block(value, indent + 2, &mut inner);
            out.push(' ');
            out.push_str(inner.trim_start_matches(' '));
        }
        scalar => {
            out.push(' ');
            inline(scalar, indent + 2, out);
            out.push('\n');
        }
    }
}

fn inline(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(&n.to_string()),
        Value::String(text) => {
            let line = &out[out.rfind('\n').map_or(0, |at| at + 1)..];
            let column = line.chars().count();
            out.push_str(&folded(&scalar_text(text, indent), column, indent));
        }
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn scalar_text(text: &str, indent: usize) -> String {
    let printable = text.chars().all(|c| c == '\n' || c == '\t' || !c.is_control());
    if text.contains('\n') && printable && !text.starts_with([' ', '\n', '\t']) {
        return literal(text, indent);
    }
    if is_another_type(text) || text.chars().any(char::is_control) {
        return double_quoted(text);
    }
    if is_plain(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

/// How long a line grows before it is broken at its next blank (that of libyaml, whose rules Go's writer follows).
const WIDTH: usize = 80;

/// A scalar that begins at this column, on several lines where it is long.
fn folded(scalar: &str, column: usize, indent: usize) -> String {
    let letters: Vec<char> = scalar.chars().collect();
    if letters.first() == Some(&'|') || column + letters.len() <= WIDTH {
        return scalar.to_owned();
    }
    let is_double = letters.first() == Some(&'"');
    let is_quoted = is_double || letters.first() == Some(&'\'');
    let value = if is_quoted { 1..letters.len() - 1 } else { 0..letters.len() };
    let (mut out, mut column, mut is_behind_blank) = (String::with_capacity(scalar.len()), column, false);
    for (at, letter) in letters.iter().enumerate() {
        let is_blank = *letter == ' ' && value.contains(&at);
        let is_edge = is_quoted && (at == value.start || at + 1 == value.end);
        let is_before_blank = value.contains(&(at + 1)) && letters[at + 1] == ' ';
        if is_blank && !is_behind_blank && column > WIDTH && !is_edge && (is_double || !is_before_blank) {
            out.push('\n');
            pad(indent, &mut out);
            column = indent;
            if is_before_blank {
                out.push('\\');
                column += 1;
            }
        } else {
            out.push(*letter);
            column += 1;
        }
        is_behind_blank = is_blank;
    }
    out
}

/// With the escapes of YAML, as Go's writer chooses them.
fn double_quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        let code = u32::from(letter);
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\0' => out.push_str("\\0"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\x1b' => out.push_str("\\e"),
            '\u{85}' => out.push_str("\\N"),
            '\u{2028}' => out.push_str("\\L"),
            '\u{2029}' => out.push_str("\\P"),
            '\u{feff}' => out.push_str("\\uFEFF"),
            _ if letter.is_control() => out.push_str(&format!("\\x{code:02X}")),
            _ => out.push(letter),
        }
    }
    out.push('"');
    out
}

/// `|` with the text below; the mark behind it says how many line breaks end it.
fn literal(text: &str, indent: usize) -> String {
    let body = text.trim_end_matches('\n');
    let mark = match text.len() - body.len() {
        0 => "|-",
        1 => "|",
        _ => "|+",
    };
    let mut out = mark.to_owned();
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            pad(indent, &mut out);
            out.push_str(line);
        }
    }
    out
}

/// Whether a plain scalar would read back as no text: for readers of YAML 1.1 too, to which `yes` and `012` are none.
pub(super) fn is_another_type(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "", "null", "~", "true", "false", "yes", "no", "on", "off", "y", "n", ".nan", ".inf", "-.inf", "+.inf", "<<",
        "=",
    ];
    WORDS.contains(&text.to_ascii_lowercase().as_str()) || looks_like_a_number(text) || looks_like_a_date(text)
}

/// Whether the syntax lets the text stand without quotes.
fn is_plain(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let last = text.chars().next_back().unwrap_or(first);
    let indicator = "-?:,[]{}#&*!|>'\"%@`".contains(first);
    let dash_word = matches!(first, '-' | '?' | ':') && text.chars().nth(1).is_some_and(|c| !c.is_whitespace());
    !((indicator && !dash_word)
        || text.starts_with("---")
        || text.starts_with("...")
        || first.is_whitespace()
        || last.is_whitespace()
        || last == ':'
        || text.contains(": ")
        || text.contains(" #"))
}

fn looks_like_a_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']).replace('_', "");
    if digits.is_empty() {
        return false;
    }
    let radix = ["0x", "0o", "0b"].iter().any(|p| digits.to_ascii_lowercase().starts_with(p));
    let begins = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let sexagesimal = digits.contains(':') && digits.chars().all(|c| c.is_ascii_digit() || c == ':' || c == '.');
    radix || (begins && (digits.parse::<f64>().is_ok() || sexagesimal))
}

fn looks_like_a_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digit = |range: std::ops::Range<usize>| bytes.get(range).is_some_and(|b| b.iter().all(u8::is_ascii_digit));
    digit(0..4) && bytes.get(4) == Some(&b'-') && digit(5..6)
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_stand_as_kubectl_prints_them() {
        let value = json!({
            "metadata": {"annotations": {}, "labels": {"size": "12", "on": "yes"}, "at": "2026-01-02T03:04:05Z"},
            "spec": {"containers": [{"args": ["-c", "a: b"], "name": "a"}, {"name": "b"}], "empty": [], "num": 3},
            "text": "one\n  two\n", "word": "plain words, with - and :colons:inside",
        });
        let expected = "metadata:\n  annotations: {}\n  at: \"2026-01-02T03:04:05Z\"\n  labels:\n    \"on\": \"yes\"\n    \
                        size: \"12\"\nspec:\n  containers:\n  - args:\n    - -c\n    - 'a: b'\n    name: a\n  - name: b\n  \
                        empty: []\n  num: 3\ntext: |\n  one\n    two\nword: plain words, with - and :colons:inside\n";
        assert_eq!(to_yaml(&value), expected);
    }

    #[test]
    fn every_text_reads_back_as_itself() {
        for text in [
            "",
            "a",
            "~",
            "null",
            "1",
            "1.5",
            "0x1f",
            "1e3",
            "-",
            "- a",
            "a: b",
            "a:",
            "#a",
            "a #b",
            "'q'",
            "\"q\"",
            "true",
            "No",
            "line\nbreak",
            "ends\n\n",
            " lead",
            "trail ",
            "tab\tin",
            "{a}",
            "[a]",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a",
            "2026-01-02",
            "12:30",
            "ü",
            "bell\u{7}",
            "\n",
            "a\n b",
            "x\n\ny",
            "..",
            "1_000",
            "=",
            "---",
            "a text that is so long that it does not fit into a line, and so goes on in the next one, as far in as the first",
            "a: text that is so long that it does not fit into a line, and  so goes on in the next one,  as far in as the first ",
            "yes\u{7} a text that is so long that it does not fit into a line,  and so goes on in the next one,   as far as it goes",
        ] {
            let value = json!({"k": text, "l": [text, {text.to_owned() + "k": text}]});
            let yaml = to_yaml(&value);
            let back: Value = serde_norway::from_str(&yaml).unwrap_or_else(|e| panic!("{text:?}: {e}\n{yaml}"));
            assert_eq!(back, value, "{yaml}");
        }
    }

    /// As kubectl 1.36.3 shows this annotation and this message.
    #[test]
    fn long_texts_go_on_in_the_next_line() {
        let value = json!({"metadata": {"annotations": {
            "kubernetes.io/limit-ranger": "LimitRanger plugin set: cpu request for container c; cpu limit for container c",
        }}, "message": "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"});
        assert_eq!(
            to_yaml(&value),
            "message: one two three four five six seven eight nine ten eleven twelve thirteen fourteen\n  fifteen sixteen\n\
             metadata:\n  annotations:\n    kubernetes.io/limit-ranger: 'LimitRanger plugin set: cpu request for container\n      \
             c; cpu limit for container c'\n"
        );
    }
}
