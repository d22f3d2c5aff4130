//! What a label's key and value may look like (apimachinery `content.IsLabelKey`, `IsLabelValue`).

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const KEY: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Bytes of a name or a value at most.
const NAME_MAX: usize = 63;
/// Bytes of a key's prefix at most.
const PREFIX_MAX: usize = 253;

fn is_name(text: &str) -> bool {
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    text.bytes().all(inner) && ends(text.as_bytes().first()) && ends(text.as_bytes().last())
}

fn is_subdomain(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let ends = |b: Option<&u8>| b.is_some_and(|b| inner(*b));
    let is_label = |part: &str| {
        part.bytes().all(|b| inner(b) || b == b'-') && ends(part.as_bytes().first()) && ends(part.as_bytes().last())
    };
    text.split('.').all(is_label)
}

/// What is wrong with a key.
pub(super) fn key_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = match key.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            }
            if prefix.len() > PREFIX_MAX {
                faults.push(format!("prefix part must be no more than {PREFIX_MAX} bytes"));
            }
            if !prefix.is_empty() && !is_subdomain(prefix) {
                faults.push(format!("prefix part {SUBDOMAIN}"));
            }
            name
        }
        _ => {
            let with = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {KEY} {with}")];
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > NAME_MAX {
        faults.push(format!("name part must be no more than {NAME_MAX} bytes"));
    }
    if !is_name(name) {
        faults.push(format!("name part {KEY}"));
    }
    faults
}

/// What is wrong with a value.
pub(super) fn value_faults(value: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if value.len() > NAME_MAX {
        faults.push(format!("must be no more than {NAME_MAX} bytes"));
    }
    if !value.is_empty() && !is_name(value) {
        faults.push(VALUE.to_owned());
    }
    faults
}
