//! Custom resources through both doors: kubectl speaks REST, `lw` speaks gRPC, both to the same cluster, over a restart.
//!
//! Where kubectl is not installed its part says so and is left out.

use std::path::Path;
use std::time::Duration;

use listwatch_integration_tests::eventually;
use listwatch_integration_tests::kubectl::{Shell, kubectl_is_there};

const LIMIT: Duration = Duration::from_secs(30);

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Color, type: string, jsonPath: .spec.color}
    selectableFields: [{jsonPath: .spec.color}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What the widget should be.
            required: [size]
            x-kubernetes-validations:
            - {rule: "self.size <= 7 || self.color == 'red'", message: big widgets are red}
            properties:
              size: {type: integer, minimum: 1, maximum: 10}
              color: {type: string, enum: [red, blue], default: blue}
              replicas: {type: integer}
          status:
            type: object
            properties:
              replicas: {type: integer}
"#;

fn widget(name: &str, spec: &str) -> String {
    format!("apiVersion: stable.example.com/v1\nkind: Widget\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("the test's own paths are text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_defined_kind_is_served_through_both_doors_and_over_a_restart() -> anyhow::Result<()> {
    let mut shell = Shell::start(&[])?;
    let definition = shell.file("definition.yaml", DEFINITION);
    let small = shell.file("small.yaml", &widget("small", "{size: 2}"));
    let big = shell.file("big.yaml", &widget("big", "{size: 9}"));
    let unknown = shell.cluster.output(&["get", "widgets"])?;
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("doesn't have a resource type \"widgets\""));

    // gRPC.
    shell.cluster.lw(&["apply", "-f", text(&definition)])?;
    assert_eq!(shell.cluster.lw(&["apply", "-f", text(&small)])?, "widget.stable.example.com/small created\n");
    let table = shell.cluster.lw(&["get", "wd"])?;
    let words: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words, [vec!["NAME", "SIZE", "COLOR"], vec!["small", "2", "blue"]], "{table}");
    let refused = shell.cluster.output(&["apply", "-f", text(&big)])?;
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("big widgets are red"), "{told}");

    if kubectl_is_there(0) {
        through_kubectl(&shell);
    }

    shell.cluster.stop_and_restart()?;
    let names = shell.cluster.lw(&["get", "widgets", "--field-selector", "spec.color=blue", "-o", "name"])?;
    assert_eq!(names, "widget.stable.example.com/small\n", "the kind is there before anybody asks");
    shell.cluster.lw(&["delete", "crd", "widgets.stable.example.com"])?;
    eventually(LIMIT, "definition and objects are gone", || async {
        let outcome = shell.cluster.output(&["get", "widgets"]).map_err(|error| error.to_string())?;
        let told = String::from_utf8_lossy(&outcome.stderr).into_owned();
        if told.contains("doesn't have a resource type") { Ok(()) } else { Err(told) }
    })
    .await;
    // The same definition anew finds nothing left of the old one.
    shell.cluster.lw(&["apply", "-f", text(&definition)])?;
    assert_eq!(shell.cluster.lw(&["get", "widgets", "-o", "name"])?, "");
    Ok(())
}

