//! JSON as it was written: the order of keys, duplicates and the text of numbers are kept, which serde_json's values
//! forget and strict decoding needs.

use std::borrow::Cow;

use serde_json::Value;

/// How deep values may nest; deeper ones are refused, so that no request can exhaust the stack.
const DEPTH_MAX: usize = 200;

/// A value as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node<'a> {
    Null,
    Bool(bool),
    /// The text of the number.
    Number(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    /// In the order written, duplicates included.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// Reads JSON text; the error says what is wrong where.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Node<'a>, String> {
        let text = std::str::from_utf8(text).map_err(|e| format!("invalid UTF-8 at byte {}", e.valid_up_to()))?;
        let mut reader = Reader { text, at: 0 };
        let node = reader.value(0)?;
        reader.space();
        match reader.peek() {
            None => Ok(node),
            Some(byte) => Err(reader.unexpected(byte, "after top-level value")),
        }
    }

    /// The same of a value at hand.
    pub(crate) fn of(value: &'a Value) -> Node<'a> {
        match value {
            Value::Null => Node::Null,
            Value::Bool(b) => Node::Bool(*b),
            Value::Number(n) => Node::Number(Cow::Owned(n.to_string())),
            Value::String(s) => Node::String(Cow::Borrowed(s)),
            Value::Array(items) => Node::Array(items.iter().map(Node::of).collect()),
            Value::Object(map) => {
                Node::Object(map.iter().map(|(k, v)| (Cow::Borrowed(k.as_str()), Node::of(v))).collect())
            }
        }
    }

    /// The value it stands for; of duplicate keys the last counts.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Node::Null => Value::Null,
            Node::Bool(b) => Value::Bool(*b),
            Node::Number(text) => text.parse::<serde_json::Number>().map_or(Value::Null, Value::Number),
            Node::String(s) => Value::String(s.to_string()),
            Node::Array(items) => Value::Array(items.iter().map(Node::to_value).collect()),
            Node::Object(fields) => Value::Object(fields.iter().map(|(k, v)| (k.to_string(), v.to_value())).collect()),
        }
    }

    /// The value of a key of an object; of duplicates the last.
    pub(crate) fn get(&self, key: &str) -> Option<&Node<'a>> {
        match self {
            Node::Object(fields) => fields.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// What Go's messages call it.
    pub(crate) fn go_kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "bool",
            Node::Number(_) => "number",
            Node::String(_) => "string",
            Node::Array(_) => "array",
            Node::Object(_) => "object",
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, byte: u8, place: &str) -> String {
        // Go's reader knows bytes only.
        let _ = self;
        format!("invalid character {:?} {place}", char::from(byte))
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, String> {
        if depth > DEPTH_MAX {
            return Err("exceeded max depth".to_owned());
        }
        self.space();
        match self.peek() {
            None => Err("unexpected end of JSON input".to_owned()),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Node::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.literal("null", Node::Null),
            Some(b't') => self.literal("true", Node::Bool(true)),
            Some(b'f') => self.literal("false", Node::Bool(false)),
            Some(byte) => Err(self.unexpected(byte, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str, node: Node<'a>) -> Result<Node<'a>, String> {
        for (i, expected) in word.bytes().enumerate() {
            match self.text.as_bytes().get(self.at + i) {
                Some(byte) if *byte == expected => {}
                Some(byte) => {
                    let place = format!("in literal {word} (expecting '{}')", char::from(expected));
                    return Err(self.unexpected(*byte, &place));
                }
                None => return Err("unexpected end of JSON input".to_owned()),
            }
        }
        self.at += word.len();
        Ok(node)
    }

    fn object(&mut self, depth: usize) -> Result<Node<'a>, String> {
        let mut fields = Vec::new();
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Node::Object(fields));
        }
        loop {
            self.space();
            match self.peek() {
                Some(b'"') => {}
                Some(byte) => return Err(self.unexpected(byte, "looking for beginning of object key string")),
                None => return Err("unexpected end of JSON input".to_owned()),
            }
            let key = self.string()?;
            self.space();
            match self.peek() {
                Some(b':') => self.at += 1,
                Some(byte) => return Err(self.unexpected(byte, "after object key")),
                None => return Err("unexpected end of JSON input".to_owned()),
            }
            fields.push((key, self.value(depth + 1)?));
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Node::Object(fields));
                }
                Some(byte) => return Err(self.unexpected(byte, "after object key:value pair")),
                None => return Err("unexpected end of JSON input".to_owned()),
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Node<'a>, String> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Node::Array(items));
                }
                Some(byte) => return Err(self.unexpected(byte, "after array element")),
                None => return Err("unexpected end of JSON input".to_owned()),
            }
        }
    }

    /// Strings without escapes are borrowed; serde_json reads those with.
    fn string(&mut self) -> Result<Cow<'a, str>, String> {
        let start = self.at;
        self.at += 1;
        let mut plain = true;
        loop {
            match self.peek() {
                None => return Err("unexpected end of JSON input".to_owned()),
                Some(b'"') => break,
                Some(b'\\') => {
                    plain = false;
                    self.at += 2;
                }
                Some(byte) if byte < 0x20 => return Err(self.unexpected(byte, "in string literal")),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        if plain {
            return Ok(Cow::Borrowed(&self.text[start + 1..self.at - 1]));
        }
        let literal = self.text.get(start..self.at).ok_or("unexpected end of JSON input")?;
        serde_json::from_str(literal).map(Cow::Owned).map_err(|_| format!("invalid string literal {literal}"))
    }

    fn number(&mut self) -> Result<Node<'a>, String> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let digits = text.trim_start_matches('-');
        let leading_zero = digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
        if leading_zero || text.parse::<f64>().is_err() || text.ends_with('.') || digits.starts_with('.') {
            return Err(format!("invalid number literal {text}"));
        }
        Ok(Node::Number(Cow::Borrowed(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_duplicates_and_numbers_are_kept() {
        let node = Node::parse(br#" {"b": 1.50, "a": [null, true, "x\n\u00e9"], "b": 99999999999999999999} "#);
        let Ok(Node::Object(fields)) = node else { panic!("an object") };
        assert_eq!(fields.iter().map(|f| f.0.as_ref()).collect::<Vec<_>>(), ["b", "a", "b"]);
        assert_eq!(fields[0].1, Node::Number("1.50".into()));
        assert_eq!(fields[2].1, Node::Number("99999999999999999999".into()));
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let deep = "[".repeat(1000);
        for text in ["", "{", "[1,]", "{\"a\"}", "{a:1}", "nul", "01", "1.", "\"a", "\"\\", "1 2", "{\"a\":1,}", &deep]
        {
            assert!(Node::parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(Node::parse(b"\"\xff\"").is_err());
    }

    proptest! {
        #[test]
        fn it_reads_what_serde_json_reads(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(node) = Node::parse(&bytes) {
                let _ = node.to_value();
            }
        }

        #[test]
        fn a_value_survives(text in "\\PC{0,20}", number in any::<i64>(), flag in any::<bool>()) {
            let value = serde_json::json!({"t": text, "l": [number, {"f": flag}], "n": null});
            let written = value.to_string();
            prop_assert_eq!(Node::parse(written.as_bytes()).map(|n| n.to_value()), Ok(value));
        }
    }
}
