//! JSON as it was written: the order of keys, duplicates and the text of numbers are kept, which serde_json's values
//! forget and strict decoding needs.

use std::borrow::Cow;

use listwatch_proto::go_quote::quote_rune;
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
    /// Reads JSON text; the error says what is wrong where. Each byte that is no UTF-8, and each half of a surrogate pair,
    /// is read as U+FFFD, as Go reads it.
    pub(crate) fn parse(text: &'a [u8]) -> Result<Node<'a>, String> {
        match std::str::from_utf8(text) {
            Ok(text) => Node::parse_text(text),
            Err(_) => Ok(Node::parse_text(&mended(text))?.into_owned()),
        }
    }

    fn parse_text(text: &'a str) -> Result<Node<'a>, String> {
        let mut reader = Reader { text, at: 0 };
        let node = reader.value(0)?;
        reader.space();
        match reader.peek() {
            None => Ok(node),
            Some(byte) => Err(reader.unexpected(byte, "after top-level value")),
        }
    }

    fn into_owned(self) -> Node<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        match self {
            Node::Null => Node::Null,
            Node::Bool(own) => Node::Bool(own),
            Node::Number(text) => Node::Number(owned(text)),
            Node::String(text) => Node::String(owned(text)),
            Node::Array(items) => Node::Array(items.into_iter().map(Node::into_owned).collect()),
            Node::Object(fields) => {
                Node::Object(fields.into_iter().map(|(key, own)| (owned(key), own.into_owned())).collect())
            }
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
            Node::Number(text) => number_of(text),
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

    /// The first number that is too large for a float.
    pub(crate) fn too_large(&self) -> Option<&str> {
        match self {
            Node::Number(text) => text.parse::<f64>().is_ok_and(f64::is_infinite).then_some(text.as_ref()),
            Node::Array(items) => items.iter().find_map(Node::too_large),
            Node::Object(fields) => fields.iter().find_map(|(_, below)| below.too_large()),
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

/// The largest of the whole numbers that a float holds one by one (`swag.IsFloat64AJSONInteger`).
pub(crate) const WHOLE_FLOAT_MAX: f64 = 9_007_199_254_740_991.0;

/// A number as Go reads it into what has no type: whole if it is written so and fits 64 bits, or else a float. A float that
/// is whole is written without its point, so that it is read as a whole number ever after; it is made one at once.
fn number_of(text: &str) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    match text.parse::<f64>() {
        // The range holds: the float is a whole number of at most 53 bits.
        #[expect(clippy::cast_possible_truncation)]
        Ok(float) if float.fract() == 0.0 && float.abs() <= WHOLE_FLOAT_MAX => (float as i64).into(),
        Ok(float) => serde_json::Number::from_f64(float).map_or(Value::Null, Value::Number),
        Err(_) => Value::Null,
    }
}

/// Bytes as text, with U+FFFD for each byte that is no UTF-8.
fn mended(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let valid = match std::str::from_utf8(bytes) {
            Ok(rest) => rest,
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).expect("it is valid so far"),
        };
        text.push_str(valid);
        bytes = &bytes[valid.len()..];
        if let Some(rest) = bytes.get(1..) {
            text.push(char::REPLACEMENT_CHARACTER);
            bytes = rest;
        }
    }
    text
}

/// A string literal with U+FFFD for each half of a surrogate pair that stands alone.
fn paired(literal: &str) -> String {
    let unit = |rest: &str| rest.strip_prefix("\\u").and_then(|rest| u16::from_str_radix(rest.get(..4)?, 16).ok());
    let (mut text, mut rest) = (String::with_capacity(literal.len()), literal);
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match unit(rest) {
            Some(0xd800..=0xdbff) if unit(&rest[6..]).is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) => 12,
            Some(0xd800..=0xdfff) => {
                text.push(char::REPLACEMENT_CHARACTER);
                rest = &rest[6..];
                continue;
            }
            _ => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        text.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    text + rest
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
        format!("invalid character {} {place}", quote_rune(char::from(byte)))
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, String> {
        self.space();
        if depth > DEPTH_MAX {
            let byte = self.peek().ok_or("unexpected end of JSON input")?;
            return Err(self.unexpected(byte, "exceeded max depth"));
        }
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
        let read = serde_json::from_str(literal).or_else(|_| serde_json::from_str(&paired(literal)));
        read.map(Cow::Owned).map_err(|_| format!("invalid string literal {literal}"))
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
    }

    #[test]
    fn what_is_no_unicode_is_replaced_as_go_does() {
        let read = |text: &[u8]| Node::parse(text).map(|node| node.to_value());
        assert_eq!(read(b"\"x\xffy\""), Ok("x\u{fffd}y".into()));
        assert_eq!(read(b"\"\xe2\x82y\xed\xa0\x80q\""), Ok("\u{fffd}\u{fffd}y\u{fffd}\u{fffd}\u{fffd}q".into()));
        assert_eq!(read(br#""\ud800y\udc00\ud800""#), Ok("\u{fffd}y\u{fffd}\u{fffd}".into()));
        assert_eq!(read(br#""\ud83d\ude00\ud83d\\ude00""#), Ok("\u{1f600}\u{fffd}\\ude00".into()));
        assert!(read(b"\xff").is_err());
        assert!(read(br#""\ud8""#).is_err());
        assert!(read(b"\"\\u12\xff4\"").is_err());
    }

    #[test]
    fn numbers_are_whole_where_go_would_write_them_so() {
        let read = |text: &str| Node::parse(text.as_bytes()).expect("JSON").to_value().to_string();
        for (text, value) in [
            ("2.0", "2"),
            ("1E3", "1000"),
            ("10e-1", "1"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("9223372036854775807", "9223372036854775807"),
            ("9007199254740993", "9007199254740993"),
            ("1.10", "1.1"),
        ] {
            assert_eq!(read(text), value, "{text}");
        }
        for text in ["9223372036854775808", "1e18", "-9223372036854775809", "0.5", "9007199254740993.0"] {
            assert!(Node::parse(text.as_bytes()).expect("JSON").to_value().is_f64(), "{text}");
        }
        // To the nearest, and of two that are as near to the even one.
        assert_eq!(Node::Number("9007199254740993.0".into()).to_value().as_f64(), Some(9_007_199_254_740_992.0));
        let large = Node::parse(br#"{"a": [1e308, 1e400]}"#).expect("JSON");
        assert_eq!(large.too_large(), Some("1e400"));
        assert_eq!(Node::Number("-1e-400".into()).too_large(), None);
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
