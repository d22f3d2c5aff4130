//! Managers and apply over several writes, as a cluster sees them.

use listwatch_proto::resource::Object;
use serde_json::{Value, json};

use super::super::kinds::Reset;
use super::*;

const CONFIG_MAP: &str = "core/v1.ConfigMap";
const DEPLOYMENT: &str = "apps/v1.Deployment";

fn by<'a>(schema: &'a str, api_version: &'a str, manager: &'a str, now: &'a str) -> Tracking<'a> {
    Tracking { schema, custom: None, api_version, subresource: "", manager, now, reset: Reset::These(&[&["status"]]) }
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data})
}

/// What each manager owns: `m1 Apply`, with the set.
fn owners(object: &Object) -> Vec<(String, Value)> {
    let entries = object.at(&["metadata", "managedFields"]).and_then(Value::as_array);
    let each = entries.into_iter().flatten().map(|entry| {
        let name =
            format!("{} {}", entry["manager"].as_str().unwrap_or("?"), entry["operation"].as_str().unwrap_or("?"));
        (name, entry["fieldsV1"].clone())
    });
    each.collect()
}

fn applied(live: Option<&Object>, manager: &str, wanted: &Value, force: bool) -> Result<Object, String> {
    applied_to(CONFIG_MAP, "v1", live, manager, wanted, force)
}

fn applied_to(
    schema: &str,
    api_version: &str,
    live: Option<&Object>,
    manager: &str,
    wanted: &Value,
    force: bool,
) -> Result<Object, String> {
    let config = wanted.as_object().expect("a map");
    let kind = schema.rsplit('.').next().expect("named");
    let write = by(schema, api_version, manager, "2026-01-01T00:00:05Z");
    apply(write, live, Configured { config, kind, force }).map(|applied| applied.object).map_err(|s| s.message)
}

fn updated(live: &Object, manager: &str, change: impl FnOnce(&mut Object)) -> Object {
    let mut new = live.clone();
    change(&mut new);
    track(by(CONFIG_MAP, "v1", manager, "2026-01-01T00:00:09Z"), Some(live), &mut new, &Sent::Nothing);
    new
}

#[test]
fn who_creates_owns_and_who_changes_takes_over() {
    let mut made = object(config_map(json!({"a": "1"})));
    track(by(CONFIG_MAP, "v1", "golden", "2026-01-01T00:00:00Z"), None, &mut made, &Sent::Nothing);
    assert_eq!(owners(&made), [("golden Update".into(), json!({"f:data": {".": {}, "f:a": {}}}))]);
    let changed = updated(&made, "other", |new| {
        new.set(&["data", "a"], "2");
        new.set(&["data", "b"], "1");
    });
    assert_eq!(
        owners(&changed),
        [
            ("golden Update".into(), json!({"f:data": {}})),
            ("other Update".into(), json!({"f:data": {"f:a": {}, "f:b": {}}})),
        ]
    );
    let removed = updated(&changed, "third", |new| drop(new.remove(&["data", "b"])));
    assert_eq!(owners(&removed)[1], ("other Update".into(), json!({"f:data": {"f:a": {}}})));
    assert_eq!(owners(&removed).len(), 2, "who only takes away owns nothing");
}

#[test]
fn an_empty_list_switches_tracking_off_until_the_next_apply() {
    let mut made = object(config_map(json!({"a": "1"})));
    let write = by(CONFIG_MAP, "v1", "golden", "2026-01-01T00:00:00Z");
    track(write, None, &mut made, &Sent::Nothing);
    let mut reset = made.clone();
    track(write, Some(&made), &mut reset, &Sent::Reset);
    assert_eq!(owners(&reset), []);
    let later = updated(&reset, "m", |new| new.set(&["data", "z"], "1"));
    assert_eq!(owners(&later), []);
    let anew = applied(Some(&later), "m1", &config_map(json!({"q": "1"})), false).expect("applied");
    let names: Vec<_> = owners(&anew).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["m1 Apply", "before-first-apply Update"]);
}

#[test]
fn entries_that_a_client_sends_count_if_they_can_be_read() {
    let mut made = object(config_map(json!({"a": "1"})));
    let write = by(CONFIG_MAP, "v1", "golden", "2026-01-01T00:00:00Z");
    track(write, None, &mut made, &Sent::Nothing);
    let entry = json!({"manager": "mine", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}}});
    let mut new = made.clone();
    track(write, Some(&made), &mut new, &Sent::of(Some(&json!([entry]))));
    assert_eq!(owners(&new), [("mine Apply".into(), json!({"f:data": {"f:a": {}}}))]);
    let mut new = made.clone();
    track(write, Some(&made), &mut new, &Sent::of(Some(&json!([{"manager": "q", "operation": "Bad"}]))));
    assert_eq!(owners(&new), owners(&made));
    assert_eq!(Sent::of(Some(&json!([{}]))), Sent::Reset);
    assert_eq!(Sent::of(None), Sent::Nothing);
}

