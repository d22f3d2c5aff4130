//! What a person reads: lines on standard output and standard error, and texts of others made harmless for a terminal.
//!
//! Invariants: a write that fails never panics. On standard output it is an error, since somebody waits for the text; on
//! standard error there is nobody left to tell. Lints of the crate keep `println!` and its like out.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

/// Standard output took no more.
#[derive(Debug, thiserror::Error)]
#[error("write to standard output: {0}")]
pub(crate) struct Unwritten(#[from] io::Error);

impl Unwritten {
    /// Whether the reader has seen enough (`lw status | head -1`): nothing to say.
    pub(crate) fn is_reader_gone(&self) -> bool {
        self.0.kind() == io::ErrorKind::BrokenPipe
    }
}

/// `println!` that can fail: `say!("{done}")?`.
macro_rules! say {
    ($($text:tt)*) => { $crate::terminal::write_line(format_args!($($text)*)) };
}
/// `eprintln!` that cannot fail, and shows control characters instead of obeying them.
macro_rules! tell {
    ($($text:tt)*) => { $crate::terminal::tell_line(format_args!($($text)*)) };
}
pub(crate) use {say, tell};

/// One line on standard output.
pub(crate) fn write_line(text: fmt::Arguments<'_>) -> Result<(), Unwritten> {
    writeln!(io::stdout().lock(), "{text}").map_err(Unwritten)
}

/// A text as it stands on standard output.
pub(crate) fn write_text(text: &str) -> Result<(), Unwritten> {
    io::stdout().lock().write_all(text.as_bytes()).map_err(Unwritten)
}

/// Everything written so far leaves the process: what waits for its line break would be lost unseen at the end.
pub(crate) fn flush() -> Result<(), Unwritten> {
    io::stdout().lock().flush().map_err(Unwritten)
}

/// One line on standard error, as far as somebody reads it.
pub(crate) fn tell_line(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    drop(writeln!(io::stderr().lock(), "{}", escaped(&text)));
}

/// The text with its control characters shown: a message must not move the cursor, hide lines or give a terminal orders.
/// ESC is `^[` and CR `\r` (kubectl 1.36 shows these two so), others are in caret notation, those above ASCII (of which
/// U+009B begins an order, too) as `\u{9b}`. Line breaks and tabs stay: they make up the layout.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_order = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(is_order) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\r' => out.push_str("\\r"),
            c if !is_order(c) => out.push(c),
            '\x7f' => out.push_str("^?"),
            c if c.is_ascii() => out.extend(['^', char::from(c as u8 + b'@')]),
            c => out.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(out)
}

/// The same for a text that must stay on its line: its line breaks are shown, too.
pub(crate) fn on_one_line(text: &str) -> Cow<'_, str> {
    if text.contains('\n') { Cow::Owned(escaped(text).replace('\n', "\\n")) } else { escaped(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_to_a_terminal_are_shown() {
        assert_eq!(escaped("plain\tü\n"), "plain\tü\n");
        assert!(matches!(escaped("plain"), Cow::Borrowed(_)));
        assert_eq!(escaped("\x1b[2J\x1b]0;t\x07 a\rb\x08\x7f\0"), "^[[2J^[]0;t^G a\\rb^H^?^@");
        assert_eq!(escaped("\u{9b}31m"), "\\u{9b}31m");
        assert_eq!(on_one_line("a\nb\x1b"), "a\\nb^[");
    }
}
