//! YAML answers, laid out as Go's library does it for kube-apiserver (`sigs.k8s.io/yaml`): keys in natural order, lists not
//! indented, texts plain where nothing else could be read from them, folded at 80 columns.

use std::cmp::Ordering;

use serde_json::{Map, Value};

/// Columns after which a text is folded at its next space.
const WIDTH: usize = 80;
/// Spaces of a level.
const STEP: usize = 2;

/// A document.
pub(in crate::rest) fn document(value: &Value) -> String {
    let mut emitter = Emitter { out: String::new(), column: 0 };
    match value {
        Value::Object(map) if !map.is_empty() => emitter.mapping(map, 0, true),
        Value::Array(items) if !items.is_empty() => emitter.sequence(items, 0, true),
        other => emitter.scalar(other, STEP, false),
    }
    if !emitter.out.ends_with('\n') {
        emitter.out.push('\n');
    }
    emitter.out
}

struct Emitter {
    out: String,
    column: usize,
}

impl Emitter {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn line(&mut self, indent: usize) {
        if !self.out.ends_with('\n') {
            self.out.push('\n');
        }
        self.out.extend(std::iter::repeat_n(' ', indent));
        self.column = indent;
    }

    /// `inline`: the first key stands where the text is now.
    fn mapping(&mut self, map: &Map<String, Value>, indent: usize, inline: bool) {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_by(|a, b| natural(a.0, b.0));
        for (at, (key, value)) in entries.into_iter().enumerate() {
            if at > 0 || !inline {
                self.line(indent);
            }
            self.text(key, indent + STEP, true);
            self.put(":");
            match value {
                Value::Object(map) if !map.is_empty() => self.mapping(map, indent + STEP, false),
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent, false),
                other => {
                    self.put(" ");
                    self.scalar(other, indent + STEP, false);
                }
            }
        }
    }

    fn sequence(&mut self, items: &[Value], indent: usize, inline: bool) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 || !inline {
                self.line(indent);
            }
            self.put("- ");
            match item {
                Value::Object(map) if !map.is_empty() => self.mapping(map, indent + STEP, true),
                Value::Array(items) if !items.is_empty() => self.sequence(items, indent + STEP, true),
                other => self.scalar(other, indent + STEP, false),
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize, key: bool) {
        match value {
            Value::Null => self.put("null"),
            Value::Bool(flag) => self.put(if *flag { "true" } else { "false" }),
            Value::Number(number) => self.put(&number.to_string()),
            Value::String(text) => self.text(text, indent, key),
            Value::Array(_) => self.put("[]"),
            Value::Object(_) => self.put("{}"),
        }
    }

    fn text(&mut self, text: &str, indent: usize, key: bool) {
        let allowed = Allowed::of(text);
        if text.contains('\n') && !key {
            return if allowed.literal { self.literal(text, indent) } else { self.double(text, indent, key) };
        }
        match () {
            () if means_something_else(text) => self.double(text, indent, key),
            () if allowed.plain => self.folded(text, indent, key),
            () if allowed.single => {
                self.put("'");
                self.folded(&text.replace('\'', "''"), indent, key);
                self.put("'");
            }
            () => self.double(text, indent, key),
        }
    }

    /// Words, broken at single spaces behind the width.
    fn folded(&mut self, text: &str, indent: usize, key: bool) {
        let chars: Vec<char> = text.chars().collect();
        for (at, c) in chars.iter().enumerate() {
            let lone =
                *c == ' ' && at > 0 && at + 1 < chars.len() && chars[at - 1] != ' ' && chars.get(at + 1) != Some(&' ');
            if lone && !key && self.column > WIDTH {
                self.line(indent);
            } else {
                self.out.push(*c);
                self.column += 1;
            }
        }
    }

    fn literal(&mut self, text: &str, indent: usize) {
        let hint = if text.starts_with([' ', '\n']) { "2" } else { "" };
        let chomp = match text.strip_suffix('\n') {
            None => "-",
            Some(rest) if rest.is_empty() || rest.ends_with('\n') => "+",
            Some(_) => "",
        };
        self.put(&format!("|{hint}{chomp}"));
        self.out.push('\n');
        let body = text.strip_suffix('\n').unwrap_or(text);
        for line in body.split('\n') {
            if !line.is_empty() {
                self.out.extend(std::iter::repeat_n(' ', indent));
                self.out.push_str(line);
            }
            self.out.push('\n');
        }
        self.column = 0;
    }

    fn double(&mut self, text: &str, indent: usize, key: bool) {
        self.put("\"");
        let chars: Vec<char> = text.chars().collect();
        let mut behind_space = false;
        for (at, c) in chars.iter().enumerate() {
            let fold = *c == ' ' && !key && !behind_space && self.column > WIDTH && at > 0 && at + 1 < chars.len();
            behind_space = *c == ' ';
            if fold {
                self.line(indent);
                // A space that begins a line would be lost.
                if chars[at + 1] == ' ' {
                    self.put("\\");
                }
                continue;
            }
            match escaped(*c) {
                Some(escape) => self.put(&escape),
                None => self.put(c.encode_utf8(&mut [0; 4])),
            }
        }
        self.put("\"");
    }
}

