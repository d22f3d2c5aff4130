//! Elastic tab stops: a cell is as wide as the widest of its column among neighbouring lines.
//!
//! Go's `text/tabwriter` with padding 2, which kubectl's descriptions are printed with: a column is a run of lines
//! that all have a cell there which ends in a tab.

/// Spaces between columns.
const PADDING: usize = 2;

/// Replaces tabs by the spaces that make columns.
pub(crate) fn align(text: &str) -> String {
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let mut out = String::with_capacity(text.len() * 2);
    format(&lines, &mut Vec::new(), &mut out);
    out
}

/// Prints lines whose first columns have these widths; the next column is found here.
fn format(lines: &[Vec<&str>], widths: &mut Vec<usize>, out: &mut String) {
    let column = widths.len();
    let has_column = |line: &Vec<&str>| column + 1 < line.len();
    let mut rest = lines;
    while let Some(start) = rest.iter().position(has_column) {
        write(&rest[..start], widths, out);
        let block = rest[start..].iter().take_while(|line| has_column(line)).count();
        let block = &rest[start..start + block];
        let width = block.iter().map(|line| line[column].chars().count() + PADDING).max().unwrap_or(0);
        widths.push(width);
        format(block, widths, out);
        widths.pop();
        rest = &rest[start + block.len()..];
    }
    write(rest, widths, out);
}

fn write(lines: &[Vec<&str>], widths: &[usize], out: &mut String) {
    for line in lines {
        for (index, cell) in line.iter().enumerate() {
            out.push_str(cell);
            if index + 1 < line.len()
                && let Some(width) = widths.get(index)
            {
                out.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.chars().count())));
            }
        }
        out.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_end_where_a_line_has_none() {
        let text = "Name:\ta\nNode Name:\tb\nIPs:\n  IP:\tc\nControlled By:\td\n";
        assert_eq!(align(text), "Name:       a\nNode Name:  b\nIPs:\n  IP:           c\nControlled By:  d\n");
    }

    #[test]
    fn inner_columns_have_blocks_of_their_own() {
        let text = "  A:\tx\tOptional: false\n  LONG:\tlonger\tOptional: true\n  B:\ty\n";
        assert_eq!(align(text), "  A:     x       Optional: false\n  LONG:  longer  Optional: true\n  B:     y\n");
    }
}
