//! What a name, a label and a key may look like (apimachinery `util/validation`).

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const SEARCH_DOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or \
    '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
    and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let ends = |b: Option<&u8>| b.is_some_and(|b| *b != b'-');
    text.bytes().all(inner) && ends(text.as_bytes().first()) && ends(text.as_bytes().last())
}

fn is_qualified(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.bytes().all(inner) && ends(text.as_bytes().first()) && ends(text.as_bytes().last())
}

/// A trailing dash of a prefix is made right by what is generated behind it. Upstream takes the character before it away
/// as well.
fn masked(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(head) if prefix && !head.is_empty() => {
            let mut head = head.to_owned();
            head.pop();
            format!("{head}a")
        }
        _ => name.to_owned(),
    }
}

/// A DNS subdomain: `example.com`.
pub(crate) fn subdomain(name: &str, prefix: bool) -> Vec<String> {
    let name = masked(name, prefix);
    let mut faults = Vec::new();
    if name.len() > 253 {
        faults.push("must be no more than 253 characters".to_owned());
    }
    if !name.split('.').all(is_label) {
        faults.push(SUBDOMAIN.to_owned());
    }
    faults
}

/// A DNS subdomain with a star in the place of its first part: `*.example.com`.
pub(crate) fn wildcard_subdomain(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > 253 {
        faults.push("must be no more than 253 characters".to_owned());
    }
    if !name.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(is_label)) {
        faults.push(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of \
             lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. \
             '*.example.com', regex used for validation is \
             '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    faults
}

/// A domain to search, in which underscores may stand.
pub(crate) fn search_domain(name: &str) -> Vec<String> {
    let part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let ends = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
            && ends(part.as_bytes().first())
            && ends(part.as_bytes().last())
    };
    let mut faults = Vec::new();
    if name.len() > 253 {
        faults.push("must be no more than 253 characters".to_owned());
    }
    if !name.split('.').all(part) {
        faults.push(SEARCH_DOMAIN.to_owned());
    }
    faults
}

/// A DNS label: `my-name`.
pub(crate) fn label(name: &str, prefix: bool) -> Vec<String> {
    let name = masked(name, prefix);
    let mut faults = Vec::new();
    if name.len() > 63 {
        faults.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(&name) {
        let is_subdomain = name.split('.').all(is_label);
        faults.push(if is_subdomain { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    }
    faults
}

/// A qualified name: `example.com/MyName`, `MyName`.
pub(crate) fn qualified(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match name.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                // Of a part, upstream counts the bytes.
                let bytes = |fault: String| format!("prefix part {}", fault.replace(" characters", " bytes"));
                faults.extend(subdomain(prefix, false).into_iter().map(|f| match f.starts_with("must be no more") {
                    true => bytes(f),
                    false => format!("prefix part {f}"),
                }));
            }
            name
        }
        _ => {
            faults.push(format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return faults;
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_qualified(name) {
        faults.push(format!("name part {QUALIFIED}"));
    }
    faults
}

/// A label's value.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > 63 {
        faults.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_qualified(value) {
        faults.push(LABEL_VALUE.to_owned());
    }
    faults
}

/// A part of a path.
pub(crate) fn whole_path_segment(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => path_segment(name),
    }
}

/// A DNS label that begins with a letter: `v1`.
pub(crate) fn label_1035(name: &str) -> Vec<String> {
    const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
        alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
        validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    let mut faults = Vec::new();
    if name.len() > 63 {
        faults.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(name) || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        faults.push(LABEL_1035.to_owned());
    }
    faults
}

/// A part of a path, or the beginning of one.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// A whole part of a path.
pub(crate) fn path_segment_name(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        name => path_segment(name),
    }
}

/// A port's name: at most 15 of `a-z 0-9 -`, with a letter, no dash at an end or doubled.
pub(crate) fn port(name: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if name.len() > 15 {
        faults.push("must be no more than 15 characters".to_owned());
    }
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// A port's number.
pub(crate) fn port_number(port: i64) -> Option<&'static str> {
    (!(1..=65535).contains(&port)).then_some("must be between 1 and 65535, inclusive")
}

/// A key of a ConfigMap or Secret, also as the name of a variable's source.
pub(crate) fn config_key(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if key.len() > 253 {
        faults.push("must be no more than 253 characters".to_owned());
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')) {
        faults.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    if key == "." {
        faults.push("must not be '.'".to_owned());
    }
    if key.starts_with("..") {
        faults.push(if key == ".." { "must not be '..'" } else { "must not start with '..'" }.to_owned());
    }
    faults
}

/// An environment variable's name: printable ASCII without `=`.
pub(crate) fn env_var(name: &str) -> Vec<String> {
    if !name.is_empty() && name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_kubernetes_does() {
        for name in ["a", "a.b", "1-2.x", &"a".repeat(253)] {
            assert!(subdomain(name, false).is_empty(), "{name}");
        }
        for name in ["", "A", "-a", "a-", "a..b", "a_b", &"a".repeat(254)] {
            assert_eq!(subdomain(name, false).len(), 1, "{name}");
        }
        assert!(subdomain("web-", true).is_empty());
        assert_eq!(label("a.b", false), ["must not contain dots"]);
        assert!(qualified("example.com/My_Name").is_empty());
        assert_eq!(qualified("/x"), ["prefix part must be non-empty"]);
        assert_eq!(qualified("a/b/c").len(), 1);
        assert_eq!(qualified("").len(), 2);
        assert!(label_value("").is_empty());
        assert_eq!(label_value("-").len(), 1);
        assert!(port("http").is_empty());
        assert_eq!(port("80"), ["must contain at least one letter (a-z)"]);
        assert_eq!(port_number(0), Some("must be between 1 and 65535, inclusive"));
        assert!(env_var("a b").is_empty());
        assert!(!env_var("a=b").is_empty());
    }
}
