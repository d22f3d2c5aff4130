//! What two values differ in, as upstream shows it behind a refusal: a unified diff of their JSON text.

use serde_json::Value;

/// Lines around a change that are shown.
const AROUND: usize = 3;

/// The lines that differ, with those around them; empty for equal values.
pub(in crate::registry::kinds) fn unified(old: &Value, new: &Value) -> String {
    // A value of strings, numbers, lists and maps always has a text.
    let lines = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
    let (old, new) = (lines(old), lines(new));
    similar::TextDiff::from_lines(&old, &new).unified_diff().context_radius(AROUND).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_differs_is_shown_with_what_stands_around_it() {
        let (old, new) = (json!({"a": 1, "b": [1, 2]}), json!({"a": 1, "b": [1, 3]}));
        assert_eq!(
            unified(&old, &new),
            "@@ -2,6 +2,6 @@\n   \"a\": 1,\n   \"b\": [\n     1,\n-    2\n+    3\n   ]\n }\n"
        );
        assert_eq!(unified(&old, &old), "");
        assert_eq!(unified(&Value::Null, &json!(1)), "@@ -1 +1 @@\n-null\n+1\n");
    }
}
