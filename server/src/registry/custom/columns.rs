//! The printed columns of a custom resource: the name, and what the definition adds; the age if it adds nothing.

use listwatch_proto::resource::learned::text;
use listwatch_proto::resource::{Object, parse_time};
use serde_json::Value;

use super::super::kinds::{AGE_COLUMN, NAME_COLUMN, age_since};
use super::super::table::{Cell, Column};
use super::JsonPath;

/// The columns behind the name.
#[derive(Debug)]
pub(super) struct Columns {
    /// With the name.
    pub(super) headers: &'static [Column],
    /// What stands in each but the first.
    paths: Vec<JsonPath>,
}

impl Columns {
    /// Reads `additionalPrinterColumns`. Paths that are not served print nothing.
    pub(super) fn read(columns: &Value) -> Columns {
        let list = columns.as_array().map_or(&[][..], Vec::as_slice);
        let mut headers = vec![NAME_COLUMN];
        let mut paths = Vec::new();
        if list.is_empty() {
            headers.push(Column { data_type: "date", ..AGE_COLUMN });
            paths.extend(JsonPath::read(".metadata.creationTimestamp"));
        }
        for column in list {
            let get = |key: &str| column[key].as_str().unwrap_or_default();
            let Some(path) = JsonPath::read(get("jsonPath")) else { break };
            let description = match get("description") {
                "" => format!("Custom resource definition column (in JSONPath format): {}", get("jsonPath")),
                own => own.to_owned(),
            };
            headers.push(Column {
                name: text(get("name").to_owned()),
                data_type: text(get("type").to_owned()),
                format: text(get("format").to_owned()),
                description: text(description),
                priority: column["priority"].as_i64().and_then(|p| i32::try_from(p).ok()).unwrap_or(0),
            });
            paths.push(path);
        }
        Columns { headers: Vec::leak(headers), paths }
    }

    /// The cells of an object.
    pub(super) fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let whole = Value::Object(object.0.clone());
        let mut cells = vec![Cell::Text(object.name().to_owned())];
        for (column, path) in self.headers[1..].iter().zip(&self.paths) {
            let found = path.find(&whole).first().copied();
            cells.push(found.map_or(Cell::Value(Value::Null), |found| cell(column.data_type, found, now)));
        }
        cells
    }
}

fn cell(data_type: &str, value: &Value, now: i64) -> Cell {
    let nothing = Cell::Value(Value::Null);
    match (data_type, value) {
        ("string", Value::String(text)) => Cell::Text(text.clone()),
        ("string", Value::Null) => nothing,
        ("string", other) => Cell::Text(other.to_string()),
        ("integer", Value::Number(number)) => {
            number.as_i64().or(number.as_f64().map(|f| f as i64)).map_or(nothing, Cell::Int)
        }
        ("number", Value::Number(_)) => Cell::Value(value.clone()),
        ("boolean", Value::Bool(flag)) => Cell::Flag(*flag),
        ("date", Value::String(text)) => match parse_time(text) {
            Some(_) => Cell::Text(age_since(text, now)),
            None => Cell::Text("<invalid>".to_owned()),
        },
        _ => nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cells_are_what_the_paths_find() {
        let columns = Columns::read(&json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio", "priority": 1},
            {"name": "Tags", "type": "string", "jsonPath": ".spec.tags"},
            {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
            {"name": "When", "type": "date", "jsonPath": ".spec.when"},
            {"name": "None", "type": "string", "jsonPath": ".spec.none"}]));
        let object = Object::from_value(json!({"metadata": {"name": "a"},
            "spec": {"size": 2.0, "ratio": 1.5, "tags": ["x"], "on": true, "when": "1970-01-01T00:00:00Z"}}));
        let told: Vec<String> = columns.cells(&object.expect("a map"), 60).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["a", "2", "1.5", "[\"x\"]", "true", "60s", ""]);
        assert_eq!((columns.headers[2].name, columns.headers[2].priority), ("Ratio", 1));
    }
}
