//! How deep a YAML document is nested, found without parsing it.
//!
//! A YAML scanner looks at every open bracket for each word, so that a small text of brackets costs it minutes: they are
//! counted before, by all who read YAML from others. Brackets in quotes, in comments and in texts in block style are none.
//! Invariant: where it is not clear whether a bracket is one it counts, so that no text hides brackets from the count.

/// Nesting at which parsers refuse a document that is written in brackets.
pub const FLOW_DEPTH_MAX: usize = 128;
/// Brackets that may be open in a document in block style: words in it (scripts, patterns) may have some without a partner,
/// so it is more than parsers take, and still few enough for them to find out soon.
pub const OPEN_MAX: usize = 512;

/// The line, counted from zero, at which more brackets are open than any parser takes, and how many that are; `None`:
/// nowhere. A YAML parser would need minutes to find out. Brackets in quotes and comments are none.
pub fn too_deep(document: &str) -> Option<(usize, usize)> {
    let begins = document.lines().map(str::trim_start).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let is_flow = begins.starts_with(['{', '[']);
    let most = if is_flow { FLOW_DEPTH_MAX } else { OPEN_MAX };
    let (mut depth, mut line) = (0_usize, 0);
    // What a character means depends on the one before, and on that before but for spaces.
    let (mut before, mut token_before) = (' ', ' ');
    let mut chars = document.chars();
    while let Some(c) = chars.next() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            '#' if before.is_whitespace() => {
                chars.find(|c| *c == '\n');
                line += 1;
                before = '\n';
                continue;
            }
            '"' | '\'' if begins_quote(before, token_before, depth) => {
                // One without an end is none: it must not hide what follows.
                let mut rest = chars.clone();
                if let Some(lines) = skip_quoted(c, &mut rest) {
                    (chars, line) = (rest, line + lines);
                }
            }
            '|' | '>' if depth == 0 && begins_quote(before, token_before, 0) => {
                let rest = chars.as_str();
                let behind = behind_block(&document[..document.len() - rest.len() - 1], rest);
                line += rest[..rest.len() - behind.len()].matches('\n').count();
                if behind.len() < rest.len() {
                    (chars, before, token_before) = (behind.chars(), '\n', ' ');
                    continue;
                }
            }
            '\n' => line += 1,
            _ => {}
        }
        if depth > most {
            return Some((line, most));
        }
        before = c;
        if !c.is_whitespace() {
            token_before = c;
        }
    }
    None
}

/// What stands behind a text in block style: all lines that are indented deeper than what it is the value of. `above` ends
/// before its mark, `rest` begins behind it; if it is no such mark, all of `rest`.
fn behind_block<'a>(above: &str, rest: &'a str) -> &'a str {
    let header = rest.split('\n').next().unwrap_or_default();
    let marks = header.trim_start_matches(['+', '-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    if !marks.trim().is_empty() && !marks.trim_start_matches(' ').starts_with('#') {
        return rest;
    }
    let own = above.rsplit('\n').next().unwrap_or_default();
    let mut key = own.trim_start_matches(' ');
    let mut column = own.len() - key.len();
    // The key behind the dashes of lists; behind a dash alone the dash.
    while let Some(item) = key.strip_prefix(['-', '?']).filter(|item| item.starts_with(' ')) {
        let item = item.trim_start_matches(' ');
        if item.is_empty() {
            break;
        }
        column += key.len() - item.len();
        key = item;
    }
    let mut behind = rest.get(header.len() + 1..).unwrap_or_default();
    loop {
        let line = behind.split('\n').next().unwrap_or_default();
        let indented = line.len() - line.trim_start_matches(' ').len();
        if behind.is_empty() || (!line.trim().is_empty() && indented <= column) {
            return behind;
        }
        behind = behind.get(line.len() + 1..).unwrap_or_default();
    }
}

/// Whether a quotation mark behind these characters begins a quoted text, where a value may begin, or stands in a word.
fn begins_quote(before: char, token_before: char, depth: usize) -> bool {
    if depth > 0 { "{[,: ".contains(token_before) } else { before.is_whitespace() && ":-? ".contains(token_before) }
}

/// Goes behind the closing quote; the line breaks on the way, `None` if there is none.
fn skip_quoted(quote: char, chars: &mut std::str::Chars<'_>) -> Option<usize> {
    let mut lines = 0;
    while let Some(c) = chars.next() {
        match c {
            '\\' if quote == '"' => {
                lines += usize::from(chars.next() == Some('\n'));
            }
            '\n' => lines += 1,
            c if c == quote => return Some(lines),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_found_without_parsing() {
        let nested = |n: usize| format!("# c\n{}1{}", "{\"a\":\n".repeat(n), "}".repeat(n));
        assert_eq!(too_deep(&nested(FLOW_DEPTH_MAX)), None);
        assert_eq!(too_deep(&nested(FLOW_DEPTH_MAX + 1)), Some((FLOW_DEPTH_MAX + 1, FLOW_DEPTH_MAX)));
        assert!(too_deep(&"[".repeat(100_000)).is_some());
        // Behind a key, too, and behind a quotation mark that is part of a word.
        for begin in ["a: 1\nb: ", "a: 1\nb: &x ", "a: don't\nb: ", "a: x -'\nb: ", "- 1\n- "] {
            let text = format!("{begin}{}", "[".repeat(OPEN_MAX + 1));
            assert_eq!(too_deep(&text), Some((begin.matches('\n').count(), OPEN_MAX)), "{begin}");
        }
        // Brackets in texts and comments, and those of block style, are none.
        let brackets = "[".repeat(200);
        let text = format!("{{a: \"\\\"{brackets}\", b: '{brackets}', # {brackets}\n c: don't}}");
        assert_eq!(too_deep(&text), None);
        assert_eq!(too_deep(&format!("a: |\n  {brackets}\n")), None);
    }

    #[test]
    fn texts_in_block_style_hide_their_own_brackets_alone() {
        let brackets = "[".repeat(OPEN_MAX + 1);
        for text in [
            format!("data:\n  x: |\n    {brackets}\n\n    more\n  y: 1\n"),
            format!("- >-\n {brackets}\n- 1\n"),
            format!("- a: |2 # two\n     {brackets}\n  b: 1\n"),
            format!("data: {{x: \"{brackets}\"}}"),
        ] {
            assert_eq!(too_deep(&text), None, "{text:.40}");
        }
        for (text, line) in [
            (format!("a: |\n  x\nb: {brackets}\n"), 2),
            (format!("- a: |\n    x\n  b: {brackets}\n"), 2),
            (format!("a: |x\n  {brackets}\n"), 1),
            (format!("a: 1 |\n  {brackets}\n"), 1),
            (format!("a: |\n{brackets}\n"), 1),
        ] {
            assert_eq!(too_deep(&text), Some((line, OPEN_MAX)), "{text:.40}");
        }
        assert_eq!(too_deep("a: |"), None);
        assert_eq!(too_deep("a: >\n"), None);
    }
}
