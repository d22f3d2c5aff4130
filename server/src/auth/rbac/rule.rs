//! One rule of a role.

use listwatch_proto::go_quote::quote;
use listwatch_proto::resource::Object;
use serde_json::{Map, Value, json};

use crate::registry::{Asked, Attributes, ResourceAttributes};

/// What a rule grants: verbs on resources, or verbs on paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Rule {
    pub(in super::super) verbs: Vec<String>,
    pub(in super::super) groups: Vec<String>,
    pub(in super::super) resources: Vec<String>,
    pub(in super::super) names: Vec<String>,
    pub(in super::super) paths: Vec<String>,
}

impl Rule {
    /// The rules of a role.
    pub(super) fn all_of(role: &Object) -> Vec<Rule> {
        role.at(&["rules"])
            .and_then(Value::as_array)
            .map(|rules| rules.iter().map(Rule::of).collect())
            .unwrap_or_default()
    }

    fn of(value: &Value) -> Rule {
        let texts = |key: &str| -> Vec<String> {
            let list = value.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Rule {
            verbs: texts("verbs"),
            groups: texts("apiGroups"),
            resources: texts("resources"),
            names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// The rules that allow everything.
    pub(in super::super) fn everything() -> [Rule; 2] {
        let all = ["*".to_owned()].to_vec();
        let (verbs, groups, resources) = (all.clone(), all.clone(), all.clone());
        let of_resources = Rule { verbs, groups, resources, ..Rule::default() };
        [of_resources, Rule { verbs: all.clone(), paths: all, ..Rule::default() }]
    }

    /// As it stands in a role.
    pub(in super::super) fn to_json(&self) -> Value {
        let mut map = Map::new();
        for (key, list) in [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !list.is_empty() {
                map.insert(key.to_owned(), json!(list));
            }
        }
        Value::Object(map)
    }

    /// Whether it allows what is asked.
    pub(in super::super) fn allows(&self, attributes: &Attributes) -> bool {
        has(&self.verbs, &attributes.verb)
            && match &attributes.asked {
                Asked::Path(path) => self.paths.iter().any(|own| path_matches(own, path)),
                Asked::Resource(asked) => {
                    has(&self.groups, &asked.group)
                        && self.allows_resource(asked)
                        && (self.names.is_empty() || self.names.contains(&asked.name))
                }
            }
    }

    fn allows_resource(&self, asked: &ResourceAttributes) -> bool {
        let full = asked.full_resource();
        self.resources.iter().any(|own| {
            own == "*"
                || *own == full
                || (!asked.subresource.is_empty() && own.strip_prefix("*/") == Some(asked.subresource.as_str()))
        })
    }

    /// Whether all that the rule grants is granted by these rules together.
    pub(super) fn covered_by(&self, owned: &[Rule]) -> bool {
        self.atoms().iter().all(|atom| owned.iter().any(|rule| rule.covers(atom)))
    }

    /// What these rules do not grant of what the wanted ones grant, the verbs of a resource together.
    pub(super) fn beyond(owned: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
        let mut beyond: Vec<Rule> = Vec::new();
        for atom in wanted.iter().flat_map(Rule::atoms) {
            if owned.iter().any(|rule| rule.covers(&atom)) {
                continue;
            }
            let same = |rule: &&mut Rule| {
                atom.paths.is_empty()
                    && (&rule.groups, &rule.resources, &rule.names) == (&atom.groups, &atom.resources, &atom.names)
            };
            match beyond.iter_mut().find(same) {
                Some(rule) => rule.verbs.extend(atom.verbs),
                None => beyond.push(atom),
            }
        }
        beyond
    }

    /// The rule as rules of one verb, one group, one resource and at most one name each.
    fn atoms(&self) -> Vec<Rule> {
        let one = |text: &String| vec![text.clone()];
        let mut atoms = Vec::new();
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let (verbs, groups, resources) = (one(verb), one(group), one(resource));
                    let atom = Rule { verbs, groups, resources, ..Rule::default() };
                    if self.names.is_empty() {
                        atoms.push(atom);
                    } else {
                        atoms.extend(self.names.iter().map(|name| Rule { names: one(name), ..atom.clone() }));
                    }
                }
            }
        }
        for path in &self.paths {
            atoms.extend(self.verbs.iter().map(|verb| Rule { verbs: one(verb), paths: one(path), ..Rule::default() }));
        }
        atoms
    }

