//! JSON laid out for people: two spaces a level, as Go's `MarshalIndent` does it.
//!
//! Works on pieces of any size, so that a list of any length can be laid out while it is being written.

/// How far the text has come.
#[derive(Debug, Default)]
pub(in crate::rest) struct Layout {
    depth: usize,
    in_string: bool,
    /// The byte before was a backslash in a string.
    escaped: bool,
    /// A map or a list has been opened and nothing of it written yet.
    opened: bool,
}

impl Layout {
    /// The same text, laid out. The pieces together must be JSON.
    pub(in crate::rest) fn of(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(piece.len() * 2);
        for &byte in piece {
            self.put(&mut out, byte);
        }
        out
    }

    fn put(&mut self, out: &mut Vec<u8>, byte: u8) {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            out.push(byte);
            return;
        }
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {}
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if !std::mem::take(&mut self.opened) {
                    self.line(out);
                }
                out.push(byte);
            }
            _ => {
                if std::mem::take(&mut self.opened) {
                    self.line(out);
                }
                out.push(byte);
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => {
                        self.depth += 1;
                        self.opened = true;
                    }
                    b',' => self.line(out),
                    b':' => out.push(b' '),
                    _ => {}
                }
            }
        }
    }

    fn line(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_laid_out_whatever_its_pieces() {
        let value = json!({"a": [], "b": {}, "c": [1, {"d": "x,{\\\"}:", "e": null}], "f": true, "g": "\u{e4}"});
        let text = format!("{value}\n");
        let expected = serde_json::to_string_pretty(&value).expect("a value");
        for size in [1, 2, 3, 7, text.len()] {
            let mut layout = Layout::default();
            let out: Vec<u8> = text.as_bytes().chunks(size).flat_map(|piece| layout.of(piece)).collect();
            assert_eq!(String::from_utf8(out).as_deref(), Ok(expected.as_str()), "pieces of {size}");
        }
    }
}
