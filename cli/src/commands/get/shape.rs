//! Which columns a table shows.

use listwatch_proto::resource::Kind;
use listwatch_proto::v1::{self, Column, Row};

use super::command::GetArgs;
use super::fetch::decode;
use crate::commands::failure::Failure;
use crate::commands::session::full_name;

/// The columns of one table.
pub(super) struct Shape<'a> {
    args: &'a GetArgs,
    kind: &'static Kind,
    /// Places of the server's columns that are shown.
    places: Vec<(usize, &'a Column)>,
    with_kind: bool,
    with_namespace: bool,
}

/// As wide as the longest event, so that a table keeps its columns whatever comes.
fn widened(event: &str) -> String {
    format!("{event:<8}")
}

impl<'a> Shape<'a> {
    /// The server's columns, wide ones too if `is_wide`, and those that the flags add.
    pub(super) fn new(
        args: &'a GetArgs,
        kind: &'static Kind,
        columns: &'a [Column],
        is_wide: bool,
        with_kind: bool,
    ) -> Self {
        let places = columns.iter().enumerate().filter(|(_, c)| is_wide || c.priority == 0).collect();
        Shape { args, kind, places, with_kind, with_namespace: args.all_namespaces && kind.namespaced }
    }

    /// The columns' names.
    pub(super) fn header(&self, event: Option<&str>) -> Vec<String> {
        let mut cells: Vec<String> = event.map(widened).into_iter().collect();
        if self.with_namespace {
            cells.push("NAMESPACE".to_owned());
        }
        cells.extend(self.places.iter().map(|(_, column)| column.name.to_uppercase()));
        let last_part = |label: &String| label.rsplit('/').next().unwrap_or(label).to_uppercase();
        cells.extend(self.args.label_columns.iter().map(last_part));
        if self.args.show_labels {
            cells.push("LABELS".to_owned());
        }
        cells
    }

    /// The cells of an object.
    pub(super) fn line(&self, row: &Row, wire: &v1::Object, event: Option<&str>) -> Result<Vec<String>, Failure> {
        let mut cells: Vec<String> = event.map(widened).into_iter().collect();
        if self.with_namespace {
            cells.push(wire.namespace.clone());
        }
        for (place, column) in &self.places {
            let cell = row.cells.get(*place).cloned().unwrap_or_default();
            let is_name = self.with_kind && column.format == "name";
            cells.push(if is_name { full_name(self.kind, &cell) } else { first_line(cell) });
        }
        if self.args.show_labels || !self.args.label_columns.is_empty() {
            let object = decode(wire)?;
            let value = |label: &String| object.label(label).unwrap_or_default().to_owned();
            cells.extend(self.args.label_columns.iter().map(value));
            if self.args.show_labels {
                let labels: Vec<_> = object.labels().map(|(k, v)| format!("{k}={v}")).collect();
                cells.push(if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") });
            }
        }
        Ok(cells)
    }
}

/// A cell of several lines is cut behind its first, as kubectl does: a row stays a line.
fn first_line(mut cell: String) -> String {
    if let Some(end) = cell.find(['\n', '\r', '\x0c']) {
        cell.truncate(end);
        cell.push_str("...");
    }
    cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_stays_a_line() {
        assert_eq!(first_line("a\nforged   row".to_owned()), "a...");
        assert_eq!(first_line("a".to_owned()), "a");
    }
}
