//! Go's `%q`: how a text stands between quotes in the messages of Kubernetes.
//!
//! Invariant: the answer is `strconv.Quote`'s and `strconv.QuoteRune`'s of Go 1.26, which Kubernetes 1.36 is built with,
//! for every text; a test compares all code points. Rust's `{:?}` writes what cannot be seen in another way.

use std::fmt::Write as _;

/// A text as Go's `%q` writes it: `"a\x00\u200b"`.
pub fn quote<T: AsRef<str> + ?Sized>(text: &T) -> String {
    let text = text.as_ref();
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        push(&mut quoted, letter, '"');
    }
    quoted.push('"');
    quoted
}

/// A letter as Go's `%q` writes it: `'\''`.
pub fn quote_rune(letter: char) -> String {
    let mut quoted = String::from("'");
    push(&mut quoted, letter, '\'');
    quoted.push('\'');
    quoted
}

/// A list of texts as Go's `%q` writes it: `["a" "b"]`.
pub fn quote_all<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(|text| quote(&text)).collect();
    format!("[{}]", quoted.join(" "))
}

/// A text as Go's package time writes it in its errors, which knows ASCII alone: `"5\xc2\xb5"`.
pub fn quote_in_time(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            ' '..='\x7f' => quoted.push(letter),
            other => {
                for byte in other.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing to a string does not fail.
                    let _ = write!(quoted, "\\x{byte:02x}");
                }
            }
        }
    }
    quoted.push('"');
    quoted
}

fn push(quoted: &mut String, letter: char, mark: char) {
    match letter {
        '\\' => quoted.push_str("\\\\"),
        '\x07' => quoted.push_str("\\a"),
        '\x08' => quoted.push_str("\\b"),
        '\x0c' => quoted.push_str("\\f"),
        '\n' => quoted.push_str("\\n"),
        '\r' => quoted.push_str("\\r"),
        '\t' => quoted.push_str("\\t"),
        '\x0b' => quoted.push_str("\\v"),
        other if other == mark => quoted.extend(['\\', mark]),
        other if is_printable(other) => quoted.push(other),
        other => {
            let code = u32::from(other);
            // Writing to a string does not fail.
            let _ = match code {
                ..0x80 => write!(quoted, "\\x{code:02x}"),
                0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                _ => write!(quoted, "\\U{code:08x}"),
            };
        }
    }
}

/// Go's `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols and the blank of ASCII, as of Unicode 15.
pub fn is_printable(letter: char) -> bool {
    if letter.is_ascii() {
        return matches!(letter, ' '..='~');
    }
    let code = u32::from(letter);
    let place = NEWER.partition_point(|(_, last)| *last < code);
    if NEWER.get(place).is_some_and(|(first, _)| *first <= code) {
        return false;
    }
    // Rust escapes the same classes of letters, and a combining one only where it stands first.
    let mut buffer = [b'a', 0, 0, 0, 0];
    let length = letter.encode_utf8(&mut buffer[1..]).len();
    let behind_a = std::str::from_utf8(&buffer[..=length]).expect("an ASCII letter and an encoded one");
    behind_a.escape_debug().nth(1) != Some('\\')
}