#[test]
fn fields_that_are_no_longer_applied_go_unless_another_wants_them() {
    let one = applied(None, "m1", &config_map(json!({"a": "1", "b": "1", "c": "1"})), false).expect("applied");
    let both = applied(Some(&one), "m2", &config_map(json!({"b": "1"})), false).expect("applied");
    assert_eq!(owners(&both).len(), 2);
    let less = applied(Some(&both), "m1", &config_map(json!({"a": "1"})), false).expect("applied");
    assert_eq!(less.at(&["data"]), Some(&json!({"a": "1", "b": "1"})));
    // An updater's own stays too.
    let touched = updated(&less, "u", |new| new.set(&["data", "u"], "1"));
    let none = applied(Some(&touched), "m1", &config_map(json!({"z": "1"})), false).expect("applied");
    assert_eq!(none.at(&["data"]), Some(&json!({"b": "1", "u": "1", "z": "1"})));
}

#[test]
fn what_another_has_set_differently_is_a_conflict() {
    let one = applied(None, "m1", &config_map(json!({"a": "1", "b": "1"})), false).expect("applied");
    let wanted = config_map(json!({"a": "2", "b": "2", "z": "1"}));
    assert_eq!(
        applied(Some(&one), "m2", &wanted, false).expect_err("two"),
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\n- .data.b"
    );
    let forced = applied(Some(&one), "m2", &wanted, true).expect("forced");
    assert_eq!(owners(&forced).len(), 1, "nothing is left to m1");
    let updated = updated(&one, "hand", |new| new.set(&["data", "a"], "9"));
    assert_eq!(
        applied(Some(&updated), "m1", &config_map(json!({"a": "1", "b": "1"})), false).expect_err("one"),
        "Apply failed with 1 conflict: conflict with \"hand\" using v1: .data.a"
    );
}

#[test]
fn the_same_again_changes_nothing_and_a_new_manager_only_the_owners() {
    let one = applied(None, "m1", &config_map(json!({"a": "1"})), false).expect("applied");
    let again = applied(Some(&one), "m1", &config_map(json!({"a": "1"})), false).expect("applied");
    assert_eq!(again, one);
    let shared = applied(Some(&one), "m2", &config_map(json!({"a": "1"})), false).expect("applied");
    assert_eq!(shared.at(&["data"]), one.at(&["data"]));
    assert_eq!(owners(&shared).len(), 2);
}

fn deployment(containers: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}, "spec": {
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}}}})
}

#[test]
fn items_of_keyed_lists_are_owned_by_their_keys_with_defaults() {
    let ports = json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]);
    let wanted = deployment(json!([{"name": "c", "image": "i", "ports": ports}]));
    let made = applied_to(DEPLOYMENT, "apps/v1", None, "m1", &wanted, false).expect("applied");
    let expected = json!({"f:spec": {"f:selector": {}, "f:template": {
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:name": {}, "f:ports": {
            "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}},
            "k:{\"containerPort\":80,\"protocol\":\"UDP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}}}}}}}});
    assert_eq!(owners(&made), [("m1 Apply".into(), expected)]);
    let side = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
        "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "j"}]}}}});
    let both = applied_to(DEPLOYMENT, "apps/v1", Some(&made), "m2", &side, false).expect("applied");
    let names = |object: &Object| -> Vec<String> {
        let list = object.at(&["spec", "template", "spec", "containers"]).and_then(Value::as_array).cloned();
        list.unwrap_or_default().iter().map(|c| c["name"].as_str().unwrap_or("?").to_owned()).collect()
    };
    assert_eq!(names(&both), ["c", "side"]);
    let turned = deployment(json!([{"name": "z", "image": "i"}, {"name": "c", "image": "i"}]));
    let both = applied_to(DEPLOYMENT, "apps/v1", Some(&both), "m1", &turned, false).expect("applied");
    assert_eq!(names(&both), ["z", "c", "side"]);
    let gone = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"}});
    let one = applied_to(DEPLOYMENT, "apps/v1", Some(&both), "m2", &gone, false).expect("applied");
    assert_eq!(names(&one), ["z", "c"]);
    assert_eq!(owners(&one).len(), 1);
}

#[test]
fn a_configuration_of_another_shape_is_refused_by_name() {
    let refused = |schema: &str, version: &str, wanted: &Value| {
        applied_to(schema, version, None, "m", wanted, false).expect_err("refused")
    };
    let mut wrong = config_map(json!({}));
    wrong["foo"] = json!(1);
    assert_eq!(
        refused(CONFIG_MAP, "v1", &wrong),
        "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .foo: field not declared in schema"
    );
    assert_eq!(
        refused(CONFIG_MAP, "v1", &config_map(json!({"a": 1}))),
        "failed to create typed patch object (/x; /v1, Kind=ConfigMap): .data.a: expected string, got \
         &value.valueUnstructured{Value:1}"
    );
    let twice = deployment(json!([{"name": "c", "image": "i"}, {"name": "c"}]));
    assert_eq!(
        refused(DEPLOYMENT, "apps/v1", &twice),
        "failed to create typed patch object (/x; apps/v1, Kind=Deployment): .spec.template.spec.containers: duplicate \
         entries for key [name=\"c\"]"
    );
    let nameless = deployment(json!([{"image": "i"}]));
    // A key that Go never leaves out is empty text where it is left out; validation tells that, with the field.
    assert!(applied_to(DEPLOYMENT, "apps/v1", None, "m", &nameless, false).is_ok());
    assert_eq!(refused(CONFIG_MAP, "v1", &json!({})), "invalid object type: /, Kind=");
    let managed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}});
    assert_eq!(refused(CONFIG_MAP, "v1", &managed), "metadata.managedFields must be nil");
}

