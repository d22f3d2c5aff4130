//! Printed columns and cells, as kubectl shows them.

use std::fmt;

/// A column of a kind's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// `Up-to-date`.
    pub name: &'static str,
    /// `string`, `integer`, `boolean`.
    pub data_type: &'static str,
    /// `name` for the name column, else empty.
    pub format: &'static str,
    /// What the column tells.
    pub description: &'static str,
    /// Above 0: only in wide output.
    pub priority: i32,
}

/// A cell of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number, in columns of type `integer`.
    Int(i64),
    /// Yes or no, in columns of type `boolean`.
    Flag(bool),
    /// Any other value; null = there is nothing to show.
    Value(serde_json::Value),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cell::Text(text) => f.write_str(text),
            Cell::Int(number) => write!(f, "{number}"),
            Cell::Flag(flag) => write!(f, "{flag}"),
            Cell::Value(serde_json::Value::Null) => Ok(()),
            Cell::Value(value) => write!(f, "{value}"),
        }
    }
}