    /// Whether it grants all that an atom grants.
    fn covers(&self, atom: &Rule) -> bool {
        let every = |own: &[String], wanted: &[String]| wanted.iter().all(|word| has(own, word));
        let resources = atom.resources.iter().all(|wanted| {
            has(&self.resources, wanted)
                || wanted.split_once('/').is_some_and(|(_, sub)| self.resources.contains(&format!("*/{sub}")))
        });
        let names = if atom.names.is_empty() {
            self.names.is_empty()
        } else {
            self.names.is_empty() || atom.names.iter().all(|name| self.names.contains(name))
        };
        let paths = atom.paths.iter().all(|wanted| self.paths.iter().any(|own| path_matches(own, wanted)));
        every(&self.verbs, &atom.verbs) && every(&self.groups, &atom.groups) && resources && names && paths
    }
}

impl std::fmt::Display for Rule {
    /// Upstream's short form, for a refusal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts: Vec<String> = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ]
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(word, list)| {
            let quoted: Vec<String> = list.iter().map(|text| quote(&text)).collect();
            format!("{word}:[{}]", quoted.join(" "))
        })
        .collect();
        write!(f, "{{{}}}", parts.join(", "))
    }
}

fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|own| own == "*" || own == word)
}

/// Whether a rule's path, which may end with a star, means this one.
fn path_matches(own: &str, path: &str) -> bool {
    own == "*" || own == path || (own.ends_with('*') && path.starts_with(own.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        let paths = Vec::new();
        Rule { verbs: texts(verbs), groups: texts(groups), resources: texts(resources), names: texts(names), paths }
    }

    fn asked(verb: &str, group: &str, resource: &str, name: &str) -> Attributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let asked = ResourceAttributes {
            group: group.into(),
            resource: resource.into(),
            subresource: subresource.into(),
            name: name.into(),
            ..ResourceAttributes::default()
        };
        Attributes { verb: verb.into(), asked: Asked::Resource(asked) }
    }

    #[test]
    fn a_rule_allows_what_it_names_and_nothing_beside() {
        let reader = rule(&["get", "list"], &[""], &["pods", "*/scale"], &[]);
        assert!(reader.allows(&asked("get", "", "pods", "a")));
        assert!(reader.allows(&asked("get", "", "anything/scale", "a")));
        for (verb, group, resource) in
            [("delete", "", "pods"), ("get", "apps", "pods"), ("get", "", "pods/log"), ("get", "", "scale")]
        {
            assert!(!reader.allows(&asked(verb, group, resource, "a")), "{verb} {group} {resource}");
        }
        let one = rule(&["get"], &[""], &["configmaps"], &["c"]);
        assert!(one.allows(&asked("get", "", "configmaps", "c")));
        assert!(!one.allows(&asked("get", "", "configmaps", "d")));
        assert!(!one.allows(&asked("list", "", "configmaps", "")));
        let all = rule(&["*"], &["*"], &["*"], &[]);
        assert!(all.allows(&asked("x", "y", "z/w", "")));
        assert!(!all.allows(&Attributes::path("get", "/healthz")));
    }

    #[test]
    fn paths_end_with_a_star_or_are_whole() {
        let mut rule = rule(&["get"], &[], &[], &[]);
        rule.paths = vec!["/apis/*".into(), "/version".into()];
        for (path, allowed) in
            [("/apis/apps", true), ("/apis/", true), ("/apis", false), ("/version", true), ("/version/", false)]
        {
            assert_eq!(rule.allows(&Attributes::path("get", path)), allowed, "{path}");
        }
        assert!(!rule.allows(&Attributes::path("post", "/version")));
    }

    #[test]
    fn what_is_covered_may_be_covered_by_several_rules() {
        let wanted = rule(&["get", "list"], &["", "apps"], &["pods", "pods/log"], &[]);
        let verbs = rule(&["get"], &["*"], &["*"], &[]);
        assert!(!wanted.covered_by(std::slice::from_ref(&verbs)));
        assert!(wanted.covered_by(&[verbs, rule(&["list"], &["", "apps"], &["pods", "*/log"], &[])]));
        let named = rule(&["get"], &[""], &["pods"], &["a"]);
        assert!(named.covered_by(&[rule(&["get"], &[""], &["pods"], &[])]));
        assert!(!rule(&["get"], &[""], &["pods"], &[]).covered_by(&[named]));
        let beyond = Rule::beyond(&[rule(&["list"], &[""], &["pods"], &[])], &[wanted]);
        let said: Vec<String> = beyond.iter().map(ToString::to_string).collect();
        assert_eq!(said[0], r#"{APIGroups:[""], Resources:["pods"], Verbs:["get"]}"#);
        assert_eq!(said[1], r#"{APIGroups:[""], Resources:["pods/log"], Verbs:["get" "list"]}"#);
    }
}
