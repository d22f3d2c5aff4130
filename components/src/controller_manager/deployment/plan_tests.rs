//! Plans of a deployment, as tables.

use super::super::fenceposts::Fenceposts;
use super::super::revision::HISTORY;
use super::super::rolling::tests::{deployment, set};
use super::*;
use listwatch_proto::resource::OwnerReference;

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn web(replicas: i64, image: &str) -> Deployment {
    let mut web = deployment(replicas, 1, 0);
    web.template = template(image);
    web.selector = json!({"matchLabels": {"app": "web"}});
    web
}

/// A set of an image that a deployment of this size has made.
fn of_image(image: &str, replicas: i64, available: i64, revision: i64, wanted: i64) -> Set {
    let mut set = set(image, replicas, available);
    set.template = template(image);
    set.template["metadata"]["labels"][HASH_LABEL] = image.into();
    for (key, value) in [(REVISION, revision), (DESIRED, wanted), (MAX, wanted + 1)] {
        set.annotations.insert(key.into(), value.to_string());
    }
    set
}

/// The steps as words: `+name 3`, `name 3>2`, `name notes`, `-name`.
fn words(plan: &Plan) -> Vec<String> {
    let word = |step: &Step| match step {
        Step::Create(new) => format!("+{} {}", new.name, new.replicas),
        Step::Change { set, to, .. } if *to != set.replicas => format!("{} {}>{to}", set.key.name, set.replicas),
        Step::Change { set, .. } => format!("{} notes", set.key.name),
        Step::Delete(set) => format!("-{}", set.key.name),
    };
    plan.steps.iter().map(word).collect()
}

fn check(deployment: &Deployment, sets: &[Set], expected: &[&str]) {
    assert_eq!(words(&plan(deployment, sets, false)), expected);
}

