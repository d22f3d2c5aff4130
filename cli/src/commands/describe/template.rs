//! The description of a pod template: of a Deployment, a ReplicaSet, or a revision in a history.

use listwatch_proto::resource::Object;
use serde_json::Value;

use super::containers::of_template;
use super::text::{annotations, multiline, pairs, spreading, tolerations};
use super::volumes::volumes;

/// Adds the description of a template as it stands in an object.
pub(super) fn template_of(out: &mut String, template: &Value) {
    out.push_str(&pod_template(&Object::from_value(template.clone()).unwrap_or_default()));
}

/// Writes the description with tabs, as kubectl 1.36 does. The template is read as an object without a name.
pub(crate) fn pod_template(template: &Object) -> String {
    let out = &mut "Pod Template:\n".to_owned();
    let text = |path: &[&str]| template.text(path).to_owned();
    multiline(out, "  Labels", &pairs(template.labels()));
    let annotations = annotations(template);
    if !annotations.is_empty() {
        multiline(out, "  Annotations", &annotations);
    }
    if !text(&["spec", "serviceAccountName"]).is_empty() {
        out.push_str(&format!("  Service Account:\t{}\n", text(&["spec", "serviceAccountName"])));
    }
    of_template(out, template, "Init Containers", "initContainers");
    of_template(out, template, "Containers", "containers");
    volumes(out, template, "  ");
    spreading(out, template, "  ");
    if !text(&["spec", "priorityClassName"]).is_empty() {
        out.push_str(&format!("  Priority Class Name:\t{}\n", text(&["spec", "priorityClassName"])));
    }
    let selector = template.at(&["spec", "nodeSelector"]).and_then(Value::as_object);
    let selector = selector.into_iter().flatten().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)));
    multiline(out, "  Node-Selectors", &pairs(selector));
    multiline(out, "  Tolerations", &tolerations(template.at(&["spec", "tolerations"])));
    std::mem::take(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As recorded of `kubectl rollout history deploy/loom --revision=1`.
    #[test]
    fn a_template_reads_as_recorded() {
        let template = json!({
            "metadata": {
                "labels": {"t": "loom", "pod-template-hash": "77b7d9c8f6"},
                "annotations": {"kubernetes.io/change-cause": "start here"},
            },
            "spec": {"containers": [
                {"name": "a", "image": "registry.local/a:1", "env": [{"name": "E", "value": "1"}], "resources": {}},
            ]},
        });
        let expected = "Pod Template:\n  Labels:\tpod-template-hash=77b7d9c8f6\n\tt=loom\n  \
            Annotations:\tkubernetes.io/change-cause: start here\n  Containers:\n   a:\n    \
            Image:\tregistry.local/a:1\n    Port:\t<none>\n    Host Port:\t<none>\n    Environment:\n      E:\t1\n    \
            Mounts:\t<none>\n  Volumes:\t<none>\n  Node-Selectors:\t<none>\n  Tolerations:\t<none>\n";
        assert_eq!(pod_template(&Object::from_value(template).expect("a map")), expected);
    }

    #[test]
    fn volumes_and_mounts_of_a_template_stand_further_in() {
        let template = json!({
            "metadata": {"labels": {"t": "loom"}},
            "spec": {
                "containers": [{
                    "name": "a", "image": "i",
                    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                }],
                "volumes": [{"name": "v", "configMap": {"name": "c"}}],
            },
        });
        let text = pod_template(&Object::from_value(template).expect("a map"));
        assert!(text.contains("    Mounts:\n      /v from v (rw)\n  Volumes:\n   v:\n    Type:\tConfigMap"), "{text}");
    }
}