/// How a character stands between double quotes; `None` = as it is.
fn escaped(c: char) -> Option<String> {
    Some(match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\0' => "\\0".to_owned(),
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\t' => "\\t".to_owned(),
        '\n' => "\\n".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\r' => "\\r".to_owned(),
        '\u{1b}' => "\\e".to_owned(),
        '\u{85}' => "\\N".to_owned(),
        '\u{2028}' => "\\L".to_owned(),
        '\u{2029}' => "\\P".to_owned(),
        c if is_printable(c) => return None,
        c if u32::from(c) <= 0xff => format!("\\x{:02X}", u32::from(c)),
        c if u32::from(c) <= 0xffff => format!("\\u{:04X}", u32::from(c)),
        c => format!("\\U{:08X}", u32::from(c)),
    })
}

/// As Go's library sees it: a tab is not, nor what lies beyond the basic plane.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

/// In which styles a text can stand.
struct Allowed {
    plain: bool,
    single: bool,
    literal: bool,
}

impl Allowed {
    fn of(text: &str) -> Allowed {
        let chars: Vec<char> = text.chars().collect();
        let (first, last) = (chars.first().copied(), chars.last().copied());
        let is_blank = |c: Option<&char>| c.is_none_or(|c| matches!(c, ' ' | '\t' | '\n'));
        let is_break = |c: char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
        let mut indicator = text.starts_with("---") || text.starts_with("...");
        for (at, c) in chars.iter().enumerate() {
            let followed = is_blank(chars.get(at + 1));
            indicator |= match c {
                '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`'
                    if at == 0 =>
                {
                    true
                }
                '?' | '-' if at == 0 => followed,
                ':' => followed,
                '#' => is_blank(chars.get(at - 1)),
                _ => false,
            };
        }
        let pairs = || chars.windows(2).map(|pair| (pair[0], pair[1]));
        let special = chars.iter().any(|c| !is_printable(*c));
        let space_break = pairs().any(|(a, b)| a == ' ' && is_break(b));
        let break_space = pairs().any(|(a, b)| is_break(a) && b == ' ');
        let edges = [first, last].into_iter().flatten().any(|c| c == ' ' || is_break(c));
        let multiline = chars.iter().any(|c| is_break(*c));
        let single = !special && !space_break && !break_space;
        Allowed {
            plain: single && !edges && !multiline && !indicator,
            single,
            literal: !special && !space_break && last != Some(' '),
        }
    }
}

/// Whether a plain text would be read as something else than a text (YAML 1.1).
fn means_something_else(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "n", "N", "no", "No", "NO", "true", "True",
        "TRUE", "false", "False", "FALSE", "on", "On", "ON", "off", "Off", "OFF", ".nan", ".NaN", ".NAN", ".inf",
        ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF",
    ];
    if WORDS.contains(&text) {
        return true;
    }
    let begins = text.bytes().next().unwrap_or_default();
    (begins.is_ascii_digit() || matches!(begins, b'+' | b'-' | b'.'))
        && (is_number(text) || is_sexagesimal(text) || is_time(text))
}

