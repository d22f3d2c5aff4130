//! StatefulSet (apps).

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::workload;
use crate::registry::kinds::strategy::{Part, Strategy, keep};
use crate::registry::kinds::template;
use crate::registry::kinds::vocabulary::faults::{Faults, Path, Shown};
use crate::registry::kinds::vocabulary::fields::{default, has, items, items_mut, text as txt};
use crate::registry::kinds::vocabulary::print::{AGE, NAME, column, text, workload_row};
use crate::registry::kinds::vocabulary::{counts, names};
use crate::registry::table::{Cell, Column};

pub(super) struct StatefulSetStrategy;

/// What of the spec may change once a set is there.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

/// What is asked of the selector.
const SELECTING: template::whole::Selecting =
    template::whole::Selecting { required: true, never_empty_for: Some("statefulset"), unreadable: Some("") };

const COLUMNS: &[Column] = &[
    NAME,
    column("Ready", "string", "Number of the pod with ready state", 0),
    AGE,
    column("Containers", "string", "Names of each container in the template.", 1),
    column("Images", "string", "Images referenced by each container in the template.", 1),
];

impl Strategy for StatefulSetStrategy {
    fn schema(&self) -> &'static str {
        "apps/v1.StatefulSet"
    }

    fn default(&self, object: &mut Object) {
        let spec = object.at_mut(&["spec"]);
        if !spec.is_object() {
            *spec = json!({});
        }
        if txt(spec, "podManagementPolicy").is_empty() {
            spec["podManagementPolicy"] = json!("OrderedReady");
        }
        let strategy = &mut spec["updateStrategy"];
        if strategy.is_null() {
            *strategy = json!({});
        }
        if txt(strategy, "type").is_empty() {
            strategy["type"] = json!("RollingUpdate");
            default(strategy, "rollingUpdate", json!({}));
        }
        if txt(strategy, "type") == "RollingUpdate" && has(strategy, "rollingUpdate") {
            default(&mut strategy["rollingUpdate"], "partition", 0);
        }
        default(spec, "persistentVolumeClaimRetentionPolicy", json!({}));
        for key in ["whenDeleted", "whenScaled"] {
            let policy = &mut spec["persistentVolumeClaimRetentionPolicy"];
            if txt(policy, key).is_empty() {
                policy[key] = json!("Retain");
            }
        }
        default(spec, "replicas", 1);
        default(spec, "revisionHistoryLimit", 10);
        template::defaults::template(&mut spec["template"]);
        for claim in items_mut(spec, "volumeClaimTemplates") {
            claim["apiVersion"] = json!("v1");
            claim["kind"] = json!("PersistentVolumeClaim");
            default(&mut claim["spec"], "volumeMode", "Filesystem");
            if claim["status"].is_null() {
                claim["status"] = json!({});
            }
            default(&mut claim["status"], "phase", "Pending");
        }
    }

    fn prepare_create(&self, object: &mut Object) -> Result<(), String> {
        object.0.insert("status".into(), json!({"replicas": 0, "availableReplicas": 0}));
        drop_disabled(object, None);
        Ok(())
    }

    fn prepare_update(&self, part: Part, new: &mut Object, old: &Object) {
        match part {
            Part::Status => keep(new, old, &["spec"]),
            _ => {
                keep(new, old, &["status"]);
                drop_disabled(new, Some(old));
            }
        }
    }

    fn validate_create(&self, object: &Object, faults: &mut Faults) {
        let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
        validate_spec(spec, &Path::new("spec"), &Rules { is_new: true, template: true }, faults);
    }

    fn validate_update(&self, part: Part, new: &Object, old: &Object, faults: &mut Faults) {
        if part == Part::Status {
            status(new, old, faults);
            return;
        }
        let (is, was) = (new.at(&["spec"]).unwrap_or(&Value::Null), old.at(&["spec"]).unwrap_or(&Value::Null));
        // A template that would not be taken any more may stay.
        let mut before = Faults::new();
        validate_spec(was, &Path::new(""), &Rules { is_new: false, template: true }, &mut before);
        let rules = Rules { is_new: false, template: before.is_empty() };
        validate_spec(is, &Path::new("spec"), &rules, faults);
        let fixed = |spec: &Value| {
            let mut spec = spec.clone();
            if let Some(map) = spec.as_object_mut() {
                map.retain(|key, _| !CHANGEABLE.contains(&key.as_str()));
            }
            spec
        };
        if fixed(is) != fixed(was) {
            faults.forbidden(
                &Path::new("spec"),
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
                 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
            );
        }
    }

    fn name_faults(&self, name: &str, prefix: bool) -> Vec<String> {
        names::label(name, prefix)
    }

    fn warnings(&self, object: &Object) -> Vec<String> {
        let mut told = template::warnings::pod_template(object, &["spec", "template"]);
        told.extend(own_warnings(object, ""));
        told
    }

    fn update_warnings(&self, part: Part, new: &Object, old: &Object) -> Vec<String> {
        if part == Part::Status {
            return Vec::new();
        }
        let mut told = Vec::new();
        if new.generation() != old.generation() {
            told = template::warnings::pod_template(new, &["spec", "template"]);
        }
        // Upstream names the claim's spec here, and not at the creation.
        told.extend(own_warnings(new, ".Spec"));
        told
    }

    fn blank(&self, blank: &mut Object) {
        blank.set(&["spec", "replicas"], 0);
    }

    fn columns(&self) -> &'static [Column] {
        COLUMNS
    }

    fn cells(&self, object: &Object, now: i64) -> Vec<Cell> {
        let count = |path: &[&str]| object.int(path).unwrap_or(0);
        let ready = format!("{}/{}", count(&["status", "readyReplicas"]), count(&["spec", "replicas"]));
        workload_row(object, [text(ready)], now, None)
    }
}

