//! Rules of roles as kubectl lists them: each kind in a line of its own, with all that may be done with it.

use serde_json::Value;

/// One line: kind with group, paths, names, verbs.
pub(crate) type Line = [String; 4];

/// A rule about one kind or path.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Simple {
    verbs: Vec<String>,
    group: Option<String>,
    resource: Option<String>,
    name: Option<String>,
    path: Option<String>,
}

/// The lines of a list of rules (`PolicyRule`, or what a review answers, which has the same fields).
pub(crate) fn lines<'a>(rules: impl IntoIterator<Item = &'a Value>) -> Vec<Line> {
    let mut simple: Vec<Simple> = Vec::new();
    for rule in rules {
        for one in broken_down(rule) {
            // What differs by verbs alone is one; paths are not put together (kubectl 1.36).
            let same = |other: &&mut Simple| {
                one.path.is_none()
                    && (&other.group, &other.resource, &other.name) == (&one.group, &one.resource, &one.name)
            };
            match simple.iter_mut().find(same) {
                Some(known) => {
                    let new = one.verbs.into_iter().filter(|verb| !known.verbs.contains(verb)).collect::<Vec<_>>();
                    known.verbs.extend(new);
                }
                None => simple.push(one),
            }
        }
    }
    // In the order of their texts as Go prints them.
    simple.sort_by_key(|rule| {
        let list = |text: &Option<String>| format!("[{}]", text.as_deref().unwrap_or_default());
        let verbs = format!("[{}]", rule.verbs.join(" "));
        [verbs, list(&rule.group), list(&rule.resource), list(&rule.name), list(&rule.path)].join(",")
    });
    simple.into_iter().map(line).collect()
}

fn broken_down(rule: &Value) -> Vec<Simple> {
    let texts = |field: &str| -> Vec<String> {
        rule[field].as_array().into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    };
    let names = texts("resourceNames");
    let names: Vec<Option<String>> = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
    let mut all = Vec::new();
    for group in texts("apiGroups") {
        for resource in texts("resources") {
            for verb in texts("verbs") {
                all.extend(names.iter().map(|name| Simple {
                    verbs: vec![verb.clone()],
                    group: Some(group.clone()),
                    resource: Some(resource.clone()),
                    name: name.clone(),
                    path: None,
                }));
            }
        }
    }
    for path in texts("nonResourceURLs") {
        all.extend(texts("verbs").into_iter().map(|verb| Simple {
            verbs: vec![verb],
            group: None,
            resource: None,
            name: None,
            path: Some(path.clone()),
        }));
    }
    all
}

fn line(rule: Simple) -> Line {
    let list = |text: &Option<String>| format!("[{}]", text.as_deref().unwrap_or_default());
    let resource = rule.resource.clone().unwrap_or_default();
    // The group stands behind the kind, before its part: `deployments.apps/scale`.
    let what = match rule.group.as_deref().filter(|group| !group.is_empty()) {
        None => resource,
        Some(group) => match resource.split_once('/') {
            Some((kind, part)) => format!("{kind}.{group}/{part}"),
            None => format!("{resource}.{group}"),
        },
    };
    [what, list(&rule.path), list(&rule.name), format!("[{}]", rule.verbs.join(" "))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As recorded with kubectl 1.36.
    #[test]
    fn each_kind_has_a_line() {
        let rules = [
            json!({"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["get", "list"]}),
            json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["words"], "verbs": ["update"]}),
            json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}),
            json!({"nonResourceURLs": ["/healthz"], "verbs": ["get"]}),
            json!({"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["watch"]}),
        ];
        let lines: Vec<_> = lines(&rules).iter().map(|line| line.join("|")).collect();
        assert_eq!(
            lines,
            [
                "deployments|[]|[]|[get list]",
                "pods|[]|[]|[get list]",
                "deployments.apps|[]|[]|[get list]",
                "pods.apps|[]|[]|[get list]",
                "|[/healthz]|[]|[get]",
                "configmaps|[]|[words]|[update]",
                "deployments.apps/scale|[]|[]|[watch]",
            ]
        );
    }
}