fn through_kubectl(shell: &Shell) {
    shell.run(&["wait", "--for=condition=Established", "crd/widgets.stable.example.com", "--timeout=10s"]);
    let table = shell.run(&["get", "wd", "--no-headers"]);
    assert_eq!(table.split_whitespace().collect::<Vec<_>>(), ["small", "2", "blue"]);
    let explained = shell.run(&["explain", "widgets.spec"]);
    assert!(
        explained.contains("What the widget should be.") && explained.contains("size\t<integer> -required-"),
        "{explained}"
    );
    let red = shell.file("red.yaml", &widget("red", "{size: 9, color: red, replicas: 1}"));
    assert_eq!(shell.run(&["apply", "-f", text(&red)]), "widget.stable.example.com/red created\n");
    let patch = ["patch", "widget", "red", "--type=merge", "-p", r#"{"spec":{"size":11}}"#];
    let told = shell.refuse(&patch);
    assert!(told.contains("spec.size in body should be less than or equal to 10"), "{told}");
    let wrong = shell.file("wrong.yaml", &widget("wrong", "{size: 1, colour: red}"));
    let told = shell.refuse(&["create", "-f", text(&wrong)]);
    assert!(told.contains("unknown field \"spec.colour\""), "{told}");
    assert_eq!(shell.run(&["scale", "widget/red", "--replicas=3"]), "widget.stable.example.com/red scaled\n");
    assert_eq!(shell.run(&["get", "widget", "red", "-o", "jsonpath={.spec.replicas} {.metadata.generation}"]), "3 2");
    let told = shell.run(&["get", "widgets", "--field-selector=spec.color=red", "-o", "name"]);
    assert_eq!(told, "widget.stable.example.com/red\n");
    assert!(shell.run(&["get", "all", "-o", "name"]).contains("widget.stable.example.com/red"));
    assert!(shell.run(&["api-resources", "--api-group=stable.example.com"]).contains("widgets"));
    // Newer clients name the namespace behind it.
    assert!(shell.run(&["delete", "widget", "red"]).starts_with("widget.stable.example.com \"red\" deleted"));
}

/// A ConfigMap, or a widget, that belongs to an object.
fn owned(api_version: &str, kind: &str, name: &str, owner: (&str, &str, &str, &str)) -> String {
    let (owner_version, owner_kind, owner_name, uid) = owner;
    let reference = format!(
        "{{apiVersion: {owner_version}, kind: {owner_kind}, name: {owner_name}, uid: {uid}, blockOwnerDeletion: true}}"
    );
    let spec = if kind == "Widget" { "spec: {size: 1}\n" } else { "" };
    format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: {name}, ownerReferences: [{reference}]}}\n{spec}---\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_custom_resources_own_goes_with_them() {
    const WIDGET: &str = "stable.example.com/v1";
    let shell = Shell::start_lw(&["--nodes", "0"]).expect("a cluster");
    let uid = |what: &[&str]| shell.run(&[&["get"], what, &["-o", "jsonpath={.metadata.uid}"]].concat());
    shell.apply(DEFINITION);
    shell.apply(&[widget("a", "{size: 1}"), widget("b", "{size: 1}"), widget("c", "{size: 1}")].join("---\n"));
    let (a, b, c) = (uid(&["widget", "a"]), uid(&["widget", "b"]), uid(&["widget", "c"]));
    shell.apply(&owned("v1", "ConfigMap", "of-a", (WIDGET, "Widget", "a", &a)));
    let of_a = uid(&["cm", "of-a"]);
    // A chain: a widget owns a ConfigMap, which owns a widget.
    shell.apply(&owned(WIDGET, "Widget", "last", ("v1", "ConfigMap", "of-a", &of_a)));
    shell.apply(&owned("v1", "ConfigMap", "of-b", (WIDGET, "Widget", "b", &b)));
    shell.apply(&owned("v1", "ConfigMap", "of-c", (WIDGET, "Widget", "c", &c)));
    let names = || shell.run(&["get", "widgets,cm", "-o", "name"]);

    shell.run(&["delete", "widget", "a", "--cascade=foreground"]);
    shell.run(&["delete", "widget", "b", "--cascade=orphan"]);
    eventually(LIMIT, "the chain is gone, the orphan is free", || async {
        let (left, owners) = (names(), shell.run(&["get", "cm", "of-b", "-o", "jsonpath={.metadata.ownerReferences}"]));
        let gone = ["widget.stable.example.com/a", "configmap/of-a", "widget.stable.example.com/last"];
        let is_done = gone.iter().all(|name| !left.lines().any(|line| line == *name)) && owners.is_empty();
        if is_done { Ok(()) } else { Err(format!("{left}\n{owners}")) }
    })
    .await;
    assert!(names().contains("configmap/of-c"), "its owner is there: {}", names());

    // While nobody looks: the collector finds at its next start what is left over.
    shell.cluster.order(&["stop", "controller-manager"]).expect("stopped");
    shell.run(&["delete", "widget", "c"]);
    assert!(names().contains("configmap/of-c"));
    shell.cluster.order(&["start", "controller-manager"]).expect("started");
    eventually(LIMIT, "what was left over is gone", || async {
        let left = names();
        if left.contains("configmap/of-c") { Err(left) } else { Ok(()) }
    })
    .await;
    assert!(names().contains("configmap/of-b"), "{}", names());
}