fn is_number(text: &str) -> bool {
    let plain = text.replace('_', "");
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let all = |digits: &str, is: fn(u8) -> bool| !digits.is_empty() && digits.bytes().all(is);
    for (prefixes, is) in [
        (["0x", "0X"], (|b: u8| b.is_ascii_hexdigit()) as fn(u8) -> bool),
        (["0o", "0O"], |b| (b'0'..=b'7').contains(&b)),
        (["0b", "0B"], |b| matches!(b, b'0' | b'1')),
    ] {
        if let Some(rest) = prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix)) {
            return all(rest, is);
        }
    }
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.').map_or((mantissa, None), |(w, f)| (w, Some(f)));
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let mantissa_ok = is_digits(whole)
        && fraction.is_none_or(is_digits)
        && (!whole.is_empty() || fraction.is_some_and(|fraction| !fraction.is_empty()));
    let exponent_ok = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && is_digits(digits)
    });
    mantissa_ok && exponent_ok
}

/// `12:30`, which YAML 1.1 reads to the base of sixty.
fn is_sexagesimal(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or_default();
    let rest: Vec<&str> = parts.collect();
    let Some((last, middle)) = rest.split_last() else { return false };
    let is_part = |part: &str| {
        (1..=2).contains(&part.len())
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u8>().is_ok_and(|number| number < 60)
    };
    let (last, fraction) = last.split_once('.').unwrap_or((last, ""));
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && middle.iter().all(|part| is_part(part))
        && is_part(last)
        && fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

/// A date, or a date and a time.
fn is_time(text: &str) -> bool {
    let number = |text: &str, range: std::ops::RangeInclusive<u8>| {
        (1..=2).contains(&text.len()) && text.parse::<u8>().is_ok_and(|n| range.contains(&n))
    };
    let (date, time) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some((&text[at..=at], &text[at + 1..]))),
        None => (text, None),
    };
    let date_ok = match date.split('-').collect::<Vec<_>>()[..] {
        [year, month, day] => {
            year.len() == 4 && year.bytes().all(|b| b.is_ascii_digit()) && number(month, 1..=12) && number(day, 1..=31)
        }
        _ => false,
    };
    let time_ok = time.is_none_or(|(separator, time)| {
        let zone = time.find(['Z', '+', '-']);
        // With a space between there is no zone, else there is one.
        if zone.is_some() == (separator == " ") {
            return false;
        }
        let clock = &time[..zone.unwrap_or(time.len())];
        let clock = clock.split_once('.').map_or(clock, |(clock, _)| clock);
        match clock.split(':').collect::<Vec<_>>()[..] {
            [hour, minute, second] => number(hour, 0..=23) && number(minute, 0..=59) && number(second, 0..=59),
            _ => false,
        }
    });
    date_ok && time_ok
}

