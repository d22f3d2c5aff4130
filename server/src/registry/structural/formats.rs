//! The formats of texts (kube-openapi `strfmt`, and those that Kubernetes 1.36 adds).

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use base64::Engine as _;
use regex::Regex;

/// All formats of texts, without the dashes of their names.
const TEXTS: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

fn plain(format: &str) -> String {
    format.replace('-', "")
}

/// Whether a format means something for a type; one that does not is as good as none.
pub(in super::super) fn is_supported(kind: &str, format: &str) -> bool {
    match kind {
        _ if format.is_empty() => false,
        "" | "string" => TEXTS.contains(&plain(format).as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Whether it is a format of texts.
pub(super) fn is_known(format: &str) -> bool {
    !format.is_empty() && TEXTS.contains(&plain(format).as_str())
}

/// Whether a text is of a format; one that is not known takes every text.
pub(super) fn fits(format: &str, text: &str) -> bool {
    match plain(format).as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "byte" => is_base64(text),
        "cidr" => is_cidr(text),
        "creditcard" => is_credit_card(text),
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "email" => is_email(text),
        "hexcolor" => matches_whole(text, r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})", Slot::HexColor),
        "hostname" => is_hostname(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "k8slongname" => is_name(text, 253) && text.split('.').all(|part| is_name(part, 253)),
        "k8sshortname" => !text.contains('.') && is_name(text, 63),
        "mac" => is_mac(text),
        "rgbcolor" => is_rgb_color(text),
        "ssn" => matches_whole(text, r"\d{3}[- ]?\d{2}[- ]?\d{4}", Slot::Ssn),
        "uri" => is_request_uri(text),
        "uuid" => is_uuid(text, ""),
        "uuid3" => is_uuid(text, "3"),
        "uuid4" => is_uuid(text, "4"),
        "uuid5" => is_uuid(text, "5"),
        _ => true,
    }
}

/// The patterns that are compiled, each once.
#[derive(Clone, Copy)]
enum Slot {
    HexColor,
    Ssn,
    Hostname,
    Rgb,
    Card,
}

fn matches_whole(text: &str, pattern: &str, slot: Slot) -> bool {
    static COMPILED: [OnceLock<Regex>; 5] = [const { OnceLock::new() }; 5];
    let regex = COMPILED[slot as usize]
        .get_or_init(|| Regex::new(&format!("^(?:{pattern})$")).expect("the patterns of this file compile"));
    regex.is_match(text)
}

fn is_base64(text: &str) -> bool {
    !text.is_empty() && base64::engine::general_purpose::STANDARD.decode(text).is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let max = if address.parse::<Ipv4Addr>().is_ok() {
        32
    } else if address.parse::<Ipv6Addr>().is_ok() {
        128
    } else {
        return false;
    };
    !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u32>().is_ok_and(|bits| bits <= max)
}

fn is_credit_card(text: &str) -> bool {
    const CARD: &str = r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}";
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    matches_whole(&digits, CARD, Slot::Card) && luhn(&digits)
}

fn luhn(digits: &str) -> bool {
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(i, digit)| {
            let value = u32::from(digit - b'0') * if i % 2 == 1 { 2 } else { 1 };
            value / 10 + value % 10
        })
        .sum();
    sum.is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() });
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    is_date(date) && is_time(time)
}

/// `15:04:05`, a fraction, and `z` or an offset.
fn is_time(text: &str) -> bool {
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    let pair = |text: &str| text.split_once(':').is_some_and(|(a, b)| digits(a) && digits(b));
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = parts.as_slice() else { return false };
    if ![hours, minutes, seconds].iter().all(|part| digits(part)) || *hours > "23" || *minutes > "59" || *seconds > "59"
    {
        return false;
    }
    let zone = match rest.find(['z', '+', '-']) {
        Some(at) => {
            let (fraction, zone) = rest.split_at(at);
            let fraction_fits =
                fraction.is_empty() || (fraction.len() > 1 && fraction.bytes().skip(1).all(|b| b.is_ascii_digit()));
            if !fraction_fits {
                return false;
            }
            zone
        }
        None => return false,
    };
    zone == "z" || pair(&zone[1..])
}

/// Go's form, or numbers with units in words.
fn is_duration(text: &str) -> bool {
    const UNITS: [(&str, bool); 18] = [
        ("ns", false),
        ("nano", true),
        ("us", false),
        ("µs", false),
        ("micro", true),
        ("ms", false),
        ("milli", true),
        ("s", false),
        ("sec", true),
        ("m", false),
        ("min", true),
        ("h", false),
        ("hr", false),
        ("hour", true),
        ("d", false),
        ("day", true),
        ("w", false),
        ("week", true),
    ];
    let known = |unit: &str| {
        UNITS.iter().any(|(name, prefix)| unit == *name || (*prefix && unit.starts_with(name))) || unit == "wk"
    };
    if is_go_duration(text) {
        return true;
    }
    let mut rest = text;
    let mut found = false;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let behind = rest[at..].trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let length = behind.find(|c: char| !(c.is_ascii_alphabetic() || c == 'µ')).unwrap_or(behind.len());
        found |= length > 0 && known(&behind[..length].to_lowercase());
        rest = &behind[length..];
    }
    found
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let digits = &rest[..number];
        if !digits.bytes().any(|b| b.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return false;
        }
        rest = &rest[number..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        if !matches!(&rest[..unit], "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = &rest[unit..];
    }
    true
}

