//! What label keys and values may look like (Kubernetes 1.36), for commands that must refuse before they ask.

const NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                    alphanumeric character";

/// Why a label's value is none; `None`: it is one.
pub(crate) fn label_value_fault(value: &str) -> Option<String> {
    if value.len() > 63 {
        return Some("must be no more than 63 bytes".to_owned());
    }
    (!value.is_empty() && !is_name(value)).then(|| {
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
         and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
         validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            .to_owned()
    })
}

/// Why the key of a label or taint is none: every fault; empty: it is one.
pub(crate) fn qualified_name_faults(key: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if name.contains('/') {
        return vec![format!(
            "a qualified name {NAME} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
             'example.com/MyName')"
        )];
    }
    if let Some(prefix) = prefix {
        let is_part = |part: &str| {
            let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
        };
        if prefix.is_empty() {
            faults.push("prefix part must be non-empty".to_owned());
        } else if prefix.len() > 253 || !prefix.split('.').all(is_part) {
            faults.push(
                "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                 '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                 validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                    .to_owned(),
            );
        }
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        faults.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        faults.push(format!(
            "name part {NAME} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        ));
    }
    faults
}

fn is_name(text: &str) -> bool {
    let is_end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_judged_as_kubernetes_does() {
        for (key, faults) in
            [("a", 0), ("a.b/C_d", 0), ("", 2), ("a b", 1), ("/a", 1), ("A/b", 1), ("a/b/c", 1), ("-a", 1)]
        {
            assert_eq!(qualified_name_faults(key).len(), faults, "{key}");
        }
        for (value, fits) in [("", true), ("a_b.c-1", true), ("va/lue", false), ("-", false), ("a b", false)] {
            assert_eq!(label_value_fault(value).is_none(), fits, "{value}");
        }
        assert!(label_value_fault(&"a".repeat(64)).is_some());
    }
}