/// The order in which a person would put them: `a9` before `a10`, letters behind all else.
fn natural(a: &str, b: &str) -> Ordering {
    let (left, right): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = left.iter().zip(&right).position(|(a, b)| a != b) else { return left.len().cmp(&right.len()) };
    let (x, y) = (left[at], right[at]);
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x.cmp(&y),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // Zeros within a number count by what stands before them.
    let within =
        (x == '0' || y == '0') && left[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let number = |chars: &[char]| {
        let digits = chars[at..].iter().take_while(|c| c.is_ascii_digit());
        let count = digits.clone().count();
        let value = digits.fold(u64::from(within), |n, c| {
            n.saturating_mul(10).saturating_add(u64::from(c.to_digit(10).unwrap_or(0)))
        });
        (value, count)
    };
    let ((n, i), (m, j)) = (number(&left), number(&right));
    n.cmp(&m).then(i.cmp(&j)).then(x.cmp(&y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What kube-apiserver 1.36.3 answered for a ConfigMap with these annotations.
    const RECORDED: &str = r#"apiVersion: v1
metadata:
  annotations:
    a9: long long long long long long long long long long long long long long long
      long long long long long long long long long long
    a10: x
    b: '*star'
    c: 'a: b'
    d: 'a #b'
    e: ' lead'
    f: "y"
    g: "1e3"
    h: "~"
    i: "0x1F"
    j: "12:30"
    k: '- a'
    l: é
    m: "tab\tx"
    "n": "2001-01-01"
    o: ""
    p: "null"
    q: it's
    r: '@x'
    s: |
      x
      y
    t: |-
      x
      y
    u: |2-

       x
    v: '#c'
    w: a,b
    x: '[x]'
    z: '-'
    za: ?x
    zb: a:b
    zc: "1_000"
    zd: =
    ze: 'trail '
    zf: <<
    zg: "\a"
    zh: |+
      x

    zi: '% x'
    zj: '---'
    zk: "0o7"
    zl: "007"
    zm: "+1"
    zn: ".5"
    zo: "No"
    zp: "1."
    zq: "x\n y\nz "
  creationTimestamp: "2026-11-30T15:24:44Z"
  managedFields:
  - apiVersion: v1
    fieldsV1:
      .: {}
      f:a9: {}
    operation: 3
  name: "y"
"#;

    #[test]
    fn texts_stand_as_kube_apiserver_wrote_them() {
        let long = ["long"; 25].join(" ");
        let annotations: Map<String, Value> = [
            ("a10", "x"),
            ("a9", long.as_str()),
            ("b", "*star"),
            ("c", "a: b"),
            ("d", "a #b"),
            ("e", " lead"),
            ("f", "y"),
            ("g", "1e3"),
            ("h", "~"),
            ("i", "0x1F"),
            ("j", "12:30"),
            ("k", "- a"),
            ("l", "é"),
            ("m", "tab\tx"),
            ("n", "2001-01-01"),
            ("o", ""),
            ("p", "null"),
            ("q", "it's"),
            ("r", "@x"),
            ("s", "x\ny\n"),
            ("t", "x\ny"),
            ("u", "\n x"),
            ("v", "#c"),
            ("w", "a,b"),
            ("x", "[x]"),
            ("z", "-"),
            ("za", "?x"),
            ("zb", "a:b"),
            ("zc", "1_000"),
            ("zd", "="),
            ("ze", "trail "),
            ("zf", "<<"),
            ("zg", "\u{7}"),
            ("zh", "x\n\n"),
            ("zi", "% x"),
            ("zj", "---"),
            ("zk", "0o7"),
            ("zl", "007"),
            ("zm", "+1"),
            ("zn", ".5"),
            ("zo", "No"),
            ("zp", "1."),
            ("zq", "x\n y\nz "),
        ]
        .map(|(key, text)| (key.to_owned(), text.into()))
        .into_iter()
        .collect();
        let value = json!({
            "apiVersion": "v1",
            "metadata": {
                "name": "y", "creationTimestamp": "2026-11-30T15:24:44Z", "annotations": annotations,
                "managedFields": [{"apiVersion": "v1", "operation": 3, "fieldsV1": {"f:a9": {}, ".": {}}}],
            },
        });
        let written = document(&value);
        for (line, (found, expected)) in written.lines().zip(RECORDED.lines()).enumerate() {
            assert_eq!(found, expected, "line {}", line + 1);
        }
        assert_eq!(written, RECORDED);
    }

    #[test]
    fn what_is_written_reads_as_it_was() {
        let value =
            json!({"a": [[1, 2], [], {"b": [null, true]}, "x y"], "c": {}, "d": 1.5, "e": "2001-01-01T00:00:00Z"});
        assert_eq!(serde_norway::from_str::<Value>(&document(&value)).expect("YAML"), value);
        assert_eq!(document(&json!([])), "[]\n");
    }
}
