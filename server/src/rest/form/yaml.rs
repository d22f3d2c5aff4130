//! YAML bodies, within bounds: a scanner that takes its time for deep nesting, and aliases that stand for far more than they
//! are long, must not cost the server more than a JSON body could.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt;

use listwatch_proto::yaml::too_deep;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Bytes that a document may stand for, aliases put in: what JSON could have said within the limit of a body, with room for
/// the difference in form.
const BYTES_MAX: usize = 8 << 20;

/// A document, and what is odd about it.
#[derive(Debug, PartialEq)]
pub(in crate::rest) struct Document {
    /// As JSON; an empty text is null.
    pub(in crate::rest) value: Value,
    /// `line 7: key "a" already set in map`, for each key that stands there again.
    pub(in crate::rest) repeated: Vec<String>,
}

/// The first document of a text, in YAML 1.1 as Go reads it: `yes` and `on` are true, `0644` is octal.
///
/// # Errors
/// What is wrong with it, and where, in the words of Go's parser where there are such.
pub(in crate::rest) fn first_document(text: &[u8]) -> Result<Document, String> {
    check_depth(text)?;
    let nothing = || Document { value: Value::Null, repeated: Vec::new() };
    let says_nothing = |line: &[u8]| matches!(line.trim_ascii(), b"" | b"---") || line.trim_ascii().starts_with(b"#");
    if text.split(|byte| *byte == b'\n').all(says_nothing) {
        return Ok(nothing());
    }
    let Some(first) = serde_norway::Deserializer::from_slice(text).next() else { return Ok(nothing()) };
    let reading = Reading { text, left: Cell::new(BYTES_MAX), repeated: RefCell::default() };
    let value = Bounded(&reading).deserialize(first).map_err(|error| in_words_of_go(&error))?;
    Ok(Document { value, repeated: reading.repeated.into_inner() })
}

/// What the parser (and not the scanner) says begins so; Go counts the lines of the two differently.
const WORDS_OF_PARSER: [&str; 6] = [
    "did not find expected <document start>",
    "did not find expected node content",
    "did not find expected '-' indicator",
    "did not find expected key",
    "did not find expected ',' or ']'",
    "did not find expected ',' or '}'",
];

/// The same fault as Go's port of the same parser tells it: `yaml: line 3: mapping values are not allowed in this context`.
fn in_words_of_go(error: &serde_norway::Error) -> String {
    let said = error.to_string();
    let Some(place) = error.location() else { return format!("yaml: {said}") };
    let what = said.split(" at line ").next().unwrap_or(&said);
    let above = place.line().saturating_sub(1);
    let line = if WORDS_OF_PARSER.iter().any(|words| what.starts_with(words)) { above } else { place.line() };
    if above == 0 { format!("yaml: {what}") } else { format!("yaml: line {line}: {what}") }
}

/// A word without quotes that means something else in YAML 1.1 than in 1.2; `None` = it does not.
fn meaning(word: &str) -> Option<Value> {
    match word {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Some(true.into()),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => return Some(false.into()),
        _ => {}
    }
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    };
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && !digits.ends_with('_');
    if !is_number {
        return None;
    }
    let plain = digits.replace('_', "");
    let base = if plain.len() > 1 && plain.starts_with('0') { 8 } else { 10 };
    i64::from_str_radix(&plain, base).ok().map(|number| (sign * number).into())
}

fn check_depth(text: &[u8]) -> Result<(), String> {
    match too_deep(&String::from_utf8_lossy(text)) {
        None => Ok(()),
        Some((line, most)) => Err(format!("yaml: line {}: more than {most} brackets stand open", line + 1)),
    }
}

/// A text that is being read.
struct Reading<'a> {
    text: &'a [u8],
    /// Bytes that the document may still stand for.
    left: Cell<usize>,
    repeated: RefCell<Vec<String>>,
}

impl Reading<'_> {
    /// Where a piece of the text begins in it; `None` = it is a copy.
    fn place(&self, piece: &str) -> Option<usize> {
        (piece.as_ptr() as usize).checked_sub(self.text.as_ptr() as usize).filter(|at| *at < self.text.len())
    }

    /// What a word that stands in the text as it is means there.
    fn meaning(&self, word: &str) -> Option<Value> {
        let meant = meaning(word)?;
        let before = self.place(word)?.checked_sub(1).map(|before| self.text[before]);
        (!matches!(before, Some(b'"' | b'\''))).then_some(meant)
    }
}

/// Builds a value and takes what it costs from what is left.
#[derive(Clone, Copy)]
struct Bounded<'a>(&'a Reading<'a>);

impl Bounded<'_> {
    fn spend<E: Error>(self, bytes: usize) -> Result<(), E> {
        match self.0.left.get().checked_sub(bytes) {
            Some(left) => {
                self.0.left.set(left);
                Ok(())
            }
            None => Err(E::custom(format!("with its aliases put in, the document is larger than {BYTES_MAX} bytes"))),
        }
    }
}

/// A key, and the line on which it stands, if it stands in the text as it is.
struct Key {
    value: Value,
    line: Option<usize>,
}

/// Reads a key.
#[derive(Clone, Copy)]
struct OfKey<'a>(Bounded<'a>);

