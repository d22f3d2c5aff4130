//! KYAML: YAML that says what it means, with braces, quotes and commas (`sigs.k8s.io/yaml/kyaml` 1.6).
//!
//! Invariant: it reads back as the value it was, in YAML 1.1 and 1.2.

use serde_json::Value;

/// A document with the mark in front.
pub(crate) fn to_kyaml(value: &Value) -> String {
    let mut out = "---\n".to_owned();
    node(value, 0, &mut out);
    out.push('\n');
    out
}

fn node(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::String(text) => string(text, indent + 1, text.contains('\n'), out),
        Value::Array(list) if list.is_empty() => out.push_str("[]"),
        Value::Object(map) if map.is_empty() => out.push_str("{}"),
        Value::Array(list) if list.iter().all(|item| item.is_object() || item.is_array()) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                out.push_str(if index > 0 { ", " } else { "" });
                node(item, indent, out);
            }
            out.push(']');
        }
        Value::Array(list) => {
            out.push_str("[\n");
            for item in list {
                pad(indent + 1, out);
                node(item, indent + 1, out);
                out.push_str(",\n");
            }
            pad(indent, out);
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("{\n");
            for (key, value) in map {
                pad(indent + 1, out);
                if needs_quotes(key) {
                    string(key, indent + 1, false, out);
                } else {
                    out.push_str(key);
                }
                out.push_str(": ");
                node(value, indent + 1, out);
                out.push_str(",\n");
            }
            pad(indent, out);
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", indent));
}

/// In quotes; as a long text, lines stand below each other, each with its line break written out. (A key has one line.)
fn string(text: &str, indent: usize, is_long: bool, out: &mut String) {
    out.push('"');
    if is_long {
        out.push_str("\\\n");
    }
    for c in text.chars() {
        if out.ends_with('\n') {
            pad(indent, out);
            // Blanks at the beginning of a line would be lost without the mark.
            out.push(if c.is_whitespace() && c != '\n' { '\\' } else { ' ' });
        }
        match c {
            '\n' if is_long => out.push_str("\\n\\\n"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push('\t'),
            '"' | '\\' => out.extend(['\\', c]),
            c if !c.is_control() => out.push(c),
            c if (c as u32) < 0x100 => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push_str(&format!("\\u{:04x}", c as u32)),
        }
    }
    if is_long {
        if !out.ends_with('\n') {
            out.push_str("\\\n");
        }
        pad(indent, out);
    }
    out.push('"');
}

/// Whether a key could be taken for something else without quotes.
fn needs_quotes(key: &str) -> bool {
    let last = key.chars().count().saturating_sub(1);
    let fits = |(at, c): (usize, char)| c.is_alphanumeric() || c == '_' || (at > 0 && at < last && "-./".contains(c));
    key.is_empty() || super::yaml::is_another_type(key) || !key.chars().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_stand_as_kubectl_prints_them() {
        let value = json!({
            "data": {"dotted.key": "yes", "no": "1", "note": "one\n  two\n"}, "list": ["a", 1], "empty": [], "none": {},
            "items": [{"a": true}, {"b": null}],
        });
        let expected = "---\n{\n  data: {\n    dotted.key: \"yes\",\n    \"no\": \"1\",\n    note: \"\\\n       one\\n\\\n      \\  \
                        two\\n\\\n      \",\n  },\n  empty: [],\n  items: [{\n    a: true,\n  }, {\n    b: null,\n  }],\n  \
                        list: [\n    \"a\",\n    1,\n  ],\n  none: {},\n}\n";
        assert_eq!(to_kyaml(&value), expected);
    }

    #[test]
    fn it_reads_back_as_it_was() {
        let texts =
            ["", "a", "yes", "1", "two\nlines", " lead\n trail ", "q\"b\\s", "tab\tin", "bell\u{7}", "\n\n", "ü"];
        for text in texts {
            let value = json!({"k": text, "l": [text], text: [{"x": text}]});
            let back: Value = serde_norway::from_str(&to_kyaml(&value)).unwrap_or_else(|e| panic!("{text:?}: {e}"));
            assert_eq!(back, value, "{text:?}");
        }
    }
}
