//! Prints columns as kubectl does: three spaces between, none behind the last, and widths that only grow.

use std::io::{self, Write};

use crate::terminal::escaped;

/// No column is narrower, its gap included (kubectl's own number).
const WIDTH_MIN: usize = 6;
/// Spaces between columns.
const GAP: usize = 3;

/// Prints the rows of one table, in one go or as they come.
#[derive(Debug, Default)]
pub(crate) struct Table {
    widths: Vec<usize>,
}

impl Table {
    /// Prints rows. Widths are kept, so that rows that come later stand under those before.
    /// Control characters are shown, as kubectl shows them.
    pub(crate) fn print(&mut self, out: &mut dyn Write, rows: &[Vec<String>]) -> io::Result<()> {
        let shown =
            |row: &'_ Vec<String>| -> Vec<String> { row.iter().map(|cell| escaped(cell).into_owned()).collect() };
        let rows: Vec<Vec<String>> = rows.iter().map(shown).collect();
        for row in &rows {
            self.widths.resize(self.widths.len().max(row.len()), WIDTH_MIN);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count() + GAP);
            }
        }
        for row in &rows {
            let mut line = String::new();
            for (index, (cell, width)) in row.iter().zip(&self.widths).enumerate() {
                line.push_str(cell);
                if index + 1 < row.len() {
                    line.extend(std::iter::repeat_n(' ', width - cell.chars().count()));
                }
            }
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_as_kubectl_prints_them() {
        let row = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
        let (mut table, mut out) = (Table::default(), Vec::new());
        table.print(&mut out, &[row(&["NAME", "READY", "AGE"]), row(&["alder", "1/1", "5s"])]).expect("memory");
        table.print(&mut out, &[row(&["a", "1/1", "7s"])]).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert_eq!(text, "NAME    READY   AGE\nalder   1/1     5s\na       1/1     7s\n");
        let mut out = Vec::new();
        Table::default().print(&mut out, &[row(&["a\x1b[2Jb", "x"])]).expect("memory");
        assert_eq!(String::from_utf8(out).expect("text"), "a^[[2Jb   x\n");
    }
}
