//! `-o custom-columns=NAME:PATH,…`: a table whose columns the person chooses.

use serde_json::Value;

use super::jsonpath::{Template, relaxed};

/// The columns of a table.
#[derive(Debug, Clone)]
pub(super) struct Columns(Vec<(String, Template)>);

impl Columns {
    /// Reads `NAME:.metadata.name,IMAGE:.spec.containers[*].image`.
    ///
    /// # Errors
    /// kubectl's words.
    pub(super) fn parse(spec: &str) -> Result<Columns, String> {
        if spec.is_empty() {
            return Err("custom-columns format specified but no custom columns given".to_owned());
        }
        let mut columns = Vec::new();
        for part in split(spec) {
            let Some((header, path)) = part.split_once(':') else {
                return Err(format!("unexpected custom-columns spec: {part}, expected <header>:<json-path-expr>"));
            };
            columns.push((header.to_owned(), relaxed(path)?.1));
        }
        Ok(Columns(columns))
    }

    /// Reads a file of two lines: names, and below each its path.
    ///
    /// # Errors
    /// kubectl's words.
    pub(super) fn parse_file(text: &str) -> Result<Columns, String> {
        let mut lines = text.lines();
        let mut words = || lines.next().unwrap_or_default().split_whitespace().collect::<Vec<_>>();
        let (headers, paths) = (words(), words());
        if headers.is_empty() || headers.len() != paths.len() {
            return Err(
                "invalid template, please provide a line of column names and below it a line with the path of \
                        each"
                    .to_owned(),
            );
        }
        let columns = headers.into_iter().zip(paths).map(|(header, path)| Ok((header.to_owned(), relaxed(path)?.1)));
        Ok(Columns(columns.collect::<Result<_, String>>()?))
    }

    /// The names.
    pub(super) fn header(&self) -> Vec<String> {
        self.0.iter().map(|(header, _)| header.clone()).collect()
    }

    /// The cells of an object.
    ///
    /// # Errors
    /// If a path asks of the object what it cannot give.
    pub(super) fn row(&self, object: &Value) -> Result<Vec<String>, String> {
        let cell = |(_, template): &(String, Template)| {
            let found = template.find(object)?;
            let words: Vec<_> = found.into_iter().flatten().map(|value| in_go(&value.into_value())).collect();
            Ok(if words.is_empty() { "<none>".to_owned() } else { words.join(",") })
        };
        self.0.iter().map(cell).collect()
    }
}

/// At commas that stand in no bracket: `[0,1]` and `['a','b']` are parts of one path.
fn split(spec: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i64);
    for (at, c) in spec.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth <= 0 => {
                parts.push(&spec[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&spec[start..]);
    parts
}

/// A value as Go's `%v` shows it: `map[a:1 b:2]`, `[x y]`.
pub(super) fn in_go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(in_go).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let pairs: Vec<_> = map.iter().map(|(key, value)| format!("{key}:{}", in_go(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_are_what_the_paths_lead_to() {
        let object = json!({
            "metadata": {"name": "v1", "labels": {"app": "v1", "b": "c"}},
            "spec": {"ports": [{"port": 80, "names": ["a", "b"]}, {"port": 443}]},
        });
        let columns = Columns::parse(
            "N:.metadata.name,P:.spec.ports[*].port,L:metadata.labels,X:{.nope},U:.spec.ports[0,1].port,NM:.spec.ports[0].names",
        );
        let columns = columns.expect("columns");
        assert_eq!(columns.header(), ["N", "P", "L", "X", "U", "NM"]);
        let row = columns.row(&object).expect("cells");
        assert_eq!(row, ["v1", "80,443", "map[app:v1 b:c]", "<none>", "80,443", "[a b]"]);
    }

    #[test]
    fn a_wrong_spec_is_told_in_kubectls_words() {
        for (spec, problem) in [
            ("N", "unexpected custom-columns spec: N, expected <header>:<json-path-expr>"),
            ("", "custom-columns format specified but no custom columns given"),
            ("N:.a[", "unterminated array"),
        ] {
            assert_eq!(Columns::parse(spec).expect_err("refused"), problem);
        }
        let file = Columns::parse_file("NAME  AGE\n.metadata.name .age\n").expect("columns");
        assert_eq!(file.row(&json!({"metadata": {"name": "a"}})), Ok(vec!["a".to_owned(), "<none>".to_owned()]));
        assert!(Columns::parse_file("NAME AGE\n.a\n").is_err());
    }
}
