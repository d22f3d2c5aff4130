//! The few facts of an object that selectors look at, held in place of its decoded tree.

use listwatch_proto::resource::{Kind, Object};

use super::kinds::strategy;

/// What selectors see of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// Empty for cluster-scoped kinds.
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    /// In order of key.
    labels: Box<[(Box<str>, Box<str>)]>,
    /// The values of the kind's selectable fields, in the order in which the kind names them.
    fields: Box<[Box<str>]>,
}

impl Facts {
    /// Reads them from an object. Namespace and name are those of its key, which cannot lie.
    pub(super) fn of(kind: &'static Kind, namespace: &str, name: &str, object: &Object) -> Self {
        let rules = strategy(kind);
        let field = |path: &&str| rules.field(object, path).unwrap_or_default().into_boxed_str();
        Self {
            namespace: namespace.into(),
            name: name.into(),
            labels: object.labels().map(|(key, value)| (key.into(), value.into())).collect(),
            fields: rules.fields().iter().map(field).collect(),
        }
    }

    /// The value of a label.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(own, _)| (**own).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// The value of a selectable field, empty if there is none.
    pub(super) fn field(&self, kind: &'static Kind, path: &str) -> &str {
        match path {
            "metadata.name" => &self.name,
            "metadata.namespace" => &self.namespace,
            _ => {
                let at = strategy(kind).fields().iter().position(|own| *own == path);
                at.and_then(|at| self.fields.get(at)).map_or("", |value| value)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_fields_are_found() {
        let kind = Kind::by_name("pod").expect("known");
        let object = Object::from_value(serde_json::json!({
            "metadata": {"labels": {"b": "2", "a": "1"}}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}));
        let facts = Facts::of(kind, "default", "x", &object.expect("a map"));
        assert_eq!((facts.label("a"), facts.label("b"), facts.label("c")), (Some("1"), Some("2"), None));
        assert_eq!(facts.field(kind, "spec.nodeName"), "n1");
        assert_eq!(facts.field(kind, "status.phase"), "Running");
        assert_eq!(facts.field(kind, "metadata.name"), "x");
        assert_eq!(facts.field(kind, "spec.foo"), "");
    }
}
