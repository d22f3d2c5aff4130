//! Lines of words, as kubectl wraps them.

/// Breaks lines between words so that none is wider than this, but where a word alone is.
pub(super) fn wrap(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let mut column = 0;
        let mut rest = line;
        while !rest.is_empty() {
            let blanks = rest.len() - rest.trim_start_matches(' ').len();
            let (gap, behind) = rest.split_at(blanks);
            let word = &behind[..behind.find(' ').unwrap_or(behind.len())];
            let length = word.chars().count();
            if word.is_empty() {
                // Blanks at the end of a line stand as long as they fit.
                if column + blanks <= width {
                    out.push_str(gap);
                }
            } else if column + blanks + length > width && column + blanks > 1 {
                out.push('\n');
                out.push_str(word);
                column = length;
            } else {
                out.push_str(gap);
                out.push_str(word);
                column += blanks + length;
            }
            rest = &behind[word.len()..];
        }
    }
    out
}

/// Every line, also an empty one, behind so many blanks.
pub(super) fn indent(text: &str, count: usize) -> String {
    let pad = " ".repeat(count);
    format!("{pad}{}", text.replace('\n', &format!("\n{pad}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_to_the_next_line() {
        assert_eq!(wrap("aa bb cc", 5), "aa bb\ncc");
        assert_eq!(wrap("aa bb\ncc dd ee", 5), "aa bb\ncc dd\nee");
        assert_eq!(wrap("a verylongword b", 6), "a\nverylongword\nb");
        assert_eq!(wrap("verylongword b", 6), "verylongword\nb");
        assert_eq!(wrap(" - a\n - b", 10), " - a\n - b");
        assert_eq!(wrap("a\n", 10), "a\n");
        assert_eq!(indent("a\n\nb", 2), "  a\n  \n  b");
    }
}