/// An address as RFC 5322 has it, a name before it allowed.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>').and_then(|head| head.rsplit_once('<')) {
        Some((_, address)) => address,
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let atom = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || !c.is_ascii();
    let dotted = |text: &str| text.split('.').all(|part| !part.is_empty() && part.chars().all(atom));
    let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || dotted(local)) && (literal || dotted(domain))
}

fn is_hostname(text: &str) -> bool {
    const HOSTNAME: &str = r"([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})";
    matches_whole(text, HOSTNAME, Slot::Hostname) && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    if digits.len() != 10 {
        return false;
    }
    let mut sum = 0;
    for (i, c) in digits.iter().enumerate() {
        let value = match c {
            'X' if i == 9 => 10,
            c => match c.to_digit(10) {
                Some(digit) => digit,
                None => return false,
            },
        };
        sum += value * (10 - i as u32);
    }
    sum % 11 == 0
}

fn is_isbn13(text: &str) -> bool {
    let digits: Option<Vec<u32>> = text.chars().filter(|c| !matches!(c, '-' | ' ')).map(|c| c.to_digit(10)).collect();
    let Some(digits) = digits.filter(|digits| digits.len() == 13) else { return false };
    let sum: u32 = digits.iter().enumerate().map(|(i, digit)| digit * if i % 2 == 1 { 3 } else { 1 }).sum();
    sum.is_multiple_of(10)
}

/// Letters, digits and dashes (and dots), none of the last two at an end.
fn is_name(text: &str, max: usize) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= max
        && bytes.iter().all(|b| inner(*b) || matches!(b, b'-' | b'.'))
        && inner(bytes[0])
        && inner(bytes[bytes.len() - 1])
}

/// 6, 8 or 20 bytes, in the three usual forms.
fn is_mac(text: &str) -> bool {
    let hex = |part: &str, digits: usize| part.len() == digits && part.bytes().all(|b| b.is_ascii_hexdigit());
    let is = |separator: char, digits: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let bytes = parts.len() * digits / 2;
        matches!(bytes, 6 | 8 | 20) && parts.iter().all(|part| hex(part, digits))
    };
    is(':', 2) || is('-', 2) || is('.', 4)
}

fn is_rgb_color(text: &str) -> bool {
    const RGB: &str = r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)";
    matches_whole(text, RGB, Slot::Rgb)
}

/// What may stand in a request line: a path, or a URI with a scheme.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_control() || c == ' ') {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
            && !rest.is_empty()
    })
}

/// 32 hexadecimal digits, dashes between the groups as one likes, the version's digit where it stands.
fn is_uuid(text: &str, version: &str) -> bool {
    let mut digits = String::with_capacity(32);
    let mut rest = text;
    for (i, group) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((head, tail)) = rest.split_at_checked(group) else { return false };
        digits.push_str(head);
        rest = tail;
    }
    let variant =
        digits.as_bytes().get(16).is_some_and(|b| matches!(b.to_ascii_lowercase(), b'8' | b'9' | b'a' | b'b'));
    rest.is_empty()
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && (version.is_empty() || digits[12..].starts_with(version))
        && (!matches!(version, "4" | "5") || variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_of_a_format_or_not() {
        for (format, good, bad) in [
            ("date-time", "2024-02-29T23:59:59.5Z", "soon"),
            ("date-time", "2024-01-01t00:00:00+01:00", "2024-01-01T24:00:00Z"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m", "x"),
            ("duration", "22 ns", "ns"),
            ("duration", "3 days", "3 fortnights"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "::1", "10.0.0.1"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:00:5e:00:53:01", "00:00:5e"),
            ("uuid", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3f2504e0"),
            ("uuid4", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "f47ac10b-58cc-3372-a567-0e02b2c3d479"),
            ("uri", "https://example.com/x", "not a uri"),
            ("email", "a.b@example.com", "a@"),
            ("hostname", "a.example.com", "-a"),
            ("byte", "aGVsbG8=", "?"),
            ("hexcolor", "#fff", "#ff"),
            ("rgbcolor", "rgb(1,2,255)", "rgb(1,2,256)"),
            ("isbn", "978-0321751041", "978-0321751042"),
            ("isbn10", "0321751043", "0321751044"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "111-22-3333", "111-2-333"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
            ("k8s-short-name", "abc-1", "a.b"),
            ("k8s-long-name", "abc.d-1", "a..b"),
        ] {
            assert!(fits(format, good), "{format} {good}");
            assert!(!fits(format, bad), "{format} {bad}");
        }
        assert!(fits("no-such-format", "anything") && fits("password", ""));
    }

    #[test]
    fn a_format_belongs_to_a_type() {
        assert!(is_supported("string", "date-time") && is_supported("", "uuid") && is_supported("integer", "int32"));
        assert!(!is_supported("integer", "date") && !is_supported("object", "date") && !is_supported("string", "x"));
    }
}
