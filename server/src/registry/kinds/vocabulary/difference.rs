//! What two values differ in, as upstream shows it behind a refusal: a unified diff of their JSON text.

use serde_json::Value;

/// Lines shown around what differs.
const AROUND: usize = 3;

/// A diff of one hunk, from the first line that differs to the last; empty for equal values.
pub(in crate::registry::kinds) fn unified(old: &Value, new: &Value) -> String {
    let (old, new) = (lines(old), lines(new));
    let same_head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    if same_head == old.len() && same_head == new.len() {
        return String::new();
    }
    let rest = old.len().min(new.len()) - same_head;
    let same_tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let first = same_head.saturating_sub(AROUND);
    let (old_end, new_end) = (old.len() - same_tail, new.len() - same_tail);
    let tail = same_tail.min(AROUND);
    let mut out =
        format!("@@ -{},{} +{},{} @@\n", first + 1, old_end + tail - first, first + 1, new_end + tail - first);
    let mut put = |sign: char, lines: &[String]| {
        for line in lines {
            out.push(sign);
            out.push_str(line);
            out.push('\n');
        }
    };
    put(' ', &old[first..same_head]);
    put('-', &old[same_head..old_end]);
    put('+', &new[same_head..new_end]);
    put(' ', &old[old_end..old_end + tail]);
    out
}

fn lines(value: &Value) -> Vec<String> {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
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
        assert_eq!(unified(&Value::Null, &json!(1)), "@@ -1,1 +1,1 @@\n-null\n+1\n");
    }
}