/// `maxUnavailable` of a set stands behind a gate that is closed (Kubernetes 1.36); what uses it already may.
fn drop_disabled(new: &mut Object, old: Option<&Object>) {
    let path = ["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"];
    if old.and_then(|old| old.at(&path)).is_none() {
        new.remove(&path);
    }
    template::defaults::drop_disabled(new.at_mut(&["spec", "template", "spec"]));
}

fn own_warnings(object: &Object, between: &str) -> Vec<String> {
    let spec = object.at(&["spec"]).unwrap_or(&Value::Null);
    let mut told = Vec::new();
    for (i, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
        let path = Path::new(&format!("spec.volumeClaimTemplates[{i}]{between}.resources"));
        for kind in ["requests", "limits"] {
            template::warnings::fractional(&claim["spec"]["resources"][kind], "storage", &path.child(kind), &mut told);
        }
    }
    if spec["revisionHistoryLimit"].as_i64().is_some_and(|limit| limit < 0) {
        told.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                .to_owned(),
        );
    }
    told
}

/// How strictly a spec is judged.
struct Rules {
    /// A set that is there keeps the service name and the claims that it was made with.
    is_new: bool,
    /// Whether the template is looked at.
    template: bool,
}

fn validate_spec(spec: &Value, path: &Path, rules: &Rules, faults: &mut Faults) {
    match txt(spec, "podManagementPolicy") {
        "" => faults.required(&path.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => faults.invalid(&path.child("podManagementPolicy"), other, "must be 'OrderedReady' or 'Parallel'"),
    }
    update_strategy(&spec["updateStrategy"], &path.child("updateStrategy"), faults);
    let retention = &spec["persistentVolumeClaimRetentionPolicy"];
    for key in ["whenDeleted", "whenScaled"].iter().filter(|_| !retention.is_null()) {
        let policy = txt(retention, key);
        if !matches!(policy, "Retain" | "Delete") {
            let at = path.child("persistentVolumeClaimRetentionPolicy").child(key);
            faults.not_supported(&at, policy, &["Retain", "Delete"]);
        }
    }
    if rules.is_new {
        for (i, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
            template::claim_spec::validate(
                &claim["spec"],
                &path.child("volumeClaimTemplates").index(i).child("spec"),
                faults,
            );
        }
    }
    counts::non_negative(spec, "replicas", path, faults);
    counts::non_negative(spec, "minReadySeconds", path, faults);
    counts::non_negative(&spec["ordinals"], "start", &path.child("ordinals"), faults);
    let service = txt(spec, "serviceName");
    if rules.is_new && !service.is_empty() {
        faults.invalid_all(&path.child("serviceName"), service, names::label(service, false));
    }
    selector_and_template(spec, path, rules, faults);
    template::whole::runs_for_ever(&spec["template"], "StatefulSet", &path.child("template"), faults);
}

fn selector_and_template(spec: &Value, path: &Path, rules: &Rules, faults: &mut Faults) {
    if !template::whole::selector(spec, path, &SELECTING, faults) {
        return;
    }
    let (template, template_at) = (&spec["template"], path.child("template"));
    if rules.template {
        template::whole::pod_template(&as_pods_will_be(spec), &template_at, faults);
    } else {
        // Labels and annotations are looked at all the same.
        let bare = json!({"metadata": template["metadata"], "spec": {}});
        let mut of_metadata = Faults::new();
        template::whole::pod_template(&bare, &template_at, &mut of_metadata);
        let spec_at = format!("{}.", template_at.child("spec"));
        faults.adopt(of_metadata.into_causes().into_iter().filter(|cause| !cause.field.starts_with(&spec_at)));
    }
}

/// The template with the volumes of the claims in it, and without what the controller sets for each pod.
fn as_pods_will_be(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let Some(pod) = template["spec"].as_object_mut() else { return template };
    pod.remove("subdomain");
    pod.remove("hostname");
    let claims: Vec<&str> =
        items(spec, "volumeClaimTemplates").iter().map(|claim| txt(&claim["metadata"], "name")).collect();
    if !claims.is_empty() {
        let of_claim = |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        let mut volumes: Vec<Value> = claims.iter().map(of_claim).collect();
        let own = items(&spec["template"]["spec"], "volumes");
        volumes.extend(own.iter().filter(|volume| !claims.contains(&txt(volume, "name"))).cloned());
        pod.insert("volumes".to_owned(), Value::Array(volumes));
    }
    template
}

fn update_strategy(strategy: &Value, path: &Path, faults: &mut Faults) {
    let rolling = &strategy["rollingUpdate"];
    let shown = || {
        if rolling.is_null() {
            return "null".to_owned();
        }
        let partition = rolling["partition"].as_i64().unwrap_or(0);
        format!("{{\"Partition\":{partition},\"MaxUnavailable\":{}}}", rolling["maxUnavailable"])
    };
    match txt(strategy, "type") {
        "" => faults.required(path, ""),
        "OnDelete" => {
            if !rolling.is_null() {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                faults.invalid(&path.child("rollingUpdate"), Shown(shown()), why);
            }
        }
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            counts::non_negative(rolling, "partition", &path, faults);
            let (unavailable, at) = (&rolling["maxUnavailable"], path.child("maxUnavailable"));
            if !unavailable.is_null() {
                counts::amount(unavailable, &at, faults);
                if counts::is_zero(unavailable) {
                    faults.invalid(&at, unavailable, "cannot be 0");
                }
                counts::at_most_all(unavailable, &at, faults);
            }
        }
        other => {
            let shown = Shown(format!("{{\"Type\":{},\"RollingUpdate\":{}}}", json!(other), shown()));
            faults.invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

fn status(new: &Object, old: &Object, faults: &mut Faults) {
    let status = new.at(&["status"]).unwrap_or(&Value::Null);
    let path = Path::new("status");
    for key in [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ] {
        counts::non_negative(status, key, &path, faults);
    }
    let count = |key: &str| status[key].as_i64().unwrap_or(0);
    for (key, above) in [
        ("readyReplicas", "replicas"),
        ("currentReplicas", "replicas"),
        ("updatedReplicas", "replicas"),
        ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ] {
        if count(key) > count(above) {
            faults.invalid(&path.child(key), count(key), &format!("cannot be greater than status.{above}"));
        }
    }
    workload::not_decremented(new, old, "collisionCount", faults);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(spec: &Value) -> Object {
        let mut value = json!({"metadata": {"name": "x"}, "spec": {
            "serviceName": "s", "selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        for (key, own) in spec.as_object().into_iter().flatten() {
            value["spec"][key] = own.clone();
        }
        let mut object = Object::from_value(value).expect("a map");
        StatefulSetStrategy.default(&mut object);
        object
    }

    fn faults_of(new: &Object, old: Option<&Object>) -> Vec<String> {
        let mut faults = Faults::new();
        match old {
            None => StatefulSetStrategy.validate_create(new, &mut faults),
            Some(old) => StatefulSetStrategy.validate_update(Part::Main, new, old, &mut faults),
        }
        faults.into_causes().into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn the_claims_are_volumes_of_the_template() {
        let claim = json!({"metadata": {"name": "d"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        let mounted = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "c", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}]}});
        let with = set(&json!({"volumeClaimTemplates": [claim], "template": mounted}));
        assert!(faults_of(&with, None).is_empty(), "{:?}", faults_of(&with, None));
        assert_eq!(with.text(&["spec", "podManagementPolicy"]), "OrderedReady");
        let claims = with.at(&["spec", "volumeClaimTemplates"]).expect("kept");
        assert_eq!(claims[0]["status"]["phase"], "Pending");
        assert_eq!(claims[0]["spec"]["volumeMode"], "Filesystem");
        let without = set(&json!({"template": mounted}));
        assert_eq!(faults_of(&without, None), ["spec.template.spec.containers[0].volumeMounts[0].name"]);
    }

    #[test]
    fn only_some_fields_of_the_spec_change() {
        let old = set(&json!({}));
        assert!(faults_of(&set(&json!({"replicas": 3, "minReadySeconds": 2})), Some(&old)).is_empty());
        assert_eq!(faults_of(&set(&json!({"serviceName": "t"})), Some(&old)), ["spec"]);
        assert_eq!(faults_of(&set(&json!({"podManagementPolicy": "Parallel"})), Some(&old)), ["spec"]);
    }
}