/// What Unicode has had since version 15, first and last of each range: Go 1.26 does not know these letters yet.
#[rustfmt::skip]
const NEWER: [(u32, u32); 90] = [
    (0x88f, 0x88f), (0x897, 0x897), (0xc5c, 0xc5c), (0xcdc, 0xcdc), (0x1acf, 0x1add), (0x1ae0, 0x1aeb),
    (0x1b4e, 0x1b4f), (0x1b7f, 0x1b7f), (0x1c89, 0x1c8a), (0x20c1, 0x20c1), (0x2427, 0x2429), (0x2b96, 0x2b96),
    (0x2ffc, 0x2fff), (0x31e4, 0x31e5), (0x31ef, 0x31ef), (0xa7cb, 0xa7cf), (0xa7d2, 0xa7d2), (0xa7d4, 0xa7d4),
    (0xa7da, 0xa7dc), (0xa7f1, 0xa7f1), (0xfbc3, 0xfbd2), (0xfd90, 0xfd91), (0xfdc8, 0xfdce), (0x1_05c0, 0x1_05f3),
    (0x1_0940, 0x1_0959), (0x1_0d40, 0x1_0d65), (0x1_0d69, 0x1_0d85), (0x1_0d8e, 0x1_0d8f), (0x1_0ec2, 0x1_0ec7),
    (0x1_0ed0, 0x1_0ed8), (0x1_0efa, 0x1_0efc), (0x1_1380, 0x1_1389), (0x1_138b, 0x1_138b), (0x1_138e, 0x1_138e),
    (0x1_1390, 0x1_13b5), (0x1_13b7, 0x1_13c0), (0x1_13c2, 0x1_13c2), (0x1_13c5, 0x1_13c5), (0x1_13c7, 0x1_13ca),
    (0x1_13cc, 0x1_13d5), (0x1_13d7, 0x1_13d8), (0x1_13e1, 0x1_13e2), (0x1_16d0, 0x1_16e3), (0x1_1b60, 0x1_1b67),
    (0x1_1bc0, 0x1_1be1), (0x1_1bf0, 0x1_1bf9), (0x1_1db0, 0x1_1ddb), (0x1_1de0, 0x1_1de9), (0x1_1f5a, 0x1_1f5a),
    (0x1_3460, 0x1_43fa), (0x1_6100, 0x1_6139), (0x1_6d40, 0x1_6d79), (0x1_6ea0, 0x1_6eb8), (0x1_6ebb, 0x1_6ed3),
    (0x1_6ff2, 0x1_6ff6), (0x1_87f8, 0x1_87ff), (0x1_8cff, 0x1_8cff), (0x1_8d09, 0x1_8d1e), (0x1_8d80, 0x1_8df2),
    (0x1_cc00, 0x1_ccfc), (0x1_cd00, 0x1_ceb3), (0x1_ceba, 0x1_ced0), (0x1_cee0, 0x1_cef0), (0x1_e5d0, 0x1_e5fa),
    (0x1_e5ff, 0x1_e5ff), (0x1_e6c0, 0x1_e6de), (0x1_e6e0, 0x1_e6f5), (0x1_e6fe, 0x1_e6ff), (0x1_f6d8, 0x1_f6d8),
    (0x1_f777, 0x1_f77a), (0x1_f8b2, 0x1_f8bb), (0x1_f8c0, 0x1_f8c1), (0x1_f8d0, 0x1_f8d8), (0x1_fa54, 0x1_fa57),
    (0x1_fa89, 0x1_fa8a), (0x1_fa8e, 0x1_fa8f), (0x1_fabe, 0x1_fabe), (0x1_fac6, 0x1_fac6), (0x1_fac8, 0x1_fac8),
    (0x1_facd, 0x1_facd), (0x1_fadc, 0x1_fadc), (0x1_fadf, 0x1_fadf), (0x1_fae9, 0x1_faea), (0x1_faef, 0x1_faef),
    (0x1_fbcb, 0x1_fbef), (0x1_fbfa, 0x1_fbfa), (0x2_b73a, 0x2_b73f), (0x2_cea2, 0x2_cead), (0x2_ebf0, 0x2_ee5d),
    (0x3_23b0, 0x3_3479),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_does() {
        // What `strconv.Quote` of Go 1.26 makes of these texts.
        let table = [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("a\"b\\c", r#""a\"b\\c""#),
            ("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            ("\x00\x01\x1b\x1f\x7f", r#""\x00\x01\x1b\x1f\x7f""#),
            ("it's", r#""it's""#),
            ("grüße 世界 🦀", r#""grüße 世界 🦀""#),
            ("a\u{a0}b", r#""a\u00a0b""#),
            ("\u{ad}", r#""\u00ad""#),
            ("\u{301} e\u{301}", "\"\u{301} e\u{301}\""),
            ("\u{200b}\u{200e}\u{2028}\u{2029}", r#""\u200b\u200e\u2028\u2029""#),
            ("\u{3000}", r#""\u3000""#),
            ("\u{feff}", r#""\ufeff""#),
            ("\u{fffd}", "\"\u{fffd}\""),
            ("\u{fffe}\u{ffff}", r#""\ufffe\uffff""#),
            ("\u{e000}", r#""\ue000""#),
            ("\u{378}", r#""\u0378""#),
            ("\u{1f6d8}", r#""\U0001f6d8""#),
            ("\u{e0001}", r#""\U000e0001""#),
            ("\u{10ffff}", r#""\U0010ffff""#),
            ("\u{f0000}", r#""\U000f0000""#),
            ("\u{85}\u{9f}", r#""\u0085\u009f""#),
            ("\u{88f}", r#""\u088f""#),
            ("{x} %q `y`", r#""{x} %q `y`""#),
        ];
        for (text, expected) in table {
            assert_eq!(quote(text), expected, "{text:?}");
        }
        assert_eq!(quote_all(["a", "b\n"]), r#"["a" "b\n"]"#);
        assert_eq!(quote_all([""; 0]), "[]");
    }

    #[test]
    fn letters_are_quoted_as_go_does() {
        // What `strconv.QuoteRune` of Go 1.26 makes of these letters.
        let table = [
            ('a', r"'a'"),
            ('\'', r"'\''"),
            ('"', "'\"'"),
            ('\\', r"'\\'"),
            ('\0', r"'\x00'"),
            ('\x7f', r"'\x7f'"),
            ('\n', r"'\n'"),
            ('é', "'é'"),
            ('\u{85}', r"'\u0085'"),
            ('\u{200b}', r"'\u200b'"),
            ('\u{1f6d8}', r"'\U0001f6d8'"),
        ];
        for (letter, expected) in table {
            assert_eq!(quote_rune(letter), expected, "{letter:?}");
        }
    }

    #[test]
    fn errors_of_times_quote_in_a_way_of_their_own() {
        // What `time.ParseDuration` of Go 1.26 says of these texts.
        let table = [
            ("5x\"\\'", r#""5x\"\\'""#),
            ("\t\n\x7f", "\"\\x09\\x0a\x7f\""),
            ("µ\u{200b}🦀", r#""\xc2\xb5\xe2\x80\x8b\xf0\x9f\xa6\x80""#),
        ];
        for (text, expected) in table {
            assert_eq!(quote_in_time(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_code_point_is_quoted_as_go_does() {
        // Go 1.26: how many code points are printable, and the FNV-1a hash of all of them, quoted one by one.
        let (printable, hash) = (148_998, 0xf019_3d3d_f4d9_07bc_u64);
        let letters = || (0..=0x10_ffff).filter_map(char::from_u32);
        assert_eq!(letters().filter(|letter| is_printable(*letter)).count(), printable);
        let bytes = letters().flat_map(|letter| quote(letter.encode_utf8(&mut [0; 4])).into_bytes());
        let fnv =
            bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        assert_eq!(fnv, hash);
    }
}
