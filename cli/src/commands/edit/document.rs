//! The text that is edited: a header of comments, then the objects. No IO.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use crate::commands::yaml::to_yaml;

const HEADER: &str = "\
# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

/// Why the text must be edited again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reason {
    pub(super) head: String,
    pub(super) faults: Vec<String>,
}

/// The header with the reasons of a failed try.
pub(super) fn header(reasons: &[Reason]) -> String {
    let mut out = HEADER.to_owned();
    for reason in reasons {
        let colon = if reason.faults.is_empty() { "" } else { ":" };
        out.push_str(&format!("# {}{colon}\n", commented(&reason.head)));
        for fault in &reason.faults {
            out.push_str(&format!("# * {}\n", commented(fault)));
        }
        out.push_str("#\n");
    }
    out
}

fn commented(text: &str) -> String {
    text.replace('\n', "\n# ")
}

/// The objects as one document: one as it is, several as a List.
pub(super) fn body(objects: &[Object]) -> String {
    let shown = |object: &Object| object.clone().into_value();
    match objects {
        [one] => to_yaml(&shown(one)),
        many => {
            let items: Vec<Value> = many.iter().map(shown).collect();
            to_yaml(&json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
        }
    }
}

/// The text without comments.
pub(super) fn without_comments(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.map(|line| line.to_owned() + "\n").collect()
}

/// The text without the header, whose comments begin its lines.
pub(super) fn without_header(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_try_is_told_in_the_header() {
        let reason = Reason {
            head: "deployments.apps \"a\" was not valid".to_owned(),
            faults: vec!["spec.replicas: Invalid value: -1\nmore".to_owned()],
        };
        let text = header(&[reason]) + "a: 1\n# mine\n";
        assert!(text.ends_with(
            "#\n# deployments.apps \"a\" was not valid:\n# * spec.replicas: Invalid value: -1\n# more\n#\na: 1\n# mine\n"
        ));
        assert_eq!(without_header(&text), "a: 1\n# mine\n");
        assert_eq!(without_comments(&text), "a: 1\n");
    }

    #[test]
    fn several_objects_are_one_list() {
        let object = |name: &str| Object::from_value(json!({"metadata": {"name": name}})).expect("a map");
        assert_eq!(body(&[object("a")]), "metadata:\n  name: a\n");
        let list = body(&[object("a"), object("b")]);
        assert_eq!(
            list,
            "apiVersion: v1\nitems:\n- metadata:\n    name: a\n- metadata:\n    name: b\nkind: List\nmetadata: {}\n"
        );
    }
}