#[test]
fn a_new_deployment_makes_its_set_with_all_its_pods() {
    let web = web(3, "a");
    let plan = plan(&web, &[], false);
    let hash = template::hash(&web.template, 0);
    assert_eq!(words(&plan), [format!("+web-{hash} 3")]);
    assert_eq!((plan.revision, plan.rollout, plan.new), (Some(1), true, None));
    let Step::Create(new) = &plan.steps[0] else { panic!("{plan:?}") };
    let owner = OwnerReference {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: "web".into(),
        uid: "d".into(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let object = new.object(&web, &owner);
    assert_eq!(object["spec"]["selector"]["matchLabels"], json!({"app": "web", HASH_LABEL: hash}));
    assert_eq!(object["spec"]["template"]["metadata"]["labels"], object["metadata"]["labels"]);
    assert_eq!(object["metadata"]["annotations"], json!({REVISION: "1", DESIRED: "3", MAX: "4"}));
    assert!(template::same(&object["spec"]["template"], &web.template), "the set is found again");
}

#[test]
fn an_update_goes_step_by_step() {
    let web = web(3, "b");
    check(&web, &[of_image("a", 3, 3, 1, 3)], &[&format!("+web-{} 1", template::hash(&web.template, 0))]);
    check(&web, &[of_image("a", 3, 3, 1, 3), of_image("b", 1, 0, 2, 3)], &[]);
    check(&web, &[of_image("a", 3, 3, 1, 3), of_image("b", 1, 1, 2, 3)], &["a 3>2"]);
    check(&web, &[of_image("a", 2, 2, 1, 3), of_image("b", 1, 1, 2, 3)], &["b 1>2"]);
    check(&web, &[of_image("a", 0, 0, 1, 3), of_image("b", 3, 3, 2, 3)], &[]);
}

#[test]
fn pods_that_a_set_has_not_let_go_yet_take_up_room() {
    let web = web(3, "b");
    let shrinking = Set { present: 3, ..of_image("a", 2, 2, 1, 3) };
    check(&web, &[shrinking, of_image("b", 1, 1, 2, 3)], &[]);
    // A set that has not seen that it is to be smaller may be making pods for the size before.
    let unaware = Set { observed: false, ..of_image("a", 2, 2, 1, 3) };
    check(&web, &[unaware.clone(), of_image("b", 1, 1, 2, 3)], &[]);
    let c = self::web(3, "c");
    check(&c, &[unaware], &[&format!("+web-{} 0", template::hash(&c.template, 0))]);
}

#[test]
fn going_back_makes_an_old_set_new() {
    let mut web = web(3, "a");
    web.annotations.insert(REVISION.into(), "2".into());
    let plan = plan(&web, &[of_image("a", 0, 0, 1, 3), of_image("b", 3, 3, 2, 3)], false);
    assert_eq!((words(&plan), plan.revision), (vec!["a 0>1".to_owned()], Some(3)));
    let Step::Change { annotations, .. } = &plan.steps[0] else { panic!("{plan:?}") };
    assert_eq!((annotations[REVISION].as_str(), annotations[HISTORY].as_str()), ("3", "1"));
}

#[test]
fn scaling_comes_before_rolling() {
    check(&web(5, "a"), &[of_image("a", 3, 3, 1, 3)], &["a 3>5"]);
    check(&web(0, "a"), &[of_image("a", 3, 3, 1, 3)], &["a 3>0"]);
    let both = plan(&web(6, "b"), &[of_image("a", 3, 3, 1, 3), of_image("b", 1, 1, 2, 3)], false);
    assert_eq!((words(&both), both.rollout), (vec!["a 3>5".to_owned(), "b 1>2".to_owned()], false));
    // From nothing: no set is active, so it is a rollout that brings the pods back.
    check(&web(3, "a"), &[of_image("a", 0, 0, 1, 0)], &["a 0>3"]);
}

#[test]
fn a_paused_deployment_only_scales() {
    let paused = |replicas, image| Deployment { paused: true, ..web(replicas, image) };
    check(&paused(3, "b"), &[of_image("a", 3, 3, 1, 3)], &[]);
    check(&paused(4, "b"), &[of_image("a", 3, 3, 1, 3)], &["a 3>4"]);
}

#[test]
fn recreate_waits_for_the_last_old_pod() {
    let recreate = Deployment { strategy: Strategy::Recreate, ..web(2, "b") };
    let mut recreate = recreate;
    recreate.fenceposts.surge = 0;
    let old = |replicas| {
        let mut set = of_image("a", replicas, replicas, 1, 2);
        set.annotations.insert(MAX.into(), "2".into());
        set
    };
    check(&recreate, &[old(2)], &["a 2>0"]);
    assert!(plan(&recreate, &[old(0)], true).steps.is_empty());
    check(&recreate, &[old(0)], &[&format!("+web-{} 2", template::hash(&recreate.template, 0))]);
}

#[test]
fn history_is_kept_to_its_limit_once_all_is_done() {
    let mut web = Deployment { history_limit: Some(1), ..web(1, "c") };
    let mut busy = of_image("y", 0, 0, 2, 1);
    busy.present = 1;
    let sets = [of_image("a", 0, 0, 3, 1), busy, of_image("x", 0, 0, 1, 1), of_image("c", 1, 1, 4, 1)];
    check(&web, &sets, &[]);
    web.status = json!({"updatedReplicas": 1, "replicas": 1, "availableReplicas": 1, "observedGeneration": 1});
    // Of the two surplus ones, the one that still has a pod stays.
    check(&web, &sets, &["-x"]);
}

#[test]
fn what_changes_on_the_deployment_is_noted_on_its_set() {
    let mut web = web(1, "a");
    web.annotations.insert("kubernetes.io/change-cause".into(), "why".into());
    check(&web, &[of_image("a", 1, 1, 1, 1)], &["a notes"]);
    let ready = Deployment { min_ready_seconds: 5, ..self::web(1, "a") };
    check(&ready, &[of_image("a", 1, 1, 1, 1)], &["a notes"]);
    let going = Deployment { terminating: true, ..self::web(9, "b") };
    check(&going, &[of_image("a", 1, 1, 1, 1)], &[]);
}

#[test]
fn of_two_sets_with_the_same_template_the_older_is_the_new_one() {
    let mut later = of_image("a", 1, 1, 1, 1);
    later.key.name = "a-twin".into();
    later.created = jiff::Timestamp::MAX;
    assert_eq!(plan(&web(1, "a"), &[later, of_image("a", 1, 1, 1, 1)], false).new, Some(1));
}

#[test]
fn a_change_to_recreate_and_of_the_size_in_one_write_does_not_stand_still() {
    let mut recreate = Deployment { strategy: Strategy::Recreate, ..web(5, "b") };
    recreate.fenceposts = Fenceposts { surge: 0, unavailable: 0 };
    let (old, new) = (of_image("a", 2, 2, 1, 3), of_image("b", 2, 1, 2, 3));
    check(&recreate, &[old.clone(), new.clone()], &["a 2>0"]);
    check(&recreate, &[Set { replicas: 0, ..old.clone() }, new.clone()], &["b 2>5"]);
    let gone = Set { replicas: 0, present: 0, available: 0, ready: 0, ..old };
    check(&recreate, &[gone, new], &["b 2>5"]);
}

#[test]
fn recreate_waits_until_the_old_sets_have_seen_that_they_are_to_be_empty() {
    let mut recreate = Deployment { strategy: Strategy::Recreate, ..web(2, "b") };
    recreate.fenceposts = Fenceposts { surge: 0, unavailable: 0 };
    let empty = of_image("a", 0, 0, 1, 2);
    let create = format!("+web-{} 2", template::hash(&recreate.template, 0));
    check(&recreate, &[Set { observed: false, ..empty.clone() }], &[]);
    check(&recreate, &[Set { present: 1, ..empty.clone() }], &[]);
    check(&recreate, &[Set { going: Some(1), ..empty.clone() }], &[]);
    check(&recreate, &[empty], &[&create]);
}

#[test]
fn an_update_without_surge_that_is_scaled_half_way_goes_on() {
    // Five, one of which may be away; one new pod runs; then four are wanted.
    let mut web = web(4, "b");
    web.fenceposts = Fenceposts { surge: 0, unavailable: 1 };
    let set = |image, size, revision, noted: i64| {
        let mut set = of_image(image, size, size, revision, noted);
        set.annotations.insert(MAX.into(), noted.to_string());
        set
    };
    // Both keep their sizes, as four is what there are; only the notes are brought up to date.
    check(&web, &[set("a", 3, 1, 5), set("b", 1, 2, 5)], &["a notes", "b notes"]);
    check(&web, &[set("a", 3, 1, 4), set("b", 1, 2, 4)], &["a 3>2"]);
}

#[test]
fn a_paused_deployment_scales_in_proportion_and_forgets() {
    let mut paused = Deployment { paused: true, ..web(15, "b") };
    paused.fenceposts = Fenceposts { surge: 3, unavailable: 2 };
    let set = |image, size, revision| {
        let mut set = of_image(image, size, size, revision, 10);
        set.annotations.insert(MAX.into(), "13".into());
        set
    };
    check(&paused, &[set("a", 8, 2), set("b", 5, 3)], &["a 8>11", "b 5>7"]);
    paused.history_limit = Some(0);
    paused.replicas = 10;
    check(&paused, &[set("a", 8, 2), set("b", 5, 3), set("x", 0, 1)], &["-x"]);
    // The template may be edited meanwhile: nothing is made of it.
    paused.template = template("c");
    paused.history_limit = None;
    check(&paused, &[set("a", 8, 2), set("b", 5, 3)], &[]);
}