impl<'de> DeserializeSeed<'de> for OfKey<'_> {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OfKey<'_> {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key that JSON can say")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Key, E> {
        let at = self.0.0.place(key);
        let line = at.map(|at| 1 + self.0.0.text[..at].iter().filter(|byte| **byte == b'\n').count());
        Ok(Key { value: self.0.visit_borrowed_str(key)?, line })
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Key, E> {
        Ok(Key { value: self.0.visit_str(key)?, line: None })
    }

    fn visit_bool<E: Error>(self, key: bool) -> Result<Key, E> {
        Ok(Key { value: self.0.visit_bool(key)?, line: None })
    }

    fn visit_i64<E: Error>(self, key: i64) -> Result<Key, E> {
        Ok(Key { value: self.0.visit_i64(key)?, line: None })
    }

    fn visit_u64<E: Error>(self, key: u64) -> Result<Key, E> {
        Ok(Key { value: self.0.visit_u64(key)?, line: None })
    }

    fn visit_f64<E: Error>(self, key: f64) -> Result<Key, E> {
        Ok(Key { value: self.0.visit_f64(key)?, line: None })
    }

    fn visit_unit<E: Error>(self) -> Result<Key, E> {
        Ok(Key { value: self.0.visit_unit()?, line: None })
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML that JSON can say")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.spend(1).map(|()| value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.spend(8).map(|()| value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.spend(8).map(|()| value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.spend(8).map(|()| value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.spend(value.len() + 2).map(|()| value.into())
    }

    fn visit_borrowed_str<E: Error>(self, value: &'de str) -> Result<Value, E> {
        match self.0.meaning(value) {
            Some(meant) => self.spend(8).map(|()| meant),
            None => self.visit_str(value),
        }
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.spend(1).map(|()| Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.spend(2)?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            self.spend(1)?;
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        self.spend(2)?;
        let mut map = Map::new();
        let mut seen = HashSet::new();
        while let Some(Key { value, line }) = entries.next_key_seed(OfKey(self))? {
            // As Go shows it: a text in quotes, and other things bare.
            let shown = value.to_string();
            let key = match value {
                Value::String(text) => text,
                other => other.to_string(),
            };
            if !seen.insert(key.clone()) {
                let place = line.map_or_else(String::new, |line| format!("line {line}: "));
                self.0.repeated.borrow_mut().push(format!("{place}key {shown} already set in map"));
            }
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(text: &str) -> Value {
        first_document(text.as_bytes()).expect(text).value
    }

    #[test]
    fn yaml_is_read_as_json_would_be() {
        let text = "a: 1\nb: [x, true, null, 1.5]\n2: {c: d}\n---\nsecond: 1\n";
        assert_eq!(value(text), json!({"a": 1, "b": ["x", true, null, 1.5], "2": {"c": "d"}}));
        assert_eq!(value(""), Value::Null);
        assert!(first_document(b"a: [").is_err());
    }

    #[test]
    fn words_mean_what_they_mean_in_the_older_yaml() {
        let text =
            "y: z\na: [yes, 'yes', \"no\", off, No, yesterday]\nmode: 0644\nlong: 1_000\nname: \"on\"\nb: |\n  on\n";
        let expected = json!({"true": "z", "a": [true, "yes", "no", false, false, "yesterday"], "mode": 420, "long": 1000,
            "name": "on", "b": "on\n"});
        assert_eq!(value(text), expected);
        // No digit of the base: it stays a text.
        assert_eq!(value("a: 0889\nb: 1_\nc: 10:30"), json!({"a": "0889", "b": "1_", "c": "10:30"}));
    }

    #[test]
    fn a_key_that_stands_there_again_is_told() {
        let read = first_document(b"data:\n  y: z\n  y: w\na: 1\n\"a\": 2\n").expect("valid");
        assert_eq!(read.value, json!({"data": {"true": "w"}, "a": 2}));
        assert_eq!(read.repeated, ["line 3: key true already set in map", "line 5: key \"a\" already set in map"]);
    }

    #[test]
    fn faults_have_the_words_of_go() {
        let told = |text: &str| first_document(text.as_bytes()).expect_err(text);
        assert_eq!(told("a: b: c"), "yaml: mapping values are not allowed in this context");
        assert_eq!(told("x: 1\na: b: c"), "yaml: line 2: mapping values are not allowed in this context");
    }

    #[test]
    fn deep_nesting_is_refused_before_it_is_scanned() {
        let deep = "[".repeat(500_000);
        let brackets = "[".repeat(400);
        let text = format!("a: \"{brackets}\"\nb: |\n  {brackets}\n");
        assert_eq!(value(&text), json!({"a": brackets, "b": format!("{brackets}\n")}), "those of texts are none");
        assert_eq!(first_document(deep.as_bytes()), Err("yaml: line 1: more than 128 brackets stand open".into()));
    }

    #[test]
    fn aliases_may_not_stand_for_more_than_a_body_could_hold() {
        let mut bomb = format!("a: &a \"{}\"\n", "x".repeat(100_000));
        (0..1000).for_each(|i| bomb.push_str(&format!("k{i}: *a\n")));
        let error = first_document(bomb.as_bytes()).expect_err("too large");
        assert!(error.contains("larger than 8388608 bytes"), "{error}");
    }
}