#[test]
fn kubectl_goes_on_from_its_client_side_apply() {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let mut made = object(config_map(json!({"a": "1", "b": "1"})));
    let last =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "1", "b": "0"}});
    made.set(&["metadata", "annotations", annotation], last.to_string());
    track(by(CONFIG_MAP, "v1", "kubectl-client-side-apply", "2026-01-01T00:00:00Z"), None, &mut made, &Sent::Nothing);
    let wanted = config_map(json!({"a": "2"}));
    let taken = applied(Some(&made), "kubectl", &wanted, false).expect("its own");
    assert_eq!(taken.at(&["data", "a"]), Some(&json!("2")));
    assert_eq!(taken.annotation(annotation), Some(format!("{wanted}\n").as_str()));
    // What was changed since is not.
    let changed = config_map(json!({"b": "2"}));
    assert!(applied(Some(&made), "kubectl", &changed, false).is_err());
    assert!(applied(Some(&made), "other", &wanted, false).is_err());
}

#[test]
fn a_scale_takes_the_number_of_replicas_over() {
    let mut wanted = deployment(json!([{"name": "c", "image": "i"}]));
    wanted["spec"]["replicas"] = json!(2);
    let made = applied_to(DEPLOYMENT, "apps/v1", None, "m1", &wanted, false).expect("applied");
    let mut scale = object(json!({"metadata": {"name": "x"}, "spec": {"replicas": 2}}));
    to_scale(&mut scale, &made);
    let mut new = scale.clone();
    new.set(&["spec", "replicas"], 7);
    let write = Tracking {
        schema: "autoscaling/v1.Scale",
        custom: None,
        api_version: "autoscaling/v1",
        subresource: "scale",
        manager: "sc",
        now: "2026-01-01T00:00:09Z",
        reset: Reset::These(&[]),
    };
    track(write, Some(&scale), &mut new, &Sent::Nothing);
    let mut scaled = made.clone();
    from_scale(&mut scaled, &new, "apps/v1");
    let entries = scaled.at(&["metadata", "managedFields"]).and_then(Value::as_array).expect("some");
    assert_eq!(entries.len(), 2);
    assert!(entries[0]["fieldsV1"]["f:spec"].get("f:replicas").is_none());
    assert_eq!(
        entries[1],
        json!({"manager": "sc", "operation": "Update", "apiVersion": "apps/v1", "subresource": "scale",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    );
}

#[test]
fn times_alone_make_no_new_object() {
    let mut made = object(config_map(json!({"a": "1"})));
    track(by(CONFIG_MAP, "v1", "golden", "2026-01-01T00:00:00Z"), None, &mut made, &Sent::Nothing);
    let mut new = made.clone();
    let entry = new.at_mut(&["metadata", "managedFields"]);
    entry[0]["time"] = json!("2026-01-01T00:00:08Z");
    let mut changed = new.clone();
    keep_times(&mut new, &made);
    assert_eq!(new, made);
    changed.set(&["data", "a"], "2");
    let before = changed.clone();
    keep_times(&mut changed, &made);
    assert_eq!(changed, before);
}

#[test]
fn the_name_of_a_manager_is_the_clients_up_to_the_slash() {
    assert_eq!(manager_name("given", "kubectl/v1"), "given");
    assert_eq!(manager_name("", "kubectl/v1.36 (linux)"), "kubectl");
    assert_eq!(manager_name("", &"x".repeat(200)).len(), 128);
    assert_eq!(manager_name("", ""), "");
}
